"""The rows of a timeline cut into stretches of equal length, each told in one word: what the ruler draws."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from refold.core.columns import DAMAGE, KINDS, RECOVERED, WITH_ERROR
from refold.core.timeline import Timeline

_LOOKED_AT: Final = 64


class Bucket(NamedTuple):
    """What one cell of the ruler stands for."""

    kind: str
    error: bool
    """Whether one of its items has a problem."""
    errors: int
    """How many of its results report an error."""
    damage: bool
    first_row: int
    last_row: int


def buckets(timeline: Timeline, width: int) -> tuple[Bucket, ...]:
    """Cut the rows into at most `width` stretches; each costs the same, however many rows it has."""
    rows = timeline.rows
    cells = min(width, rows)
    return tuple(
        _bucket(timeline, cell * rows // cells, (cell + 1) * rows // cells - 1) for cell in range(cells)
    )


def _bucket(timeline: Timeline, first_row: int, last_row: int) -> Bucket:
    first, last = timeline.item_of(first_row), timeline.item_of(last_row)
    columns = timeline.columns

    def grown(column: Sequence[int]) -> int:
        return column[last] - (column[first - 1] if first else 0)

    marked = timeline.marked_items()
    near = range(bisect_left(marked, first), bisect_right(marked, last))
    damage = any(
        columns.kind[item] == DAMAGE or columns.flags[item] & RECOVERED
        for item in map(marked.__getitem__, near[:_LOOKED_AT])
    )
    error = bool(near) or WITH_ERROR.search(columns.flags, first, last + 1) is not None
    if first == last:
        kind = timeline.row(first_row).kind
    else:
        counts = {
            "assistant": grown(columns.llm),
            "call": grown(columns.calls),
            "result": grown(columns.results),
        }
        kind = max(counts, key=lambda name: counts[name])
        if not counts[kind]:
            kind = KINDS[columns.kind[last]]
    return Bucket(kind, error, grown(columns.errors), damage, first_row, last_row)
