"""A screen that leads on from a run by keys: to a resume, a fork, its lineage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from textual import work

from refold.app.present.landing import Landing
from refold.app.screens.sharing import SharingScreen

if TYPE_CHECKING:
    from refold.app.settings import Settings


class Chosen(NamedTuple):
    """The run that a screen stands on, and where in it."""

    path: Path
    hint: str
    """The format to assume where the bytes do not tell."""
    settings: Settings
    at: Landing | None = None
    """The record under the cursor; None on a screen that shows whole runs."""


class GoingOnScreen(SharingScreen):
    """A screen that stands on a run, and leads on from it by keys."""

    _asking = False
    """Whether a dialog is open or about to be: a key that repeats must not open a second one."""

    def action_fork(self) -> None:
        """Show what a fork would be."""
        self._lead_on("fork")

    def action_resume(self) -> None:
        """Show what a resume would do."""
        self._lead_on("resume")

    def action_postmortem(self) -> None:
        """Explain how the run ended, and what can be done."""
        from refold.app.screens.postmortem import PostmortemScreen

        chosen = self.chosen()
        if chosen is not None and self.app.screen is self:
            self.app.push_screen(PostmortemScreen(chosen.path, chosen.hint, chosen.settings))

    def action_lineage(self) -> None:
        """Show the parents and forks of the run."""
        from refold.app.screens.lineage import LineageScreen

        chosen = self.chosen()
        if chosen is not None and self.app.screen is self:
            self.app.push_screen(LineageScreen(chosen.path, chosen.hint, chosen.settings))

    def action_compare(self) -> None:
        """Put the run beside the one that it was forked from."""
        chosen = self.chosen()
        if chosen is not None and self.app.screen is self:
            self._compare(chosen)

    @work(group="compare", exclusive=True)
    async def _compare(self, chosen: Chosen) -> None:
        from refold.app.comparing import beside_parent
        from refold.app.loading import aside

        compared = await aside(lambda: beside_parent(chosen.path, chosen.hint, chosen.settings))
        if compared is None:
            self.notify(f"{chosen.path.stem} was forked from no run that is here. Mark two to compare them.")
        elif self.app.screen is self:
            self.app.push_screen(compared.screen(chosen.settings))

    def _lead_on(self, where: Literal["resume", "fork"]) -> None:
        chosen = self.chosen()
        if chosen is not None and not self._asking and self.app.screen is self:
            self._asking = True
            self._ask(where, chosen)

    @work(group="going-on")
    async def _ask(self, where: Literal["resume", "fork"], chosen: Chosen) -> None:
        from refold.app.screens.leading_on import fork, resume

        try:
            await (resume if where == "resume" else fork)(self, chosen)
        finally:
            self._asking = False
