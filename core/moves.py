"""From call to call along the rows of a timeline, whatever kind of run it is of."""

from __future__ import annotations

from bisect import bisect_right

from refold.core.timeline import Timeline


def next_call(timeline: Timeline, row: int, step: int) -> int | None:
    """Give the row of the next (step 1) or previous (step -1) call that the model asked for, or None."""
    if not timeline.items:
        return None
    calls = timeline.columns.calls
    at = timeline.row(row)
    before = (calls[at.item - 1] if at.item else 0) + max(0, at.call)
    number = before + (at.kind == "call") if step > 0 else before - 1
    if not 0 <= number < calls[timeline.items - 1]:
        return None
    item = bisect_right(calls, number)
    first = timeline.first_row(item)
    following = timeline.first_row(item + 1) if item + 1 < timeline.items else timeline.rows
    # A log has one row an event; a record of a journal one of its own before those of its calls.
    inside = number - (calls[item - 1] if item else 0) + 1
    return first + min(inside, following - first - 1)
