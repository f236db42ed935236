"""Where in a run somebody wants to go: a sequence, a line, and what is said where it has none."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from refold.core.timeline import Timeline


class Landing(NamedTuple):
    """A place that is asked for by number."""

    seq: int | None = None
    line: int | None = None
    """Asked for where no sequence is."""
    start: int | None = None
    """A byte of the file that the record holds; asked for where neither is."""

    @property
    def is_asked(self) -> bool:
        """Whether any place is asked for."""
        return self.seq is not None or self.line is not None or self.start is not None


def parse(text: str) -> Landing | None:
    """Read what was typed: a sequence number, or `#` and a line; None where it is neither."""
    wanted = text.strip()
    digits = wanted.removeprefix("#")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 20:
        return None
    return Landing(line=int(digits)) if wanted.startswith("#") else Landing(seq=int(digits))


def row_of(landing: Landing, timeline: Timeline, *, complete: bool) -> int | None:
    """Give the first row at a place; None where there is none, or none yet."""
    if landing.seq is not None:
        last = timeline.last_seq
        if not complete and (last is None or last < landing.seq):
            return None
        return timeline.row_at(landing.seq)
    if landing.line is not None:
        item = timeline.item_at_line(landing.line)
        return timeline.first_row(item) if item is not None else None
    if landing.start is not None and timeline.items:
        item = bisect_right(timeline.columns.offset, landing.start, hi=timeline.items) - 1
        reached = complete or item < timeline.items - 1
        return timeline.first_row(max(0, item)) if reached else None
    return None


def is_at_end(timeline: Timeline) -> bool:
    """Say whether one begins to read a run at its end, where nobody asks for another place: it goes on."""
    return timeline.kind(timeline.items - 1) != "terminal"


def absence(landing: Landing, timeline: Timeline, *, complete: bool) -> str:
    """Say that nothing stands at a place, and what stands next to it."""
    if landing.start is not None:
        return f"No record holds byte {landing.start:,} any more."
    if landing.seq is None:
        return f"No record stands on line {landing.line}."
    below, above = timeline.neighbours(landing.seq)
    near = [str(seq) for seq in (below, above) if seq is not None]
    if not near:
        said = "No record has a sequence number."
    elif len(near) == 1:
        said = f"The nearest is {near[0]}."
    else:
        said = f"The nearest are {near[0]} and {near[1]}."
    unread = "" if complete else " The run is still being read."
    return f"No record has seq {landing.seq}. {said}{unread}"
