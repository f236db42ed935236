"""The runs to choose one from: what is typed filters at once, Enter takes the run under the cursor."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import work

from refold.app.loading import aside
from refold.app.present.runs import counted
from refold.app.run_details import refusal_of
from refold.app.safe import Safe
from refold.app.screens.runs import RunsScreen
from refold.core.store.session_names import is_run_directory

if TYPE_CHECKING:
    from refold.app.settings import Settings
    from refold.core.summary import RunSummary


class ChooseRunScreen(RunsScreen):
    """Shows the runs that pass a filter, and hands the chosen one on."""

    PURPOSE: ClassVar[Safe] = Safe("resume")

    def __init__(
        self,
        settings: Settings,
        base: str,
        chosen: Callable[[str], None] | None = None,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Show the runs.

        Args:
            settings: Where to look.
            base: The filter that holds in any case.
            chosen: Told the id that was picked, and the program ends; None to resume the run here.
            now: The clock that ages count from.
        """
        super().__init__(settings, now=now)
        self._base = base
        self._hand_on = chosen

    @property
    def hands_over(self) -> bool:
        """Whether a caller waits for the id of a run."""
        return self._hand_on is not None

    def key_words(self) -> Mapping[str, str]:
        """Name what Enter and Esc do while it is typed."""
        take = "choose" if self.hands_over else "resume"
        leave = "show all" if self._typed else "quit"
        return {**super().key_words(), "runs.open": take, "prompt.accept": take, "prompt.cancel": leave}

    def _begin(self) -> None:
        self._try_filter("")
        self.prompt.open(self.PURPOSE)

    def _draw(self) -> None:
        super()._draw()
        self._remark(counted(self._runs))

    def action_open(self) -> None:
        """Take the run under the cursor."""
        run = self.run
        if run is None or self.app.screen is not self:
            return
        if self._hand_on is None:
            self.action_resume()
        else:
            self._hand_over(run, self._hand_on)

    @work(group="hand-over", exclusive=True)
    async def _hand_over(self, run: RunSummary, hand_on: Callable[[str], None]) -> None:
        """Tell the id to whoever asked for one, unless the run could not go on with it."""
        path = Path(run.path)
        if is_run_directory(path):
            why = await aside(lambda: refusal_of(path))
            if why:
                self.notify(f"{run.id} cannot go on: {why}", title="Not this one", severity="warning")
                self._begin()
                return
        hand_on(run.id)
        self.app.exit()

    def _accepted(self) -> None:
        self._take_first()

    @work(group="choose", exclusive=True)
    async def _take_first(self) -> None:
        """Take what is under the cursor once what was typed has narrowed the list."""
        await self._narrowed.wait()
        if self.run is None:
            self.action_filter()
        else:
            self.action_open()

    def _rejected(self, typed: str) -> None:
        if typed:
            self._try_filter("")
            self.prompt.open(self.PURPOSE)
        else:
            self.app.exit()
