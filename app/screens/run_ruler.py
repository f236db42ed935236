"""The ruler of an open run: its columns by count or by time, and the way between columns and rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from refold.app.loading import others_first
from refold.app.present.points import legal_columns, with_points
from refold.app.present.ruler import (
    TimeScale,
    cells_by_count,
    first_item_by_count,
    fraction_of_row,
    labels_by_count,
    lane_line,
    row_of_fraction,
    with_forks,
)
from refold.app.widgets.ruler import Ruler
from refold.core.timeline import Timeline

if TYPE_CHECKING:
    from refold.core.subagents import Stretch


class RunRuler(Ruler):
    """Shows a timeline; by time only once all its times are known."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.by_time = False
        """Whether the reader asked for times."""
        self.forked_at: tuple[int, ...] = ()
        """The sequences after which forks left."""
        self.stretches: Sequence[Stretch] = ()
        """While which items other agents were at work."""
        self._timeline: Timeline | None = None
        self._scale: TimeScale | None = None
        self._row = -1

    @property
    def _times(self) -> TimeScale | None:
        """The scale, where the ruler is measured by it."""
        scale = self._scale
        return scale if self.by_time and scale is not None and scale.complete and scale.total else None

    async def measure(self) -> None:
        """Take in the times that came with new rows, in small slices."""
        if self._timeline is None or not self.by_time:
            return
        if self._scale is None or not self._scale.measures(self._timeline):
            self._scale = TimeScale(self._timeline)
        for _ in self._scale.extend():
            await others_first()

    def draw(self, timeline: Timeline, row: int) -> None:
        """Draw the columns for what the timeline holds now, the cursor on a row."""
        self._timeline, self._row = timeline, row
        width = self.size.width
        if not width:
            return
        if not timeline.rows:
            self.show((), -1.0)
            return
        scale = self._times
        if scale is not None:
            cells, labels = scale.cells(width), scale.labels(width)
            first_item = partial(scale.first_item, width)
        else:
            cells, labels = cells_by_count(timeline, width), labels_by_count(timeline, width)
            first_item = partial(first_item_by_count, timeline, width)
        labels = with_points(labels, legal_columns(timeline, width, first_item))
        items = (timeline.item_at(seq) for seq in self.forked_at)
        places = (self._place(timeline, timeline.first_row(item)) for item in items if item is not None)
        lane = lane_line(self.stretches, width, lambda item: self._place(timeline, timeline.first_row(item)))
        self.show(with_forks(cells, places), self._fraction(), labels, lane)

    def redraw(self) -> None:
        """Draw the columns again, for another width or measure."""
        if self._timeline is not None:
            self.draw(self._timeline, self._row)

    def go(self, row: int) -> None:
        """Put the cursor on a row."""
        self._row = row
        self.move(self._fraction())

    def row_at(self, fraction: float) -> int | None:
        """Give the row that stands at a place of the ruler."""
        timeline, scale = self._timeline, self._times
        if timeline is None or not timeline.rows:
            return None
        return (
            timeline.first_row(scale.item(fraction))
            if scale is not None
            else row_of_fraction(timeline, fraction)
        )

    def _fraction(self) -> float:
        timeline = self._timeline
        return (
            -1.0
            if timeline is None or not 0 <= self._row < timeline.rows
            else self._place(timeline, self._row)
        )

    def _place(self, timeline: Timeline, row: int) -> float:
        """Give where a row stands, from 0 to 1."""
        scale = self._times
        return fraction_of_row(timeline, row) if scale is None else scale.fraction(timeline.row(row).item)
