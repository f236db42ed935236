"""The first screen: every run of every directory, which one it was, and how it stands."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.timer import Timer

from refold.app import keys
from refold.app.feed import Feed, Told
from refold.app.lines import Cell, FixedRows, cells
from refold.app.narrowing import Narrowing
from refold.app.present.marks import Marked
from refold.app.present.run_list import FIRST_DESCENDING, RunList, Sort
from refold.app.present.run_preview import NO_FORKS, NOTHING_KNOWN, Details, preview
from refold.app.present.runs import (
    Loading,
    RunRows,
    chosen,
    nothing_matches,
    nothing_there,
    top_left,
    top_right,
)
from refold.app.present.times import told, zone_of
from refold.app.run_details import read_details
from refold.app.safe import Safe
from refold.app.screens.going_on import Chosen
from refold.app.screens.keeping import KeepingScreen
from refold.app.screens.list_frame import divide, parts
from refold.app.screens.runs_filter import FilteringScreen
from refold.app.screens.trashing import TrashingScreen
from refold.app.watch import watch
from refold.app.widgets.bars import ColumnHeader, TopBar
from refold.app.widgets.line_list import GUTTER, LineList
from refold.app.widgets.line_pager import LinePager
from refold.app.widgets.prompt_bar import PromptBar
from refold.core.summary import RunSummary

if TYPE_CHECKING:
    from refold.app.settings import Settings
    from refold.core.store.notes import Notes

_REDRAW: Final = 0.1
"""Seconds between two drawings while rows stream in."""
_FIRST: Final = 0.02
"""The same, until the first screenful is there."""
_REST: Final = 0.03
"""Seconds that the cursor rests before the preview is drawn."""
_DETAILS_REST: Final = 0.15
"""Seconds that the cursor rests before a run is read for its preview."""
_TICK: Final = 1.0
_WATCHED: Final = frozenset({"runs", "empty"})


class RunsScreen(FilteringScreen, TrashingScreen, KeepingScreen):
    """Lists the runs and keeps the list true to the disk. By itself it reads, and nothing else."""

    CSS_PATH = "../../styles/runs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("runs")]

    def __init__(
        self,
        settings: Settings,
        filter_text: str = "",
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Show the runs.

        Args:
            settings: Where to look, where the cache lies, which columns.
            filter_text: The filter to begin with.
            now: The clock that ages and dates in filters count from.
        """
        super().__init__()
        self._now = now
        self._settings = settings
        self._filter_text = filter_text
        self._feed = Feed(
            settings.roots, cache=settings.cache_dir, notes=settings.notes_dir, log_file=settings.log_file
        )
        self._zone = zone_of(utc=settings.utc)
        self._runs = RunList()
        self._narrowing = Narrowing(self._runs)
        self._columns = chosen(settings.columns)
        self._rows = RunRows(self._runs, self._columns, now, self._zone, settings.prices)
        self._ages: dict[int, str] = {}
        self._loading = Loading()
        self._mode = self._why = ""
        self._drawn = 0.0
        self._drawing: Timer | None = None
        self._can_act = False
        self._previewing: Timer | None = None
        self._details: tuple[tuple[str, int, float], Details] = (("", 0, 0.0), NOTHING_KNOWN)
        self._coming = ""
        """The path of a run that the cursor is to stand on once it is there."""
        self._forks = NO_FORKS
        """The forks that the preview tells of."""

    def compose(self) -> ComposeResult:
        """From top to bottom; arranged for the size from the first, so that nothing is laid out twice."""
        divide(self, self.app.size.height)
        yield from parts("runs")

    def on_mount(self) -> None:
        """Begin to read and to watch."""
        self.listing.focus()
        self._draw_top()
        self._begin()
        self._tell()
        self._watch()
        self.set_interval(_TICK, self._tick)

    def _begin(self) -> None:
        if self._filter_text:
            self._try_filter(self._filter_text, told=True)

    def on_unmount(self) -> None:
        """Let go of the files."""
        self._feed.close()

    @property
    def listing(self) -> LineList:
        """The list of runs."""
        return self.query_one("#runs", LineList)

    @property
    def run(self) -> RunSummary | None:
        """The run under the cursor."""
        return self._rows.run(self.listing.cursor)

    @property
    def _room(self) -> int:
        """Cells of a row, beside the gutter and the scroll bar."""
        return max(1, self.listing.scrollable_content_region.width - GUTTER)

    def on_resize(self, event: events.Resize) -> None:
        """Give the preview what the list can spare."""
        divide(self, event.size.height)
        self.call_after_refresh(self._draw_top)

    @work(group="feed", exclusive=True)
    async def _tell(self) -> None:
        async with aclosing(self._feed.told()) as news:
            async for told in news:
                self._take(told)

    @work(group="watch", exclusive=True)
    async def _watch(self) -> None:
        paths = [root.path for root in self._settings.roots]
        async with aclosing(watch(paths, stop=asyncio.Event())) as happenings:
            async for event in happenings:
                if event.kind == "changed":
                    self._feed.look_at(event.paths)
                    continue
                self._mode, self._why = event.mode, event.reason
                self._draw_top()
                # What changed while nobody watched would stay unseen.
                self._feed.look_at(map(str, paths))
                if event.mode == "polling":
                    self.notify(event.reason, title="Changes are noticed by looking every second")

    def _take(self, told: Told) -> None:
        for path in told.gone:
            self._runs.drop(path)
            self.forget_mark(path)
        for run in told.runs:
            self._runs.put(run)
        self._narrowing.changed(run.path for run in told.runs)
        finished = told.loading.finished and not self._loading.finished
        if told.runs or told.gone or finished or told.loading != self._loading:
            self._loading = told.loading
            self._draw_soon(at_once=finished)

    def _tick(self) -> None:
        if not self.app.screen_stack or self.app.screen is not self:
            return
        self._feed.look_for_holders()
        self._feed.look_at_notes()
        top = self.listing.scroll_offset.y
        for index in range(top, min(top + self.listing.size.height, len(self._rows))):
            age = self._rows.updated(index)
            if self._ages.get(index, age) != age:
                self.listing.refresh_rows(index, index)
                if index == self.listing.cursor:
                    self._draw_preview()
            self._ages[index] = age

    def _draw_soon(self, *, at_once: bool = False) -> None:
        few = not self._loading.finished and len(self._rows) < self.listing.size.height
        wait = self._drawn + (_FIRST if few else _REDRAW) - time.monotonic()
        if wait <= 0 or at_once:
            self._draw()
        elif self._drawing is None:
            self._drawing = self.set_timer(wait, self._draw)

    def _draw(self) -> None:
        if self._drawing is not None:
            self._drawing.stop()
            self._drawing = None
        self._drawn = time.monotonic()
        self._draw_rows()
        self._draw_top()

    def _draw_rows(self) -> None:
        """Bring the list in line with the runs; the row under the cursor stays where it is."""
        run = self.run
        # A list without any height yet shows none of these rows that could be drawn anew.
        shown = self.listing.rows is self._rows and self._rows.fits(self._runs, self._columns)
        if not shown or not self._update_rows():
            self._put_rows(run)
        if self._coming and self._runs.run(self._coming) is not None:
            index = self._runs.index_of(self._coming)
            self._coming = ""
            if index is not None:
                self.listing.cursor = index
        if run is not None and self._runs.forks(run) != self._forks:
            self._draw_preview_soon()
        self.set_class(not len(self._rows) and self._loading.finished, "-nothing")
        if self.has_class("-nothing"):
            if self._runs.total:
                said = nothing_matches(self._runs, self._narrowing.searched)
            else:
                said = nothing_there(self._feed.reports)
            self.query_one("#nothing", LinePager).show(FixedRows(said))

    def _update_rows(self) -> bool:
        """Draw only what is another, where no row in sight and none above has moved."""
        listing, count = self.listing, len(self._rows)
        below = round(listing.scroll_offset.y) + listing.size.height
        changed, moved_from = self._rows.update(self._runs)
        if moved_from is not None and moved_from < max(below, listing.cursor + 1):
            return False
        for index in changed:
            listing.refresh_rows(index, index)
        if moved_from is not None:
            listing.refresh_rows(moved_from, count - 1)
            listing.rows_changed()
        if listing.cursor in changed:
            self._draw_preview_soon()
        return True

    def _put_rows(self, run: RunSummary | None) -> None:
        """Show the rows in their order, with the cursor on a run as high on the screen as it is."""
        cursor = self.listing.cursor
        self._rows = RunRows(self._runs, self._columns, self._now, self._zone, self._settings.prices)
        self._rows.marked = self.marks.paths
        self._ages.clear()
        # Nobody has gone anywhere yet: the newest run stays in view while the list fills.
        untouched = cursor <= 0 and not self._loading.finished
        index = None if run is None or untouched else self._runs.index_of(run.path)
        if index is None:
            index = 0 if untouched else max(0, min(cursor, len(self._rows) - 1))
        self.listing.show(self._rows, index, keep=not untouched)
        self._draw_header()

    @on(LineList.Resized, "#runs")
    def _draw_header(self) -> None:
        if not self.listing.size.width:
            return
        sort = self._runs.sort
        columns = self._rows.columns(self._room)
        self.query_one("#header", ColumnHeader).show(columns, sort.key, sort.descending)

    def _draw_top(self) -> None:
        directories = sum(report.state in _WATCHED for report in self._feed.reports)
        zone = told(self._now(), utc=self._zone is not None)
        left = top_left(self._runs.total, directories, self._loading, self._mode, zone)
        room = self.size.width - cells((*TopBar.BRAND, *left)) - 3
        right = top_right(self._runs, self._narrowing.searched, room)
        if self.is_moving:
            right = (Cell(Safe(self.moving_words), "accent"),)
        self.query_one("#top", TopBar).show(left, right)

    @on(LineList.Moved, "#runs")
    def _draw_preview_soon(self) -> None:
        if self._previewing is None:
            self._previewing = self.set_timer(_REST, self._draw_preview)

    @on(LinePager.Resized, "#preview")
    def _draw_preview(self) -> None:
        if self._previewing is not None:
            self._previewing.stop()
            self._previewing = None
        run, pager = self.run, self.query_one("#preview", LinePager)
        if (run is None) is self._can_act:
            # Most keys act on a run: without one they are drawn dim.
            self._can_act = run is not None
            self.refresh_bindings()
        if run is None:
            pager.show(FixedRows(()))
            return
        known = self._details[1]
        if self._details[0] != _version(run):
            known = NOTHING_KNOWN
            self._read_details(run)
        self._forks = self._runs.forks(run)
        lines = preview(
            run,
            pager.width,
            pager.size.height,
            self._now(),
            zone=self._zone,
            known=known,
            forks=self._forks,
        )
        pager.show(FixedRows(lines))

    @work(group="details", exclusive=True)
    async def _read_details(self, run: RunSummary) -> None:
        await asyncio.sleep(_DETAILS_REST)
        known = await read_details(run, self._settings)
        self._details = (_version(run), known)
        if known != NOTHING_KNOWN and self.run == run:
            self._draw_preview()

    def show_times(self, *, utc: bool) -> None:
        """Write all times in UTC, or in local time."""
        self._settings = msgspec.structs.replace(self._settings, utc=utc)
        self._zone = zone_of(utc=utc)
        self._put_rows(self.run)
        self._draw_top()
        self._draw_preview()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey out what would do nothing."""
        if action == "clear_filter":
            return bool(self._runs.filter) or self._narrowing.searching or self.is_moving
        return super().check_action(action, parameters)

    def key_words(self) -> Mapping[str, str]:
        """Name what Esc does now."""
        return {"runs.clear_filter": "stop"} if self._narrowing.searching or self.is_moving else {}

    def chosen(self) -> Chosen | None:
        """The run under the cursor."""
        run = self.run
        return None if run is None else Chosen(Path(run.path), run.format or "refold", self._settings)

    def action_open(self) -> None:
        """Open the run under the cursor."""
        run = self.run
        if run is None or self.app.screen is not self:
            return
        from refold.app.screens.run import RunScreen

        self.app.push_screen(RunScreen(Path(run.path), settings=self._settings, hint=run.format or "refold"))

    @on(LineList.Chosen, "#runs")
    def _chosen(self) -> None:
        self.action_open()

    @on(PromptBar.Stepped, "#prompt")
    def _stepped(self, event: PromptBar.Stepped) -> None:
        step = max(1, self.listing.size.height - 1) if event.pages else 1
        self.listing.move(event.delta * step)

    def action_sort(self) -> None:
        """Sort by the column after the one that the rows are sorted by."""
        shown = [column.key for column in self._rows.columns(self._room)]
        place = shown.index(self._runs.sort.key) + 1 if self._runs.sort.key in shown else 0
        self._sort_by(shown[place % len(shown)])

    def action_reverse(self) -> None:
        """Turn the order round."""
        self._sort(self._runs.sort._replace(descending=not self._runs.sort.descending))

    @on(ColumnHeader.SortPicked)
    def _sort_picked(self, event: ColumnHeader.SortPicked) -> None:
        if event.key == self._runs.sort.key:
            self.action_reverse()
        else:
            self._sort_by(event.key)

    def _sort_by(self, key: str) -> None:
        self._sort(Sort(key, descending=key in FIRST_DESCENDING))

    def _sort(self, sort: Sort) -> None:
        at_top = self.listing.cursor <= 0
        self._runs.sort_by(sort)
        self._put_rows(self.run)
        if at_top:
            self.listing.cursor = 0

    def here(self) -> Marked | None:
        """The run under the cursor, as it would be marked."""
        run = self.run
        return None if run is None else Marked(run.path, run.format or "refold")

    def draw_marks(self) -> None:
        """Draw the marks anew."""
        self._rows.marked = self.marks.paths
        self.listing.refresh_rows()

    def action_columns(self) -> None:
        """Choose the columns."""
        from refold.app.screens.columns import ColumnsScreen

        if self.app.screen is self:
            self.app.push_screen(ColumnsScreen(self._columns, self._choose_columns))

    def _choose_columns(self, columns: tuple[str, ...]) -> list[str]:
        if columns != self._columns:
            self._columns = columns
            self._put_rows(self.run)
        return [column.key for column in self._rows.columns(self._room)]

    def action_search_all(self) -> None:
        """Search the records of all runs."""
        from refold.app.screens.search import SearchScreen

        if self.app.screen is self:
            self.app.push_screen(SearchScreen(self._settings, now=self._now))

    def action_directories(self) -> None:
        """Show which directories are watched, and how big they are."""
        from refold.app.screens.directories import DirectoriesScreen

        if self.app.screen is self:
            self.app.push_screen(DirectoriesScreen(self._feed.reports, self._mode, self._why))

    def action_history(self) -> None:
        """Show the conversations."""
        from refold.app.screens.history import HistoryScreen

        if self.app.screen is self:
            self.app.push_screen(HistoryScreen(self._settings, now=self._now))

    def action_refresh(self) -> None:
        """Read the directories again."""
        self._feed.look_at_all()

    def action_clear_filter(self) -> None:
        """Stop a move or the search of bytes where one goes on, else show all runs."""
        if self.is_moving:
            self.stop_moving()
        elif self._narrowing.searching:
            self.workers.cancel_group(self, "filter")
            self.call_after_refresh(self._draw_top)
        else:
            self._try_filter("")

    def kept_changed(self, path: Path, notes: Notes) -> None:
        """Look at the notes again: they are another."""
        del path, notes
        self._feed.look_at_notes()

    def draw_moving(self) -> None:
        """Show it in the first row, in the place of the filter."""
        self._draw_top()
        self.refresh_bindings()

    def look_at(self, paths: Sequence[str]) -> None:
        """Look again at runs that were moved."""
        self._feed.look_at(paths)

    def show_run(self, path: Path) -> None:
        """Look at a run that has just come, and put the cursor on it once it is a row."""
        # The trash names the directory itself, a row may name a link to it.
        roots = (root.path for root in self._settings.roots)
        listed = next((root for root in roots if os.path.realpath(root) == str(path.parent)), path.parent)
        self._coming = str(listed / path.name)
        self._feed.look_at([str(path)])


def _version(run: RunSummary) -> tuple[str, int, float]:
    """What changes when the file of a run does."""
    return run.path, run.size, run.updated
