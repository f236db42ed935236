"""A list whose runs can be moved to the trash: the plan, then the move, and the way to what was moved."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from textual import work

from refold.app.loading import aside
from refold.app.safe import Safe
from refold.app.screens.marking import MarkingScreen
from refold.app.screens.mend import MendScreen

if TYPE_CHECKING:
    from pathlib import Path

    from refold.app.lines import Role
    from refold.app.narrowing import Narrowing
    from refold.app.present.run_list import RunList
    from refold.app.settings import Settings
    from refold.app.trashing import Moved, Moving
    from refold.core.prune import Spared
    from refold.core.summary import RunSummary


_TOLD: Final = 0.2
"""Seconds between two tellings of how far a move is."""


class TrashPlanScreen(MendScreen):
    """A plan before runs are moved; one that moves nothing cannot be agreed to."""

    def __init__(self, title: Safe, paragraphs: Sequence[tuple[Safe, Role]], *, moves: bool) -> None:
        """Show a plan.

        Args:
            title: What is to be done.
            paragraphs: What it would be.
            moves: Whether anything would be moved.
        """
        super().__init__(title, paragraphs)
        self._moves = moves

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey out a plan that does nothing."""
        if action == "go" and not self._moves:
            return None
        return super().check_action(action, parameters)

    def why_not(self, action: str) -> str:
        """Say why Enter does nothing."""
        return "" if self._moves or action != "go" else "Nothing would be moved: the plan says why."


class TrashingScreen(MarkingScreen):
    """A list of runs that can be moved to the trash."""

    _runs: RunList
    _narrowing: Narrowing
    _settings: Settings
    _now: Callable[[], float]
    _moving: tuple[int, int] | None = None
    """How many runs of the move that goes on were dealt with, and of how many; None where there is none."""
    _stopping = False

    @property
    def run(self) -> RunSummary | None:
        """The run under the cursor."""
        raise NotImplementedError

    def look_at(self, paths: Sequence[str]) -> None:
        """Look again at runs that were moved."""
        raise NotImplementedError

    def show_run(self, path: Path) -> None:
        """Look at a run that has just come, and put the cursor on it once it is a row."""
        raise NotImplementedError

    def draw_moving(self) -> None:
        """Show how far the move is, or that there is none any more."""
        raise NotImplementedError

    @property
    def moving_words(self) -> str:
        """How far the move is, and how it is stopped; empty where there is none."""
        if self._moving is None:
            return ""
        done, of = self._moving
        rest = "stops after this run" if self._stopping else "esc stops"
        return f"moving to the trash: {done:,} of {of:,} · {rest}"

    @property
    def is_moving(self) -> bool:
        """Whether runs are being moved."""
        return self._moving is not None

    def stop_moving(self) -> None:
        """End the move after the run that it is at."""
        self._stopping = True
        self.draw_moving()

    def _waits(self) -> bool:
        """Say so where nothing can be moved because something is."""
        if self._moving is not None:
            self.notify(
                "Runs are being moved to the trash: wait until that is done, or stop it by Esc.",
                severity="warning",
            )
        return self._moving is not None

    def action_trash(self) -> None:
        """Show what moving the marked runs, or this one, to the trash would be."""
        if self._waits():
            return
        marked = [run for path in self.marks.paths if (run := self._runs.run(path)) is not None]
        runs = marked or ([self.run] if self.run is not None else [])
        if runs and self.app.screen is self:
            self._plan_trash(runs)

    def action_prune(self) -> None:
        """Show what moving all runs that the filter shows would be."""
        if self.app.screen is not self or self._waits():
            return
        if self._narrowing.searching:
            self.notify(
                "The runs are still being searched: prune them when that is done.", severity="warning"
            )
        elif not self._runs.filter:
            self.notify(
                "It takes the runs that the filter shows: filter first, like before:30d status:completed"
            )
        else:
            self._plan_prune()

    def action_trashed(self) -> None:
        """Show what lies in the trash."""
        from refold.app.screens.trash import TrashScreen

        if self.app.screen is self:
            self.app.push_screen(TrashScreen(self._settings, now=self._now, came_back=self.show_run))

    @work(group="trash", exclusive=True)
    async def _plan_trash(self, runs: list[RunSummary]) -> None:
        from refold.app.trashing import fork_ids, plans_for

        every = self._runs.every()
        await self._agree(await aside(lambda: list(plans_for(runs, fork_ids(every, runs)))))

    @work(group="trash", exclusive=True)
    async def _plan_prune(self) -> None:
        from refold.app.trashing import plans_for
        from refold.core.prune import Rule, plan_prune

        meant, every = self._runs.shown(), self._runs.every()

        def look() -> tuple[list[Moving], Sequence[Spared]]:
            plan = plan_prune(meant, every, Rule(), time.time())
            forks = {taken.run.id: taken.forks for taken in plan.taken}
            return list(plans_for([taken.run for taken in plan.taken], forks)), plan.spared

        movings, spared = await aside(look)
        await self._agree(movings, spared)

    async def _agree(self, movings: Sequence[Moving], spared: Sequence[Spared] = ()) -> None:
        from refold.app.present.trash import plan_said, title

        if self.app.screen is not self or self._moving is not None:
            return
        going = [moving for moving in movings if not moving.plan.refused]
        dialog = TrashPlanScreen(title(movings), plan_said(movings, spared), moves=bool(going))
        if await self.app.push_screen_wait(dialog):
            self._moving = (0, len(going))
            self._move(going)

    # Not in the group of the plans: the next plan would end the telling, and not the moving.
    @work(group="move")
    async def _move(self, going: Sequence[Moving]) -> None:
        """Move one run after the other; between two of them it can be stopped."""
        from refold.app.present.trash import result_said
        from refold.app.trashing import move

        results: list[Moved] = []
        told = 0
        try:
            self.draw_moving()
            moves, drawn = move(going), time.monotonic()
            while not self._stopping and (moved := await aside(lambda: next(moves, None))) is not None:
                results.append(moved)
                self._moving = (len(results), len(going))
                if time.monotonic() - drawn >= _TOLD:
                    self._left(results[told:])
                    told, drawn = len(results), time.monotonic()
                    self.draw_moving()
        finally:
            self._moving, self._stopping = None, False
        self._left(results[told:])
        self.draw_moving()
        whole = len(results) == len(going) and all(moved.error is None for moved in results)
        self.notify(
            result_said(results, stopped=len(going) - len(results)),
            severity="information" if whole else "warning",
        )

    def _left(self, results: Sequence[Moved]) -> None:
        """Take runs that were moved out of the list."""
        gone = [moved.moving for moved in results if moved.error is None]
        for moving in gone:
            self.forget_mark(moving.run.path)
        self.look_at([moving.plan.found.path for moving in gone])
