"""The calls of an event log as they are compared: each is an event, joined to its end by its id."""

from __future__ import annotations

from collections.abc import Callable

from refold.core.calls_made import Made, key_of, read_short
from refold.core.columns import CALL, TERMINAL
from refold.core.patterns import Limit
from refold.core.rivumi.budget import length, seconds_left
from refold.core.rivumi.events import Event
from refold.core.rivumi.events_state import EventsState
from refold.core.rivumi.manifest import Manifest, Request
from refold.core.rivumi.members import Members
from refold.core.rivumi.timeline import EventTimeline

_A_PERSON = frozenset({"approval.requested"})
"""After these somebody is waited for."""
_ANEW = frozenset({"session.resumed", "session.continued", "approval.abandoned"})
"""Before these nobody was at work."""


class EventCalls:
    """The calls of one log."""

    def __init__(self, timeline: EventTimeline, load: Callable[[int], Event]) -> None:
        """Read from an index.

        Args:
            timeline: Complete.
            load: Decodes an item; raises BadRecord.
        """
        self._timeline = timeline
        self._load = load

    @property
    def counted(self) -> str:
        """Calls: each is an event of its own."""
        return "calls"

    def asks(self, item: int) -> bool:
        """Say whether an item asks for a call."""
        return self._timeline.columns.kind[item] == CALL

    def calls(self, item: int) -> list[Made] | None:
        """Give the one call of an item; arguments that the log leaves out are compared by their hash."""
        event = read_short(self._timeline, item, self._load)
        if event is None:
            return None
        name, given = Members(event.data).text("name"), event.data.get("arguments")
        turn = max(0, self._timeline.columns.last_assistant[item] - 1)
        return [Made(item, 0, turn, name, key_of(name, given), given)]

    def learn(self, first: int, last: int) -> None:
        """Do nothing: the index knows both ends of a call."""

    def answered(self, call: Made) -> int | None:
        """Give the item that ended a call."""
        life = self._timeline.life(call.item)
        return None if life is None else life.ended()

    def answer(self, item: int) -> bytes | None:
        """Give what is recorded of a result: its beginning and end, and its error."""
        event = read_short(self._timeline, item, self._load)
        if event is None:
            return None
        own = Members(event.data)
        return f"{own.text('error')}\0{own.text('preview')}".encode("utf-8", "surrogatepass")

    def waited(self, before: int, last: int) -> bool:
        """Say whether a person was waited for between two items, or no process lived."""
        types = self._timeline.type_of
        return (
            self._timeline.columns.kind[before] == TERMINAL
            or types(before) in _A_PERSON
            or types(last) in _ANEW
        )


def limits_of_session(
    manifest: Manifest | None, request: Request | None, state: EventsState, now: float
) -> tuple[Limit, ...]:
    """Give the limits of a run directory (formats/rivumi.md 3, TaskContract).

    Args:
        manifest: What it claims.
        request: Where the limits stand; the defaults count without it.
        state: What the events prove.
        now: Seconds since 1970: the time of a process that died without an end counts up to here.
    """
    asked = Request({}) if request is None else request
    if manifest is None:
        return ()
    steps = Limit("model turns", max(manifest.step, state.step), asked.max_steps)
    used = max(manifest.tokens.total, state.tokens.total)
    tokens = Limit("tokens of the budget", used, asked.max_total_tokens)
    left = None if manifest.terminal else seconds_left(manifest, request, now)
    if left is None:
        return (steps, tokens)
    most = int(asked.wall_time_seconds)
    counted = "its own program counts the time since it died" if manifest.active_started_at else ""
    time = Limit("of its time", int(asked.wall_time_seconds - left), most, length, counted)
    return (steps, tokens, time)
