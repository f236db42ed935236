"""A new conversation made of another one up to a prompt: what would be written, before it is."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import msgspec

from refold.core.errors import StoreError
from refold.core.records import Json
from refold.core.rivumi.conversation import FIELDS, ID, Conversation, Turn, context


class NoFork(StoreError):
    """A conversation cannot be forked there."""


class ConversationFork(msgspec.Struct, frozen=True):
    """What a fork of a conversation would be."""

    source: str
    """The id of the conversation that is forked."""
    conversation_id: str
    """The id of the new one."""
    turn: Turn
    """The prompt before which it ends; this one is to be said anew."""
    events: int
    """How many events are taken along."""
    turns: int
    """How many turns are, finished or not."""
    manifest: bytes
    log: bytes


def plan_fork(source: Conversation, turn: Turn, new_id: str, *, now: datetime) -> ConversationFork:
    """Plan a fork before a prompt (formats/rivumi.md 1: events strictly before it, event ids kept).

    Raises:
        NoFork: the source is not as its own program needs it, or a turn of it is open.
    """
    if source.refusal:
        raise NoFork(
            f"{source.name}: its own program would not load it: {source.refusal}",
            remedy="nothing was written",
        )
    if source.ahead:
        raise NoFork(
            f"{source.name}: its log is one event ahead of conversation.json",
            remedy="resume it once in its own program, which puts that right",
        )
    if source.open_turn is not None:
        raise NoFork(
            f"{source.name}: turn {source.open_turn.number} is open",
            remedy="let it end, or resume it in its own program, which closes it",
        )
    if ID.fullmatch(new_id) is None:
        raise NoFork(f"{new_id!r} is no id of a conversation", remedy="32 hexadecimal digits, lower case")
    prefix = tuple(event for event in source.events if event.sequence < turn.sequence)
    runtime, model = context(prefix, source.runtime, source.model or None)
    moment = now.astimezone(UTC).isoformat().replace("+00:00", "Z")
    manifest: dict[str, Json] = {
        "schema_version": 1,
        "conversation_id": new_id,
        "runtime": runtime,
        "model_override": model,
        "title": "",
        "created_at": moment,
        "updated_at": moment,
        "last_event_sequence": len(prefix) - 1,
        "turn_count": sum(event.event_type == "turn.completed" for event in prefix),
        "active_turn_id": None,
        "active_writer_token": None,
    }
    lines = [_line({**event.raw, "conversation_id": new_id}) for event in prefix]
    return ConversationFork(
        source.name,
        new_id,
        turn,
        len(prefix),
        turn.number - 1,
        json.dumps(manifest, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode(),
        b"".join(lines),
    )


def fork_json(plan: ConversationFork, path: str, *, made: bool) -> dict[str, Json]:
    """Give a fork of a conversation as `refold history --fork-before --json` prints it."""
    return {
        "source": plan.source,
        "id": plan.conversation_id,
        "path": path,
        "made": made,
        "turn": plan.turn.number,
        "turn_id": plan.turn.turn_id,
        "prompt": plan.turn.prompt,
        "events": plan.events,
        "turns": plan.turns,
    }


def _line(fields: dict[str, Json]) -> bytes:
    """Write an event as the original does: its own order of keys, no nulls."""
    ordered = {key: fields[key] for key in FIELDS if fields.get(key) is not None}
    try:
        return json.dumps(ordered, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(ordered, separators=(",", ":")).encode() + b"\n"
