"""The events of a run directory as lines of one file (formats/rivumi.md 2).

The set of types is open: one that is not known is shown under its own name. What a type means for the rows is
said here once; what the run as a whole means stands in `core.rivumi`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from refold.core.errors import BadRecord
from refold.core.formats import Columns
from refold.core.records import Json, MetaRecord, UnknownRecord
from refold.core.rivumi.events import Event, read_log

KINDS: Final[Mapping[str, str]] = {
    "run.created": "meta",
    "run.forked": "meta",
    "model.completed": "assistant",
    "tool.requested": "call",
    "tool.completed": "result",
    "verification.completed": "result",
    "verification.reused": "result",
    "run.completed": "terminal",
    "run.failed": "terminal",
    "run.cancelled": "terminal",
    "message": "assistant",
    "result": "terminal",
}
"""The kind of row of a type; any other is an event. The last two are of programs that only left a log."""


class EventDecoder:
    """Reads the lines of an event log."""

    version = 1
    supported = 1
    readable = True
    usual = None

    def event(self, line: bytes) -> Event:
        """Decode one event; raise BadRecord where the line is none."""
        # A mark of the byte order belongs to the first line, which nobody can tell here.
        log = read_log(line + b"\n")
        if log.bad:
            raise BadRecord(log.bad[0].reason, code=log.bad[0].code)
        if len(log.events) != 1:
            raise BadRecord("no event, or several")
        return log.events[0]

    def record(self, line: bytes) -> UnknownRecord:
        """Give the envelope of an event as a record of a journal: none of its kinds fits."""
        event = self.event(line)
        created = event.created_at
        return UnknownRecord(event.event_type, event.sequence, created if isinstance(created, str) else None)

    def texts(self, line: bytes) -> tuple[str, ...]:
        """Give nothing: what the model wrote stands in the data of its event."""
        return ()

    def columns(self, line: bytes) -> Columns:
        """Give the kind and the sequence of an event; raise BadRecord where the line is none."""
        event = self.event(line)
        return Columns(KINDS.get(event.event_type, "event"), event.sequence)

    def calls(self, content: tuple[Json, ...] | None) -> tuple[tuple[str, str, Json], ...]:
        """Give nothing: a call is an event of its own."""
        return ()

    def prompt_content(self, prompt: str) -> tuple[Json, ...]:
        """Give the prompt as it is."""
        return (prompt,)

    def result_of(self, call_id: str, text: str, *, is_error: bool) -> Json:
        """Give the observation of a call as a manifest holds it."""
        return {
            "tool_call_id": call_id,
            "ok": not is_error,
            "content": text,
            "error": text if is_error else None,
        }

    def result_content(self, result: Json) -> Json:
        """Give an observation as it is."""
        return result


class EventFormat:
    """Runs that are a directory with an event log in it."""

    name = "rivumi"

    def decoder(self, head: bytes) -> EventDecoder:
        """Give the decoder; all generations write the same lines."""
        return EventDecoder()

    def opens(self, head: bytes) -> bool:
        """Say yes: the decoder is known before anything is read."""
        return True

    def meta(self, line: bytes) -> MetaRecord | None:
        """Give nothing: what a run began with stands in its request and its manifest."""
        return None


RIVUMI: Final = EventFormat()
