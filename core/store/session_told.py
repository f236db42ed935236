"""What an export tells of a run directory beside its records: facts, findings, the state at an event."""

from __future__ import annotations

from typing import NamedTuple

from refold.core.errors import BadRecord, CorruptJournal, StoreError
from refold.core.findings import Finding
from refold.core.records import Json
from refold.core.rivumi.members import Members
from refold.core.rivumi.state_json import run_json
from refold.core.store.session_reader import SessionReader


class Facts(NamedTuple):
    """What the meta record of a journal says; empty where it is not known."""

    model: str = ""
    created: str = ""
    prompt: str = ""


def facts_of(reader: SessionReader) -> Facts:
    """Give the facts of an indexed run: the manifest's, the request's, else those of its first event."""
    manifest, request = reader.manifest, reader.request
    model = manifest.model if manifest is not None else ""
    created = ""
    try:
        first = reader.event(0) if reader.timeline.items else None
    except BadRecord:
        first = None
    if first is not None:
        model = model or Members(first.data).text("model")
        created = first.created_at if isinstance(first.created_at, str) else ""
    return Facts(model, created, request.instruction if request is not None else "")


def findings_of(reader: SessionReader) -> tuple[Finding, ...]:
    """Give what is wrong with any file of the run; with its log alone where its directory is gone."""
    try:
        return reader.examine()
    except StoreError:
        return tuple(reader.timeline.findings)


def state_of(reader: SessionReader, item: int) -> dict[str, Json]:
    """Give the state after an event as `refold state --json` does, the messages of the manifest counted.

    Raises:
        CorruptJournal: a line before that cannot be read.
    """
    timeline = reader.timeline
    for earlier in range(item + 1):
        # A last line that was cut off is what a crash leaves; the state before it stands.
        amiss = timeline.findings_at(earlier) if timeline.kind(earlier) == "damage" else ()
        if amiss and amiss[0].code != "E_TORN_TAIL":
            raise CorruptJournal(f"line {amiss[0].line}: {amiss[0].message}", line=amiss[0].line)
    whole = item + 1 == timeline.items
    state = run_json(reader.run_id, reader.events_at(item), reader.manifest, compare=whole)
    claims = state["manifest"]
    if isinstance(claims, dict):
        messages = claims.get("messages")
        state["manifest"] = {**claims, "messages": len(messages) if isinstance(messages, list) else 0}
    return state
