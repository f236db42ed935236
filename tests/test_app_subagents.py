"""Other agents at work for a run: their lane in the ruler, their rows between those of the run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests import run_story as story
from tests.on_screen import settings, until
from tests.rivumi_cases import DATA, canonical, lines, write_lines

from refold.app.lines import cells, plain
from refold.app.main import RefoldApp
from refold.app.present.reading import reading_of
from refold.app.present.ruler import lane_line
from refold.app.present.view import View
from refold.app.screens.run import RunScreen
from refold.core.store.reader import RunReader
from refold.core.subagents import MOST, Stretch, Told, told_stretches

CASE = "12-terminal-completed"


def with_agents(path: Path, depth: int, *names: str) -> Path:
    """A run that sent agents out, each with a run of its own, the first of them likewise, and so on."""
    shutil.copytree(DATA / CASE, path)
    rows = [json.loads(row) for row in lines(path)]
    told = [
        ("dispatch_started", {"count": len(names), "ids": names}),
        ("wave_started", {"ids": names}),
        ("transaction_started", {"id": names[0], "tool_call_id": "t"}),
        ("transaction_completed", {"id": names[0], "tool_call_id": "t", "ok": True, "error": None}),
        ("wave_completed", {"ids": names}),
        ("dispatch_completed", {"count": len(names), "ids": names}),
    ]
    events = [{**rows[8], "event_type": f"subagents.{kind}", "data": data} for kind, data in told]
    rows[9:9] = events
    write_lines(path, [canonical({**row, "sequence": number}) for number, row in enumerate(rows)])
    for number, name in enumerate(names):
        if depth > 1 and not number:
            with_agents(path / "subagents" / name, depth - 1, *names)
        else:
            shutil.copytree(DATA / CASE, path / "subagents" / name)
    return path


def test_stretches_of_waves_dispatches_and_transactions() -> None:
    def told(*events: tuple[int, str, tuple[str, ...]]) -> tuple[Stretch, ...]:
        return told_stretches((Told(item, f"subagents.{kind}", names) for item, kind, names in events), 20)

    wave = (
        (1, "dispatch_started", ("a", "b")),
        (2, "wave_started", ("a",)),
        (4, "wave_completed", ("a",)),
        (5, "wave_started", ("b",)),
    )
    assert told(*wave, (8, "wave_completed", ("b",)), (9, "dispatch_completed", ("a", "b"))) == (
        Stretch("a", 2, 4),
        Stretch("b", 5, 8),
    )
    assert told(*wave) == (Stretch("a", 2, 4), Stretch("b", 5, 19, ended=False))
    assert told((1, "dispatch_started", ("a", "b")), (3, "dispatch_completed", ("a", "b"))) == (
        Stretch("a, b", 1, 3),
    )
    assert told((3, "wave_completed", ("a",)), (4, "schedule_normalized", ("a",))) == ()
    many = [(at, f"wave_{how}", ("a",)) for at in range(MOST) for how in ("started", "completed")]
    assert told(*many)[-1].name == "…"


def test_the_lane_is_a_line_of_the_ruler() -> None:
    def lane(*stretches: Stretch, width: int = 20) -> str:
        line = lane_line(stretches, width, lambda item: item / 20)
        assert cells(line) <= width
        return plain(line)

    assert lane(Stretch("scout", 2, 9), Stretch("x", 12, 12)) == "  ╶scout─╴  •"
    assert lane(Stretch("scout", 2, 5)) == "  ╶s…╴"
    assert lane(Stretch("scout", 15, 19, ended=False)) == " " * 15 + "╶sc…⋯"
    assert lane(*(Stretch("a", at, at) for at in range(20)), width=5) == "•••••"
    assert lane() == ""


def test_calls_of_a_journal_that_ran_on_another_agent_have_a_lane(tmp_path: Path) -> None:
    rows = [
        story.meta(1, "remote", "x"),
        story.assistant(2, 0, story.call("a", "ask_expert"), story.call("b", "read_file", path="x")),
        story.result(3, "b", "x"),
        story.result(4, "a", "x", remote=True),
    ]
    with RunReader.open(story.write(tmp_path / "remote.json", rows)) as reader:
        reader.index_all()
        assert reading_of(reader).lanes() == (Stretch("ask_expert", 1, 3),)


def test_runs_of_agents_stand_between_the_rows_as_deep_as_they_go(tmp_path: Path) -> None:
    with RunReader.open(with_agents(tmp_path / "run", 7, "scout1", "scout2")) as reader:
        reader.index_all()
        reading = reading_of(reader)
        assert reading.lanes() == (Stretch("scout1, scout2", 10, 13),)
        assert "│ " in plain(reading.rows().line(11, 90))
        assert "│ " not in plain(reading.rows().line(10, 90))[20:]
        folded = [plain(line) for line in reading.nested(10, 80, View()) if line]
        assert "▾ scout1  ✓ completed  3 turns · 2 calls" in folded[0]
        assert any("more rows  (Z shows them)" in line for line in folded)
        whole = [plain(line) for line in reading.nested(10, 80, View(unfolded=True)) if line]
        # What lies too deep for a pane is said to be there.
        assert any(line.startswith("│ │ │ │ │ ⋯ 2 runs nested deeper: open scout1") for line in whole)
        assert sum("completed  verified" in line for line in whole) >= 9
        assert not list(reading.nested(3, 80, View()))
        assert len(list(reading.nested(10, 8, View()))) > 10


def test_a_run_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    path = with_agents(tmp_path / "run", 1, "scout1")
    with RunReader.open(path) as reader:
        reader.index_all()
        (path / "subagents" / "scout1" / "events.jsonl").unlink()
        shown = [plain(line) for line in reading_of(reader).nested(10, 80, View()) if line]
        assert shown
        assert "scout1" in shown[0]


async def test_the_ruler_has_a_row_more_where_there_were_agents(tmp_path: Path) -> None:
    plain_run = tmp_path / "plain"
    shutil.copytree(DATA / CASE, plain_run)
    for path, rows in ((with_agents(tmp_path / "run", 1, "scout1"), 2), (plain_run, 1)):
        app = RefoldApp(settings(tmp_path), lambda path=path: RunScreen(path))  # type: ignore[misc]
        async with app.run_test(size=(80, 24)) as pilot:
            screen = app.screen
            assert isinstance(screen, RunScreen)
            await until(pilot, lambda: screen.reader is not None and screen.reader.complete)  # noqa: B023
            await until(pilot, lambda: screen.ruler.size.height == rows)  # noqa: B023
            if rows > 1:
                await until(pilot, lambda: "╶sc" in plain(screen.ruler.lines(80)[1]))  # noqa: B023
