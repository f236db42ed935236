"""One run: its ruler, its timeline, and panes that follow the cursor."""

from __future__ import annotations

import asyncio
import os
import time
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.screen import Screen

from refold.app import keys
from refold.app.lines import Cell, Line
from refold.app.present import units
from refold.app.present.find import Hunt
from refold.app.present.layout import cell
from refold.app.present.reading import Reading, damaged_places
from refold.app.present.rows import TimelineRows
from refold.app.present.ruler import (
    TimeScale,
    cells_by_count,
    fraction_of_row,
    labels_by_count,
    row_of_fraction,
)
from refold.app.present.run_top import RunTop, top_left, top_right
from refold.app.safe import Safe
from refold.app.screens import run_file
from refold.app.screens.run_pane import PANES, PaneName, PaneTabs, Place, RunPane, notice
from refold.app.widgets.bars import LineBar, TopBar
from refold.app.widgets.key_bar import KeyBar
from refold.app.widgets.line_list import LineList
from refold.app.widgets.prompt_bar import PromptBar
from refold.app.widgets.ruler import Ruler
from refold.core.errors import StoreError
from refold.core.search import text_pattern
from refold.core.store.lock import locked_inodes
from refold.core.store.reader import Change, RunReader
from refold.core.timeline import Timeline

if TYPE_CHECKING:
    from refold.app.settings import Settings

_WIDE: Final = 100
_LOW: Final = 22
_TALL: Final = 32
_REDRAW: Final = 0.1
"""Seconds between two drawings while rows stream in."""
_HOLDER_EVERY: Final = 1.0
_CLIPBOARD: Final = 1_000_000
_BIG: Final = 262_144
"""Files above this many bytes may be shown from their end before they are read."""


class Banner(LineBar):
    """One sentence about the file, while there is something to say."""

    _line: Line = ()

    def say(self, text: str) -> None:
        """Show a sentence; an empty one hides the row."""
        self._line = (cell(f" {text} ", "warn"),) if text else ()
        self.set_class(bool(text), "-shown")
        self.refresh()

    def line(self, width: int) -> Line:
        """The sentence."""
        return self._line


class RunScreen(Screen[None]):
    """Shows one run. It reads, and nothing else: no lock, no write."""

    CSS_PATH = "../../styles/run.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("run")]

    def __init__(
        self,
        path: Path,
        at: int | None = None,
        *,
        line: int | None = None,
        settings: Settings | None = None,
        hint: str = "refold",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Show a run.

        Args:
            path: The journal.
            at: The sequence to land on.
            line: The line to land on, where no sequence is given.
            settings: Where the cache lies; what the list of runs needs.
            hint: The format to assume where the bytes do not tell.
            clock: For how often things are drawn; never shown.
        """
        super().__init__()
        self.path = path
        self._at = at
        self._line = line
        self._settings = settings
        self._hint = hint
        self._clock = clock
        self._reading: Reading | None = None
        self._scale: TimeScale | None = None
        self._by_time = False
        self._hunt: Hunt | None = None
        self._query = ""
        self._landed = False
        self._held = False
        self._drawn = 0.0
        self._damage: tuple[int, int] = (-1, 0)
        self._gone = False

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield TopBar(id="top")
        yield Banner(id="banner")
        yield Ruler(id="ruler")
        with Container(id="body"):
            yield LineList(can_follow=True, id="timeline")
            yield RunPane(id="pane")
        yield PromptBar(id="prompt")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """Begin to read."""
        self.timeline.focus()
        self._draw_top()
        self._read_file()
        self.set_interval(_HOLDER_EVERY, self._look_for_holder)

    # -- what is on the screen

    @property
    def timeline(self) -> LineList:
        """The list of rows."""
        return self.query_one("#timeline", LineList)

    @property
    def pane(self) -> RunPane:
        """The panes."""
        return self.query_one("#pane", RunPane)

    @property
    def reader(self) -> RunReader | None:
        """The open run; None before it is open and where it cannot be."""
        return self._reading.reader if self._reading is not None else None

    @property
    def item(self) -> int | None:
        """The record that the cursor stands on."""
        if self._reading is None or not 0 <= self.timeline.cursor < self._reading.timeline.rows:
            return None
        return self._reading.timeline.row(self.timeline.cursor).item

    def on_resize(self, event: events.Resize) -> None:
        """Put the pane where there is room for it."""
        wide = event.size.width >= _WIDE
        self.set_class(wide, "-wide")
        self.set_class(not wide and event.size.height < _LOW, "-low")
        self.set_class(event.size.height >= _TALL, "-tall")
        if wide and self.has_class("-detail"):
            self.remove_class("-detail")
            self.timeline.focus()

    # -- the file

    @work(group="file", exclusive=True)
    async def _read_file(self) -> None:
        cache = self._settings.cache_dir if self._settings is not None else None
        try:
            async for event in run_file.follow(
                lambda: RunReader.open(self.path, hint=self._hint, cache=cache)
            ):
                match event:
                    case run_file.Opened(reader=reader, why=why):
                        self._opened(reader, why)
                    case run_file.Read(finished=finished):
                        await self._read(finished=finished)
                    case run_file.Gone(reason=reason):
                        self._gone = True
                        self._say(f"{reason}: what was read stays on the screen")
                    case run_file.Back():
                        self._gone = False
                        self._say("")
        except StoreError as error:
            self._refused(error)

    def _opened(self, reader: RunReader, why: Change | None) -> None:
        self._gone = False
        if why is not None:
            item = self.item
            if self._reading is not None and item is not None and self._line is None:
                self._at = self._reading.timeline.seq(item)
            said = "the file was cut short" if why is Change.SHRANK else "the file was replaced"
            self._say(f"{said}: it was read again from the start")
            self._landed = False
        self._reading = Reading(reader)
        self._scale = None
        self._stop_search()
        self._drawn = 0.0

    async def _read(self, *, finished: bool) -> None:
        reading = self._reading
        if reading is None:
            return
        now = self._clock()
        if not finished and self._drawn and now - self._drawn < _REDRAW:
            return
        if not self._landed and not self._drawn and not finished:
            reading = self._window_on_the_end(reading)
        self._drawn = now
        if reading.is_window and finished:
            reading = self._leave_window(reading)
        self._show_rows(reading, finished=finished)
        if finished:
            self._look_for_holder()
            if self._hunt is not None and self._hunt.complete and self._hunt.outstanding:
                self._search(self._hunt)
        if self._by_time:
            await self._fill_scale()
        self._draw()

    def _show_rows(self, reading: Reading, *, finished: bool) -> None:
        rows = self.timeline.rows
        if not isinstance(rows, TimelineRows) or rows.timeline is not reading.timeline:
            if reading.timeline.rows:
                self.timeline.show(self._rows(reading), self._first_cursor(reading, finished=finished))
            elif finished:
                self.timeline.show(notice([("no records: the file is empty", "problem")]))
            return
        if not self._landed:
            self._land(reading, finished=finished)
        if reading.is_window:
            return
        grown = len(rows) != self.timeline.virtual_size.height
        self.timeline.rows_changed()
        if finished and grown:
            self.timeline.refresh_rows()

    def _rows(self, reading: Reading) -> TimelineRows:
        rows = reading.rows()
        rows.search = text_pattern(self._query) if self._query else None
        return rows

    def _window_on_the_end(self, reading: Reading) -> Reading:
        """Show the end of a large run that has not ended, before all of it is read."""
        reader = reading.reader
        if self._at is not None or self._line is not None or reader.size < _BIG:
            return reading
        window = reader.tail_timeline()
        kinds = {window.kind(item) for item in range(window.items)}
        if kinds <= {"damage"} or window.kind(window.items - 1) == "terminal":
            return reading
        self._reading = Reading(reader, window)
        return self._reading

    def _leave_window(self, window: Reading) -> Reading:
        """Go over from the rows of the end to those of the whole run, the cursor on the same bytes."""
        reading = self._reading = Reading(window.reader)
        row = self.timeline.cursor
        if row >= 0 and reading.timeline.items:
            there = window.timeline.row(row)
            start = window.timeline.span(there.item).start
            item = max(0, bisect_right(reading.timeline.columns.offset, start) - 1)
            calls = max(0, there.call + 1)
            self.timeline.show(self._rows(reading), reading.timeline.first_row(item) + calls, keep=True)
            self._landed = True
        return reading

    def _first_cursor(self, reading: Reading, *, finished: bool) -> int:
        timeline = reading.timeline
        row = self._wanted_row(timeline)
        if row is not None:
            self._landed = True
            return row
        if self._at is not None or self._line is not None:
            return 0
        if reading.is_window or (finished and timeline.kind(timeline.items - 1) != "terminal"):
            self._landed = True
            self.call_after_refresh(self._begin_to_follow)
            return timeline.rows - 1
        self._landed = True
        return 0

    def _begin_to_follow(self) -> None:
        if self.timeline.cursor == len(self.timeline.rows) - 1:
            self.timeline.follow = True

    def _wanted_row(self, timeline: Timeline) -> int | None:
        if self._at is not None:
            last = timeline.last_seq
            return timeline.row_at(self._at) if last is not None and last >= self._at else None
        if self._line is not None:
            item = timeline.item_at_line(self._line)
            return timeline.first_row(item) if item is not None else None
        return None

    def _land(self, reading: Reading, *, finished: bool) -> None:
        row = self._wanted_row(reading.timeline)
        if row is None and finished and self._at is not None:
            row = reading.timeline.row_at(self._at)
        if row is not None:
            self.timeline.go(row)
        elif finished:
            self._say_absent(reading.timeline)
        self._landed = row is not None or finished

    def _refused(self, error: StoreError) -> None:
        self.timeline.show(notice([(str(error), "problem"), (error.remedy, "dim")]))
        self.query_one("#top", TopBar).show(top_left(RunTop(self.path.stem, status="unreadable")))

    def _say(self, text: str) -> None:
        self.query_one("#banner", Banner).say(text)

    def _look_for_holder(self) -> None:
        held = False
        inodes = locked_inodes()
        if inodes:
            for path in (self.path.with_suffix(".lock"), self.path):
                try:
                    held = held or os.stat(path).st_ino in inodes  # noqa: PTH116 - follows what the writer locked
                except OSError:
                    continue
        if held != self._held:
            self._held = held
            self._draw_top()
            self._tell_pane()

    # -- drawing

    def _draw(self) -> None:
        self._draw_top()
        self._draw_ruler()
        self._tell_pane()

    def _draw_top(self) -> None:
        reading = self._reading
        if reading is None:
            self.query_one("#top", TopBar).show(top_left(RunTop(self.path.stem)))
            return
        reader, timeline = reading.reader, reading.timeline
        top = RunTop(
            reader.run_id,
            status=reading.status(held=self._held).name
            if reader.complete and not reading.is_window
            else None,
            format=reader.format.name,
            model=reader.meta.fingerprint.model if reader.meta is not None else "",
            fork_of=reader.meta.forked_from.run_id
            if reader.meta is not None and reader.meta.forked_from
            else "",
            damaged=self._damaged(timeline),
            torn=timeline.torn is not None,
            progress=reader.progress,
        )
        if timeline.items and not reading.is_window:
            last = timeline.items - 1
            top = top._replace(
                turns=timeline.turn(last),
                calls=timeline.calls(last),
                tokens=timeline.counters(last).tokens,
            )
        item = self.item
        right = top_right(
            seq=timeline.seq(item) if item is not None else None,
            line=timeline.span(item).line if item is not None else 0,
            last=timeline.last_seq,
            following=self.timeline.follow and reader.complete,
            progress=reader.progress,
            search=self._search_words(item),
        )
        self.query_one("#top", TopBar).show(top_left(top), right)

    def _damaged(self, timeline: Timeline) -> int:
        marks = len(timeline.marks)
        if self._damage[0] != marks:
            self._damage = (marks, damaged_places(timeline))
        return self._damage[1]

    def _draw_ruler(self) -> None:
        ruler = self.query_one("#ruler", Ruler)
        width = ruler.size.width
        if self._reading is None or not width or not self._reading.timeline.rows:
            return
        if self._by_time and self._scale is not None and self._scale.complete:
            ruler.show(self._scale.cells(width), self._fraction(), self._scale.labels(width))
        else:
            timeline = self._reading.timeline
            ruler.show(cells_by_count(timeline, width), self._fraction(), labels_by_count(timeline, width))

    def _fraction(self) -> float:
        item = self.item
        if self._reading is None or item is None:
            return -1.0
        if self._by_time and self._scale is not None and self._scale.complete and self._scale.total:
            return self._scale.fraction(item)
        return fraction_of_row(self._reading.timeline, self.timeline.cursor)

    def _tell_pane(self) -> None:
        item = self.item
        if self._reading is not None and item is not None:
            self.pane.go(Place(self._reading, self.timeline.cursor, self._ending(item)))

    def _ending(self, item: int) -> str:
        reading = self._reading
        if reading is None or reading.is_window or not reading.reader.complete:
            return ""
        timeline = reading.timeline
        if item != timeline.items - 1 or timeline.kind(item) == "terminal":
            return ""
        if self._held:
            return "● a process is seen holding the lock: more may follow"
        calls = timeline.open_calls(item)
        unanswered = f", {units.plural(calls, 'call')} without a result: outcome unknown" if calls else ""
        return f"✗ end of file: no terminal record{unanswered}"

    # -- the cursor

    @on(LineList.Moved, "#timeline")
    def _moved(self) -> None:
        self.query_one("#ruler", Ruler).move(self._fraction())
        self._draw_top()
        self._tell_pane()

    @on(LineList.FollowChanged, "#timeline")
    def _follow_changed(self) -> None:
        self._draw_top()

    @on(LineList.Chosen, "#timeline")
    def _chosen(self) -> None:
        self.action_detail()

    @on(Ruler.Picked)
    def _picked(self, event: Ruler.Picked) -> None:
        if self._reading is None:
            return
        timeline = self._reading.timeline
        if self._by_time and self._scale is not None and self._scale.complete and self._scale.total:
            self.timeline.go(timeline.first_row(self._scale.item(event.fraction)))
        else:
            self.timeline.go(row_of_fraction(timeline, event.fraction))

    @on(Ruler.Resized)
    def _ruler_resized(self) -> None:
        self._draw_ruler()

    def action_step(self, delta: int) -> None:
        """Move by a row."""
        self.timeline.move(delta)

    def action_turn(self, step: int) -> None:
        """Go to the turn before or after."""
        if self._reading is None or self.item is None:
            return
        row = self._reading.timeline.next_turn(self.timeline.cursor, step)
        if row is None:
            self.notify("This is the last turn." if step > 0 else "This is the first turn.")
        else:
            self.timeline.go(row)

    def action_problem(self, step: int) -> None:
        """Go to the problem before or after."""
        if self._reading is None or self.item is None:
            return
        row = self._reading.timeline.next_problem(self.timeline.cursor, step)
        if row is None:
            where = "after" if step > 0 else "before"
            self.notify(f"No error and no damage {where} this row.")
        else:
            self.timeline.go(row)

    def action_follow(self) -> None:
        """Go to the end and along with it, or stop doing so."""
        self.timeline.follow = not self.timeline.follow

    def action_go_to(self) -> None:
        """Ask for a sequence number."""
        self.query_one(PromptBar).open(Safe("go to seq"), purpose="go_to")

    def _go_to(self, text: str) -> None:
        wanted = text.strip()
        digits = wanted.removeprefix("#")
        if self._reading is None or not wanted:
            return
        if not (digits.isascii() and digits.isdecimal()) or len(digits) > 20:
            self.notify("Type a sequence number, or # and a line number.", severity="warning")
            return
        self._at, self._line = (None, int(digits)) if wanted.startswith("#") else (int(digits), None)
        timeline = self._reading.timeline
        row = self._wanted_row(timeline)
        if row is None and self._at is not None:
            row = timeline.row_at(self._at)
        if row is not None:
            self.timeline.go(row)
        else:
            self._say_absent(timeline)

    def _say_absent(self, timeline: Timeline) -> None:
        if self._line is not None:
            self.notify(f"No record stands on line {self._line}.", severity="warning")
            return
        below, above = timeline.neighbours(self._at or 0)
        near = " and ".join(str(seq) for seq in (below, above) if seq is not None)
        reader = self.reader
        unread = " The run is still being read." if reader is not None and not reader.complete else ""
        said = f"Its neighbours are {near}." if near else "No record has a sequence number."
        self.notify(f"No record has seq {self._at}. {said}{unread}", severity="warning")

    # -- the panes

    def action_pane(self, name: PaneName) -> None:
        """Open a pane; where there is no room for it, in the place of the timeline."""
        self.pane.open(name)
        if self.has_class("-low") and not self.has_class("-detail"):
            self.action_detail()

    def action_next_pane(self, step: int) -> None:
        """Open the next pane."""
        self.pane.open(PANES[(PANES.index(self.pane.name_shown) + step) % len(PANES)])

    @on(PaneTabs.Picked)
    def _pane_picked(self, event: PaneTabs.Picked) -> None:
        self.action_pane(event.name)

    def action_detail(self) -> None:
        """Give the keys to the pane, and the room too where it has little."""
        if not self.has_class("-wide"):
            self.add_class("-detail")
        self.pane.pager.focus()
        self.call_after_refresh(self.pane.fill)

    def action_thinking(self) -> None:
        """Show or fold thinking."""
        self.pane.toggle_thinking()

    def action_unfold(self) -> None:
        """Show more of what the open pane shows."""
        self.pane.toggle_unfolded()

    @work(group="ruler", exclusive=True)
    async def action_ruler(self) -> None:
        """Measure the ruler by count or by time."""
        rows = self.timeline.rows
        if not self._by_time and not (isinstance(rows, TimelineRows) and rows.has_times()):
            self.notify("The records of this run carry no times.")
            return
        self._by_time = not self._by_time
        if self._by_time:
            await self._fill_scale()
        self._draw_ruler()

    async def _fill_scale(self) -> None:
        if self._reading is None:
            return
        if self._scale is None or not self._scale.measures(self._reading.timeline):
            self._scale = TimeScale(self._reading.timeline)
        for _ in self._scale.extend():
            await asyncio.sleep(0)

    def action_back(self) -> None:
        """Leave what is open: the pane, the search, the run."""
        if self.has_class("-detail") or self.pane.pager.has_focus:
            self.remove_class("-detail")
            self.timeline.focus()
        elif self._hunt is not None:
            self._stop_search()
        elif len(self.app.screen_stack) > 1:
            self.dismiss()
        elif self._settings is not None:
            from refold.app.screens.runs import RunsScreen

            self.app.switch_screen(RunsScreen(self._settings))
        else:
            self.app.exit()

    def action_copy(self) -> None:
        """Send the bytes of the record to the terminal's clipboard."""
        item = self.item
        if self._reading is None or item is None:
            return
        where = self._reading.timeline.span(item)
        if where.end - where.start > _CLIPBOARD:
            size = units.size(where.end - where.start)
            self.notify(f"{size} is too long for the clipboard of a terminal.", severity="warning")
            return
        data = self._reading.raw(item)
        text = data.decode("utf-8", "replace")
        self.app.copy_to_clipboard(text)
        said = f"Sent {units.size(len(data))} to the terminal's clipboard."
        if text.encode("utf-8") != data:
            self.notify(f"{said} Bytes that are not UTF-8 were replaced.", severity="warning")
        elif not text.isprintable():
            self.notify(f"{said} It contains control characters.", severity="warning")
        else:
            self.notify(said)

    # -- search

    def action_search(self) -> None:
        """Ask what to look for."""
        self.query_one(PromptBar).open(Safe("search"), self._query, purpose="search")

    @on(PromptBar.Submitted)
    def _submitted(self, event: PromptBar.Submitted) -> None:
        if event.bar.purpose == "go_to":
            self._go_to(event.text)
        elif event.text:
            self._begin_search(event.text)
        else:
            self._stop_search()

    def _begin_search(self, query: str) -> None:
        if self._reading is None or self._reading.is_window or self.item is None:
            self.notify("The run is still being read.", severity="warning")
            return
        self._query = query
        self._hunt = Hunt(self._reading.reader, query, self.item)
        self._mark_matches()
        self._search(self._hunt)

    def _stop_search(self) -> None:
        self.workers.cancel_group(self, "search")
        self._hunt = None
        self._query = ""
        self._mark_matches()
        self._draw_top()

    @work(group="search", exclusive=True)
    async def _search(self, hunt: Hunt) -> None:
        first = not hunt.complete
        deadline = time.perf_counter() + run_file.SLICE
        drawn = time.perf_counter()
        for _ in hunt.steps():
            if first and hunt.hits:
                first = False
                self.timeline.go(self._row_of(hunt.hits[0]))
            if time.perf_counter() >= deadline:
                if time.perf_counter() - drawn > _REDRAW:
                    drawn = time.perf_counter()
                    self._draw_top()
                await asyncio.sleep(0)
                deadline = time.perf_counter() + run_file.SLICE
        if first and hunt.hits:
            self.timeline.go(self._row_of(hunt.hits[0]))
        if not hunt.hits and not self._gone:
            self.notify("No record of this run shows this text.", severity="warning")
        self._draw_top()

    def action_match(self, step: int) -> None:
        """Go to the match after or before."""
        if self._hunt is None or self.item is None:
            self.notify("Nothing is searched for: / begins a search.")
            return
        item = self._hunt.after(self.item) if step > 0 else self._hunt.before(self.item)
        if item is not None:
            self.timeline.go(self._row_of(item))

    def _row_of(self, item: int) -> int:
        return self._reading.timeline.first_row(item) if self._reading is not None else 0

    def _mark_matches(self) -> None:
        pattern = text_pattern(self._query) if self._query else None
        rows = self.timeline.rows
        if isinstance(rows, TimelineRows):
            rows.search = pattern
            self.timeline.refresh_rows()
        if self.pane.pattern is not pattern:
            self.pane.pattern = pattern
            self.pane.fill()

    def _search_words(self, item: int | None) -> Line:
        hunt = self._hunt
        if hunt is None:
            return ()
        place = hunt.place(item) if item is not None else None
        count = f"{units.grouped(len(hunt.hits))}{'' if hunt.complete else '…'}"
        where = f"{place} of {count}" if place is not None else f"{count} found"
        return (cell("/", "dim"), cell(hunt.query, "match", 20), Cell(Safe(f" {where}  "), "dim"))
