"""A list whose runs can be moved to the trash: the plan, then the move, and the way to what was moved."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import work

from refold.app.loading import aside
from refold.app.safe import Safe
from refold.app.screens.marking import MarkingScreen
from refold.app.screens.mend import MendScreen

if TYPE_CHECKING:
    from refold.app.lines import Role
    from refold.app.narrowing import Narrowing
    from refold.app.present.run_list import RunList
    from refold.app.settings import Settings
    from refold.app.trashing import Moving
    from refold.core.prune import Spared
    from refold.core.summary import RunSummary


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


class TrashingScreen(MarkingScreen):
    """A list of runs that can be moved to the trash."""

    _runs: RunList
    _narrowing: Narrowing
    _settings: Settings

    @property
    def run(self) -> RunSummary | None:
        """The run under the cursor."""
        raise NotImplementedError

    def look_at(self, paths: Sequence[str]) -> None:
        """Look again at runs that were moved."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey out what needs a run where there is none."""
        if action == "trash":
            return True if self.run is not None else None
        return super().check_action(action, parameters)

    def action_trash(self) -> None:
        """Show what moving the marked runs, or this one, to the trash would be."""
        marked = [run for path in self.marks.paths if (run := self._runs.run(path)) is not None]
        runs = marked or ([self.run] if self.run is not None else [])
        if runs and self.app.screen is self:
            self._plan_trash(runs)

    def action_prune(self) -> None:
        """Show what moving all runs that the filter shows would be."""
        if self.app.screen is not self:
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
            self.app.push_screen(TrashScreen(self._settings))

    @work(group="trash", exclusive=True)
    async def _plan_trash(self, runs: list[RunSummary]) -> None:
        from refold.app.trashing import fork_ids, plans_for

        every = self._runs.every()
        await self._move(await aside(lambda: list(plans_for(runs, fork_ids(every, runs)))))

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
        await self._move(movings, spared)

    async def _move(self, movings: Sequence[Moving], spared: Sequence[Spared] = ()) -> None:
        from refold.app.present.trash import plan_said, result_said, title
        from refold.app.trashing import move

        if self.app.screen is not self:
            return
        going = [moving for moving in movings if not moving.plan.refused]
        dialog = TrashPlanScreen(title(movings), plan_said(movings, spared), moves=bool(going))
        if not await self.app.push_screen_wait(dialog):
            return
        results = await aside(lambda: list(move(going)))
        paths = [moved.moving.run.path for moved in results if moved.error is None]
        for path in paths:
            self.forget_mark(path)
        self.look_at([moved.moving.plan.found.path for moved in results if moved.error is None])
        whole = len(paths) == len(results)
        self.notify(result_said(results), severity="information" if whole else "warning")
