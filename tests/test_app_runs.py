"""The screen of runs, driven by keys and by what happens on disk."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests import story
from tests.on_screen import shown as rows_shown
from tests.on_screen import until
from tests.story import Writing
from textual import events
from textual.geometry import Size
from textual.pilot import Pilot

from refold.app.lines import plain
from refold.app.main import RefoldApp
from refold.app.present.run_list import Sort
from refold.app.screens.columns import ColumnsScreen
from refold.app.screens.run import RunScreen
from refold.app.screens.runs import RunsScreen
from refold.app.settings import Settings
from refold.app.widgets.bars import ColumnHeader, LineBar, TopBar
from refold.app.widgets.key_bar import KeyBar
from refold.app.widgets.line_list import LineList
from refold.app.widgets.line_pager import LinePager
from refold.core.store import grep
from refold.core.store.roots import Root

SIZE = (120, 40)


def settings(*roots: Path, tmp: Path, columns: tuple[str, ...] = ()) -> Settings:
    return Settings(
        roots=tuple(Root(root, "fisk-ai", "--root") for root in roots),
        state_dir=tmp / "state",
        cache_dir=None,
        config_file=tmp / "config.toml",
        columns=columns,
        utc=True,
    )


class Shown:
    """A running screen, and what can be read off it."""

    def __init__(self, pilot: Pilot[None], screen: RunsScreen) -> None:
        self.pilot = pilot
        self.screen = screen

    async def until(self, condition: Callable[[], bool], seconds: float = 20) -> float:
        start = time.perf_counter()
        while not condition():
            assert time.perf_counter() - start < seconds, f"in vain; {self.top}; {self.ids}"
            await asyncio.sleep(0.002)
        return time.perf_counter() - start

    async def press(self, *pressed: str) -> None:
        await self.pilot.press(*pressed)

    async def type(self, text: str) -> None:
        names = {" ": "space", ":": "colon", "-": "minus", '"': "quotation_mark"}
        await self.press(*(names.get(char, char) for char in text))

    def is_current(self) -> bool:
        """Whether no other screen lies over it."""
        return self.screen.is_current

    @property
    def ids(self) -> list[str]:
        rows = self.screen._rows
        return [run.id for index in range(len(rows)) if (run := rows.run(index)) is not None]

    @property
    def here(self) -> str:
        run = self.screen.run
        return "" if run is None else run.id

    @property
    def height(self) -> int:
        """The line of the screen on which the cursor stands."""
        return self.screen.listing.cursor - round(self.screen.listing.scroll_offset.y)

    @property
    def top(self) -> str:
        return plain(self.screen.query_one(TopBar).line(SIZE[0])).strip()

    @property
    def header(self) -> str:
        return plain(self.screen.query_one(ColumnHeader).line(SIZE[0]))

    @property
    def remark(self) -> str:
        """What the prompt says beside the text."""
        return plain(self.screen.query_one("#prompt-remark", LineBar).line(200))

    def pager(self, name: str) -> str:
        pager = self.screen.query_one(name, LinePager)
        return "\n".join(plain(pager.rows.line(index, 100)) for index in range(len(pager.rows)))

    def turns(self, run_id: str) -> int:
        """The turns that the drawn row counts."""
        run = self.screen._rows.run(self.ids.index(run_id))
        return -1 if run is None else run.turns

    def row(self, run_id: str) -> str:
        return plain(self.screen._rows.line(self.ids.index(run_id), 118))


@asynccontextmanager
async def shown(
    *roots: Path,
    tmp: Path,
    filter_text: str = "",
    columns: tuple[str, ...] = (),
    now: Callable[[], float] = time.time,
) -> AsyncIterator[Shown]:
    made = settings(*roots, tmp=tmp, columns=columns)
    screen = RunsScreen(made, filter_text, now=now)
    async with RefoldApp(made, lambda: screen).run_test(size=SIZE, notifications=True) as pilot:
        seen = Shown(pilot, screen)
        await seen.until(lambda: "reading" not in seen.top and "watching" in seen.top)
        yield seen


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    directory = tmp_path / "runs"
    directory.mkdir()
    return directory


def many(directory: Path, count: int, prompt: str = "count") -> None:
    for number in range(count):
        story.put(directory, f"run-{number:03}", Writing(f"run-{number:03}", prompt).turn("one"), 60 + number)


async def test_every_run_is_a_row_and_every_row_gives_its_reason(tmp_path: Path) -> None:
    directory = tmp_path / "story"
    story.tell(directory)
    os.mkfifo(directory / "a-pipe.json")
    (directory / "a-link.json").symlink_to(directory / "fix-add.json")
    names = {path.stem for path in directory.glob("*.json")}
    async with shown(directory, tmp=tmp_path, now=lambda: story.NOW) as seen:
        assert set(seen.ids) == names
        assert f"{len(names)} runs · 1 directory   ● watching" in seen.top
        assert "✗ crashed" in seen.row("fix-add")
        assert "✗ crashed ⚠" in seen.row("nightly-0712")
        assert "a directory" in seen.row("a-directory")
        assert "⚠ unreadable" in seen.row("a-pipe")
        assert "◇ newer" in seen.row("a-run-of-v4")


async def test_a_run_that_grows_is_drawn_anew_within_a_tenth_of_a_second(runs: Path, tmp_path: Path) -> None:
    many(runs, 20)
    writing = Writing("run-015", "count").turn("one")
    async with shown(runs, tmp=tmp_path) as seen:
        await asyncio.sleep(0.5)
        seconds = []
        for turn in range(2, 6):
            writing.turn("more")
            with (runs / "run-015.json").open("ab") as file:
                file.write(writing.lines[-1])
            seconds.append(await seen.until(lambda turn=turn: seen.turns("run-015") == turn))  # type: ignore[misc]
            await asyncio.sleep(0.15)
        assert min(seconds) < 0.1
        assert seen.ids[0] == "run-015"


async def test_the_row_under_the_cursor_stays_where_it_is(runs: Path, tmp_path: Path) -> None:
    many(runs, 80)
    async with shown(runs, tmp=tmp_path) as seen:
        seen.screen.listing.move(50)
        await seen.press("up", "down")
        here, height = seen.here, seen.height
        for number in range(5):
            story.put(runs, f"new-{number}", Writing(f"new-{number}", "hello").turn("x"), -1e6 * number)
        (runs / "run-075.json").unlink()
        await seen.until(lambda: len(seen.ids) == 84)
        await asyncio.sleep(0.2)
        assert (seen.here, seen.height) == (here, height)
        assert seen.ids.index(here) == 55


async def test_a_deleted_run_leaves_and_the_cursor_goes_to_its_neighbour(runs: Path, tmp_path: Path) -> None:
    many(runs, 5)
    async with shown(runs, tmp=tmp_path) as seen:
        await seen.press("down", "down")
        assert seen.here == "run-002"
        (runs / "run-002.json").unlink()
        await seen.until(lambda: len(seen.ids) == 4)
        assert seen.here == "run-003"


async def test_a_directory_deleted_and_made_again_is_seen_again(runs: Path, tmp_path: Path) -> None:
    many(runs, 2)
    async with shown(runs, tmp=tmp_path) as seen:
        for path in runs.iterdir():
            path.unlink()
        runs.rmdir()
        await seen.until(lambda: "No runs yet." in seen.pager("#nothing"))
        assert str(runs) in seen.pager("#nothing")
        runs.mkdir()
        many(runs, 3)
        await seen.until(lambda: len(seen.ids) == 3)
        await seen.press("down")
        assert seen.here == "run-001"


async def test_nothing_to_show_says_where_it_looked(tmp_path: Path) -> None:
    async with shown(tmp_path / "absent", tmp=tmp_path) as seen:
        await seen.until(lambda: "does not exist" in seen.pager("#nothing"))
        assert "refold demo" in seen.pager("#nothing")
        assert "0 runs · 0 directories" in seen.top


async def test_typing_narrows_the_list_and_a_mistake_leaves_it_alone(runs: Path, tmp_path: Path) -> None:
    many(runs, 30)
    async with shown(runs, tmp=tmp_path) as seen:
        await seen.press("slash")
        await seen.type("run-01")
        await seen.until(lambda: "10 of 30 · 20 hidden" in seen.top)
        await seen.type(' "no')
        await asyncio.sleep(0.3)
        assert len(seen.ids) == 10
        assert "this quote is not closed" in seen.remark
        await seen.press("enter")
        await seen.until(lambda: "this quote is not closed" in seen.remark)
        assert seen.screen.prompt.text == 'run-01 "no'
        assert len(seen.ids) == 10
        await seen.press(*["backspace"] * 4, "enter", "slash")
        assert seen.screen.prompt.text.strip() == "run-01"
        await seen.type("zzz")
        await seen.until(lambda: "No run matches" in seen.pager("#nothing"))
        await seen.press("escape")
        await seen.until(lambda: len(seen.ids) == 10)
        await seen.press("down")
        assert seen.here == "run-011"
        await seen.press("escape")
        await seen.until(lambda: len(seen.ids) == 30)
        assert seen.here == "run-011"


async def test_a_text_is_looked_for_in_every_record(runs: Path, tmp_path: Path) -> None:
    many(runs, 30)
    writing = Writing("needle", "count").turn("look").turn("it says <no such file> é")
    story.put(runs, "needle", writing, 300)
    async with shown(runs, tmp=tmp_path, filter_text='text:"no such FILE> É"') as seen:
        await seen.until(lambda: seen.ids == ["needle"])
        assert "1 of 31 · 30 hidden" in seen.top
        with (runs / "run-007.json").open("ab") as file:
            file.write(Writing("x", "").turn("NO SUCH FILE> é").lines[-1].replace(b">", b"\\u003e"))
        await seen.until(lambda: set(seen.ids) == {"needle", "run-007"})
        await seen.press("escape")
        await seen.until(lambda: len(seen.ids) == 31)


async def test_escape_stops_a_long_search_and_says_how_far_it_came(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many(runs, 3)
    big = Writing("big", "x").turn("word " * 2_000_000)
    story.put(runs, "big", big, 1e6)
    monkeypatch.setattr(grep, "_PIECE", 16)
    monkeypatch.setattr(grep, "_DECODED", 32)
    async with shown(runs, tmp=tmp_path) as seen:
        await seen.press("slash")
        await seen.type("text:not-there")
        await seen.press("enter")
        await seen.until(lambda: "searched " in seen.top)
        start = time.process_time()
        await seen.press("escape")
        await seen.until(lambda: "stopped: searched 3 of 4" in seen.top)
        assert time.process_time() - start < 0.5
        await seen.press("escape")
        await seen.until(lambda: len(seen.ids) == 4)


async def test_the_header_sorts_by_key_and_by_click(runs: Path, tmp_path: Path) -> None:
    story.tell(runs)
    async with shown(runs, tmp=tmp_path, now=lambda: story.NOW) as seen:
        assert "Updated▼" in seen.header
        await seen.press("S")
        assert "Updated▲" in seen.header
        assert seen.ids[0] == "a-directory"
        await seen.press("s", "s")
        assert seen.screen._runs.sort == Sort("status", descending=False)
        column = seen.header.index("Tokens")
        await seen.pilot.click(ColumnHeader, offset=(column + 2, 0))
        assert "Tokens▼" in seen.header
        assert seen.ids[0] == "refactor-io"
        await seen.pilot.click(ColumnHeader, offset=(column + 2, 0))
        assert "Tokens▲" in seen.header
        assert seen.ids[-1] == "refactor-io"


async def test_columns_are_chosen_while_the_list_looks_on(runs: Path, tmp_path: Path) -> None:
    many(runs, 2)
    async with shown(runs, tmp=tmp_path, columns=("status", "id", "prompt", "colour")) as seen:
        await seen.until(lambda: seen.header.split() == ["Status", "Run", "Prompt"])
        await seen.press("C")
        assert isinstance(seen.pilot.app.screen, ColumnsScreen)
        await seen.press("down", "down", "down", "down", "space")
        assert seen.header.split() == ["Status", "Run", "Turns", "Prompt"]
        await seen.press("space", "home", "space", "down", "space", "end", "enter")
        assert seen.header.split() == ["Prompt"]
        await seen.press("escape")
        await seen.until(seen.is_current)


async def test_enter_opens_the_run_and_escape_comes_back_to_it(runs: Path, tmp_path: Path) -> None:
    many(runs, 4)
    async with shown(runs, tmp=tmp_path) as seen:
        await seen.press("down", "enter")
        await seen.until(lambda: isinstance(seen.pilot.app.screen, RunScreen))
        opened = seen.pilot.app.screen
        assert isinstance(opened, RunScreen)
        assert opened.path == runs / "run-001.json"
        await seen.press("escape")
        await seen.until(seen.is_current)
        assert seen.here == "run-001"


async def test_a_damaged_run_opens_as_well(runs: Path, tmp_path: Path) -> None:
    (runs / "bad.json").write_bytes(b"not json at all")
    (runs / "dir.json").mkdir()
    async with shown(runs, tmp=tmp_path) as seen:
        for _ in range(2):
            await seen.press("enter")
            await seen.until(lambda: isinstance(seen.pilot.app.screen, RunScreen))
            await seen.press("escape")
            await seen.until(seen.is_current)
            await seen.press("down")


async def test_the_preview_follows_the_cursor(runs: Path, tmp_path: Path) -> None:
    story.tell(runs)
    async with shown(runs, tmp=tmp_path, now=lambda: story.NOW) as seen:
        await seen.press("down")
        await seen.until(lambda: "reconcile the invoices" in seen.pager("#preview"))
        await seen.until(lambda: "tokens a turn" in seen.pager("#preview"))
        while seen.here != "nightly-0712":
            await seen.press("down")
        await seen.until(lambda: "torn tail: 27 bytes" in seen.pager("#preview"))


HOLDER = """
import fcntl, os, sys, time
lock = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="nobody says who holds a lock here")
async def test_the_preview_tells_parent_forks_and_fork_points_also_where_only_notes_know(
    runs: Path, tmp_path: Path
) -> None:
    from refold.app.forking import make_fork, plan_fork
    from refold.core.store.reader import RunReader

    here = settings(runs, tmp=tmp_path)
    written = Writing("parent", "Fix it").turn("Looking.", "read_file").results("code").turn("Done.")
    path = story.put(runs, "parent", written, 60)
    with RunReader.open(path, hint="fisk-ai") as reader:
        reader.index_all()
        made = make_fork(plan_fork(reader, 1, child="child"), here)
    async with shown(runs, tmp=tmp_path) as seen:
        await seen.until(lambda: set(seen.ids) == {"parent", "child"})
        await seen.press(*("down",) * seen.ids.index("child"))
        await seen.until(lambda: "parent ψ parent up to seq 2" in seen.pager("#preview"))
        await seen.until(lambda: "fork points 2" in seen.pager("#preview"))
        await seen.press("down" if seen.ids[0] == "child" else "up")
        await seen.until(lambda: "parent – · forks 1: child" in seen.pager("#preview"))
        made.path.unlink()
        await seen.until(lambda: "parent – · forks –" in seen.pager("#preview"))


async def test_a_killed_writer_leaves_a_crashed_run_within_seconds(runs: Path, tmp_path: Path) -> None:
    many(runs, 2)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(runs / "run-001.lock")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        async with shown(runs, tmp=tmp_path) as seen:
            await seen.until(lambda: "● running" in seen.row("run-001"))
            assert "✗ crashed" in seen.row("run-000")
            holder.send_signal(signal.SIGKILL)
            holder.wait()
            seconds = await seen.until(lambda: "✗ crashed" in seen.row("run-001"))
            assert seconds < 3
    finally:
        holder.kill()
        holder.wait()
        if holder.stdout is not None:
            holder.stdout.close()


async def test_quitting_while_the_list_loads_is_at_once(runs: Path, tmp_path: Path) -> None:
    many(runs, 400)
    made = settings(runs, tmp=tmp_path)
    screen = RunsScreen(made)
    start = time.perf_counter()
    async with RefoldApp(made, lambda: screen).run_test(size=SIZE) as pilot:
        await pilot.press("q")
    assert time.perf_counter() - start < 5
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("refold")]


async def test_the_keys_of_a_run_are_lit_once_there_is_one(runs: Path, tmp_path: Path) -> None:
    made = settings(runs, tmp=tmp_path)
    screen = RunsScreen(made)
    async with RefoldApp(made, lambda: screen).run_test(size=SIZE) as pilot:

        def lit() -> bool:
            drawn = screen.query_one(KeyBar).line(SIZE[0])
            return any(cell.text == "r" and cell.role == "key" for cell in drawn)

        await until(pilot, lambda: bool(screen.query(KeyBar)) and screen.run is None)
        assert not lit()
        many(runs, 1)
        screen.action_refresh()
        await until(pilot, lambda: screen.run is not None)
        await until(pilot, lit)


async def test_the_footer_shows_the_way_out_of_a_filter_while_there_is_one(
    runs: Path, tmp_path: Path
) -> None:
    many(runs, 3)
    made = settings(runs, tmp=tmp_path)
    screen = RunsScreen(made)
    async with RefoldApp(made, lambda: screen).run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "q quit" in rows_shown(pilot.app)[-1])
        assert "esc" not in rows_shown(pilot.app)[-1]
        await pilot.press("/", *"run-001", "enter")
        await until(pilot, lambda: "/ filter  esc show all  ? help" in rows_shown(pilot.app)[-1])
        await pilot.press("escape")
        await until(pilot, lambda: "esc" not in rows_shown(pilot.app)[-1] and len(screen.listing.rows) == 3)


async def test_the_list_fills_from_the_newest_on_with_the_cursor_there(runs: Path, tmp_path: Path) -> None:
    many(runs, 300)
    made = settings(runs, tmp=tmp_path)
    screen = RunsScreen(made)
    async with RefoldApp(made, lambda: screen).run_test(size=SIZE) as pilot:
        seen = Shown(pilot, screen)
        await seen.until(lambda: bool(seen.ids))
        assert seen.ids[0] == seen.here == "run-000"
        await seen.until(lambda: len(seen.ids) == 300)
        assert seen.here == "run-000"
        assert seen.ids == sorted(seen.ids)


async def test_runs_that_were_read_before_the_first_layout_are_shown(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many(runs, 3)
    made = settings(runs, tmp=tmp_path)
    screen = RunsScreen(made)
    monkeypatch.setattr(LineList, "size", Size(0, 0))  # what every list has until its screen is laid out
    async with RefoldApp(made, lambda: screen).run_test(size=SIZE) as pilot:
        seen = Shown(pilot, screen)
        await seen.until(lambda: "watching" in seen.top and len(seen.ids) == 3)
        monkeypatch.undo()
        await pilot.resize_terminal(SIZE[0], SIZE[1] + 1)  # only what has another size is told of it
        await seen.until(lambda: "run-000" in seen.pager("#preview") and "Updated▼" in seen.header)
        assert [plain(screen.listing.rows.line(row, 118)).split()[2] for row in range(3)] == seen.ids
        assert screen.listing.cursor == 0


async def test_a_word_typed_at_once_behind_its_key_is_a_filter_and_no_command(
    runs: Path, tmp_path: Path
) -> None:
    """`l` and `enter` would open other screens, were they sent to the list."""
    many(runs, 3)
    story.put(runs, "all", Writing("all", "another").turn("one"), 90)
    async with shown(runs, tmp=tmp_path) as seen:
        for key in ("slash", *"all", "enter"):
            seen.pilot.app.post_message(events.Key(key, {"slash": "/", "enter": "\r"}.get(key, key)))
        await seen.until(lambda: seen.ids == ["all"])
        assert seen.is_current()
        for key in ["down"] * 50:
            seen.pilot.app.post_message(events.Key(key, None))
        seen.pilot.app.post_message(events.Key("escape", None))
        assert await seen.until(lambda: len(seen.ids) == 4) < 2


async def test_a_run_that_is_opened_from_the_list_is_laid_out_as_one_that_is_opened_at_once(
    runs: Path, tmp_path: Path
) -> None:
    story.tell(runs)
    async with shown(runs, tmp=tmp_path, now=lambda: story.NOW) as seen:
        await seen.pilot.resize_terminal(120, 40)
        await seen.press("enter")
        app = seen.pilot.app
        await seen.until(lambda: isinstance(app.screen, RunScreen) and app.screen.pane.pager.size.width > 0)
        opened = app.screen
        assert isinstance(opened, RunScreen)
        assert opened.pane.region.y == opened.timeline.region.y
        assert opened.pane.region.x == opened.timeline.region.right
