"""A run directory on the screen of one run: rows, panes, the verdict, nested runs, what changes meanwhile."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.on_screen import settings
from tests.rivumi_cases import CASES, DATA, canonical, make
from tests.test_app_rivumi_plan import fresh, program
from tests.test_app_run import Open, run
from tests.test_core_session_fork import case, repository
from textual.pilot import Pilot

from refold.app.lines import plain
from refold.app.main import RefoldApp
from refold.app.present.reading import reading_of
from refold.app.present.view import View
from refold.app.screens.run import RunScreen
from refold.core.store.reader import RunReader

__all__ = ["repository"]

Compare = Callable[..., bool]
WIDTHS = (24, 60, 100, 160)


def rows(path: Path, width: int = 100) -> list[str]:
    with RunReader.open(path) as reader:
        reader.index_all()
        lines = reading_of(reader).rows()
        return [plain(lines.line(index, width)).rstrip() for index in range(len(lines))]


def row_with(made: list[str], text: str) -> str:
    return next(row for row in made if text in row)


@pytest.mark.parametrize("case", CASES)
def test_every_row_and_pane_of_every_fixture_can_be_drawn(case: str, tmp_path: Path) -> None:
    with RunReader.open(make(case, tmp_path)) as reader:
        timeline = reader.index_all()
        reading = reading_of(reader)
        lines = reading.rows()
        reading.top(held=False)
        for width in WIDTHS:
            for index in range(timeline.rows):
                assert len(plain(lines.line(index, width))) >= width
        for index in range(timeline.rows):
            for view in (View(), View(thinking=True, unfolded=True)):
                assert list(reading.record(index, 40, view))
            assert list(reading.state(index, 40))
            assert any(reading.conversation(index, 40, View()))


def test_the_life_of_a_call_is_told_by_its_rows(tmp_path: Path) -> None:
    made = rows(make("04-tail-tool-started", tmp_path))
    assert row_with(made, "read_file  calc.py").endswith("✓")
    assert row_with(made, "replace_text  calc.py").endswith("no end")
    assert "allowed once  replace_text" in made[13]
    assert made[14].endswith("no end")
    waiting = rows(make("16-pending-approval", tmp_path))
    assert "may it? replace_text  modify" in waiting[12]
    assert waiting[12].endswith("no answer")


def test_every_known_type_has_words(tmp_path: Path) -> None:
    made = rows(make("36-event-catalog", tmp_path), 160)
    assert len(made) == 61
    for words in (
        "messages 2 to 14 summed up, 9 kept",
        "instructions.reload_ignored  instruction file is not UTF-8",
        "by openai-compatible gpt-5, 2 turns were made",
        "ToolExecutionError  path is outside the policy",
        "completed  verified  changed calc.py",
        "fork of 12-terminal-completed at 11",
    ):
        assert row_with(made, words)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("instructions.reloaded", "AGENTS.md"),
        ("reminder_injected", "81,000 of 100,000 tokens"),
        ("diagnostics_injected", "2 in calc.py"),
        ("retry ", "attempt 1 · 503 from upstream · again in 1.1s"),
        ("fallback", "openai-compatible gpt-5 → ollama qwen3:4b"),
        ("cache_trace", "cache_control_blocks=2  cache_ready=true"),
        ("batch_started", "call_a, call_b · read_only_parallel"),
        ("wave_started", "scout1"),
        ("transaction_completed", "scout1 · call_tx_1 · ok"),
        ("stall_nudge", "4 steps that only read, 8 left"),
        ("wind_down_started", "turn 12"),
        ("lane ", "reviewer · openai-compatible gpt-5 · on calc.py"),
        ("hook      pre", "pre_tool_use · guard · deny · policy"),
        ("dirty_source", "calc.py"),
    ],
)
def test_no_row_is_a_number_or_a_list_without_its_name(kind: str, words: str, tmp_path: Path) -> None:
    made = rows(make("36-event-catalog", tmp_path), 120)
    assert row_with([row for row in made if kind in row], words)


def test_a_clock_that_was_set_back_is_marked(tmp_path: Path) -> None:
    path = make("03-running-clean", tmp_path)
    events = [json.loads(row) for row in (path / "events.jsonl").read_bytes().split(b"\n") if row]
    events[5]["created_at"] = "2026-11-30T10:00:00Z"
    (path / "events.jsonl").write_bytes(b"".join(canonical(event) + b"\n" for event in events))
    made = rows(path)
    assert [at for at, row in enumerate(made) if "clock set back" in row] == [5]
    assert [row.split()[0][:-1] for row in made] == [str(number) for number in range(10)]


async def test_the_state_pane_names_what_manifest_and_events_say_differently(tmp_path: Path) -> None:
    async with run(make("09-manifest-behind-one", tmp_path)) as seen:
        await seen.press("2")
        await seen.pane_says("What the events prove", "What the manifest claims", "1 behind the events")
        await seen.until(lambda: "cannot go on: sequence_mismatch" in seen.top)
        await seen.press("home")
        await seen.pane_says("State after seq 0", "only the latest state")
        assert "behind the events" not in seen.pane


async def test_the_conversation_is_the_manifests_and_a_call_without_a_result_stands_out(
    tmp_path: Path,
) -> None:
    async with run(make("08-tail-tool-completed-dangling", tmp_path)) as seen:
        await seen.press("3")
        await seen.pane_says("request.json", "Fix add() so the test passes.", "keeps one conversation")
        await seen.pane_says("has no result: a resume")
        await seen.press("home")
        await seen.pane_says("cut back to the")


async def test_problems_and_turns_are_reached_by_keys(tmp_path: Path) -> None:
    async with run(make("04-tail-tool-started", tmp_path), at=0) as seen:
        await seen.press("right_curly_bracket")
        assert seen.seq == 14
        await seen.press("1")
        await seen.pane_says("tool.started", "call replace_text", "no end is recorded: outcome")
        await seen.press("left_square_bracket")
        assert seen.seq == 10
        await seen.press("5")
        await seen.pane_says('"event_type":"model.completed"')


async def test_a_torn_tail_and_a_run_without_a_log(tmp_path: Path) -> None:
    async with run(make("22-torn-tail", tmp_path)) as seen:
        await seen.until(lambda: "torn tail" in seen.top)
        await seen.press("5")
        await seen.pane_says("7b 22")
    async with run(make("02-manifest-only-no-events", tmp_path), wait=False) as seen:
        await seen.until(lambda: "events.jsonl" in seen.text and "No such file" in seen.text)
        await seen.until(lambda: "crashed" in seen.text)
        await seen.press("2")
        await seen.pane_says("What the manifest claims", "1 ahead of the events")
        await seen.press("3")
        await seen.pane_says("request.json")
        await seen.press("5", "4", "left", "right", "enter", "escape", "n", "N")


async def test_a_run_of_another_program(tmp_path: Path) -> None:
    async with run(make("37-external-cli-run", tmp_path)) as seen:
        await seen.until(lambda: "manifest_missing" in seen.top or "completed" in seen.top)
        assert "Edited calc.py" in seen.text
        await seen.press("2")
        await seen.pane_says("there is none to read")


async def test_enter_opens_the_run_of_its_own_agent(tmp_path: Path) -> None:
    path = make("36-event-catalog", tmp_path)
    shutil.copytree(DATA / "12-terminal-completed", path / "subagents" / "scout1")
    async with run(path, at=40) as seen:
        await seen.press("1")
        await seen.pane_says("Enter opens the run of scout1")
        await seen.press("2")
        await seen.pane_says("own agent", "scout1")
        await seen.press("enter")
        await seen.until(
            lambda: isinstance(seen.pilot.app.screen, RunScreen) and seen.pilot.app.screen is not seen.screen
        )
        inner = seen.pilot.app.screen
        assert isinstance(inner, RunScreen)
        assert inner.path == path / "subagents" / "scout1"
        await seen.until(lambda: inner.reader is not None and inner.reader.complete)
        await seen.press("escape")
        await seen.until(lambda: seen.pilot.app.screen is seen.screen)


async def test_who_holds_the_lock_of_a_run_is_running_it(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program("rivumi", tmp_path, monkeypatch)
    path = fresh(case("03-running-clean", tmp_path, repository))
    with (path / ".writer.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        async with run(path) as seen:
            await seen.until(lambda: "running" in seen.top)
            assert "can go on" not in seen.top
            fcntl.flock(lock, fcntl.LOCK_UN)
            await seen.until(lambda: "crashed" in seen.top and "can go on" in seen.top)


def test_state_says_of_a_run_that_did_not_end_what_is_true(tmp_path: Path) -> None:
    """Only one that died has an end that is missing: not a fresh fork, nor one that waits for somebody."""
    for case_, words in (
        ("34-forked-run", "ψ a fork that nobody has gone on with yet"),
        ("16-pending-approval", "▮ it waits for an approval of"),
        ("03-running-clean", "✗ end of the log: no event says that the run ended"),
    ):
        with RunReader.open(make(case_, tmp_path)) as reader:
            last = reader.index_all().items - 1
            lines = [line for line in reading_of(reader).state(last, 100) if line is not None]
        assert plain(lines[1]).startswith(words), case_
        assert ("no event says" in "".join(map(plain, lines))) == (case_ == "03-running-clean")
        assert (lines[1][0].role == "problem") == (case_ == "03-running-clean")


def test_recorded_changes_are_shown_at_the_end_and_large_ones_named(tmp_path: Path) -> None:
    path = make("12-terminal-completed", tmp_path)

    def end() -> str:
        with RunReader.open(path) as reader:
            last = reader.index_all().items - 1
            return "\n".join(plain(line) for line in reading_of(reader).record(last, 60, View()))

    assert "+    return a + b" in end()
    (path / "changes.patch").write_bytes(b"+x\n" * 400_000)
    assert "changes.patch  1.2 MB" in end()
    assert "not shown" in end()
    (path / "changes.patch").unlink()
    assert "changes.patch" not in end()


def test_what_the_models_cost_is_said_where_it_is_recorded(tmp_path: Path) -> None:
    path = make("12-terminal-completed", tmp_path)
    manifest = json.loads((path / "session.json").read_bytes())
    cost = {"currency": "USD", "source": "estimated", "input_cost": 0.01, "output_cost": 0.0025}
    manifest["model_usage"] = [{**manifest["model_usage"][0], "cost": cost}, "odd", {"cost": []}]
    (path / "session.json").write_bytes(canonical(manifest))
    with RunReader.open(path) as reader:
        last = reader.index_all().items - 1
        state = "\n".join(plain(line) for line in reading_of(reader).state(last, 120) if line is not None)
    assert "0.0125 USD (estimated)" in state


async def test_what_is_written_meanwhile_is_shown(tmp_path: Path) -> None:
    path = make("03-running-clean", tmp_path)
    whole = (path / "events.jsonl").read_bytes().split(b"\n")
    (path / "events.jsonl").write_bytes(b"\n".join(whole[:8]) + b"\n")
    async with run(path) as seen:
        await seen.press("2")
        await seen.pane_says("2 ahead of the events")
        with (path / "events.jsonl").open("ab") as file:
            file.write(whole[8] + b"\n")
        await seen.pane_says("1 ahead of the events")
        manifest = json.loads((path / "session.json").read_bytes())
        (path / "new").write_bytes(canonical({**manifest, "last_event_sequence": 8}))
        (path / "new").replace(path / "session.json")
        await seen.until(lambda: "ahead of the events" not in seen.pane and "State after seq 8" in seen.pane)
        assert seen.seq == 8


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_how_it_looks(
    snap_compare: Compare, size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make("04-tail-tool-started", Path.cwd())
    chosen = settings(Path.cwd())
    shown = RefoldApp(chosen, lambda: RunScreen(Path("04-tail-tool-started"), settings=chosen))

    async def ready(pilot: Pilot[None]) -> None:
        screen = pilot.app.screen
        assert isinstance(screen, RunScreen)
        seen = Open(pilot, screen)
        await seen.until(lambda: screen.reader is not None and screen.reader.complete and seen.row >= 0)
        await seen.until(lambda: "in_flight_side" in seen.top)
        await seen.press("2")
        await seen.pane_says("What the manifest claims", "State after seq 14")

    assert snap_compare(shown, terminal_size=size, run_before=ready)
