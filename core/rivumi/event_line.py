"""The line of one event, checked before anything of its run changes (formats/rivumi.md 2).

Both readers of the original take it, and so does ours: what could not be read back is never written.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime

from refold.core.errors import BadRecord
from refold.core.records import Json
from refold.core.rivumi import schema
from refold.core.rivumi.canonical import one_line, time_text
from refold.core.rivumi.events import read_log
from refold.core.rivumi.replay import MAX_LINE, ReplayRefused, replay_bytes
from refold.core.sizes import sized


def event_line(
    event_type: str,
    data: Mapping[str, Json],
    *,
    run_id: str,
    task_id: str,
    sequence: int,
    now: datetime,
    event_id: str = "",
) -> bytes:
    """Give the line of an event, its end included.

    Args:
        event_type: What happened; the set of types is open.
        data: What there is to say about it.
        run_id: The run.
        task_id: Its task.
        sequence: Its place, from 0 on.
        now: When it happened.
        event_id: Empty: a new one.

    Raises:
        BadRecord: one of the readers would not take it.
    """
    line = one_line(
        {
            "event_type": event_type,
            "run_id": run_id,
            "task_id": task_id,
            "sequence": sequence,
            "data": dict(data),
            "event_id": event_id or uuid.uuid4().hex,
            "created_at": time_text(now),
        }
    )
    _require_readable(line)
    return line


def _require_readable(line: bytes) -> None:
    if len(line) > MAX_LINE:
        raise BadRecord(
            f"an event of {sized(len(line))}: no replay reads a line of more than {sized(MAX_LINE)}; "
            "keep the text in the conversation and a preview of it in the event"
        )
    log = read_log(line)
    if len(log.events) != 1:
        raise BadRecord(f"no event: {log.bad[0].reason if log.bad else 'not one line'}")
    if log.events[0].odd:
        raise BadRecord(f"no event: {log.events[0].odd[0]}")
    if schema.event_taken(line[:-1].decode()) is None:
        raise BadRecord("an event that its own program would not take")
    try:
        replay_bytes(line)
    except ReplayRefused as refused:
        raise BadRecord(f"an event that no replay takes: {refused}") from refused
