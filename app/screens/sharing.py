"""What a screen that stands on a run offers to be carried elsewhere: names to copy, and the export."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual import work

from refold.app.widgets.ground import GroundScreen

if TYPE_CHECKING:
    from refold.app.screens.going_on import Chosen
    from refold.app.screens.standing import Stand
    from refold.core.store.reader import RunReader


_NEED_A_RUN: Final = frozenset(
    {"copy_menu", "export", "open", "fork", "resume", "lineage", "compare", "postmortem", "mark", "trash"}
    | {"star", "tags", "name", "note"}
)


class SharingScreen(GroundScreen):
    """A screen that stands on a run."""

    NO_RUN: ClassVar[str] = "No run is here that it could be done with."
    """What is said to a key that needs a run where there is none."""

    def chosen(self) -> Chosen | None:
        """Give the run that the keys act on; None where there is none."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey out what needs a run where there is none."""
        if action in _NEED_A_RUN and self.chosen() is None:
            return None
        return super().check_action(action, parameters)

    def why_not(self, action: str) -> str:
        """Say why an action is refused now; empty where it is not."""
        return self.NO_RUN if action in _NEED_A_RUN and self.chosen() is None else ""

    def action_copy_menu(self) -> None:
        """Offer what the run can be called by, to be copied."""
        from refold.app.present.copies import copies
        from refold.app.screens.copy_menu import CopyMenuScreen

        chosen = self.chosen()
        if chosen is not None and self.app.screen is self:
            self.app.push_screen(CopyMenuScreen(copies(chosen.path, chosen.at, chosen.settings)))

    def to_export(self) -> tuple[Chosen, ...]:
        """Give the runs that an export is of."""
        chosen = self.chosen()
        return (chosen,) if chosen is not None else ()

    def open_again(self, chosen: Chosen) -> RunReader:
        """Open a run that is exported; it is the caller's to close.

        Raises:
            StoreError: it cannot be opened.
        """
        from refold.core.store.reader import RunReader

        return RunReader.open(chosen.path, hint=chosen.hint, cache=chosen.settings.cache_dir)

    def stand(self) -> Stand:
        """Give how the screen of a run stands that a picture is taken of: here, as one would open."""
        from refold.app.screens.standing import Stand

        return Stand(self.app.size)

    @work(group="export")
    async def action_export(self) -> None:
        """Ask how to write the run out, and do it."""
        from refold.app.screens.export import ExportScreen

        runs = self.to_export()
        if runs and self.app.screen is self:
            said = await self.app.push_screen_wait(ExportScreen(runs, self.open_again, self.stand()))
            if said:
                self.notify(said, title="Exported")
