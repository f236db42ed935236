"""What leads on from a run: the dialogs before a resume and a fork, and what follows them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from textual import work
from textual.screen import Screen

from refold.app.forking import make_fork, proposed_id
from refold.app.going_on import make_ready, read_run
from refold.app.inner_run import InnerRun, inner_runs
from refold.app.launch import in_terminal
from refold.app.loading import aside
from refold.app.present.landing import Landing
from refold.app.safe import Safe
from refold.app.screens.fork import ForkScreen
from refold.app.screens.notice import NoticeScreen
from refold.app.screens.resume import ResumeAnswer, ResumeScreen
from refold.core.errors import RefoldError
from refold.core.store.reader import RunReader

if TYPE_CHECKING:
    from refold.app.screens.run_going_on import RunGoingOnScreen
    from refold.app.settings import Settings


class Chosen(NamedTuple):
    """The run that a screen stands on, and where in it."""

    path: Path
    hint: str
    """The format to assume where the bytes do not tell."""
    settings: Settings
    at: Landing | None = None
    """The record under the cursor; None on a screen that shows whole runs."""


class GoingOnScreen(Screen[None]):
    """A screen that stands on a run, and leads on from it by keys."""

    _asking = False
    """Whether a dialog is open or about to be: a key that repeats must not open a second one."""

    def chosen(self) -> Chosen | None:
        """Give the run that the keys act on; None where there is none."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey out what needs a run where there is none."""
        if action in ("fork", "resume", "lineage"):
            return True if self.chosen() is not None else None
        return super().check_action(action, parameters)

    def action_fork(self) -> None:
        """Show what a fork would be."""
        self._lead_on(self._fork)

    def action_resume(self) -> None:
        """Show what a resume would do."""
        self._lead_on(self._resume)

    def action_lineage(self) -> None:
        """Show the parents and forks of the run."""
        from refold.app.screens.lineage import LineageScreen

        chosen = self.chosen()
        if chosen is not None and self.app.screen is self:
            self.app.push_screen(LineageScreen(chosen.path, chosen.hint, chosen.settings))

    def _lead_on(self, ask: Callable[[Chosen], Awaitable[None]]) -> None:
        chosen = self.chosen()
        if chosen is not None and not self._asking and self.app.screen is self:
            self._asking = True
            self._ask(ask, chosen)

    @work(group="going-on")
    async def _ask(self, ask: Callable[[Chosen], Awaitable[None]], chosen: Chosen) -> None:
        try:
            await ask(chosen)
        finally:
            self._asking = False

    async def _resume(self, chosen: Chosen) -> None:
        """Ask about a resume, and do what was chosen."""
        path, hint, settings, _ = chosen
        dialog = ResumeScreen(path.stem, partial(read_run, path, hint, settings))
        answer = await self.app.push_screen_wait(dialog)
        if answer is None:
            return
        if answer.how == "fork":
            await self._fork(chosen._replace(at=None if answer.at is None else Landing(answer.at)))
        elif answer.how == "look":
            self._run_screen(chosen)
        else:
            await self._begin(chosen, answer)

    async def _begin(self, chosen: Chosen, answer: ResumeAnswer) -> None:
        """Let the agent go on with the run, here or in the terminal, and show what it adds."""
        prepared, plan = answer.prepared, answer.plan
        directory = prepared.agent.directory
        try:
            command = await aside(lambda: make_ready(prepared, plan, chosen.settings))
            if answer.how == "screen":
                inner = InnerRun.start(chosen.path, plan.last_seq, command, directory)
                inner_runs(self.app).add(inner)
                self._run_screen(chosen).goes_on(inner)
                return
        except (RefoldError, OSError) as error:
            self.app.push_screen(NoticeScreen.of(Safe("The run was not resumed"), error))
            return
        ended = in_terminal(command, cwd=directory, suspend=self.app.suspend)
        outcome = f"{Path(command[0]).name} {ended.sentence}" if command else ended.sentence
        self._run_screen(chosen).came_back(plan.last_seq, outcome, well=ended.fine)
        self.app.notify(f"{outcome}.", severity="information" if ended.fine else "warning")

    def _run_screen(self, chosen: Chosen) -> RunGoingOnScreen:
        """Give the screen of a run: this one where it is it, else one that is opened."""
        from refold.app.screens.run import RunScreen

        if isinstance(self, RunScreen):
            return self
        run = RunScreen(chosen.path, settings=chosen.settings, hint=chosen.hint)
        self.app.push_screen(run)
        return run

    async def _fork(self, chosen: Chosen) -> None:
        """Ask about a fork, make it, and open the new run."""
        from refold.app.screens.run import RunScreen

        path, hint, settings, at = chosen
        dialog = ForkScreen(
            path.stem,
            lambda: RunReader.open(path, hint=hint, cache=settings.cache_dir),
            lambda plan: make_fork(plan, settings),
            at,
            new_id=lambda: proposed_id(path),
        )
        forked = await self.app.push_screen_wait(dialog)
        if forked is None:
            return
        self.app.push_screen(RunScreen(forked.path, settings=settings, hint=hint))
        told = [f"{path.stem} was forked into {forked.run_id}."]
        if not forked.noted:
            told.append("Where it comes from could not be noted.")
        if not forked.durable:
            told.append("Its directory could not be synced.")
        sound = forked.noted and forked.durable
        self.notify(" ".join(told), severity="information" if sound else "warning")
