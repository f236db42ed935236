"""Where a fork is proposed while nobody has picked a point: in the list as in the post-mortem. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from refold.core.findings import UNPAIRED
from refold.core.timeline import Timeline

LAST: Final = "the last legal point"
BEFORE_TURN: Final = "before the turn whose calls have no result"
BEFORE_UNPAIRED: Final = "before calls and results that are no pairs"
BEFORE_DAMAGE: Final = "the last legal point before what is damaged"


class ForkPoint(NamedTuple):
    """A proposed point."""

    item: int
    """The last item taken."""
    why: str
    """Why there, as a phrase."""


def propose(timeline: Timeline) -> ForkPoint | None:
    """Give a legal point before the trouble; None where there is none.

    That is before what is damaged, or before calls and results that are no pairs, which a model may refuse;
    else before the turn that stands open, else the end of the run: a call that may have run would be asked
    about in the new run too (design/experience.md "Post-mortem").
    """
    end = timeline.items - 1
    last, why = timeline.strict_end - 1, LAST if timeline.strict_error is None else BEFORE_DAMAGE
    if end >= 0 and timeline.strict_error is None and timeline.open_calls(end):
        last, why = timeline.columns.last_assistant[end] - 2, BEFORE_TURN
    unpaired = next((mark.item for mark in timeline.marks if mark.code in UNPAIRED), None)
    if unpaired is not None and unpaired <= last:
        last, why = unpaired - 1, BEFORE_UNPAIRED
    item = timeline.legal_item(last)
    if item is not None and last < end and timeline.open_calls(item):
        # A call whose result is lost would be made again: the fork stands before its turn.
        before = timeline.legal_item(timeline.columns.last_assistant[item] - 2)
        item, why = (item, why) if before is None else (before, BEFORE_TURN)
    return None if item is None else ForkPoint(item, why)
