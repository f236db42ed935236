"""The widgets that every screen is built from, each driven by keys and mouse in the real application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar, TypeVar

import pytest
from tests.on_screen import settings, shown, until
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.events import MouseScrollUp
from textual.geometry import Region
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget

from refold.app import keys, safe
from refold.app.lines import Cell, Column, FixedRows, Line, RulerCell
from refold.app.main import RefoldApp
from refold.app.safe import Safe
from refold.app.screens.run_pane import PaneTabs
from refold.app.widgets.bars import ColumnHeader, TopBar
from refold.app.widgets.key_bar import KeyBar
from refold.app.widgets.line_list import LineList
from refold.app.widgets.line_pager import LinePager
from refold.app.widgets.prompt_bar import PromptBar
from refold.app.widgets.ruler import Ruler

T = TypeVar("T")


class Counting:
    """Numbered rows that note which of them were asked for."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked: list[int] = []
        self.word = "row"

    def __len__(self) -> int:
        return self.count

    def line(self, index: int, width: int) -> Line:
        self.asked.append(index)
        name = Safe(f"{self.word} {index}")
        return (Cell(name), Cell(safe.fit(Safe(str(width)), width - len(name), "right"), "dim"))


class Stage(Screen[None]):
    """One widget and what it said."""

    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self, make: Callable[[], list[Widget]]) -> None:
        super().__init__()
        self._make = make
        self.said: list[object] = []

    def compose(self) -> ComposeResult:
        yield from self._make()

    @on(LineList.Moved)
    @on(LineList.Chosen)
    @on(LineList.FollowChanged)
    @on(LinePager.Resized)
    @on(Ruler.Picked)
    @on(Ruler.Resized)
    @on(ColumnHeader.SortPicked)
    @on(PromptBar.Changed)
    @on(PromptBar.Submitted)
    @on(PromptBar.Cancelled)
    def _note(self, event: object) -> None:
        self.said.append(event)

    def heard(self, kind: type[T]) -> list[T]:
        return [event for event in self.said if isinstance(event, kind)]


@asynccontextmanager
async def staged(
    directory: Path, *widgets: Callable[[], Widget], size: tuple[int, int] = (40, 12)
) -> AsyncIterator[tuple[Pilot[None], Stage]]:
    stage = Stage(lambda: [make() for make in widgets])
    app = RefoldApp(settings(directory), lambda: stage)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield pilot, stage


def rows_of(pilot: Pilot[None]) -> list[str]:
    return [row.rstrip() for row in shown(pilot.app)]


async def test_a_list_asks_for_what_is_in_sight(tmp_path: Path) -> None:
    async with staged(tmp_path, LineList) as (pilot, stage):
        one = stage.query_one(LineList)
        rows = Counting(1_000_000)
        one.show(rows)
        one.focus()
        await pilot.pause()

        assert set(rows.asked) == set(range(12))
        assert rows_of(pilot)[0].startswith("▌row 0")
        assert rows_of(pilot)[1].startswith(" row 1")

        await pilot.press("end")
        assert one.cursor == 999_999
        assert rows_of(pilot)[-1].startswith("▌row 999999")
        assert len(rows.asked) <= 24

        rows.asked.clear()
        await pilot.press("up", "up", "down")
        assert rows.asked == []

        await pilot.press("home", "pagedown", "pagedown")
        assert one.cursor == 22
        rows.asked.clear()
        await pilot.press("down", "down")
        assert len(rows.asked) <= 2


async def test_keys_of_a_list(tmp_path: Path) -> None:
    async with staged(tmp_path, LineList) as (pilot, stage):
        one = stage.query_one(LineList)
        one.show(Counting(50), 7)
        one.focus()
        for key, cursor in [
            ("j", 8),
            ("k", 7),
            ("up", 6),
            ("down", 7),
            ("G", 49),
            ("down", 49),
            ("pageup", 38),
            ("g", 0),
            ("up", 0),
            ("pagedown", 11),
            ("end", 49),
            ("home", 0),
        ]:
            await pilot.press(key)
            assert one.cursor == cursor, key
        await pilot.press("enter")
        await pilot.pause()

        assert [event.index for event in stage.heard(LineList.Chosen)] == [0]
        assert stage.heard(LineList.Moved)[-1].index == 0


async def test_the_width_leaves_room_for_the_mark_and_the_scroll_bar(tmp_path: Path) -> None:
    async with staged(tmp_path, LineList) as (pilot, stage):
        one = stage.query_one(LineList)
        one.show(Counting(3))
        await pilot.pause()
        few = rows_of(pilot)[0]
        one.show(Counting(300))
        await pilot.pause()

        assert few.split() == ["▌row", "0", "38"]
        assert rows_of(pilot)[1].split()[:3] == ["row", "1", "38"]


async def test_the_mouse_in_a_list(tmp_path: Path) -> None:
    async with staged(tmp_path, LineList) as (pilot, stage):
        one = stage.query_one(LineList)
        one.show(Counting(100))
        await pilot.pause()
        await pilot.click(LineList, offset=(5, 4))
        assert one.cursor == 4
        assert stage.heard(LineList.Chosen) == []

        await pilot.click(LineList, offset=(5, 4))
        await pilot.pause()
        assert [event.index for event in stage.heard(LineList.Chosen)] == [4]

        await pilot.click(LineList, offset=(5, 4), times=2)
        assert one.cursor == 4

        one.show(Counting(3))
        await pilot.click(LineList, offset=(5, 8))
        assert one.cursor == 0


async def test_a_list_that_may_follow_its_end(tmp_path: Path) -> None:
    async with staged(tmp_path, lambda: LineList(can_follow=True)) as (pilot, stage):
        one = stage.query_one(LineList)
        rows = Counting(20)
        one.show(rows)
        one.focus()
        rows.count = 30
        one.rows_changed()
        assert (one.cursor, one.follow) == (0, False)

        await pilot.press("end")
        assert one.follow
        rows.count = 40
        one.rows_changed()
        await pilot.pause()
        assert one.cursor == 39
        assert rows_of(pilot)[-1].startswith("▌row 39")

        await pilot.press("up")
        assert not one.follow
        rows.count = 50
        one.rows_changed()
        await pilot.pause()
        assert one.cursor == 38

        one.follow = True
        await pilot.pause()
        assert one.cursor == 49
        one.cursor = 3
        await pilot.pause()
        assert not one.follow
        assert [event.following for event in stage.heard(LineList.FollowChanged)] == [
            True,
            False,
            True,
            False,
        ]


async def test_the_wheel_looks_back_and_ends_the_following(tmp_path: Path) -> None:
    async with staged(tmp_path, lambda: LineList(can_follow=True)) as (pilot, stage):
        one = stage.query_one(LineList)
        rows = Counting(50)
        one.show(rows)
        one.focus()
        await pilot.press("end")
        await pilot._post_mouse_events([MouseScrollUp], LineList, offset=(5, 5), button=0)
        await pilot.pause()
        top = one.scroll_offset.y
        rows.count = 60
        one.rows_changed()
        await pilot.pause()

        assert not one.follow
        assert top < 38
        assert one.scroll_offset.y == top


async def test_a_list_that_may_not_follow_stays(tmp_path: Path) -> None:
    async with staged(tmp_path, LineList) as (pilot, stage):
        one = stage.query_one(LineList)
        rows = Counting(20)
        one.show(rows)
        one.focus()
        await pilot.press("end")
        rows.count = 40
        one.rows_changed()
        await pilot.pause()

        assert one.cursor == 19


async def test_rows_do_not_move_under_the_cursor(tmp_path: Path) -> None:
    async with staged(tmp_path, LineList) as (pilot, stage):
        one = stage.query_one(LineList)
        one.show(Counting(100), 50)
        await pilot.pause()
        height = one.cursor - one.scroll_offset.y
        one.show(Counting(200), 120, keep=True)
        await pilot.pause()

        assert one.cursor - one.scroll_offset.y == height
        assert rows_of(pilot)[height].startswith("▌row 120")

        one.show(Counting(200), 1, keep=True)
        await pilot.pause()
        assert one.scroll_offset.y == 0


async def test_a_list_that_shrinks_or_empties(tmp_path: Path) -> None:
    async with staged(tmp_path, LineList) as (pilot, stage):
        one = stage.query_one(LineList)
        rows = Counting(100)
        one.show(rows, 90)
        await pilot.pause()
        rows.count = 10
        one.rows_changed()
        await pilot.pause()
        assert one.cursor == 9
        assert rows_of(pilot)[9].startswith("▌row 9")
        assert rows_of(pilot)[10] == ""

        one.show(Counting(0))
        one.focus()
        await pilot.press("down", "end", "enter", "pageup")
        await pilot.click(LineList, offset=(3, 3))
        assert one.cursor == -1
        assert stage.heard(LineList.Moved)[-1].index == -1
        assert rows_of(pilot) == [""] * 12

        empty = Counting(0)
        one.show(empty)
        empty.count = 5
        one.rows_changed()
        await pilot.pause()
        assert one.cursor == 0


async def test_rows_are_drawn_anew_when_told(tmp_path: Path) -> None:
    async with staged(tmp_path, LineList) as (pilot, stage):
        one = stage.query_one(LineList)
        rows = Counting(100)
        one.show(rows)
        await pilot.pause()
        rows.word = "new"
        one.refresh_rows(2, 3)
        await pilot.pause()
        assert [row[1:4] for row in rows_of(pilot)[:5]] == ["row", "row", "new", "new", "row"]

        one.refresh_rows(4)
        await pilot.pause()
        assert rows_of(pilot)[4].startswith(" new 4")

        one.refresh_rows()
        await pilot.pause()
        assert rows_of(pilot)[9].startswith(" new 9")
        one.refresh_rows(90, 200)


async def test_a_leap_shows_what_is_around(tmp_path: Path) -> None:
    async with staged(tmp_path, LineList) as (pilot, stage):
        one = stage.query_one(LineList)
        one.show(Counting(1000))
        one.cursor = 500
        await pilot.pause()
        assert 3 <= one.cursor - one.scroll_offset.y <= 8

        one.cursor = 100
        await pilot.pause()
        assert 3 <= one.cursor - one.scroll_offset.y <= 8

        one.move(12)
        await pilot.pause()
        assert one.cursor - one.scroll_offset.y == 11


async def test_another_size_keeps_the_cursor_in_sight(tmp_path: Path) -> None:
    async with staged(tmp_path, LineList, size=(60, 30)) as (pilot, stage):
        one = stage.query_one(LineList)
        rows = Counting(100)
        one.show(rows, 29)
        await pilot.pause()
        await pilot.resize_terminal(30, 8)
        await until(pilot, lambda: len(rows_of(pilot)) == 8)

        assert any(row.startswith("▌row 29") for row in rows_of(pilot))
        assert all(row.split()[2].startswith("28") for row in rows_of(pilot))


async def test_the_cursor_shows_who_has_the_keys(tmp_path: Path) -> None:
    async with staged(tmp_path, lambda: LineList(id="a"), lambda: LineList(id="b")) as (pilot, stage):
        for one in stage.query(LineList):
            one.show(Counting(3))
        stage.query_one("#a").focus()
        await pilot.pause()
        strips = list(stage._compositor.render_strips(pilot.app.size))
        here, there = (list(strips[y])[1].style for y in (0, 6))

        assert here is not None
        assert there is not None
        assert here.bgcolor != there.bgcolor


async def test_lines_of_a_pager(tmp_path: Path) -> None:
    async with staged(tmp_path, LinePager) as (pilot, stage):
        pager = stage.query_one(LinePager)
        rows = Counting(1_000_000)
        pager.show(rows)
        pager.focus()
        await pilot.pause()
        assert set(rows.asked) == set(range(12))
        for key, top in [
            ("down", 1),
            ("j", 2),
            ("k", 1),
            ("up", 0),
            ("up", 0),
            ("pagedown", 11),
            ("space", 22),
            ("pageup", 11),
            ("G", 999_988),
            ("down", 999_988),
            ("g", 0),
            ("end", 999_988),
            ("home", 0),
        ]:
            await pilot.press(key)
            assert pager.top == top, key
        pager.reveal(500)
        assert pager.top == 494
        pager.reveal(499)
        assert pager.top == 494
        await pilot.pause()
        assert rows_of(pilot)[6].startswith("row 500")

        pager.show(Counting(5))
        await pilot.pause()
        assert pager.top == 0
        assert rows_of(pilot)[5:] == [""] * 7


async def test_a_pager_scrolls_sideways_only_for_longer_lines(tmp_path: Path) -> None:
    async with staged(tmp_path, LinePager) as (pilot, stage):
        pager = stage.query_one(LinePager)
        pager.focus()
        pager.show(FixedRows([(Cell(Safe("short")),)]))
        await pilot.press("shift+right")
        assert rows_of(pilot)[0] == "short"

        pager.show(
            FixedRows([(Cell(Safe("".join(f"{number:8}" for number in range(8)))),), (Cell(Safe("b")),)])
        )
        await until(pilot, lambda: pager.virtual_size.width == 64)
        await pilot.press("shift+right")
        assert rows_of(pilot)[0].startswith("       1")
        assert len(rows_of(pilot)) == 12
        await pilot.press("shift+right", "shift+right", "shift+right", "shift+right")
        assert rows_of(pilot)[0].endswith("7")
        await pilot.press("shift+left", "home")
        assert rows_of(pilot)[0].startswith("       0")


async def test_a_pager_tells_the_width_to_wrap_to(tmp_path: Path) -> None:
    async with staged(tmp_path, LinePager) as (pilot, stage):
        await pilot.resize_terminal(30, 8)
        await until(pilot, lambda: len(stage.heard(LinePager.Resized)) >= 2)

        assert [event.width for event in stage.heard(LinePager.Resized)] == [39, 29]
        assert stage.query_one(LinePager).width == 29


async def test_a_ruler_is_drawn_and_dragged(tmp_path: Path) -> None:
    async with staged(tmp_path, Ruler) as (pilot, stage):
        ruler = stage.query_one(Ruler)
        ruler.styles.height = 2
        await until(pilot, lambda: bool(stage.heard(Ruler.Resized)))
        assert stage.heard(Ruler.Resized)[0].width == 40
        ruler.show([RulerCell(Safe("▂"), "user")] * 40, 0.5, (Cell(Safe("0s"), "dim"),))
        await pilot.pause()
        assert rows_of(pilot)[:2] == ["▂" * 20 + "┃" + "▂" * 19, "0s"]

        ruler.move(1.0)
        await pilot.pause()
        assert rows_of(pilot)[0] == "▂" * 39 + "┃"
        ruler.move(-1)
        await pilot.pause()
        assert rows_of(pilot)[0] == "▂" * 40

        await pilot.mouse_down(Ruler, offset=(10, 0))
        await pilot.hover(Ruler, offset=(20, 0))
        await pilot.hover(Ruler, offset=(30, 5))
        await pilot.mouse_up(Ruler, offset=(30, 5))
        await pilot.hover(Ruler, offset=(2, 0))
        await pilot.pause()
        picked = [event.fraction for event in stage.heard(Ruler.Picked)]
        assert picked[0] == pytest.approx(10.5 / 40)
        assert picked[-1] == pytest.approx(30.5 / 40)


COLUMNS = (
    Column("status", Safe("Status"), 10),
    Column("tokens", Safe("Tokens"), 8, "right", 2),
    Column("", Safe("Prompt"), 10),
)


async def test_the_header_names_and_sorts_columns(tmp_path: Path) -> None:
    async with staged(tmp_path, ColumnHeader) as (pilot, stage):
        header = stage.query_one(ColumnHeader)
        header.show(COLUMNS, "tokens", descending=True)
        await pilot.pause()
        assert rows_of(pilot)[0] == " Status      Tokens▼  Prompt"

        header.show(COLUMNS, "status", descending=False)
        await pilot.pause()
        assert rows_of(pilot)[0] == " Status▲      Tokens  Prompt"

        for column in (2, 14, 24, 39, 0):
            await pilot.click(ColumnHeader, offset=(column, 0))
        await pilot.pause()
        assert [event.key for event in stage.heard(ColumnHeader.SortPicked)] == ["status", "tokens"]


async def test_the_top_row_keeps_its_right_side(tmp_path: Path) -> None:
    async with staged(tmp_path, TopBar, size=(80, 5)) as (pilot, stage):
        top = stage.query_one(TopBar)
        top.show((Cell(Safe("a long name of a run"), "strong"),), (Cell(Safe("seq 14 / 17")),))
        for width, expected in [
            (60, " refold   a long name of a run                  seq 14 / 17"),
            (40, " refold   a long name of …  seq 14 / 17"),
            (24, " refold  …  seq 14 / 17"),
            (15, " refold   a lo…"),
            (3, " r…"),
            (1, "…"),
        ]:
            await pilot.resize_terminal(width, 5)
            await until(pilot, lambda expected=expected: rows_of(pilot)[0] == expected)  # type: ignore[misc]


async def test_a_prompt_is_opened_typed_into_and_left(tmp_path: Path) -> None:
    async with staged(tmp_path, LineList, PromptBar) as (pilot, stage):
        one, bar = stage.query_one(LineList), stage.query_one(PromptBar)
        one.show(Counting(5))
        one.focus()
        await pilot.pause()
        assert not bar.is_open
        bar.open_to_add(Safe("filter"), "st", purpose="filter")
        bar.remark(Safe("3 of 5"))
        await pilot.press("a", "t", "q", "question_mark")
        await until(pilot, lambda: len(stage.heard(PromptBar.Changed)) == 4)
        assert [event.text for event in stage.heard(PromptBar.Changed)] == ["sta", "stat", "statq", "statq?"]
        assert rows_of(pilot)[-1].startswith(" filter statq?")
        assert rows_of(pilot)[-1].endswith("3 of 5")

        await pilot.press("enter")
        await pilot.pause()
        assert [event.text for event in stage.heard(PromptBar.Submitted)] == ["statq?"]
        assert (bar.is_open, bar.purpose, one.has_focus) == (False, "filter", True)

        bar.open(Safe("go to"))
        await pilot.press("7", "escape")
        await pilot.pause()
        assert len(stage.heard(PromptBar.Cancelled)) == 1
        assert (bar.is_open, bar.text, one.has_focus) == (False, "7", True)
        assert len(stage.heard(PromptBar.Submitted)) == 1

        for key, text in (("x", "x"), ("end", "the file"), ("left", "the file"), ("backspace", "")):
            bar.open(Safe("file"), "the file")
            await pilot.press(key)
            assert bar.text == text
            await pilot.press("escape")


async def test_pasted_control_characters_do_not_reach_the_terminal(tmp_path: Path) -> None:
    async with staged(tmp_path, PromptBar) as (pilot, stage):
        bar = stage.query_one(PromptBar)
        bar.open(Safe("search"), "\x1b[2J\x9b\u202e" + "x" * 60)
        await pilot.pause()

        assert "\x1b" in bar.text
        assert all(row.isprintable() for row in rows_of(pilot))


class KeyedStage(Stage):
    """A stage with the keys of the list of runs."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("runs")]

    def action_open(self) -> None:
        self.said.append("opened")

    def action_sort(self) -> None:
        self.said.append("sorted")

    def __getattr__(self, name: str) -> object:
        if name in {
            "action_filter",
            "action_clear_filter",
            "action_reverse",
            "action_columns",
            "action_refresh",
        }:
            return lambda: None
        raise AttributeError(name)


async def test_the_footer_drops_the_last_and_keeps_the_way_out_and_help(tmp_path: Path) -> None:
    stage = KeyedStage(lambda: [LineList(), KeyBar()])
    app = RefoldApp(settings(tmp_path, keymap={"runs.sort": "o"}), lambda: stage)
    async with app.run_test(size=(170, 5)) as pilot:
        most = (
            " enter open  r resume  f fork  d post-mortem  / filter  l lineage  o sort  c compare"
            "  ↑ ↓ move  ^p palette  q quit"
        )
        out = "  esc show all  ? help"
        await until(pilot, lambda: rows_of(pilot)[-1] == most + out)
        cuts = {most[:place] for place in range(len(most)) if most[place:].startswith("  ")}
        for width in (80, 60, 30, 22, 21, 20, 14):
            await pilot.resize_terminal(width, 5)
            await until(pilot, lambda width=width: len(shown(app)[0]) == width)  # type: ignore[misc]
            last = rows_of(pilot)[-1]
            if width > 30:
                assert last.removesuffix(out) in cuts
                assert last.endswith(out)
            else:
                assert last == (" esc show all  ? help" if width > 20 else " esc show all")


async def test_a_click_on_the_footer_presses_the_key(tmp_path: Path) -> None:
    stage = KeyedStage(lambda: [LineList(), KeyBar()])
    app = RefoldApp(settings(tmp_path), lambda: stage)
    async with app.run_test(size=(120, 5)) as pilot:
        stage.query_one(LineList).show(Counting(3))
        stage.query_one(LineList).focus()
        await until(pilot, lambda: "s sort" in rows_of(pilot)[-1])
        help_at = rows_of(pilot)[-1].index("? help")
        await pilot.click(KeyBar, offset=(rows_of(pilot)[-1].index("sort"), 0))
        await pilot.click(KeyBar, offset=(2, 0))
        await pilot.click(KeyBar, offset=(help_at, 0))
        await until(pilot, lambda: bool(stage.heard(LineList.Chosen)))

        assert stage.heard(str) == ["sorted"]


async def test_more_rows_than_there_are_may_be_asked_for_while_a_screen_is_arranged(tmp_path: Path) -> None:
    async with staged(tmp_path, LineList, TopBar) as (pilot, stage):
        rows = stage.query_one(LineList)
        rows.show(Counting(500))
        await pilot.pause()
        for widget in (rows.vertical_scrollbar, stage.query_one(TopBar), rows):
            width, height = widget.size
            drawn = widget.render_lines(Region(0, 0, width, height + 3))
            assert [strip.cell_length for strip in drawn] == [width] * (height + 3)


@pytest.mark.parametrize(
    ("width", "seen"),
    [
        (60, " 1 Record  2 State  3 Conversation  4 Changes  5 Raw "),
        (45, "1 Record 2 State 3 Conversat 4 Changes 5 Raw "),
        (30, "1 Record 2 St 3 Co 4 Ch 5 Ra "),
    ],
)
def test_the_pane_in_sight_keeps_its_name_and_the_longest_others_are_cut(width: int, seen: str) -> None:
    assert "".join(cell.text for cell in PaneTabs().line(width)) == seen
