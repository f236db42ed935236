"""Two runs side by side, on the command line and on the screen."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests import rivumi_cases
from tests import run_story as story
from tests.on_screen import settings, shown, until
from textual.app import App
from textual.pilot import Pilot

from refold.app import demo_rivumi
from refold.app.cli import main
from refold.app.lines import Line, cells, plain
from refold.app.main import RefoldApp
from refold.app.present.compare import CompareRows, Leaf, leaves
from refold.app.present.reading import Reading, reading_of
from refold.app.present.runs import RunRows
from refold.app.screens.compare import CompareScreen
from refold.app.screens.lineage import LineageScreen
from refold.app.screens.run import RunScreen
from refold.app.screens.runs import RunsScreen
from refold.app.settings import Settings
from refold.core.store.compare import Comparison, compare
from refold.core.store.reader import RunReader
from refold.core.store.roots import Root

Compare = Callable[..., bool]
PROMPT = "Fix add() so the test passes."


@pytest.fixture(autouse=True)
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A run, a fork of it that took another way, and runs that are none; paths are relative ones."""
    monkeypatch.chdir(tmp_path)
    lines = story.fix_add()
    story.write(Path("fix-add.json"), lines)
    origin = {"run_id": "fix-add", "seq": 6, "prefix_sha256": "0" * 64}
    story.write(
        Path("again.json"),
        [
            story.meta(1, "again", PROMPT, time=story.at(0), forked_from=origin),
            *lines[1:6],
            story.assistant(
                7,
                2,
                story.text("The sign is wrong: I run the tests first."),
                story.call("d1", "run", command="pytest -q"),
                story.call("d2", "read_file", path="calc.py"),
                time=story.at(8),
            ),
            story.result(8, "d1", "F.", time=story.at(9), error=True),
            story.result(9, "d2", "def add(a, b):", time=story.at(9.1)),
            story.assistant(10, 3, story.text("Done."), time=story.at(11), stop="end_turn"),
            story.native(11, "terminal", {"reason": "completed"}, time=story.at(11.1)),
        ],
    )
    story.write(Path("hostile.json"), story.hostile())
    story.write(Path("damaged.json"), story.damaged())
    story.write(Path("orphan.json"), [story.meta(1, "orphan", PROMPT)])
    Path("empty.json").write_bytes(b"")
    usual = settings(Path())
    roots = (Root(Path(), "refold", "--root"),)
    return Settings(
        roots=roots,
        state_dir=usual.state_dir,
        cache_dir=None,
        config_file=usual.config_file,
        utc=True,
        log_file=usual.log_file,
    )


# The command line.


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["diff", "--only", "--root", ".", *arguments])
    return code, capsys.readouterr().out


def test_diff_says_where_two_runs_part_and_what_each_did(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = printed(capsys, "fix-add", "again")

    assert code == 1
    assert "= 6 records in common, through seq 6" in text
    assert "they part after seq 6" in text
    rows = text.splitlines()
    assert [row[:2] for row in rows if row[:2] in ("A ", "B ", "= ")].count("B ") > 3
    assert any(row.startswith("A    7") and "suspended" in row for row in rows)
    assert any(row.startswith("B") and "The sign is wrong: I run the tests first." in row for row in rows)
    assert any("pending" in row and row.rstrip().endswith("–") for row in rows)
    assert "fingerprint     the same" in text
    assert "I will read the file." not in text, "what is common is one line"


def test_diff_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = printed(capsys, "fix-add", "again", "--json")
    said = json.loads(text)

    assert (code, said["same"], said["common"], said["common_records"]) == (1, False, 6, 6)
    assert said["divergence"] == {
        "a": {"seq": 7, "line": 7, "kind": "terminal"},
        "b": {"seq": 7, "line": 7, "kind": "assistant"},
    }
    assert {one["field"]: (one["a"], one["b"], one["common"]) for one in said["counters"]}["llm_calls"] == (
        3,
        4,
        2,
    )
    assert all(one["same"] for one in said["fingerprint"])
    seqs = {side: [row[side]["seq"] for row in said["aligned"] if row[side]] for side in "ab"}
    assert seqs == {"a": [7, 8, 9], "b": [7, 8, 9, 10, 11]}
    states = {one["field"]: (one["a"], one["b"]) for one in said["states"]}
    assert states["pending"] == (["replace_text"], None)
    assert states["terminal"] == ("suspended", "completed")


def test_diff_of_one_run_at_two_points(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = printed(capsys, "fix-add@4", "fix-add@#6")
    assert code == 1
    assert "A ends, B goes on" in text
    assert "A  after seq 4" in text
    assert "B  after seq 6" in text
    code, text = printed(capsys, "fix-add@9", "fix-add.json")
    assert code == 0
    assert "and nothing else" in text
    assert "▸" not in text


def test_a_fork_alone_is_compared_with_its_parent(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = printed(capsys, "again", "--json")
    said = json.loads(text)
    assert (code, said["a"]["id"], said["b"]["id"]) == (1, "fix-add", "again")
    Path("damaged.json").unlink()  # a copy of the parent
    Path("fix-add.json").rename("called-otherwise.json")
    code, text = printed(capsys, "again", "--json")
    said = json.loads(text)
    assert (code, said["a"]["id"], said["b"]["id"]) == (1, "called-otherwise", "again")
    Path("a-copy.json").write_bytes(Path("called-otherwise.json").read_bytes())
    assert printed(capsys, "again")[0] == 3


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nowhere", "again"), 3, "no run 'nowhere'"),
        (("fix-add@99", "again"), 3, "no record has seq 99"),
        (("orphan",), 3, "no parent of it is there"),
        ((), 2, "required"),
    ],
)
def test_what_is_not_there_is_said(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, said: str
) -> None:
    assert main(["diff", "--only", "--root", ".", *arguments]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err


@pytest.mark.parametrize("other", ["hostile", "damaged", "empty", "orphan"])
def test_diff_of_anything_prints_safe_text(capsys: pytest.CaptureFixture[str], other: str) -> None:
    for pair in ((other, "fix-add"), ("fix-add", other), (other, other)):
        code, text = printed(capsys, *pair)
        assert code == (0 if pair[0] == pair[1] else 1)
        assert not {character for character in text if ord(character) < 32} - {"\n"}
        code, text = printed(capsys, *pair, "--json")
        assert json.loads(text)["same"] == (code == 0)
        assert text.isascii()


@pytest.mark.parametrize("case", ["03-running-clean", "22-torn-tail", "24-invalid-json-interior"])
def test_run_directories_are_compared_by_what_their_events_say(
    capsys: pytest.CaptureFixture[str], case: str
) -> None:
    rivumi_cases.make(case, Path())
    rivumi_cases.make("12-terminal-completed", Path())
    code, text = printed(capsys, case, "12-terminal-completed", "--json")
    said = json.loads(text)
    assert (code, said["common"], said["fingerprint"]) == (1, None, None)
    assert any(row["same"] for row in said["aligned"])
    assert {one["field"]: one["b"] for one in said["states"]}["phase"] == "completed"
    code, text = printed(capsys, f"{case}@#1", f"{case}@#3")
    assert code == 1
    assert "= 1 record in common, through seq 0" in text
    assert printed(capsys, case, case)[0] == 0
    code, text = printed(capsys, case, "fix-add", "--json")
    assert "step" in {one["field"] for one in json.loads(text)["states"]}
    assert printed(capsys, "fix-add", case)[0] == 1


def test_a_row_that_is_called_the_same_reads_the_same_on_both_sides(tmp_path: Path) -> None:
    now = datetime(2026, 7, 24, 12, tzinfo=UTC)
    demo_rivumi.make(tmp_path / "runs", tmp_path / "conversations", tmp_path / "work", now)
    paths = [tmp_path / "runs" / name for name in (demo_rivumi.CRASHED, demo_rivumi.WAITING)]
    with RunReader.open(paths[0]) as a, RunReader.open(paths[1]) as b:
        found = found_in(a, b)
        rows = reading_of(a).rows(), reading_of(b).rows()
        alike = [leaf for leaf in leaves(found, a.timeline, b.timeline) if leaf.same]
        assert alike
        for leaf in alike:
            assert leaf.a is not None
            assert leaf.b is not None
            one, other = plain(rows[0].line(leaf.a, 160)), plain(rows[1].line(leaf.b, 160))
            assert one.split() == other.split()


# The rows.


def found_in(a: RunReader, b: RunReader) -> Comparison:
    *_, found = compare(a, b)
    assert isinstance(found, Comparison)
    return found


@pytest.mark.parametrize("name", ["again", "hostile", "damaged", "empty"])
def test_rows_have_the_width_they_are_asked_for_and_lead_back(name: str) -> None:
    with RunReader.open(Path("fix-add.json")) as a, RunReader.open(Path(f"{name}.json")) as b:
        made = leaves(found_in(a, b), a.timeline, b.timeline)
        for stacked, width in ((True, 40), (True, 79), (False, 100), (False, 161)):
            rows = CompareRows(made, Reading(a).rows(), Reading(b).rows(), (), stacked=stacked)
            for index in range(len(rows)):
                line: Line = rows.line(index, width)
                assert cells(line) == width
                place = rows.place(index)
                assert (place is None) == (index == 0)
                if place is not None:
                    assert rows.index(*place) == index
            if not stacked:
                assert len(rows) == 1 + len(made)
            rows_of = {"a": [leaf.a for leaf in made], "b": [leaf.b for leaf in made]}
            for side in rows_of.values():
                there = [row for row in side if row is not None]
                assert there == sorted(there)


def test_differences_are_walked_by_their_beginnings_and_by_turns() -> None:
    with RunReader.open(Path("fix-add.json")) as a, RunReader.open(Path("again.json")) as b:
        made = leaves(found_in(a, b), a.timeline, b.timeline)
        rows = CompareRows(made, Reading(a).rows(), Reading(b).rows(), (), stacked=False)
        walked, back = _walk(rows, -1, 1), _walk(rows, len(made), -1)
        assert walked[0] == 0
        assert all(_head(made[at], a, b) for at in walked)
        assert back == walked[::-1]


def _walk(rows: CompareRows, at: int, step: int) -> list[int]:
    walked: list[int] = []
    while (found := rows.difference(at, step)) is not None:
        walked.append(found)
        at = found
    return walked


def _head(leaf: Leaf, a: RunReader, b: RunReader) -> bool:
    timeline, row = (a.timeline, leaf.a) if leaf.a is not None else (b.timeline, leaf.b)
    return row is not None and timeline.row(row).kind in ("assistant", "user", "terminal")


# The screen.


def of(given: Settings, a: str, b: str, at_a: int | None = None, at_b: int | None = None) -> RefoldApp:
    return RefoldApp(
        given, lambda: CompareScreen(Path(f"{a}.json"), Path(f"{b}.json"), at_a, at_b, settings=given)
    )


async def read(pilot: Pilot[None]) -> CompareScreen:
    """Wait until both runs are read and their states drawn."""
    await until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen) and pilot.app.screen.is_read)
    screen = pilot.app.screen
    assert isinstance(screen, CompareScreen)
    await until(pilot, lambda: screen.found is None or any("State  " in row for row in shown(pilot.app)))
    return screen


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_compare(snap_compare: Compare, given: Settings, size: tuple[int, int]) -> None:
    async def before(pilot: Pilot[None]) -> None:
        await read(pilot)

    app: App[None] = of(given, "fix-add", "again")
    assert snap_compare(app, terminal_size=size, run_before=before)


async def test_first_stands_the_point_where_they_part(given: Settings) -> None:
    app = of(given, "fix-add", "again")
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await read(pilot)
        rows = shown(app)
        assert "they part after seq 6" in rows[0]
        assert "= 6 records in common, through seq 6" in rows[2]
        assert rows[3].startswith("▌")
        assert screen.listing.cursor == 1
        assert any("A  after seq 7" in row or "B  after seq 7" in row for row in rows)
        await pilot.press("home")
        await until(pilot, lambda: sum("after seq 6" in row for row in shown(app)) >= 2)
        assert any("fingerprint" in row and "the same" in row for row in shown(app))
        assert app.background_faults == []


@pytest.mark.parametrize("width", [80, 120])
async def test_braces_walk_the_differences_tab_the_sides_and_enter_opens(given: Settings, width: int) -> None:
    app = of(given, "fix-add", "again")
    async with app.run_test(size=(width, 40)) as pilot:
        screen = await read(pilot)
        while screen.side == "b" or "I will edit" not in plain(
            screen.listing.rows.line(screen.listing.cursor, 200)
        ):
            before = screen.listing.cursor
            await pilot.press("right_curly_bracket")
            await until(pilot, lambda: screen.listing.cursor != before)  # noqa: B023 - awaited here
            if screen.side == "b":
                await pilot.press("tab")
        assert screen.side == "a"
        await pilot.press("tab")
        await until(pilot, lambda: screen.side == "b")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.item is not None)
        run = app.screen
        assert isinstance(run, RunScreen)
        assert run.path == Path("again.json")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("tab", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.item is not None)
        opened = app.screen
        assert isinstance(opened, RunScreen)
        assert opened.path == Path("fix-add.json")
        assert opened.reader is not None
        assert opened.item is not None
        assert opened.reader.timeline.seq(opened.item) == 9
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("left_curly_bracket")
        await until(pilot, lambda: screen.listing.cursor < 6)
        assert app.background_faults == []


async def test_a_resize_keeps_the_record_under_the_cursor(given: Settings) -> None:
    app = of(given, "fix-add", "again")
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await read(pilot)
        await pilot.press("end")
        rows = screen.listing.rows
        assert isinstance(rows, CompareRows)
        before = rows.place(screen.listing.cursor)
        assert before is not None
        await pilot.resize_terminal(80, 24)
        await until(
            pilot, lambda: isinstance(screen.listing.rows, CompareRows) and screen.listing.rows.stacked
        )
        now = screen.listing.rows
        assert isinstance(now, CompareRows)
        place = now.place(screen.listing.cursor)
        assert place is not None
        assert place[0] == before[0]
        assert app.background_faults == []


@pytest.mark.parametrize(
    ("a", "b", "said", "size"),
    [
        ("fix-add", "hostile", "another prompt", (60, 16)),
        ("hostile", "damaged", "another prompt", (120, 30)),
        ("damaged", "fix-add", "in common", (60, 16)),
        ("empty", "fix-add", "A holds no record", (120, 30)),
        ("empty", "empty", "neither of them holds a record", (60, 16)),
        ("fix-add", "fix-add", "the same", (120, 30)),
        ("nowhere", "fix-add", "nowhere.json", (60, 16)),
    ],
)
async def test_whatever_is_compared_the_screen_stands(
    given: Settings, a: str, b: str, said: str, size: tuple[int, int]
) -> None:
    app = of(given, a, b)
    async with app.run_test(size=size) as pilot:
        await read(pilot)
        await until(pilot, lambda: said in " ".join("".join(shown(app)).split()))
        await pilot.press("end", "right_curly_bracket", "tab", "left_curly_bracket", "home", "tab", "down")
        assert app.background_faults == []


async def test_a_run_directory_is_compared_on_the_screen(given: Settings) -> None:
    rivumi_cases.make("03-running-clean", Path())
    rivumi_cases.make("12-terminal-completed", Path())
    paths = Path("03-running-clean"), Path("12-terminal-completed")
    app = RefoldApp(given, lambda: CompareScreen(*paths, settings=given))
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await read(pilot)
        assert "each event names its run" in shown(app)[2]
        assert any("phase" in row and "completed" in row for row in shown(app)) or screen.listing.cursor == 1
        await pilot.press("end", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.item is not None)
        assert app.background_faults == []


async def test_one_run_at_two_points(given: Settings) -> None:
    app = of(given, "fix-add", "fix-add", 4, 8)
    async with app.run_test(size=(120, 40)) as pilot:
        await read(pilot)
        assert "compare fix-add@4 with fix-add@8" in shown(app)[0]
        assert "A ends, B goes on" in shown(app)[0]


async def test_c_on_a_run_and_in_the_lineage_compares_it_with_its_parent(given: Settings) -> None:
    app = RefoldApp(given, lambda: RunScreen(Path("again.json"), settings=given))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        run = app.screen
        assert isinstance(run, RunScreen)
        await until(pilot, lambda: run.item is not None)
        await pilot.press("c")
        await read(pilot)
        assert "compare fix-add with again" in shown(app)[0]
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is run)
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, LineageScreen) and app.screen.is_read)
        lineage = app.screen
        assert isinstance(lineage, LineageScreen)
        await pilot.press("c")
        await read(pilot)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is lineage)
        await pilot.press("home", "c")
        await until(pilot, lambda: any("was forked from no run" in row for row in shown(app)))
        assert app.screen is lineage
        assert app.background_faults == []


async def test_two_points_of_an_open_run_are_compared(given: Settings) -> None:
    app = RefoldApp(given, lambda: RunScreen(Path("fix-add.json"), settings=given))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        run = app.screen
        assert isinstance(run, RunScreen)
        await until(pilot, lambda: run.reader is not None and run.reader.complete and run.item is not None)
        await pilot.press("colon", "8", "enter", "C")
        await until(pilot, lambda: any("seq 8 is taken" in row for row in shown(app)))
        await pilot.press("C")
        await until(pilot, lambda: any("seq 8 is forgotten" in row for row in shown(app)))
        await pilot.press("C", "colon", "4", "enter", "C")
        await read(pilot)
        assert "compare fix-add@4 with fix-add@8" in shown(app)[0]
        assert not app._notifications
        assert app.background_faults == []


async def test_two_points_of_a_run_with_a_long_id_are_named_on_a_narrow_screen(given: Settings) -> None:
    name = "2JfKqX8w1" * 7
    Path(f"{name}.json").write_bytes(Path("fix-add.json").read_bytes())
    app = of(given, name, name, 4, 8)
    async with app.run_test(size=(80, 24)) as pilot:
        await read(pilot)
        assert shown(app)[1].count("@4") == shown(app)[1].count("@8") == 1


async def test_forks_of_one_parent_are_compared_with_each_other(given: Settings) -> None:
    again = Path("again.json").read_bytes()
    Path("third.json").write_bytes(again.replace(b'"run_id":"again"', b'"run_id":"third"'))
    app = RefoldApp(given, lambda: LineageScreen(Path("again.json"), "refold", given))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        lineage = app.screen
        assert isinstance(lineage, LineageScreen)
        await until(pilot, lambda: lineage.is_read and lineage.family is not None)
        assert lineage.family is not None
        names = [row.kin.id for row in lineage.family.rows]
        assert {"again", "third"} < set(names)
        for name in ("again", "third"):
            lineage.listing.go(names.index(name))
            await pilot.press("space")
        await until(pilot, lambda: sum("▸ " in row for row in shown(app)) == 2)
        await pilot.press("c")
        await read(pilot)
        assert "compare again with third" in shown(app)[0]
        assert app.background_faults == []


async def test_marked_runs_of_the_list_are_compared(given: Settings) -> None:
    app = RefoldApp(given, lambda: RunsScreen(given))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        runs = app.screen
        assert isinstance(runs, RunsScreen)

        def at(run_id: str) -> None:
            runs.listing.go(ids(runs).index(run_id))

        await until(pilot, lambda: sum("fix-add" in row for row in shown(app)) > 0 and runs.run is not None)
        await until(pilot, lambda: len(ids(runs)) == 6)
        order = ids(runs)
        wanted = sorted(("damaged", "hostile"), key=order.index)
        for run_id in wanted:
            at(run_id)
            await pilot.press("space")
        assert [Path(run.path).stem for run in runs.marks.runs] == wanted
        await until(pilot, lambda: sum("▸ " in row for row in shown(app)) == 2)
        await pilot.press("c")
        await read(pilot)
        assert f"compare {wanted[0]} with {wanted[1]}" in shown(app)[0]
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is runs)
        await pilot.press("space")
        assert [Path(run.path).stem for run in runs.marks.runs] == wanted[:1]
        await pilot.press("c")
        await read(pilot)
        assert f"compare {wanted[0]} with {wanted[1]}" in shown(app)[0]
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is runs)
        Path(f"{wanted[0]}.json").unlink()
        await pilot.press("R")
        await until(pilot, lambda: not runs.marks.runs)
        at("again")
        await pilot.press("c")
        await read(pilot)
        assert "compare fix-add with again" in shown(app)[0]
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is runs)
        for run_id in [each for each in order if each != wanted[0]][:3]:
            at(run_id)
            await pilot.press("space")
        await pilot.press("c")
        await until(pilot, lambda: any("Two runs are compared at a time" in row for row in shown(app)))
        assert app.screen is runs
        assert app.background_faults == []


def ids(runs: RunsScreen) -> list[str]:
    """Give the ids of the list."""
    rows = runs.listing.rows
    assert isinstance(rows, RunRows)
    return [run.id for index in range(len(rows)) if (run := rows.run(index)) is not None]
