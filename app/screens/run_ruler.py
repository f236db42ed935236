"""The ruler of an open run: its columns by count or by time, and the way between columns and rows."""

from __future__ import annotations

import asyncio

from refold.app.present.ruler import (
    TimeScale,
    cells_by_count,
    fraction_of_row,
    labels_by_count,
    row_of_fraction,
)
from refold.app.widgets.ruler import Ruler
from refold.core.timeline import Timeline


class RunRuler(Ruler):
    """Shows a timeline; by time only once all its times are known."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.by_time = False
        """Whether the reader asked for times."""
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
            await asyncio.sleep(0)

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
            self.show(scale.cells(width), self._fraction(), scale.labels(width))
        else:
            self.show(cells_by_count(timeline, width), self._fraction(), labels_by_count(timeline, width))

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
        timeline, scale = self._timeline, self._times
        if timeline is None or not 0 <= self._row < timeline.rows:
            return -1.0
        if scale is not None:
            return scale.fraction(timeline.row(self._row).item)
        return fraction_of_row(timeline, self._row)
