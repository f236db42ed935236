"""What holds at a record, by name: the numbers that a reader compares, and what can be watched for a change.

All of it is read off the columns of the timeline, whose sums run: nothing is folded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from refold.core.columns import SEQUENCED
from refold.core.filter_terms import LENGTH, NUMBER
from refold.core.state import in_64_bits
from refold.core.timeline import Timeline

_NOT_KNOWN: Final = float("nan")
_LOOKED_BACK: Final = 64


class Field(NamedTuple):
    """A number that holds at each item."""

    says: str
    of: Callable[[Timeline, int], float]
    counts: str = NUMBER
    of_state: bool = True
    """It tells of all records up to the item, not of the item itself."""


def tokens_at(timeline: Timeline, item: int) -> int:
    """Give the tokens of all four kinds up to and including an item."""
    columns = timeline.columns
    return in_64_bits(
        columns.in_tokens[item]
        + columns.out_tokens[item]
        + columns.cache_read[item]
        + columns.cache_create[item]
    )


def _seq(timeline: Timeline, item: int) -> float:
    return timeline.columns.seq[item] if timeline.columns.flags[item] & SEQUENCED else _NOT_KNOWN


def _gap(timeline: Timeline, item: int) -> float:
    seconds = timeline.columns.seconds
    for before in range(item - 1, max(-1, item - 1 - _LOOKED_BACK), -1):
        if seconds[before] == seconds[before]:
            return seconds[item] - seconds[before]
    return _NOT_KNOWN


NUMBERS: Final[Mapping[str, Field]] = {
    "tokens": Field("tokens of all four kinds so far", tokens_at),
    "pending": Field("calls without a result", Timeline.open_calls),
    "turns": Field("replies of the model so far", lambda timeline, item: timeline.columns.llm[item]),
    "calls": Field("calls asked for so far", Timeline.calls),
    "errors": Field("results so far that report an error", Timeline.errors),
    "seq": Field("the number of the record", _seq),
    "gap": Field("seconds since the record before", _gap, LENGTH, of_state=False),
    "size": Field(
        "bytes of the record", lambda timeline, item: timeline.columns.length[item], of_state=False
    ),
}
"""By name; what is not known at an item is NaN, and compares with nothing."""

WATCHED: Final = ("phase", "pending", "tokens", "turns", "calls", "errors")
"""What can be watched for a change, beside files."""


def value_at(timeline: Timeline, name: str, item: int) -> str | int:
    """Give what one of `WATCHED` is after an item."""
    return timeline.phase(item) if name == "phase" else int(NUMBERS[name].of(timeline, item))
