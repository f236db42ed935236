"""One event of a run directory as `refold show --json` prints it."""

from __future__ import annotations

from refold.core.errors import BadRecord
from refold.core.links import link
from refold.core.records import Json
from refold.core.rivumi.members import Members
from refold.core.store.session_reader import SessionReader


def event_json(reader: SessionReader, item: int, name: str) -> dict[str, Json]:
    """What is known of one event, or of one damaged stretch, with the keys of a record of a journal."""
    timeline = reader.timeline
    span, life = timeline.span(item), timeline.life(item)
    kind = timeline.kind(item)
    try:
        event = reader.event(item)
    except BadRecord:
        event = None
    own = Members(event.data if event is not None else {})
    call: dict[str, Json] = {"id": own.text("tool_call_id"), "name": own.text("name")}
    created = event.created_at if event is not None else None
    return {
        "run": name,
        "link": link(name, timeline.seq(item), span.line),
        "seq": timeline.seq(item),
        "line": span.line,
        "start": span.start,
        "end": span.end,
        "kind": kind,
        "type": timeline.type_of(item) or None,
        "turn": timeline.turn(item),
        "time": created if isinstance(created, str) else None,
        "tokens": timeline.own_tokens(item),
        "calls": [call] if kind == "call" else [],
        "answers": life.now.id if kind == "result" and life is not None else None,
        "action": None if life is None else {"id": life.now.id, "state": life.now.state},
        "is_error": timeline.is_error(item),
        "recovered": timeline.is_recovered(item),
        "problems": [finding.code for finding in timeline.findings_at(item)],
    }
