"""Where a fork may begin, as it is marked beside the records of a timeline and below the ruler."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from refold.app.lines import Cell, Line
from refold.app.safe import Safe
from refold.core.timeline import Timeline

_BETWEEN: Final = Cell(Safe("┤"), "fork")
_PENDING: Final = Cell(Safe("┆"), "warn")
_NONE: Final = Cell(Safe(" "))
_TICK: Final = Cell(Safe("╵"), "fork")
_LOOKED_AT: Final = 24
"""So many records of a column are looked at, from its end."""


def point(timeline: Timeline, item: int) -> Cell:
    """Say in one cell whether a fork may begin after an item: between turns, with calls pending, or not."""
    if not timeline.is_legal(item):
        return _NONE
    return _PENDING if timeline.open_calls(item) else _BETWEEN


def legal_columns(timeline: Timeline, width: int, first_item: Callable[[int], int]) -> tuple[bool, ...]:
    """Say of each column of a ruler whether a fork may begin between turns after one of its records.

    Args:
        timeline: The run.
        width: How many columns there are.
        first_item: Gives the first item that stands in a column or right of it; `items` behind the last one.
    """
    end = timeline.strict_end
    starts = [min(first_item(column), end) for column in range(width)]
    return tuple(
        any(
            timeline.is_legal(item) and not timeline.open_calls(item)
            for item in range(stop - 1, max(start, stop - _LOOKED_AT) - 1, -1)
        )
        for start, stop in pairwise([*starts, end])
    )


def with_points(labels: Line, columns: tuple[bool, ...]) -> Line:
    """Give the labels of a ruler with a tick below each column after which a fork may begin between turns."""
    text = "".join(cell.text for cell in labels).rstrip()
    cells: list[Cell] = []
    for column in range(max(len(text), len(columns))):
        label = text[column] if column < len(text) else " "
        ticked = label == " " and column < len(columns) and columns[column]
        one = _TICK if ticked else Cell(Safe(label), "dim")
        if cells and cells[-1].role == one.role:
            cells[-1] = Cell(Safe(cells[-1].text + one.text), one.role)
        else:
            cells.append(one)
    return tuple(cells)
