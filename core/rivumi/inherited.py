"""The calls that a fork of a run directory begins with: none ran in it, some began in its parent. Pure.

Its log has one event, which names the parent and, in forks of ours, the calls that were started before the
point (formats/rivumi.md 6). Its program abandons a call that stands open so, and the model has to ask again;
what the call did in its parent outside the workspace stays done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from refold.core.rivumi.events import Event
from refold.core.rivumi.members import Members

STARTED: Final = "calls_started"
"""The member of the event of a fork that names the calls that were started before the point and not ended."""


class Inherited(msgspec.Struct, frozen=True):
    """Where a fork comes from."""

    parent: str
    at: int
    """The sequence of the last event taken account of."""
    started: frozenset[str]
    """The ids of the calls that had begun by then and not ended."""
    last_started: bool
    """That event is the start of a call: of a fork that names none, it is of the call that stands open."""

    def began(self, call_id: str) -> bool:
        """Say whether a call that stands open had begun in the parent."""
        return call_id in self.started or (self.last_started and not self.started)

    def before(self, call_id: str) -> str:
        """Say what a call may have done in the parent; empty where it had not begun."""
        if not self.began(call_id):
            return ""
        where = f"its parent {self.parent} had started it by seq {self.at}"
        return f"{where}: what it did outside the workspace stays done"

    def said(self, call_id: str) -> str:
        """Say how a call of the parent stands that the fork begins with."""
        before = self.before(call_id)
        return f"not run in this fork; {before}" if before else "not run in this fork"


def inherited_of(events: Sequence[Event]) -> Inherited | None:
    """Give where a run comes from; None where it is no fork."""
    first = events[0] if events else None
    if first is None or first.event_type != "run.forked":
        return None
    data = Members(first.data)
    started = frozenset(call for call in data.many(STARTED) if isinstance(call, str))
    return Inherited(
        data.text("source_run_id"),
        data.whole("fork_point_sequence", 0),
        started,
        data.text("fork_point_event_type") == "tool.started",
    )
