"""A run that goes on inside the screen: watched, answered, suspended, stopped, and told how it ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.chat_factory import SLOW, agent
from tests.on_screen import settings, shown, until
from textual.pilot import Pilot
from textual.widgets import Input

from refold.app.forking import notes_of
from refold.app.inner_run import InnerRun
from refold.app.inner_runs import inner_runs
from refold.app.main import RefoldApp
from refold.app.screens.notice import NoticeScreen
from refold.app.screens.resume import ResumeScreen
from refold.app.screens.run import RunScreen
from refold.app.screens.runs import RunsScreen
from refold.app.settings import Settings
from refold.app.widgets.prompt_bar import PromptBar
from refold.core.records import AssistantRecord, Message, ToolResultRecord, UserRecord
from refold.core.store.catalog import Root
from refold.core.store.journal import JournalStore
from refold.core.store.notes import Notes
from refold.core.store.reader import RunReader

FACTORY = "tests.chat_factory:agent"


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Settings, in a directory in which the agent works too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    yield settings(tmp_path)
    SLOW.unlink(missing_ok=True)


def written(given: Settings, prompt: str, *, interactive: bool = True, answered: bool = False) -> Path:
    """Write a run that its agent can go on with."""
    store = JournalStore(given.state_dir / "runs")
    with store.create("talk", agent().opening(prompt, interactive=interactive)) as journal:
        if answered:
            journal.append(
                AssistantRecord(Message("assistant", ({"type": "text", "text": "yes?"},)), 0, "end_turn")
            )
    path = store.path_of("talk")
    notes_of(given).update(path, lambda _: Notes(agent=FACTORY, cwd=str(given.state_dir.parent)))
    return path


def of(given: Settings, path: Path) -> RefoldApp:
    return RefoldApp(given, lambda: RunScreen(path, settings=given))


def run_of(pilot: Pilot[None]) -> RunScreen:
    screen = pilot.app.screen
    assert isinstance(screen, RunScreen)
    return screen


def inner(pilot: Pilot[None]) -> InnerRun:
    found = run_of(pilot).inner
    assert found is not None
    return found


async def resumed(pilot: Pilot[None]) -> RunScreen:
    """Press `r`, then Enter, and wait until the run goes on."""
    run = run_of(pilot)
    await until(pilot, lambda: run.reader is not None and run.reader.complete)
    await pilot.press("r")
    await until(
        pilot, lambda: isinstance(pilot.app.screen, ResumeScreen) and pilot.app.screen.plan is not None, 20
    )
    await pilot.press("enter")
    await until(pilot, lambda: pilot.app.screen is run and run.inner is not None, 20)
    return run


async def ended(pilot: Pilot[None]) -> None:
    await until(pilot, lambda: inner(pilot).stage == "ended", 20)


def text(pilot: Pilot[None]) -> str:
    return "\n".join(shown(pilot.app))


def records(path: Path) -> list[object]:
    with RunReader.open(path) as reader:
        timeline = reader.index_all()
        return [reader.record(item) for item in range(timeline.items)]


async def test_a_conversation_goes_on_where_the_user_speaks(given: Settings) -> None:
    path = written(given, "hello", answered=True)
    app = of(given, path)
    async with app.run_test(size=(120, 40)) as pilot:
        run = await resumed(pilot)
        prompt = run.query_one(PromptBar)
        await until(pilot, lambda: prompt.is_open, 20)
        assert "it waits for you" in text(pilot)
        prompt.query_one(Input).value = "is it [/x] so?"
        await pilot.press("enter")
        await until(pilot, lambda: "heard: is it [/x] so?" in text(pilot), 20)
        await until(pilot, lambda: prompt.is_open, 20)
        assert run.check_action("reply", ()) is True
        await pilot.press("escape")
        await until(pilot, lambda: not prompt.is_open)
        await pilot.press("a")
        await until(pilot, lambda: prompt.is_open)
        await pilot.press("escape", "s")
        await ended(pilot)
        ended_so = "3 records added after seq 2 · the agent ended with exit code 0 · the run is suspended"
        await until(pilot, lambda: ended_so in text(pilot))
        assert "▮ suspended" in text(pilot)
        assert sum(row[1:2] == "+" for row in shown(app)) == 3, "what was added is marked"
        assert run.check_action("suspend", ()) is False
        assert run.check_action("reply", ()) is False
        assert app.background_faults == []
    user = records(path)[2]
    assert isinstance(user, UserRecord)
    assert user.message.content == ({"type": "text", "text": "is it [/x] so?"},)
    assert user.resumed is not None


@pytest.mark.parametrize("way", ["r", "d r"])
async def test_a_run_goes_on_that_was_resumed_from_the_list(given: Settings, way: str) -> None:
    path = written(given, "do some work", interactive=False)
    listed = msgspec.structs.replace(given, roots=(Root(path.parent, "refold", "--root"),))
    app = RefoldApp(listed, lambda: RunsScreen(listed))
    async with app.run_test(size=(120, 40)) as pilot:
        runs = app.screen
        assert isinstance(runs, RunsScreen)
        await until(pilot, lambda: runs.run is not None)
        for key in way.split():
            await until(pilot, lambda: runs.run is not None)
            await pilot.press(key)
            await pilot.pause(0.5)
        await until(pilot, lambda: isinstance(app.screen, ResumeScreen) and app.screen.plan is not None, 20)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen), 20)
        await ended(pilot)
        await until(pilot, lambda: "added after seq 1" in text(pilot), 20)
        assert app.background_faults == []


async def test_a_run_is_suspended_once_what_it_does_is_done(given: Settings) -> None:
    SLOW.touch()
    path = written(given, "do some work", interactive=False)
    app = of(given, path)
    async with app.run_test(size=(120, 40)) as pilot:
        run = await resumed(pilot)
        await until(pilot, lambda: "no result" in text(pilot), 20)
        assert "goes on here · 1 record added after seq 1" in text(pilot)
        assert run.check_action("resume", ()) is None, "it goes on already"
        assert run.check_action("abort", ()) is False, "it was not told to suspend"
        await pilot.press("s")
        await until(pilot, lambda: "it suspends once what it does now is done" in text(pilot))
        assert run.check_action("suspend", ()) is False
        SLOW.unlink()
        await ended(pilot)
        await until(pilot, lambda: "▮ suspended" in text(pilot))
        assert app.background_faults == []
    assert isinstance(records(path)[2], ToolResultRecord)


async def test_a_run_is_stopped_at_once_and_its_call_stays_open(given: Settings) -> None:
    SLOW.touch()
    path = written(given, "do some work", interactive=False)
    app = of(given, path)
    async with app.run_test(size=(120, 40)) as pilot:
        await resumed(pilot)
        await until(pilot, lambda: "no result" in text(pilot), 20)
        await pilot.press("s")
        await until(pilot, lambda: "stop now" in text(pilot))
        await pilot.press("S")
        await ended(pilot)
        await until(pilot, lambda: "■ cancelled" in text(pilot))
        assert app.background_faults == []
    assert not any(isinstance(record, ToolResultRecord) for record in records(path))


async def test_a_run_goes_on_while_other_screens_are_open(given: Settings) -> None:
    SLOW.touch()
    path = written(given, "do some work", interactive=False)
    app = of(given, path)
    async with app.run_test(size=(100, 30)) as pilot:
        first = await resumed(pilot)
        app.push_screen(RunScreen(path, settings=given))
        await until(pilot, lambda: app.screen is not first and isinstance(app.screen, RunScreen))
        second = run_of(pilot)
        await until(pilot, lambda: second.inner is first.inner)
        # Who is told to suspend before anything was begun ends at once, as at a terminal.
        await until(pilot, lambda: "no result" in text(pilot), 20)
        await pilot.press("s")
        await until(pilot, lambda: "suspends once" in text(pilot))
        SLOW.unlink()
        await ended(pilot)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is first and "ended with exit code 0" in text(pilot))
        assert app.background_faults == []


async def test_a_child_that_dies_is_told(given: Settings) -> None:
    SLOW.touch()
    path = written(given, "do some work", interactive=False)
    app = of(given, path)
    async with app.run_test(size=(120, 40)) as pilot:
        await resumed(pilot)
        await until(pilot, lambda: "no result" in text(pilot), 20)
        os.kill(inner(pilot).pid, signal.SIGKILL)
        await ended(pilot)
        await until(pilot, lambda: "the agent was killed by SIGKILL" in text(pilot))
        await until(pilot, lambda: "✗ crashed" in text(pilot))
        assert run_of(pilot).check_action("resume", ()) is True
        assert app.background_faults == []


async def test_a_run_that_changed_after_its_plan_is_not_resumed(given: Settings) -> None:
    path = written(given, "hello", interactive=False)
    app = of(given, path)
    async with app.run_test(size=(120, 40)) as pilot:
        run = run_of(pilot)
        await until(pilot, lambda: run.reader is not None and run.reader.complete)
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, ResumeScreen) and app.screen.plan is not None, 20)
        with JournalStore(path.parent).open("talk") as journal:
            journal.append(UserRecord(Message("user", ({"type": "text", "text": "meanwhile"},))))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, NoticeScreen), 20)
        said = " ".join(text(pilot).replace("│", " ").split())
        assert "It did not go on: the agent ended with exit code 1" in said
        assert "the run ends at seq 2, not at 1" in said
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is run)
        assert app.background_faults == []
    assert len(records(path)) == 2


async def test_the_children_of_a_program_are_known_by_their_runs(given: Settings, tmp_path: Path) -> None:
    app = of(given, written(given, "hello"))
    assert inner_runs(app) is inner_runs(app)
    assert inner_runs(app) is not inner_runs(of(given, tmp_path / "x.json"))
    assert inner_runs(app).get(tmp_path / "x.json") is None
