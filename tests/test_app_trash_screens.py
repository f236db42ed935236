"""The trash by keys: no move before its plan, back by one key, gone for good only by a word."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import story
from tests.on_screen import shown, type_into, until
from tests.test_app_runs_snapshots import app, settled
from tests.test_core_trash import without_changes
from textual.app import App
from textual.pilot import Pilot

from refold.app import trashing
from refold.app.lines import plain
from refold.app.main import RefoldApp
from refold.app.present.trash import TrashRows, plan_said, title
from refold.app.screens.notice import NoticeScreen
from refold.app.screens.runs import RunsScreen
from refold.app.screens.trash import TrashScreen
from refold.app.screens.trashing import TrashPlanScreen
from refold.app.settings import Settings
from refold.app.trashing import Moving
from refold.core.keeping import TRASH, Kept
from refold.core.prune import Spared
from refold.core.store.lock import RunLock
from refold.core.store.trash import Trashed, carry_out
from refold.core.store.trash_list import Entry
from refold.core.summary import RunSummary
from refold.core.trash import Found, Part, Reason, TrashPlan, plan_trash

Compare = Callable[..., bool]
RUNS = Path("story")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    story.tell(RUNS)


async def said(pilot: Pilot[None], text: str) -> None:
    await until(pilot, lambda: any(text in row for row in shown(pilot.app)))


async def plan_shown(pilot: Pilot[None], *pressed: str) -> TrashPlanScreen:
    await pilot.press(*pressed)
    await until(pilot, lambda: isinstance(pilot.app.screen, TrashPlanScreen))
    screen = pilot.app.screen
    assert isinstance(screen, TrashPlanScreen)
    await pilot.pause()
    return screen


async def trash_shown(pilot: Pilot[None]) -> TrashScreen:
    await pilot.press("X")
    await until(pilot, lambda: isinstance(pilot.app.screen, TrashScreen) and pilot.app.screen.is_read)
    screen = pilot.app.screen
    assert isinstance(screen, TrashScreen)
    return screen


def there() -> set[str]:
    return {path.name for path in RUNS.iterdir()}


async def test_a_run_goes_after_its_plan_and_comes_back() -> None:
    before = without_changes(RUNS)
    async with app("story").run_test(size=(120, 40)) as pilot:
        await settled(pilot, "down")
        await plan_shown(pilot, "x")
        await said(pilot, "Move billing-sweep to the trash")
        await pilot.press("escape")
        await pilot.pause()
        assert without_changes(RUNS) == before
        await plan_shown(pilot, "x")
        await pilot.press("enter")
        await until(pilot, lambda: "billing-sweep.json" not in there())
        await said(pilot, "11 runs")
        trash = await trash_shown(pilot)
        await said(pilot, "puts it back to")
        await until(pilot, lambda: any(" UTC · " in row for row in shown(pilot.app)))
        await pilot.press("U")
        await until(pilot, lambda: not any(" UTC · " in row for row in shown(pilot.app)))
        await pilot.press("u")
        await until(pilot, lambda: trash.entry is None)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunsScreen))
        await pilot.press("R")
        await said(pilot, "12 runs")
    assert without_changes(RUNS) == before


@pytest.mark.parametrize("at", [0, 3, 10])
async def test_the_cursor_stands_on_the_run_that_came_back(at: int) -> None:
    async with app("story").run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        runs = pilot.app.screen
        assert isinstance(runs, RunsScreen)
        await pilot.press(*["down"] * at)
        moved = runs.run
        assert moved is not None
        await plan_shown(pilot, "x")
        await pilot.press("enter")
        await said(pilot, "11 runs")
        await pilot.press("home" if at else "end")
        trash = await trash_shown(pilot)
        await until(pilot, lambda: trash.entry is not None)
        await pilot.press("u")
        await until(pilot, lambda: trash.entry is None)
        await pilot.press("escape")
        await said(pilot, "12 runs")
        await until(pilot, lambda: runs.run is not None and runs.run.path == moved.path)


async def test_a_run_that_comes_back_hidden_by_the_filter_leaves_the_cursor() -> None:
    async with app("story").run_test(size=(120, 40)) as pilot:
        await settled(pilot, "down", "down")
        runs = pilot.app.screen
        assert isinstance(runs, RunsScreen)
        await plan_shown(pilot, "x")
        await pilot.press("enter")
        await said(pilot, "11 runs")
        await type_into(pilot, "slash", "status:completed")
        await until(pilot, lambda: runs.listing.has_focus)
        here = runs.run
        assert here is not None
        trash = await trash_shown(pilot)
        await until(pilot, lambda: trash.entry is not None)
        await pilot.press("u")
        await until(pilot, lambda: trash.entry is None)
        await pilot.press("escape")
        await said(pilot, "12 runs")
        assert runs.run == here


async def test_marked_runs_go_together_and_a_held_one_stays() -> None:
    lock = RunLock.take(RUNS / "fix-add.lock")
    try:
        async with app("story").run_test(size=(120, 40)) as pilot:
            await settled(pilot)
            await pilot.press("down", "space", "down", "space", "down", "space")
            await plan_shown(pilot, "x")
            await said(pilot, "Move 2 runs to the trash")
            await said(pilot, "fix-add stays: process")
            await pilot.press("enter")
            await until(pilot, lambda: TRASH in there() and len(list((RUNS / TRASH).iterdir())) == 2)
            await said(pilot, "10 runs")
            screen = pilot.app.screen
            assert isinstance(screen, RunsScreen)
            assert len(screen.marks.runs) == 1
    finally:
        lock.release()
    assert "fix-add.json" in there()


async def test_a_plan_that_moves_nothing_cannot_be_agreed_to() -> None:
    (RUNS / TRASH).write_text("")
    async with app("story").run_test(size=(120, 40)) as pilot:
        await settled(pilot, "down")
        screen = await plan_shown(pilot, "x")
        assert screen.check_action("go", ()) is None
        await said(pilot, "Nothing would be moved")
        await pilot.press("enter")
        await pilot.pause()
        assert pilot.app.screen is screen
    assert "billing-sweep.json" in there()


async def test_a_prune_takes_what_the_filter_shows_and_never_all() -> None:
    async with app("story").run_test(size=(120, 40)) as pilot:
        await settled(pilot, "P")
        assert isinstance(pilot.app.screen, RunsScreen)
        assert any("filter first" in toast.message for toast in pilot.app._notifications)
        await type_into(pilot, "slash", "before:5d")
        await until(pilot, lambda: any("hidden" in row for row in shown(pilot.app)))
        await plan_shown(pilot, "P")
        await said(pilot, "Move 6 runs to the trash")
        await pilot.press("enter")
        await until(pilot, lambda: TRASH in there() and len(list((RUNS / TRASH).iterdir())) == 6)


class Gate:
    """Lets the moves of runs through, one for each permit; the moves themselves are the real ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.permits = threading.Semaphore(0)
        self.begun = 0
        monkeypatch.setattr(trashing, "carry_out", self._carry_out)

    def _carry_out(self, plan: TrashPlan, *, status: str, prompt: str) -> Trashed:
        self.begun += 1
        assert self.permits.acquire(timeout=20)
        return carry_out(plan, status=status, prompt=prompt)


def toasts(pilot: Pilot[None]) -> str:
    return "\n".join(toast.message for toast in pilot.app._notifications)


async def test_no_key_silences_a_move_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    async with app("story").run_test(size=(120, 40)) as pilot:
        await settled(pilot, "down", "space")
        await plan_shown(pilot, "x")
        await pilot.press("enter")
        await said(pilot, "moving to the trash: 0 of 1")
        for key in ("x", "P"):
            await pilot.press(key)
            await pilot.pause()
            assert isinstance(pilot.app.screen, RunsScreen)
            await until(pilot, lambda: toasts(pilot).count("Runs are being moved") == 1)
        gate.permits.release()
        await said(pilot, "11 runs")
        await until(pilot, lambda: "1 run moved to the trash" in toasts(pilot))
        screen = pilot.app.screen
        assert isinstance(screen, RunsScreen)
        assert not screen.marks.runs
        assert not screen.is_moving
        await plan_shown(pilot, "x")


async def test_a_long_move_is_stopped_after_the_run_that_it_is_at(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    async with app("story").run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await type_into(pilot, "slash", "before:5d")
        await until(pilot, lambda: any("hidden" in row for row in shown(pilot.app)))
        await plan_shown(pilot, "P")
        await pilot.press("enter")
        gate.permits.release()
        await until(pilot, lambda: gate.begun == 2)
        await said(pilot, "of 6 · esc stops")
        await pilot.press("escape")
        await said(pilot, "stops after this run")
        gate.permits.release()
        await until(pilot, lambda: "2 runs moved to the trash" in toasts(pilot))
        assert "Stopped: 4 runs not moved." in toasts(pilot)
        assert gate.begun == len(list((RUNS / TRASH).iterdir())) == 2
        await said(pilot, "hidden")  # the filter stays


async def test_a_long_plan_begins_with_its_total_and_says_that_it_scrolls() -> None:
    runs = [RunSummary(f"run-{number}", f"/runs/{number}.json") for number in range(60)]
    movings = [
        Moving(
            run,
            plan_trash(
                Found(run.path, "/runs", run.id, (Part("a.json", "run", 9, 0o600, 1, 1),), 9), suffix="0a"
            ),
        )
        for run in runs
    ]
    async with app("story").run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.app.push_screen(TrashPlanScreen(title(movings), plan_said(movings), moves=True))
        await said(pilot, "60 runs, 540 B. Nothing is deleted")
        await said(pilot, f"to /runs/{TRASH}")
        await said(pilot, "scroll")
        await said(pilot, "do it")


async def test_only_the_word_deletes() -> None:
    async with app("story").run_test(size=(120, 40)) as pilot:
        await settled(pilot, "down")
        await plan_shown(pilot, "x")
        await pilot.press("enter")
        await until(pilot, lambda: "billing-sweep.json" not in there())
        trash = await trash_shown(pilot)
        for words in ("", "yes", "delet"):
            await type_into(pilot, "D", words)
        assert trash.entry is not None
        assert len(list((RUNS / TRASH).iterdir())) == 1
        await type_into(pilot, "D", "delete")
        await until(pilot, lambda: trash.entry is None)
    assert TRASH not in there()


async def test_an_entry_is_called_by_its_name() -> None:
    async with app("story").run_test(size=(120, 40)) as pilot:
        await settled(pilot, "down")
        await type_into(pilot, "E", "quarter end")
        await plan_shown(pilot, "x")
        await pilot.press("enter")
        await until(pilot, lambda: "billing-sweep.json" not in there())
        await trash_shown(pilot)
        assert any(row.strip(" ▌").startswith("quarter end ") for row in shown(pilot.app))


async def test_what_lies_there_now_is_said() -> None:
    async with app("story").run_test(size=(120, 40)) as pilot:
        await settled(pilot, "down")
        await plan_shown(pilot, "x")
        await pilot.press("enter")
        await until(pilot, lambda: "billing-sweep.json" not in there())
        await trash_shown(pilot)
        (RUNS / "billing-sweep.json").write_text("")
        await pilot.press("u")
        await until(pilot, lambda: isinstance(pilot.app.screen, NoticeScreen))
        await said(pilot, "something lies there now")


def _settings() -> Settings:
    return Settings((), Path("state"), None, Path("config.toml"), utc=True)


def test_the_plan_of_a_prune(snap_compare: Compare) -> None:
    def found(name: str, size: int, *against: Reason) -> Found:
        parts = (Part(f"{name}.json", "run", size, 0o600, 1, 1), Part(f"{name}.lock", "lock", 0, 0o600, 1, 2))
        return Found(f"/runs/{name}.json", "/runs", name, parts, size, against)

    runs = [
        RunSummary(name, f"/runs/{name}.json", status="completed") for name in ("nightly", "sweep", "busy")
    ]
    held = Reason("locked", "process 4711 (agent run) holds it", "wait until it ends, or end it")
    movings = [
        Moving(runs[0], plan_trash(found("nightly", 3500), suffix="0a")),
        Moving(runs[1], plan_trash(found("sweep", 12_000_000), suffix="0b", forks=["sweep-2"])),
        Moving(runs[2], plan_trash(found("busy", 12, held), suffix="0c")),
    ]
    spared = [Spared(RunSummary("kept", "/runs/kept.json", kept=Kept(star=True)), "it is starred")]

    async def ready(pilot: Pilot[None]) -> None:
        await pilot.app.push_screen(TrashPlanScreen(title(movings), plan_said(movings, spared), moves=True))
        await pilot.pause()

    given = _settings()
    shown_app: App[None] = RefoldApp(given, lambda: RunsScreen(given, now=lambda: story.NOW))
    assert snap_compare(shown_app, terminal_size=(100, 30), run_before=ready)


@pytest.mark.parametrize("width", [78, 98, 118])
def test_until_when_an_entry_is_kept_is_told_at_any_width(width: int) -> None:
    entry = Entry("/runs/.refold-trash/a.0a", "/runs", "a" * 40, "whole", status="max-iterations")
    row = plain(TrashRows([entry], [("kept until 2026-08-23", "dim")], 0.0).line(0, width))
    assert "kept until 2026-08-23" in row


def test_the_trash(snap_compare: Compare) -> None:
    def entry(name: str, state: str, time: str, **more: object) -> Entry:
        parts = (Part(f"{name}.json", "run", 1, 0o600, 1, 1), Part(f"{name}.lock", "lock", 0, 0o600, 1, 2))
        return Entry(f"/runs/{TRASH}/{name}.0a", "/runs", name, state, time, parts, 3500, **more)  # type: ignore[arg-type]

    entries = [
        entry("nightly-0712", "whole", "2026-07-24T15:20:00Z", status="crashed", prompt="audit the log"),
        entry("old-sweep", "whole", "2026-06-01T09:00:00Z", status="completed", prompt="reconcile July"),
        entry("cut\x1b[2Jshort", "part", "2026-07-20T09:00:00Z", prompt="rename \u202ethe notes"),
        entry("nobody-knows", "unknown", "yesterday"),
        entry("from-later", "newer", ""),
        entry("half", "deleting", "2026-07-01T09:00:00Z"),
    ]

    async def ready(pilot: Pilot[None]) -> None:
        screen = pilot.app.screen
        assert isinstance(screen, TrashScreen)
        await until(pilot, lambda: screen.is_read)
        await pilot.press("down", "down")
        await pilot.pause()

    given = _settings()
    shown_app: App[None] = RefoldApp(
        given, lambda: TrashScreen(given, look=lambda _: entries, now=lambda: story.NOW)
    )
    assert snap_compare(shown_app, terminal_size=(110, 28), run_before=ready)
