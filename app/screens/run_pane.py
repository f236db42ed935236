"""The five panes beside the timeline: which one is shown, and its lines, made in slices behind the cursor."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self, get_args

from textual import events, on, work
from textual.containers import Vertical
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from refold.app.lines import Cell, FixedRows, Line, Role, Rows
from refold.app.loading import aside, others_first
from refold.app.present.layout import cell, flow, marked
from refold.app.present.reading import Reading
from refold.app.present.view import SCOPES, WINDOW, View
from refold.app.safe import Safe
from refold.app.widgets.bars import LineBar
from refold.app.widgets.line_pager import LinePager
from refold.core.errors import RefoldError

if TYPE_CHECKING:
    from refold.app.present.money import Prices

PaneName = Literal["record", "state", "conversation", "changes", "raw"]

PANES: Final[tuple[PaneName, ...]] = get_args(PaneName)

_SLICE: Final = 0.002
_SETTLED: Final = 0.06
"""Seconds after the last move of the cursor before the pane follows."""
_LATE: Final = 0.15
"""Seconds after which the lines that are made are shown, whatever is still being looked for."""
_KEEPING_UP: Final = 0.1
"""Seconds by which the pane may lag behind a run that is played."""
_WINDOW_GROWTH: Final = 4


class Place(NamedTuple):
    """Where the cursor stands."""

    reading: Reading
    row: int
    """-1 where there are no rows, and files beside them that say something."""
    held: bool = False
    """A process is seen holding the lock of the run."""


class PaneTabs(LineBar):
    """The names of the panes; a click opens one."""

    class Picked(Message):
        """A pane was asked for."""

        def __init__(self, name: PaneName) -> None:
            super().__init__()
            self.name = name

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._active: PaneName = "record"

    def show(self, active: PaneName) -> None:
        """Mark the pane that is shown."""
        self._active = active
        self.refresh()

    def line(self, width: int) -> Line:
        """The names with their keys, as much of them as fits."""
        cells: list[Cell] = []
        for number, (name, (lead, title)) in enumerate(zip(PANES, self._titles(width), strict=True), 1):
            if name == self._active:
                cells.append(Cell(Safe(f"{lead}{number} {title} "), "brand"))
            else:
                cells += [Cell(Safe(f"{lead}{number} "), "key"), Cell(Safe(f"{title} "), "dim")]
        return tuple(cells)

    def on_click(self, event: events.Click) -> None:
        """Open the pane under the mouse."""
        start = 0
        for name, (lead, title) in zip(PANES, self._titles(self.size.width), strict=True):
            start += len(lead) + len(title) + 3
            if event.x < start:
                self.post_message(self.Picked(name))
                return

    def _titles(self, width: int) -> list[tuple[str, str]]:
        """Give each name and the blank before it: whole in sight, else the longest cut first."""
        room = width - sum(len(pane) + 3 for pane in PANES)
        lead = " " if room >= len(PANES) else ""
        most = max(map(len, PANES))
        while most > 1 and sum(self._length(name, most) + 3 for name in PANES) > width:
            most -= 1
        return [(lead, name.capitalize()[: self._length(name, most)]) for name in PANES]

    def _length(self, name: PaneName, most: int) -> int:
        return len(name) if name == self._active else min(len(name), most)


class RunPane(Vertical):
    """Shows one pane for one place; the place may change ten times before it is read once."""

    class Settled(Message):
        """The cursor rests: what lags behind it can catch up."""

    def __init__(
        self,
        where: Callable[[], Place | None],
        prices: Prices | None = None,
        *,
        id: str | None = None,  # noqa: A002
        above: Callable[[Place, int], Iterator[Line]] = lambda place, width: iter(()),
    ) -> None:
        """Show panes.

        Args:
            where: Tells where the cursor stands.
            prices: What tokens cost, by model.
            id: The CSS id.
            above: Gives what stands above a record in a pane of a width.
        """
        self._border: tuple[tuple[Region, Size], list[Strip]] | None = None
        super().__init__(id=id)
        self._where = where
        self._prices = prices
        self._above = above
        self._tabs = PaneTabs(id="pane-tabs")
        self._pager = LinePager(id="pane-lines")
        self.view = View()
        self.search: Callable[[int], re.Pattern[str] | None] | None = None
        """Gives what is marked where an item is shown."""
        self._marked: re.Pattern[str] | None = None
        self._open: PaneName = "record"
        self._at: Place | None = None
        self._request = 0
        self._due = 0.0
        self._latest = 0.0
        self.keeps_up = False
        """Whether the pane follows also a cursor that never rests."""
        self._asked = asyncio.Event()
        self._as_hex = False
        self._window = WINDOW
        self._shown: tuple[PaneName, int] | None = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """The border, as it was drawn before where nothing changed: each step of the cursor asks for it."""
        if self._border is None or self._border[0] != (crop, self.size):
            self._border = ((crop, self.size), super().render_lines(crop))
        return self._border[1]

    def refresh(
        self,
        *regions: Region,
        repaint: bool = True,
        layout: bool = False,
        recompose: bool = False,
    ) -> Self:
        """Draw anew."""
        self._border = None
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def notify_style_update(self) -> None:
        """Draw in the new theme."""
        super().notify_style_update()
        self._border = None

    @property
    def open_pane(self) -> PaneName:
        """The pane that is open."""
        return self._open

    @property
    def pager(self) -> LinePager:
        """The lines."""
        self._furnish()
        return self._pager

    def _furnish(self) -> None:
        """Put the names and the lines into the pane; the timeline is painted first.

        By then its screen may have been left, or the whole program.
        """
        if self._pager.parent is None and self.is_attached:
            self.mount(self._tabs, self._pager)

    def open(self, name: PaneName) -> None:
        """Show another pane."""
        self._open = name
        self._tabs.show(name)
        self.fill()

    def follow(self) -> None:
        """Follow the cursor once it has settled."""
        self._ask(_SETTLED)

    def fill(self) -> None:
        """Make the lines anew, now."""
        self._ask(0)

    def toggle_thinking(self) -> None:
        """Show or fold what the model thought."""
        self.view = self.view._replace(thinking=not self.view.thinking)
        self.fill()

    def toggle_unfolded(self) -> None:
        """Show long text whole, or earlier messages, or bytes as numbers: what the open pane can unfold."""
        if self._open == "raw":
            self._as_hex = not self._as_hex
        elif self._open == "conversation":
            self._window *= _WINDOW_GROWTH
        elif self._open == "changes":
            following = (SCOPES.index(self.view.scope) + 1) % len(SCOPES)
            self.view = self.view._replace(scope=SCOPES[following])
        else:
            self.view = self.view._replace(unfolded=not self.view.unfolded)
        self.fill()

    @on(LinePager.Resized)
    def _resized(self) -> None:
        self.fill()

    def on_mount(self) -> None:
        """Begin to serve."""
        self.call_after_refresh(self._furnish)
        self._serve()

    def _ask(self, delay: float) -> None:
        self._request += 1
        now = time.monotonic()
        if not self._asked.is_set():
            self._latest = now + _KEEPING_UP
        self._due = min(now + delay, self._latest) if self.keeps_up else now + delay
        self._asked.set()

    @work(group="pane", exclusive=True)
    async def _serve(self) -> None:
        """Make lines for the place of the cursor, again and again, whenever it has settled."""
        while True:
            await self._asked.wait()
            # Each step of the cursor puts the time off.
            while (wait := self._due - time.monotonic()) > 0:  # noqa: ASYNC110
                await asyncio.sleep(wait)
            self._asked.clear()
            self.post_message(self.Settled())
            place = self._where()
            if place is not None:
                self._arrive(place)
                await self._fill(self._request, place)

    def _arrive(self, place: Place) -> None:
        if self._at is None or place.row != self._at.row or place.reading is not self._at.reading:
            self._as_hex = False
            self._window = WINDOW
        self._at = place

    async def _fill(self, request: int, place: Place) -> None:
        width = self.pager.width
        if width < 4 or not self.display:
            return
        try:
            if self._open == "raw":
                self._show(self._raw(place, width), 0, place)
                return
            await self._fill_lines(request, place, width)
        except RefoldError as error:
            message: list[Line] = [
                (cell(str(error), "problem", 1000),),
                (cell(error.remedy, "dim", 1000),),
            ]
            self._show(FixedRows(message), 0, place)

    async def _fill_lines(self, request: int, place: Place, width: int) -> None:
        lines: list[Line] = []
        pattern = self._marked = self._pattern(place)
        shown = False
        began = time.perf_counter()
        deadline = began + _SLICE
        for line in self._lines(place, width):
            if line is not None:
                lines.append(marked(line, pattern))
            if time.perf_counter() < deadline:
                continue
            late = time.perf_counter() > began + _LATE
            if self._open != "conversation" and (len(lines) > self.pager.size.height or (late and lines)):
                if shown:
                    self.pager.rows_changed()
                else:
                    self._show(FixedRows(lines), self._top(place), place)
                    shown = True
            await others_first()
            if request != self._request:
                return
            deadline = time.perf_counter() + _SLICE
        if shown:
            self.pager.rows_changed()
        else:
            self._show(
                FixedRows(lines), len(lines) if self._open == "conversation" else self._top(place), place
            )
        if self._open == "changes" and await self._coloured():
            self._ask(0)
        if pattern is not None and self._open == "record":
            found = next(
                (i for i, line in enumerate(lines) if any(part.role == "match" for part in line)), None
            )
            if found is not None:
                self.pager.reveal(found)

    @property
    def is_marked_anew(self) -> bool:
        """Whether other texts are to be marked than were when the pane was filled."""
        return self._at is not None and self._pattern(self._at) != self._marked

    def _pattern(self, place: Place) -> re.Pattern[str] | None:
        if self.search is None or place.row < 0:
            return None
        return self.search(place.reading.timeline.row(place.row).item)

    @staticmethod
    async def _coloured() -> bool:
        """Import what gives source text its colours, where that was missing; say whether it was."""
        from refold.app.present import code

        if not code.wanted:
            return False
        await aside(code.load)
        return True

    def _lines(self, place: Place, width: int) -> Iterator[Line | None]:
        item = place.reading.timeline.row(place.row).item if place.row >= 0 else -1
        if self._open == "record":
            yield from self._above(place, width)
            yield from place.reading.record(place.row, width, self.view)
            yield from place.reading.nested(place.row, width, self.view)
        elif self._open == "state":
            yield from place.reading.state(item, width, held=place.held, prices=self._prices or {})
        elif self._open == "changes":
            yield from place.reading.changes(place.row, width, self.view, held=place.held)
        else:
            yield from place.reading.conversation(item, width, self.view, self._window)

    def _raw(self, place: Place, width: int) -> Rows:
        reading = place.reading
        if place.row < 0:
            return FixedRows(())
        row = reading.timeline.row(place.row)
        where = reading.timeline.span(row.item)

        def read(start: int, size: int) -> bytes:
            return reading.bytes_shown(row.item, start, size)

        as_hex = self._as_hex != (row.kind == "damage")
        from refold.app.present.raw import RawRows

        rows = RawRows(read, where.end - where.start, where.start, width, as_hex=as_hex)
        pattern = self._marked = self._pattern(place)
        return rows if pattern is None else _Marked(rows, pattern)

    def _show(self, rows: Rows, top: int, place: Place) -> None:
        self._shown = (self._open, place.row)
        self.pager.show(rows, top=top)

    def _top(self, place: Place) -> int:
        """The line to begin with: the same record, or the same table of another record, keeps its place."""
        if self._shown is None or self._shown[0] != self._open:
            return 0
        keeps = self._open == "state" or self._shown[1] == place.row
        return self.pager.top if keeps else 0


class _Marked:
    """Rows in which a search stands out."""

    def __init__(self, rows: Rows, pattern: re.Pattern[str]) -> None:
        self._rows = rows
        self._pattern = pattern

    def __len__(self) -> int:
        return len(self._rows)

    def line(self, index: int, width: int) -> Line:
        return marked(self._rows.line(index, width), self._pattern)


def notice(lines: Iterable[tuple[str, Role]], width: int) -> FixedRows:
    """Give rows that stand in for a run that has none."""
    wrapped: list[Line] = [(Cell(Safe(""), "text"),)]
    for text, role in lines:
        wrapped += flow((cell(f"  {text}", role, 1000),), max(20, width - 2), 2)
    return FixedRows(wrapped)
