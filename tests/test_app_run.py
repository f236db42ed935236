"""The screen of one run, driven by keys, by the mouse, and by what happens to its file."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests import run_story as story
from tests.on_screen import settings, shown, until
from textual.app import App
from textual.geometry import Size
from textual.pilot import Pilot

from refold.app.lines import plain
from refold.app.main import RefoldApp
from refold.app.present.rows import TimelineRows
from refold.app.screens.run import RunScreen
from refold.app.screens.run_pane import PaneTabs
from refold.app.widgets.bars import TopBar
from refold.core.store.reader import RunReader

WIDE = (120, 40)


class Open:
    """A run on the screen, and what can be read off it."""

    def __init__(self, pilot: Pilot[None], screen: RunScreen) -> None:
        self.pilot = pilot
        self.screen = screen

    async def until(self, condition: Callable[[], bool], seconds: float = 20.0) -> None:
        await until(self.pilot, condition, seconds)

    async def press(self, *pressed: str) -> None:
        await self.pilot.press(*pressed)

    async def type(self, text: str) -> None:
        names = {" ": "space", "#": "number_sign", "_": "underscore", ".": "full_stop"}
        await self.press(*(names.get(char, char) for char in text))

    @property
    def text(self) -> str:
        return "\n".join(shown(self.pilot.app))

    @property
    def top(self) -> str:
        return plain(self.screen.query_one(TopBar).line(200)).strip()

    @property
    def pane(self) -> str:
        pager = self.screen.pane.pager
        return "\n".join(plain(pager.rows.line(index, 100)) for index in range(len(pager.rows)))

    @property
    def seq(self) -> int | None:
        item, reader = self.screen.item, self.screen.reader
        return reader.timeline.seq(item) if reader is not None and item is not None else None

    @property
    def row(self) -> int:
        return self.screen.timeline.cursor

    @property
    def toasts(self) -> list[str]:
        return [toast.message for toast in self.pilot.app._notifications]

    async def pane_says(self, *words: str) -> None:
        await self.until(lambda: all(word in self.pane for word in words))


@asynccontextmanager
async def run(
    path: Path,
    size: tuple[int, int] = WIDE,
    *,
    at: int | None = None,
    line: int | None = None,
    wait: bool = True,
) -> AsyncIterator[Open]:
    chosen = settings(path.parent)
    app = RefoldApp(chosen, lambda: RunScreen(path, at, line=line, settings=chosen))
    async with app.run_test(size=size, notifications=True) as pilot:
        screen = app.screen
        assert isinstance(screen, RunScreen)
        opened = Open(pilot, screen)
        if wait:
            await opened.until(
                lambda: screen.reader is not None and screen.reader.complete and opened.row >= 0
            )
        yield opened


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    return story.write(tmp_path / "fix-add.json", story.fix_add())


@pytest.fixture
def completed(tmp_path: Path) -> Path:
    ended = [
        story.result(10, "c4", "done", time=story.at(99)),
        story.assistant(11, 3, story.text("All good."), stop="end_turn", time=story.at(101)),
        story.native(12, "terminal", {"reason": "completed"}, time=story.at(101)),
    ]
    return story.write(tmp_path / "done.json", [*story.fix_add(), *ended])


async def test_a_crashed_run_opens_at_its_end(crashed: Path) -> None:
    async with run(crashed) as opened:
        assert opened.seq == 9
        assert opened.top.startswith("refold   fix-add  ✗ crashed")
        assert "refold · gpt-5 · 3 turns · 4 calls" in opened.top
        await opened.until(lambda: opened.top.endswith("▾ following  ψ pending  seq 9 / 9"))


async def test_a_completed_run_opens_at_its_start(completed: Path) -> None:
    async with run(completed) as opened:
        assert opened.row == 0
        assert "✓ completed" in opened.top
        assert "following" not in opened.top


async def test_a_run_that_is_held_is_running(crashed: Path, tmp_path: Path) -> None:
    import fcntl

    with (tmp_path / "fix-add.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        async with run(crashed) as opened:
            await opened.until(lambda: "● running" in opened.top)
            await opened.press("2")
            await opened.pane_says("a process is seen holding the lock", "no result yet")


async def test_it_lands_where_it_was_asked_to(crashed: Path) -> None:
    async with run(crashed, at=4) as opened:
        assert opened.seq == 4
        await opened.pane_says("Assistant  seq 4")
    async with run(crashed, line=6) as opened:
        assert opened.seq == 6


async def test_an_absent_place_names_its_neighbours(crashed: Path) -> None:
    async with run(crashed, at=40) as opened:
        await opened.until(lambda: "No record has seq 40. The nearest is 9." in opened.toasts)


async def test_one_cursor(crashed: Path) -> None:
    async with run(crashed) as opened:
        await opened.press("g")
        await opened.pane_says("Meta  seq 1")
        for key, row in (
            ("right", 1),
            ("down", 2),
            ("j", 3),
            ("left", 2),
            ("k", 1),
            ("up", 0),
            ("G", 12),
            ("home", 0),
        ):
            await opened.press(key)
            assert opened.row == row, key
        await opened.press("right", "right", "right")
        await opened.pane_says("Result  seq 3", "def add(a, b):")
        await opened.until(lambda: opened.top.endswith("seq 3 / 9"))
        await opened.press("2")
        await opened.pane_says("State after seq 3")
        await opened.press("3")
        await opened.pane_says("── 3 user", "return a - b")
        await opened.press("5")
        await opened.pane_says('{"seq":3,"protocol"')


async def test_panes_open_by_tab_and_click(crashed: Path) -> None:
    async with run(crashed) as opened:
        for name in ("state", "conversation", "changes", "raw", "record"):
            await opened.press("tab")
            assert opened.screen.pane.open_pane == name
        await opened.press("shift+tab")
        assert opened.screen.pane.open_pane == "raw"
        await opened.pilot.click(PaneTabs, offset=(13, 0))
        await opened.until(lambda: opened.screen.pane.open_pane == "state")


async def test_turns_and_problems(crashed: Path) -> None:
    async with run(crashed) as opened:
        await opened.press("g", "right_square_bracket")
        assert opened.seq == 2
        await opened.press("right_square_bracket")
        assert opened.seq == 4
        await opened.press("left_square_bracket")
        assert opened.seq == 2
        await opened.press("right_curly_bracket")
        assert opened.seq == 6
        await opened.press("right_curly_bracket")
        await opened.until(lambda: "No error and no damage after this row." in opened.toasts)
        assert opened.seq == 6


async def test_go_to(crashed: Path) -> None:
    async with run(crashed) as opened:
        await opened.press("colon")
        await opened.type("4")
        await opened.press("enter")
        await opened.until(lambda: opened.seq == 4)
        await opened.press("colon")
        await opened.type("#8")
        await opened.press("enter")
        await opened.until(lambda: opened.seq == 8)
        await opened.press("colon")
        await opened.type("77")
        await opened.press("enter")
        await opened.until(lambda: "No record has seq 77. The nearest is 9." in opened.toasts)
        await opened.press("colon", "x", "enter")
        await opened.until(lambda: "Type a sequence number, or # and a line number." in opened.toasts)
        assert opened.seq == 8
        assert opened.screen.timeline.has_focus


async def test_the_footer_offers_the_matches_while_something_is_searched_for(crashed: Path) -> None:
    async with run(crashed, (80, 24)) as opened:

        def foot() -> str:
            return opened.text.split("\n")[-1]

        await opened.until(lambda: "esc back  ? help" in foot() and "n N match" not in foot())
        await opened.press("g", "slash")
        await opened.type("calc")
        await opened.press("enter")
        await opened.until(lambda: "/ search  n N match  esc end search  ? help" in foot())
        await opened.press("enter")
        await opened.until(lambda: "esc back" in foot())
        await opened.press("escape")
        await opened.until(lambda: "esc end search" in foot())
        await opened.press("escape")
        await opened.until(lambda: "esc back  ? help" in foot() and "n N match" not in foot())


async def test_search(crashed: Path) -> None:
    async with run(crashed) as opened:
        await opened.press("g", "slash")
        await opened.type("calc")
        await opened.press("enter")
        await opened.until(lambda: opened.seq == 2 and "/calc 1 of 3" in opened.top)
        await opened.press("n")
        assert opened.seq == 4
        await opened.press("n", "n")
        assert opened.seq == 2
        await opened.press("N")
        assert opened.seq == 9
        rows = opened.screen.timeline.rows
        assert isinstance(rows, TimelineRows)
        assert any(role == "match" for _, role in rows.line(12, 100))
        await opened.press("escape")
        assert "/calc" not in opened.top
        assert opened.screen.is_current
        await opened.press("n")
        await opened.until(lambda: "Nothing is searched for: / begins a search." in opened.toasts)


async def test_a_search_without_a_match(crashed: Path) -> None:
    async with run(crashed) as opened:
        await opened.press("slash")
        await opened.type("qq")
        await opened.press("enter")
        await opened.until(lambda: "No record of this run shows this text." in opened.toasts)
        assert opened.seq == 9


async def test_a_search_can_be_broken_off(tmp_path: Path) -> None:
    body = story.text("filler " * 4000)
    lines = [story.meta(1, "long", "begin")]
    lines += [story.assistant(seq, seq, body, stop="end_turn") for seq in range(2, 900)]
    async with run(story.write(tmp_path / "long.json", lines)) as opened:
        await opened.press("g", "slash")
        await opened.type("fi")
        await opened.press("enter")
        await opened.until(lambda: opened.seq == 2)
        await opened.press("escape")
        assert opened.screen.find.query == ""
        assert not [
            worker for worker in opened.pilot.app.workers if worker.group == "search" and worker.is_running
        ]


async def test_folds(crashed: Path) -> None:
    async with run(crashed, at=4) as opened:
        await opened.pane_says("▸ thinking")
        await opened.press("z")
        await opened.pane_says("before touching anything")
        await opened.press("z")
        await opened.until(lambda: "before touching anything" not in opened.pane)
        await opened.press("5", "Z")
        await opened.pane_says("7b 22 73 65  71 22")


async def test_copy(crashed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(App, "copy_to_clipboard", lambda _, text: copied.append(text))
    async with run(crashed, at=3) as opened:
        await opened.press("y")
        assert copied == [story.fix_add()[2].decode().rstrip("\n")]
        await opened.until(lambda: "Sent 261 B to the terminal's clipboard." in opened.toasts)


async def test_the_ruler_scrubs(crashed: Path) -> None:
    async with run(crashed) as opened:
        await opened.pilot.click("#ruler", offset=(0, 0))
        await opened.until(lambda: opened.row == 0)
        await opened.pilot.click("#ruler", offset=(60, 0))
        await opened.until(lambda: opened.row == 6)
        await opened.press("t")
        await opened.until(lambda: "⋯" in plain(opened.screen.ruler.line(120)))
        await opened.pilot.click("#ruler", offset=(119, 0))
        await opened.until(lambda: opened.seq == 9)


async def test_no_ruler_by_time_without_times(journals: Path) -> None:
    async with run(journals / "v3" / "completed-simple.json") as opened:
        await opened.press("t")
        await opened.until(lambda: "The records of this run carry no times." in opened.toasts)


async def test_growth_is_followed_until_the_cursor_leaves_the_end(crashed: Path) -> None:
    async with run(crashed) as opened:
        with crashed.open("ab", buffering=0) as file:
            started = time.monotonic()
            file.write(story.result(10, "c4", "edited", time=story.at(99)))
            await opened.until(lambda: opened.seq == 10)
            assert time.monotonic() - started < 5
            await opened.until(lambda: "no result" not in opened.text)
            await opened.press("up")
            assert not opened.screen.timeline.follow
            at = opened.row
            file.write(story.assistant(11, 3, story.text("All good."), stop="end_turn"))
            await opened.until(lambda: opened.top.endswith("/ 11"))
            assert opened.row == at
            await opened.press("F")
            assert opened.seq == 11
            file.write(story.native(12, "terminal", {"reason": "completed"}))
            await opened.until(lambda: opened.seq == 12 and "✓ completed" in opened.top)


async def test_a_line_that_is_written_in_two_pieces(crashed: Path) -> None:
    line = story.result(10, "c4", "edited")
    async with run(crashed) as opened:
        with crashed.open("ab", buffering=0) as file:
            file.write(line[:50])
            await opened.until(lambda: "torn tail" in opened.top)
            assert "E_TORN_TAIL" in opened.text
            file.write(line[50:])
            await opened.until(lambda: "torn tail" not in opened.top and opened.seq == 10)
            await opened.until(lambda: "E_TORN_TAIL" not in opened.text)


async def test_a_run_that_is_cut_short_is_read_again(crashed: Path) -> None:
    async with run(crashed, at=3) as opened:
        os.truncate(crashed, len(b"".join(story.fix_add()[:5])))
        await opened.until(lambda: "the file was cut short" in opened.text)
        await opened.until(lambda: opened.top.endswith("seq 3 / 5"))
        assert "Go on, please." not in opened.text


async def test_a_run_that_is_emptied_leaves_nothing_on_the_ruler(crashed: Path) -> None:
    async with run(crashed) as opened:
        await opened.until(lambda: bool(plain(opened.screen.ruler.line(120))))
        os.truncate(crashed, 0)
        await opened.until(lambda: "empty" in opened.top)
        await opened.until(lambda: not any(map(plain, opened.screen.ruler.lines(120))))


async def test_a_run_that_is_replaced_is_read_again(crashed: Path, tmp_path: Path) -> None:
    async with run(crashed) as opened:
        other = story.write(tmp_path / "other", [story.meta(1, "fix-add", "Another one altogether")])
        other.replace(crashed)
        await opened.until(lambda: "the file was replaced" in opened.text)
        await opened.until(lambda: opened.top.endswith("seq 1 / 1"))
        assert "Another one altogether" in opened.text
        assert "replace_text" not in opened.text


async def test_a_run_that_is_changed_in_place_is_read_again(crashed: Path) -> None:
    async with run(crashed) as opened:
        await opened.press("g")
        with crashed.open("r+b") as file:
            at = file.read().index(b"Fix add() so")
            file.seek(at)
            file.write(b"Fox add() so")
        await opened.until(lambda: "Fox add() so" in opened.text)
        await opened.until(lambda: "the file was replaced" in opened.text)


async def test_a_run_that_is_deleted_stays_on_the_screen(crashed: Path) -> None:
    data = crashed.read_bytes()
    async with run(crashed) as opened:
        crashed.unlink()
        await opened.until(lambda: "the file was deleted" in opened.text)
        await opened.press("g")
        await opened.pane_says("Fix add() so the test passes.")
        crashed.write_bytes(data)
        await opened.until(lambda: "the file was replaced" in opened.text)
        await opened.until(lambda: opened.seq == 1)


@pytest.mark.parametrize("kind", ["missing", "fifo"])
async def test_what_cannot_be_opened_says_why(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "run.json"
    makers: dict[str, Callable[[], object]] = {
        "missing": lambda: None,
        "fifo": lambda: os.mkfifo(path),
    }
    makers[kind]()
    async with run(path, wait=False) as opened:
        await opened.until(lambda: len(opened.screen.timeline.rows) > 0)
        assert "run.json" in opened.text
        assert "⚠ unreadable" in opened.top
        await opened.press(
            "down",
            "right",
            "right_square_bracket",
            "right_curly_bracket",
            "F",
            "y",
            "n",
            "t",
            "2",
            "3",
            "4",
            "Z",
            "5",
        )
        await opened.press("colon", "1", "enter", "slash", "x", "enter", "Z", "enter")
        assert opened.pilot.app._exception is None


ODD = {
    "empty": b"",
    "nul": b"\x00" * 5000,
    "brackets": b"[" * 200_000,
    "no-records": b'{"seq":1}\n{"seq":2}\n',
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
async def test_bytes_that_are_no_run_open_as_far_as_they_go(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(data)
    async with run(path, wait=False) as opened:
        await opened.until(lambda: opened.screen.reader is not None and opened.screen.reader.complete)
        await opened.press("2", "3", "4", "Z", "5", "Z", "down", "t", "right_curly_bracket", "1")
        assert opened.pilot.app._exception is None


async def test_a_low_screen_shows_one_at_a_time(crashed: Path) -> None:
    async with run(crashed, (60, 20)) as opened:
        assert not opened.screen.pane.display
        await opened.press("enter")
        await opened.pane_says("call replace_text")
        assert opened.screen.pane.display
        assert not opened.screen.timeline.display
        await opened.press("left")
        await opened.pane_says("Assistant  seq 9")
        await opened.press("escape")
        assert opened.screen.timeline.display
        assert opened.screen.timeline.has_focus
        await opened.press("2")
        await opened.pane_says("State after seq 9")
        assert opened.screen.pane.display


async def test_a_wide_screen_gives_the_keys_to_the_pane(completed: Path) -> None:
    async with run(completed, (120, 24)) as opened:
        await opened.press("2", "enter")
        await opened.pane_says("Fingerprint")
        await opened.press("down", "down")
        assert opened.screen.pane.pager.top == 2
        assert opened.row == 0
        await opened.press("escape")
        assert opened.screen.timeline.has_focus


async def test_every_size(crashed: Path) -> None:
    async with run(crashed) as opened:
        for size in ((200, 60), (20, 5), (1, 1), (120, 40)):
            await opened.pilot.resize_terminal(*size)
            await opened.press("left", "enter", "right", "escape")
        await opened.pane_says("Call  seq 9")


async def test_one_cell_is_no_reason_to_draw_without_end(
    crashed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layouts, lay_out = 0, RunScreen._refresh_layout

    def counted(screen: RunScreen, size: Size | None = None, scroll: bool = False) -> None:
        nonlocal layouts
        layouts += 1
        lay_out(screen, size, scroll)

    monkeypatch.setattr(RunScreen, "_refresh_layout", counted)
    async with run(crashed) as opened:
        await opened.pilot.resize_terminal(1, 1)
        await asyncio.sleep(0.5)
        before = layouts
        await asyncio.sleep(0.5)
        assert layouts - before < 3


async def test_a_large_run_shows_its_end_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [story.meta(1, "large", "begin")]
    body = story.text("y" * 300)
    lines += [story.assistant(seq, seq, body, stop="end_turn") for seq in range(2, 4000)]
    path = story.write(tmp_path / "large.json", lines)
    whole, step = asyncio.Event(), RunReader.step

    def slowly(reader: RunReader, seconds: float) -> bool:
        if whole.is_set():
            return step(reader, seconds)
        time.sleep(0.002)
        return False

    monkeypatch.setattr(RunReader, "step", slowly)
    async with run(path, wait=False) as opened:
        await opened.until(lambda: opened.row >= 0 and "reading 0%" in opened.top)
        assert " 3999 " in opened.text
        assert "damaged" not in opened.top
        assert "E_NO_META" not in opened.text
        assert opened.row < 3000
        await opened.press("up", "up", "2")
        await opened.pane_says("State after seq 3997", "still reading")
        whole.set()
        await opened.until(lambda: opened.screen.reader is not None and opened.screen.reader.complete)
        await opened.until(lambda: opened.top.endswith("seq 3997 / 3999"))
        assert opened.row == 3996
        await opened.pane_says("State after seq 3997", "turn          3,996")


async def test_a_run_is_watched_while_it_is_read(
    crashed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inode, step = crashed.stat().st_ino, RunReader.step

    def never_done(reader: RunReader, seconds: float) -> bool:
        return step(reader, seconds) and reader.identity[1] != inode

    monkeypatch.setattr(RunReader, "step", never_done)
    data = crashed.read_bytes()
    async with run(crashed, wait=False) as opened:
        await opened.until(lambda: opened.row >= 0)
        kept = crashed.rename(tmp_path / "elsewhere")
        await opened.until(lambda: "the file was deleted" in opened.text)
        kept.rename(crashed)
        await opened.until(lambda: "the file was deleted" not in opened.text)
        (tmp_path / "other").write_bytes(data)
        (tmp_path / "other").replace(crashed)
        await opened.until(lambda: "the file was replaced" in opened.text)
        await opened.until(lambda: opened.screen.reader is not None and opened.screen.reader.complete)


async def test_escape_answers_while_a_run_is_read(tmp_path: Path) -> None:
    lines = [story.meta(1, "large", "begin")]
    body = story.text("y" * 2000)
    lines += [story.assistant(seq, seq, body, stop="end_turn") for seq in range(2, 20_000)]
    path = story.write(tmp_path / "large.json", lines)
    chosen = settings(tmp_path)
    app = RefoldApp(chosen, lambda: RunScreen(path))
    async with app.run_test(size=WIDE) as pilot:
        screen = app.screen
        assert isinstance(screen, RunScreen)
        await until(pilot, lambda: screen.timeline.cursor >= 0)
        started = time.monotonic()
        await pilot.press("escape")
        assert time.monotonic() - started < 2
        assert screen.reader is not None
    assert app._exception is None


async def test_it_goes_back_to_the_screen_below(crashed: Path) -> None:
    async with run(crashed) as opened:
        above = RunScreen(crashed, 2)
        await opened.pilot.app.push_screen(above)
        await opened.until(lambda: above.timeline.cursor >= 0)
        await opened.press("escape")
        await opened.until(lambda: opened.screen.is_current)
        reader = above.reader
        assert reader is not None
        await opened.until(lambda: reader._fd < 0)


async def test_a_long_record_does_not_hold_the_loop(tmp_path: Path) -> None:
    lines = [story.meta(1, "long", "begin"), story.assistant(2, 0, story.text("word\n" * 4_000_000))]
    async with run(story.write(tmp_path / "long.json", lines)) as opened:
        for key in ("1", "2", "3", "4", "5"):
            await opened.press(key)
            assert await longest_gap(lambda: asyncio.sleep(0.2)) < 0.1, key


async def longest_gap(doing: Callable[[], Awaitable[None]]) -> float:
    """The most CPU that the event loop spent without letting anything else run, while something is done."""
    worst, last, stop = 0.0, time.thread_time(), False

    async def tick() -> None:
        nonlocal worst, last
        while not stop:
            await asyncio.sleep(0)
            now = time.thread_time()
            worst, last = max(worst, now - last), now

    ticking = asyncio.create_task(tick())
    await doing()
    stop = True
    await ticking
    return worst
