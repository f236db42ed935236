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
    left: int = 0
    """How many results of the turn that stands open stay behind."""
    keeps: int | None = None
    """The sequence after which a fork takes them along."""

    @property
    def phrase(self) -> str:
        """Say why there, and which results that costs."""
        return f"{self.why}; {left_behind(self.left, self.keeps)}" if self.left else self.why


def left_behind(results: int, keeps: int | None) -> str:
    """Say that results of an open turn stay behind a fork, and where a fork would keep them."""
    one = results == 1
    count = "one result" if one else f"{results:,} results"
    it = "it" if one else "them"
    kept = "" if keeps is None else f", a fork after seq {keeps} keeps {it}"
    return f"{count} of that turn {'stays' if one else 'stay'} behind{kept}"


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
    if item is None:
        return None
    if why != BEFORE_TURN:
        return ForkPoint(item, why)
    # The turn that stands open begins behind the point: what it has of results is not taken.
    keeping = timeline.legal_item(timeline.strict_end - 1)
    turn = -1 if keeping is None else timeline.columns.last_assistant[keeping] - 1
    if keeping is None or turn <= item:
        return ForkPoint(item, why)
    left = timeline.own_calls(turn) - timeline.open_calls(keeping)
    return ForkPoint(item, why, left, timeline.seq(keeping) if left else None)
