"""What follows when a run is to be resumed or forked: the dialog, then what was chosen in it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual.screen import Screen

from refold.app.forking import make_fork, proposed_id
from refold.app.going_on import make_ready, read_run
from refold.app.inner_run import InnerRun
from refold.app.inner_runs import inner_runs
from refold.app.launch import in_terminal
from refold.app.loading import aside
from refold.app.safe import Safe
from refold.app.screens.fork import ForkScreen
from refold.app.screens.going_on import Chosen
from refold.app.screens.notice import NoticeScreen
from refold.app.screens.resume import ResumeAnswer, ResumeScreen
from refold.app.screens.run import RunScreen
from refold.core.errors import RefoldError
from refold.core.resume import ResumePlan
from refold.core.store.fork import Forked
from refold.core.store.reader import RunReader

if TYPE_CHECKING:
    from refold.app.settings import Settings


async def resume(screen: Screen[None], chosen: Chosen) -> None:
    """Ask about a resume, and do what was chosen; call it from a worker of the screen."""
    path, hint, settings, _ = chosen
    dialog = ResumeScreen(
        _name(path), partial(read_run, path, hint, settings), lambda plan: _note(plan, path, settings)
    )
    answer = await screen.app.push_screen_wait(dialog)
    if answer is None:
        return
    if answer.how == "fork":
        await fork(screen, chosen._replace(at=None))
    elif answer.how == "look":
        _run_screen(screen, chosen)
    else:
        await _begin(screen, chosen, answer)


async def fork(screen: Screen[None], chosen: Chosen) -> None:
    """Ask about a fork, make it, and open the new run; call it from a worker of the screen."""
    path, hint, settings, at = chosen
    dialog = ForkScreen(
        _name(path),
        lambda: RunReader.open(path, hint=hint, cache=settings.cache_dir),
        lambda plan: make_fork(plan, settings),
        at,
        new_id=lambda: proposed_id(path),
    )
    forked = await screen.app.push_screen_wait(dialog)
    if forked is not None:
        screen.app.push_screen(RunScreen(forked.path, settings=settings, hint=hint))
        _tell(screen, _name(path), forked)


def _name(path: Path) -> str:
    return path.name.removesuffix(".json")


def _note(plan: ResumePlan, path: Path, settings: Settings) -> None:
    from refold.app.session_resuming import note

    note(plan, path, settings)


def _tell(screen: Screen[None], parent: str, forked: Forked) -> None:
    told = [f"{parent} was forked into {forked.run_id}."]
    if not forked.noted:
        told.append("Where it comes from could not be noted.")
    if not forked.durable:
        told.append("Its directory could not be synced.")
    sound = forked.noted and forked.durable
    screen.notify(" ".join(told), severity="information" if sound else "warning")


async def _begin(screen: Screen[None], chosen: Chosen, answer: ResumeAnswer) -> None:
    """Let the agent go on with the run, here or in the terminal, and show what it adds."""
    prepared, plan = answer.prepared, answer.plan
    directory = prepared.agent.directory
    try:
        command = await aside(lambda: make_ready(prepared, plan, chosen.settings))
        if answer.how == "screen":
            inner = InnerRun.start(chosen.path, plan.last_seq, command, directory)
            inner_runs(screen.app).add(inner)
            _run_screen(screen, chosen).goes_on(inner)
            return
    except (RefoldError, OSError) as error:
        screen.app.push_screen(NoticeScreen.of(Safe("The run was not resumed"), error))
        return
    ended = in_terminal(command, cwd=directory, suspend=screen.app.suspend)
    outcome = f"{Path(command[0]).name} {ended.sentence}" if command else ended.sentence
    _run_screen(screen, chosen).came_back(plan.last_seq, outcome, well=ended.fine)
    screen.app.notify(f"{outcome}.", severity="information" if ended.fine else "warning")


def _run_screen(screen: Screen[None], chosen: Chosen) -> RunScreen:
    """Give the screen of a run: this one where it is it, else one that is opened."""
    if isinstance(screen, RunScreen):
        return screen
    run = RunScreen(chosen.path, settings=chosen.settings, hint=chosen.hint)
    screen.app.push_screen(run)
    return run
