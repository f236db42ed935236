"""One run: its ruler, its timeline, and panes that follow the cursor."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Size

from refold.app import keys
from refold.app.lines import Line, Role
from refold.app.loading import aside, others_first
from refold.app.present import landing
from refold.app.present.landing import Landing
from refold.app.present.reading import Reading, reading_of
from refold.app.present.rows import TimelineRows
from refold.app.present.run_room import room_of
from refold.app.present.run_top import Judged, RunTop, fork_point, top_left, top_right
from refold.app.screens import run_file
from refold.app.screens.going_on import Chosen
from refold.app.screens.run_banner import Banner
from refold.app.screens.run_find import RunFind
from refold.app.screens.run_pane import PANES, PaneName, PaneTabs, Place, RunPane, notice
from refold.app.screens.run_play import RunPlayScreen
from refold.app.screens.run_ruler import RunRuler
from refold.app.screens.run_search import RunSearchScreen
from refold.app.screens.run_sharing import RunSharingScreen
from refold.app.widgets.bars import TopBar
from refold.app.widgets.ground import Ground
from refold.app.widgets.key_bar import KeyBar
from refold.app.widgets.line_list import LineList
from refold.app.widgets.prompt_bar import PromptBar
from refold.app.widgets.ruler import Ruler
from refold.core.errors import StoreError
from refold.core.status import StatusName
from refold.core.store.growing import Change
from refold.core.store.lock import locked_inodes
from refold.core.store.reader import RunReader

if TYPE_CHECKING:
    from refold.app.settings import Settings
    from refold.core.store.seen import Rewritten

_REDRAW: Final = 0.1
"""Seconds between two drawings while rows stream in."""
_RULER_REDRAW: Final = 0.3
_BEHIND: Final = 0.4
"""Seconds by which the top row may lag behind a cursor that keeps moving."""
_HOLDER_EVERY: Final = 1.0
_PAINTED: Final = 0.5
"""Seconds after which nobody waits for the first rows to be painted: another screen may lie over this one."""


class RunScreen(RunPlayScreen, RunSharingScreen, RunSearchScreen):
    """Shows one run. By itself it reads, and nothing else: no lock, no write."""

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
        reader: RunReader | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Show a run.

        Args:
            path: The journal.
            at: The sequence to land on.
            line: The line to land on, where no sequence is given.
            settings: Where the cache lies; what the list of runs needs.
            hint: The format to assume where the bytes do not tell.
            reader: The run, where it is open already; it is closed with the screen.
            clock: For how often things are drawn; never shown.
        """
        super().__init__()
        self.path = path
        self.timeline = LineList(can_follow=True, id="timeline")
        prices = settings.prices if settings is not None else None
        self.pane = RunPane(self._place, prices, id="pane", above=self._notes_above)
        self.ruler = RunRuler(id="ruler")
        self.find = RunFind()
        self._top = TopBar(id="top")
        self._banner = Banner(lambda: self.ruler, id="banner")
        self._settings = settings
        self._hint = hint
        self._at_hand = reader
        self._clock = clock
        self._reading: Reading | None = None
        self._landing = Landing(at, line)
        self._landed = False
        self._reopened = self._looked_back = False
        self._held = self._refused = False
        self._judged: Judged | None = None
        self._drawn = self._ruler_drawn = self._top_drawn = float("-inf")

    def compose(self) -> ComposeResult:
        """From top to bottom; arranged for the size from the first, so that nothing is laid out twice."""
        self._divide(self.app.size, update=False)
        self.update_node_styles(animate=False)
        with Ground(id="head"):
            yield self._top
            yield self.ruler
        yield self.timeline
        yield self.pane
        with Ground(id="foot"):
            yield PromptBar(id="prompt")
            yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """Begin to read."""
        self.timeline.focus()
        self._draw_top()
        self._read_file()
        self.set_interval(_HOLDER_EVERY, self._look_for_holder)

    @property
    def reader(self) -> RunReader | None:
        """The open run; None before it is open and where it cannot be."""
        return self._reading.reader if self._reading is not None else None

    def chosen(self) -> Chosen | None:
        """The run, and the record under the cursor."""
        if self._settings is None:
            return None
        item, at = self.item, None
        if self._reading is not None and item is not None:
            timeline = self._reading.timeline
            at = Landing(timeline.seq(item), timeline.span(item).line or None)
        return Chosen(self.path, self._hint, self._settings, at)

    def on_resize(self, event: events.Resize) -> None:
        """Put the pane where there is room for it."""
        self._divide(event.size)
        if self.has_class("-wide") and self.has_class("-detail"):
            self.remove_class("-detail")
            self.timeline.focus()

    def _divide(self, size: Size, *, update: bool = True) -> None:
        room = room_of(size.width, size.height)
        self.set_class(room.wide, "-wide", update=update)
        self.set_class(room.low, "-low", update=update)
        self.set_class(room.tall, "-tall", update=update)

    @work(group="file", exclusive=True)
    async def _read_file(self) -> None:
        try:
            async for event in run_file.follow(self._open, self._cache):
                match event:
                    case run_file.Opened(reader=reader, why=why):
                        self._opened(reader, why)
                    case run_file.Read(finished=finished):
                        await self._read(finished=finished)
                    case run_file.Gone(reason=reason):
                        self._banner.say(f"{reason}: what was read stays on the screen")
                    case run_file.Back():
                        self._banner.say("")
        except StoreError as error:
            if self.item is not None:
                self._banner.say(f"{error}: what was read stays on the screen")
                return
            self._notice((str(error), "problem"), (error.remedy, "dim"))
            self._refused = True
            self._draw_top()

    @property
    def _cache(self) -> Path | None:
        return self._settings.cache_dir if self._settings is not None else None

    def _open(self) -> RunReader:
        ready, self._at_hand = self._at_hand, None
        return ready or RunReader.open(self.path, hint=self._hint, cache=self._cache)

    def _opened(self, reader: RunReader, why: Change | None) -> None:
        if why is not None:
            item = self.item
            seq = self._reading.timeline.seq(item) if self._reading is not None and item is not None else None
            self._landing, self._landed, self._reopened = Landing(seq), False, True
            said = "the file was cut short" if why is Change.SHRANK else "the file was replaced"
            self._banner.say(f"{said}: it was read again from the start")
        self._reading = self.seen_through(reading_of(reader))
        self._reading.kept = self.kept
        self.forget_playing()
        self.action_stop_search()
        self._drawn = float("-inf")
        # Of a file that was changed while it was open more is known, and said above.
        self._looked_back = why is not None

    async def _read(self, *, finished: bool) -> None:
        reading, now = self._reading, self._clock()
        if reading is None or (not finished and now - self._drawn < _REDRAW):
            return
        if not finished and self._drawn < 0 and not self._landing.is_asked:
            reading = self._reading = Reading.of_end(reading.reader) or reading
        if finished and reading.is_window:
            reading = self._leave_window(reading)
        first, self._drawn = self._drawn < 0, now
        self._show_rows(reading, finished=finished)
        self._draw_top()
        self.pane.follow()
        if first and not finished:
            await self._painted()
        if finished:
            self.ruler.stretches = reading.lanes()
            self.set_class(bool(self.ruler.stretches), "-lanes")
            self._look_for_holder()
            self._look_back(reading.reader)
            self._look_where_it_stands()
            self.check_records()
            self._judge()
            self.lens_follows()
            self._search_what_was_wanted()
            if self.find.outstanding:
                self._search()
            await self.ruler.measure()
        await others_first()
        if not reading.is_window and (finished or now - self._ruler_drawn >= _RULER_REDRAW):
            self._ruler_drawn = now
            self.ruler.draw(reading.timeline, self.timeline.cursor)

    async def _painted(self) -> None:
        """Wait until what was shown is on the screen: reading on would keep it back, slice by slice."""
        painted = asyncio.Event()
        self.call_after_refresh(painted.set)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(painted.wait(), _PAINTED)

    def _show_rows(self, reading: Reading, *, finished: bool) -> None:
        rows = self.timeline.rows
        if not reading.timeline.rows:
            if finished:
                said = reading.nothing
                self._notice((said, "problem"))
            return
        if not isinstance(rows, TimelineRows) or rows.timeline is not reading.timeline:
            self.timeline.show(self._rows(reading))
        elif not reading.is_window:
            self.timeline.rows_changed()
            if finished:
                # A torn line may have become a record, an open call may have its result.
                self.timeline.refresh_rows()
        if not self._landed:
            self._land(reading, finished=finished)

    def show_anew(self) -> None:
        """Make all rows and lines again, the cursor where it is."""
        if self._reading is not None and self._reading.timeline.rows:
            self.timeline.show(self._rows(self._reading), self.timeline.cursor, keep=True)
        self.pane.fill()

    def _notice(self, *lines: tuple[str, Role]) -> None:
        # Before the first layout the list has no width of its own.
        room = self.app.size.width // (2 if self.has_class("-wide") else 1)
        self.timeline.show(notice(lines, self.timeline.size.width or room))

    def _rows(self, reading: Reading) -> TimelineRows:
        rows = reading.rows()
        rows.search = self.find.pattern_at
        rows.added_after, rows.forked_at, rows.noted = self.added_after, self.forked_at, self.noted
        return rows

    def _leave_window(self, window: Reading) -> Reading:
        """Go over from the rows of the end to those of the whole run, the cursor on the same bytes."""
        reading = self._reading = self.seen_through(reading_of(window.reader))
        reading.kept = self.kept
        row = self.timeline.cursor
        if row >= 0 and reading.timeline.items:
            there = window.timeline.row(row)
            start = window.timeline.span(there.item).start
            item = max(0, bisect_right(reading.timeline.columns.offset, start) - 1)
            calls = max(0, there.call + 1)
            self.timeline.show(self._rows(reading), reading.timeline.first_row(item) + calls, keep=True)
        return reading

    def _land(self, reading: Reading, *, finished: bool) -> None:
        """Put the cursor where it was asked for; else a run that has not ended is shown from its end."""
        timeline = reading.timeline
        row = landing.row_of(self._landing, timeline, complete=finished)
        self._landed = row is not None or finished or reading.is_window
        if row is not None and finished:
            self.timeline.go(row)
        elif row is not None:
            # The last row that was read so far is no end to go along with.
            self.timeline.cursor = row
        elif finished and self._landing.is_asked and not self._reopened:
            self.notify(landing.absence(self._landing, timeline, complete=True), severity="warning")
        elif self._landed and (
            self._reopened or reading.is_window or (self.timeline.cursor <= 0 and landing.is_at_end(timeline))
        ):
            self.timeline.go(timeline.rows - 1)

    @work(group="holder", exclusive=True)
    async def _look_for_holder(self) -> None:
        inodes = await asyncio.to_thread(locked_inodes)
        held = False
        reader = self.reader
        for path in reader.locks if inodes and reader is not None else ():
            try:
                held = held or os.stat(path).st_ino in (inodes or ())  # noqa: PTH116 - what the writer locked
            except OSError:
                continue
        if held != self._held:
            self._held = held
            self._judged = None
            self._judge()
            self._draw_top()
            self.pane.follow()

    def _look_back(self, reader: RunReader) -> None:
        """Once for each time the file is opened: an append later on changes nothing that was there."""
        if self._settings is not None and not self._looked_back:
            from refold.app.seen_before import looking_back

            self._looked_back = True
            self._say_what_was_rewritten(looking_back(reader, self._settings))

    @work(group="seen")
    async def _say_what_was_rewritten(self, look: Callable[[], Rewritten | None]) -> None:
        with contextlib.suppress(StoreError):
            found = await aside(look)
            if found is not None:
                self._banner.say(f"history was rewritten: {found.reason}")

    @work(group="judge", exclusive=True)
    async def _judge(self) -> None:
        """Ask whether the run can go on, where that takes reading more than its records."""
        reading = self._reading
        settings = self._settings
        if reading is None or settings is None or reading.reader.session is None:
            return
        from refold.app.session_resuming import standing_plan

        judged = await aside(lambda: reading.judge(lambda path: standing_plan(path, settings)))
        if judged != self._judged:
            self._judged = judged
            self._draw_top()

    def _draw_top(self) -> None:
        self._top_drawn = self._clock()
        reading = self._reading
        if reading is None:
            status: StatusName | None = "unreadable" if self._refused else None
            self._top.show(top_left(RunTop(self.path.stem, status=status)))
            return
        item = self.item
        top = reading.top(held=self._held)._replace(forks=len(self.forks), kept=self.kept)
        left = top_left(top if self._held else top._replace(judged=self._judged))
        reader, timeline = reading.reader, reading.timeline
        right = top_right(
            seq=timeline.seq(item) if item is not None else None,
            line=timeline.span(item).line if item is not None else 0,
            last=timeline.last_seq,
            following=self.timeline.follow and reader.complete,
            progress=reader.progress,
            search=self.find.words(item),
            point=() if reading.is_window else fork_point(timeline, item, self.forked_at),
        )
        self._top.show(left, (*self.play_words(right), *right))

    def _notes_above(self, place: Place, width: int) -> Iterator[Line]:
        seq = place.reading.timeline.row(place.row).seq if place.row >= 0 else None
        return self.note_lines(seq, width)

    def notes_shown(self) -> None:
        """Draw what is kept: in the first row, on the records, in the pane."""
        rows = self.timeline.rows
        if self._reading is not None:
            self._reading.kept = self.kept
        if isinstance(rows, TimelineRows):
            rows.noted = self.noted
            self.timeline.refresh_rows()
        self._draw_top()
        if self.pane.open_pane in ("record", "state"):
            self.pane.fill()

    def _forks_found(self) -> None:
        self.ruler.forked_at = tuple(self.forked_at)
        self.ruler.redraw()
        self._draw_top()

    def _place(self) -> Place | None:
        reading = self._reading
        if reading is None or (self.item is None and not (reading.reader.complete and reading.beside)):
            return None
        return Place(reading, self.timeline.cursor if self.item is not None else -1, self._held)

    @on(LineList.Moved, "#timeline")
    def _moved(self) -> None:
        self.ruler.go(self.timeline.cursor)
        self.pane.follow()
        if self._clock() - self._top_drawn >= _BEHIND:
            self._draw_top()

    @on(RunPane.Settled)
    @on(LineList.FollowChanged, "#timeline")
    def _settled(self) -> None:
        self._draw_top()

    @on(LineList.Chosen, "#timeline")
    def _chosen(self) -> None:
        named = self._reading is not None and self.item is not None
        inner = self._reading.inner(self.timeline.cursor) if self._reading is not None and named else ()
        if inner:
            if len(inner) > 1:
                self.notify(f"The first of {len(inner)}: the list of runs has the others too.")
            self.app.push_screen(RunScreen(inner[0], settings=self._settings))
        else:
            self.action_detail()

    @on(Ruler.Picked)
    def _picked(self, event: Ruler.Picked) -> None:
        row = self.ruler.row_at(event.fraction)
        if row is not None:
            self.timeline.go(row)

    @on(Ruler.Resized)
    def _ruler_resized(self) -> None:
        self.ruler.redraw()

    def action_pane(self, name: PaneName) -> None:
        """Open a pane; where there is no room for it, in the place of the timeline."""
        self.pane.open(name)
        if self.has_class("-low") and not self.has_class("-detail"):
            self.action_detail()

    def action_next_pane(self, step: int) -> None:
        """Open the next pane."""
        self.action_pane(PANES[(PANES.index(self.pane.open_pane) + step) % len(PANES)])

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
        if not self.ruler.by_time and not (isinstance(rows, TimelineRows) and rows.has_times()):
            self.notify("The records of this run carry no times.")
            return
        self.ruler.by_time = not self.ruler.by_time
        await self.ruler.measure()
        self.ruler.redraw()

    def action_back(self) -> None:
        """End what goes on, or leave what is open: the pane, the search, the run."""
        if self.stop_playing():
            return
        if self.has_class("-detail") or self.pane.pager.has_focus:
            self.remove_class("-detail")
            self.timeline.focus()
        elif self.find.query:
            self.action_stop_search()
        elif len(self.app.screen_stack) > 1:
            self.dismiss()
        elif self._settings is not None:
            from refold.app.screens.runs import RunsScreen

            self.app.switch_screen(RunsScreen(self._settings))
        else:
            self.app.exit()

    @on(PromptBar.Submitted)
    def _submitted(self, event: PromptBar.Submitted) -> None:
        if event.bar.purpose == "go_to":
            self._go_to(event.text)
        elif event.bar.purpose == "search":
            self._search_for(event.text)
