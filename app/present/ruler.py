"""The whole run on one line: what each stretch of it holds, by count of rows or by recorded time."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from refold.app import safe
from refold.app.lines import Cell, Line, Role, RulerCell
from refold.app.present import units
from refold.app.safe import Safe
from refold.core.buckets import Bucket, buckets
from refold.core.columns import META, TERMINAL, USER
from refold.core.timeline import Timeline

if TYPE_CHECKING:
    from refold.core.subagents import Stretch

IDLE: Final = 2.0
"""Seconds that waiting for a person is drawn for, however long it was."""
BUSY: Final = 60.0
"""The same for waiting for the model or a tool."""

_SLICE: Final = 2000
_RESTING: Final = frozenset({META, USER})
_LOOKED_AT: Final = 64
_LABELS: Final = 6
_MARKED: Final = 0.3
"""The share of the ruler that marks of errors may take, so that they stand out."""

_KINDS: Final[dict[str, tuple[str, Role]]] = {
    "meta": ("█", "user"),
    "user": ("█", "user"),
    "assistant": ("▂", "assistant"),
    "call": ("▄", "call"),
    "result": ("▆", "result"),
    "event": ("▁", "dim"),
    "note": ("▁", "dim"),
    "terminal": ("■", "terminal"),
    "damage": ("⚠", "problem"),
}
_ERROR: Final = RulerCell(Safe("✗"), "problem")
_DAMAGE: Final = RulerCell(Safe("⚠"), "problem")
_FORK: Final = RulerCell(Safe("ψ"), "fork")
_WAITING: Final = RulerCell(Safe("⋯"), "dim")
_NOTHING: Final = RulerCell(Safe("─"), "dim")


def cells_by_count(timeline: Timeline, width: int) -> tuple[RulerCell, ...]:
    """Give one cell a column, every row taking the same room."""
    stretches = buckets(timeline, width)
    if not stretches:
        return (_NOTHING,) * width
    busy = _busy(stretches)
    cells: list[RulerCell] = []
    before = -1
    for column in range(width):
        index = column * len(stretches) // width
        bucket = stretches[index]
        if bucket.damage and index != before:
            cells.append(_DAMAGE)
        elif bucket.error and index != before and (busy is None or index in busy):
            cells.append(_ERROR)
        else:
            glyph, role = _KINDS[bucket.kind]
            cells.append(RulerCell(Safe("▆" if bucket.kind == "damage" else glyph), role))
        before = index
    return tuple(cells)


def _busy(stretches: Sequence[Bucket]) -> frozenset[int] | None:
    """Give the stretches with the most errors where many have some; None where each can have its mark."""
    if sum(bucket.error for bucket in stretches) <= len(stretches) * _MARKED:
        return None
    counts = [bucket.errors for bucket in stretches]
    most = sorted(counts)[int(len(counts) * (1 - _MARKED))]
    return frozenset(index for index, count in enumerate(counts) if count > most)


def with_forks(cells: Sequence[RulerCell], places: Iterable[float]) -> tuple[RulerCell, ...]:
    """Give the columns with marks where forks left; places run from 0 to 1."""
    marked = list(cells)
    for place in places:
        marked[min(int(place * len(marked)), len(marked) - 1)] = _FORK
    return tuple(marked)


def lane_line(stretches: Sequence[Stretch], width: int, place: Callable[[int], float]) -> Line:
    """Give a line below the columns that says where other agents were at work, and which.

    Args:
        stretches: In the order in which they began.
        width: How many columns there are.
        place: Gives where an item stands, from 0 to 1.
    """
    cells: list[Cell] = []
    end = 0
    for stretch in stretches:
        last = min(width - 1, int(place(stretch.last) * width))
        if last < end:
            # Other stretches stand in its columns already.
            continue
        first = max(end, min(last, int(place(stretch.first) * width)))
        cells.append(Cell(Safe(" " * (first - end)), "text"))
        room = last - first + 1
        name = safe.fit(safe.line(stretch.name, 80), min(room - 2, safe.width(safe.line(stretch.name, 80))))
        bar = Safe(f"╶{name}{'─' * (room - 2 - safe.width(name))}{'╴' if stretch.ended else '⋯'}")
        cells.append(Cell(bar if room > 2 else Safe("╶╴"[:room] if room == 2 else "•"), "meta"))
        end = last + 1
    return tuple(cells)


def labels_by_count(timeline: Timeline, width: int) -> Line:
    """Give the sequence numbers along the ruler."""
    places: list[tuple[int, str]] = []
    for part in range(_LABELS if timeline.rows else 0):
        row = timeline.row(row_of_fraction(timeline, part / _LABELS))
        if row.seq is not None:
            places.append((part * width // _LABELS, str(row.seq)))
    return _labels(places)


def first_item_by_count(timeline: Timeline, width: int, column: int) -> int:
    """Give the first item that stands in a column or right of it; `items` where none does."""
    row = max(0, -(-(2 * column * timeline.rows - width) // (2 * width)))
    if row >= timeline.rows:
        return timeline.items
    item = timeline.item_of(row)
    return item if timeline.first_row(item) >= row else item + 1


def fraction_of_row(timeline: Timeline, row: int) -> float:
    """Give where a row stands on the ruler by count, from 0 to 1."""
    return (row + 0.5) / timeline.rows if timeline.rows else 0.0


def row_of_fraction(timeline: Timeline, fraction: float) -> int:
    """Give the row at a place on the ruler by count."""
    return min(max(0, int(fraction * timeline.rows)), max(0, timeline.rows - 1))


class TimeScale:
    """The recorded times of a run as one running sum, long waits shortened; built in slices, and extended."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._sums = array("d")
        self._long = array("B")
        self._last = float("nan")

    def measures(self, timeline: Timeline) -> bool:
        """Whether it is the scale of this timeline."""
        return self._timeline is timeline

    @property
    def complete(self) -> bool:
        """Whether every item of the timeline is in it."""
        return len(self._sums) >= self._timeline.items

    @property
    def total(self) -> float:
        """The length of the scale in seconds, shortened waits counted short."""
        return self._sums[-1] if self._sums else 0.0

    def extend(self) -> Iterator[None]:
        """Take in the items that are not in it yet; each step is one small slice of work."""
        del self._sums[self._timeline.items :], self._long[self._timeline.items :]
        seconds, kinds = self._timeline.columns.seconds, self._timeline.columns.kind
        while not self.complete:
            start = len(self._sums)
            total = self.total
            for item in range(start, min(start + _SLICE, self._timeline.items)):
                value = seconds[item]
                waited = 0.0
                if value == value:
                    waited = max(0.0, value - self._last) if self._last == self._last else 0.0
                    self._last = value
                idle = kinds[item] in _RESTING or (item > 0 and kinds[item - 1] == TERMINAL)
                limit = IDLE if idle else BUSY
                total += min(waited, limit)
                self._sums.append(total)
                self._long.append(waited > limit)
            yield

    def cells(self, width: int) -> tuple[RulerCell, ...]:
        """Give one cell a column; the time before a record is drawn as the wait for it."""
        if not self.total or not width:
            return cells_by_count(self._timeline, width)
        return tuple(self._cell(column, width) for column in range(width))

    def labels(self, width: int) -> Line:
        """Give the recorded times along the scale."""
        if not self.total:
            return ()
        places: list[tuple[int, str]] = []
        for part in range(_LABELS):
            seconds = self._timeline.seconds(self.item(part / _LABELS))
            if seconds is not None:
                places.append((part * width // _LABELS, units.since_start(seconds)))
        return _labels(places)

    def fraction(self, item: int) -> float:
        """Give where an item stands on the scale, from 0 to 1."""
        return self._sums[min(item, len(self._sums) - 1)] / self.total if self.total else 0.0

    def first_item(self, width: int, column: int) -> int:
        """Give the first item that stands in a column or right of it."""
        return bisect_left(self._sums, self.total * column / width)

    def item(self, fraction: float) -> int:
        """Give the item whose wait covers a place on the scale."""
        return min(bisect_left(self._sums, fraction * self.total), max(0, len(self._sums) - 1))

    def _cell(self, column: int, width: int) -> RulerCell:
        timeline = self._timeline
        start, end = self.total * column / width, self.total * (column + 1) / width
        first = bisect_left(self._sums, start) if column else 0
        stop = bisect_right(self._sums, end) if column == width - 1 else bisect_left(self._sums, end)
        if first >= stop:
            covering = min(stop, len(self._sums) - 1)
            if self._long[covering]:
                return _WAITING
            glyph, role = _KINDS[timeline.kind(covering)]
            return RulerCell(Safe(glyph if glyph not in "⚠■" else "▁"), role)
        problems = timeline.problem_items()
        near = problems[bisect_left(problems, first) : bisect_left(problems, stop)][:_LOOKED_AT]
        if any(timeline.kind(item) == "damage" for item in near):
            return _DAMAGE
        if near:
            return _ERROR
        step = max(1, (stop - first) // _LOOKED_AT)
        kinds = [timeline.kind(item) for item in range(first, stop, step)]
        glyph, role = _KINDS[max(set(kinds), key=lambda kind: (kinds.count(kind), kind))]
        return RulerCell(Safe(glyph), role)


def _labels(places: list[tuple[int, str]]) -> Line:
    text = before = ""
    for column, label in places:
        if label != before and len(text) <= column:
            text = f"{text:<{column}}{label} "
        before = label
    return (Cell(Safe(text), "dim"),)
