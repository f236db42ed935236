"""Conversations: what the chat of Rivumi keeps, folded to turns (formats/rivumi.md 1, "Conversations").

Whatever can be read is shown; beside it stands the first reason for which the original would not load it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from refold.core.errors import BadRecord
from refold.core.records import Json
from refold.core.rivumi.budget import seconds_of
from refold.core.rivumi.events import json_object
from refold.core.rivumi.members import Members

MAX_BYTES: Final = 16 * 1024 * 1024
MAX_LINE: Final = 128 * 1024
MAX_TEXT: Final = 16_000
MAX_TITLE: Final = 200
MAX_WORD: Final = 256
"""Characters of a reason, and of the name of a model."""

ID: Final = re.compile("[0-9a-f]{32}")
"""What ids of conversations, turns and events look like."""
_SECONDS: Final = re.compile(r"\s*[+-]?\d{1,15}(\.\d{0,9})?\s*", re.ASCII)
"""A time as the original takes it too: seconds since 1970 in a text."""
ENDS: Final = {
    "turn.completed": "completed",
    "turn.failed": "failed",
    "turn.cancelled": "cancelled",
    "turn.interrupted": "interrupted",
}
_OTHERS: Final = frozenset(
    {"conversation.created", "context.changed", "context.compacted", "user.message", "assistant.chunk"}
)
FIELDS: Final = (
    "schema_version",
    "conversation_id",
    "sequence",
    "event_id",
    "event_type",
    "runtime",
    "model_override",
    "turn_id",
    "text",
    "reason",
    "error",
    "created_at",
)
"""The members of an event, in the order in which they are written."""
_DATA: Final = ("runtime", "model_override", "turn_id", "text", "reason", "error")
_TAKES: Final = {
    "conversation.created": (frozenset[str](), frozenset[str]()),
    "context.changed": (frozenset({"runtime"}), frozenset({"runtime", "model_override"})),
    "context.compacted": (frozenset({"text"}), frozenset({"text"})),
    "user.message": (frozenset({"turn_id", "text"}), frozenset({"turn_id", "text"})),
    "assistant.chunk": (frozenset({"turn_id", "text"}), frozenset({"turn_id", "text"})),
    "turn.completed": (frozenset({"turn_id"}), frozenset({"turn_id"})),
    "turn.failed": (frozenset({"turn_id"}), frozenset({"turn_id", "reason", "error"})),
    "turn.cancelled": (frozenset({"turn_id"}), frozenset({"turn_id", "reason"})),
    "turn.interrupted": (frozenset({"turn_id"}), frozenset({"turn_id", "reason"})),
}
"""Of each type the members that it must have, and those that it may have."""
_MANIFEST: Final = frozenset(
    {
        "schema_version",
        "conversation_id",
        "runtime",
        "model_override",
        "title",
        "created_at",
        "updated_at",
        "last_event_sequence",
        "turn_count",
        "active_turn_id",
        "active_writer_token",
    }
)

TurnEnd: TypeAlias = Literal["", "completed", "failed", "cancelled", "interrupted"]


class ChatEvent(msgspec.Struct, frozen=True):
    """One event of a conversation, and where it stands."""

    sequence: int
    event_type: str
    line: int
    start: int
    end: int
    raw: dict[str, Json]
    turn_id: str = ""
    text: str = ""


class Turn(msgspec.Struct, frozen=True):
    """A prompt and what came of it."""

    number: int
    """1-based."""
    turn_id: str
    sequence: int
    """The sequence of the prompt."""
    prompt: str
    reply: str = ""
    end: TurnEnd = ""
    """Empty while it is open."""
    why: str = ""
    """Reason or error of its end."""
    created_at: str = ""


class Conversation(msgspec.Struct, frozen=True):
    """A conversation as its files tell it."""

    name: str
    """The name of its directory."""
    title: str = ""
    runtime: str = ""
    model: str = ""
    created_at: str = ""
    updated_at: str = ""
    events: tuple[ChatEvent, ...] = ()
    turns: tuple[Turn, ...] = ()
    damaged: int = 0
    """Lines that cannot be read."""
    torn: bool = False
    """The last line has no end."""
    ahead: bool = False
    """The log is one ahead of the manifest: what a crash leaves. A resume of the original repairs it."""
    refusal: str = ""
    """Why the original would not load it; empty where it would."""

    @property
    def label(self) -> str:
        """What a list calls it: the title, else the beginning of the id."""
        return self.title or self.name[:12]

    @property
    def completed(self) -> int:
        """How many turns were completed."""
        return sum(turn.end == "completed" for turn in self.turns)

    @property
    def open_turn(self) -> Turn | None:
        """The turn that never ended; a resume closes it as interrupted."""
        return self.turns[-1] if self.turns and not self.turns[-1].end else None

    @property
    def last_sequence(self) -> int:
        """The sequence of the last event, -1 without any."""
        return self.events[-1].sequence if self.events else -1


class _Strict:
    """Keeps the first reason for a refusal."""

    def __init__(self) -> None:
        self.refusal = ""

    def __call__(self, holds: object, reason: str) -> None:
        if not holds and not self.refusal:
            self.refusal = reason


def fold_conversation(name: str, manifest: bytes | None, log: bytes | None) -> Conversation:
    """Give what the two files of a conversation say.

    Args:
        name: The name of its directory.
        manifest: The bytes of `conversation.json`; None where it cannot be read.
        log: The bytes of `events.jsonl`; None where it cannot be read.
    """
    strict = _Strict()
    head = _manifest(name, manifest, strict)
    events, damaged, torn = _events(name, log, strict)
    turns = _turns(events, strict)
    last = events[-1].sequence if events else -1
    claimed = head.whole("last_event_sequence", -1)
    ahead = last == claimed + 1 and bool(events)
    if not strict.refusal:
        strict(claimed == last or ahead, "conversation.json names another last event than the log has")
        known = tuple(event for event in events if event.sequence <= claimed)
        _compare(head, known, strict)
    return Conversation(
        name,
        head.text("title").strip(),
        _last(events, "runtime") or head.text("runtime"),
        head.text("model_override"),
        head.text("created_at"),
        head.text("updated_at"),
        events,
        turns,
        damaged,
        torn,
        ahead,
        strict.refusal,
    )


def find_turn(conversation: Conversation, wanted: str) -> Turn | None:
    """Find a turn by its number, counted from 1, or by its id or the beginning of one."""
    if wanted.isascii() and wanted.isdigit() and len(wanted) < 10:
        number = int(wanted)
        return next((turn for turn in conversation.turns if turn.number == number), None)
    found = [turn for turn in conversation.turns if wanted and turn.turn_id.startswith(wanted)]
    return found[0] if len(found) == 1 else None


def haystack(conversation: Conversation) -> str:
    """Give what a search looks at: label, id, runtime and model, and every prompt, case-folded."""
    said = [conversation.title, conversation.name, conversation.runtime, conversation.model]
    said += [turn.prompt for turn in conversation.turns]
    return "\n".join(said).casefold()


def matches(conversation: Conversation, text: str, hay: str | None = None) -> bool:
    """Say whether every word of a text stands in what is searched."""
    looked = haystack(conversation) if hay is None else hay
    return all(word in looked for word in text.casefold().split())


def conversation_json(conversation: Conversation, path: str, *, turns: bool = False) -> dict[str, Json]:
    """Give a conversation as `refold history --json` prints it."""
    shown: dict[str, Json] = {
        "id": conversation.name,
        "path": path,
        "title": conversation.title,
        "label": conversation.label,
        "runtime": conversation.runtime,
        "model": conversation.model or None,
        "created": conversation.created_at or None,
        "updated": conversation.updated_at or None,
        "turns": len(conversation.turns),
        "completed": conversation.completed,
        "open": conversation.open_turn is not None,
        "last_sequence": conversation.last_sequence,
        "refusal": conversation.refusal or None,
    }
    if turns:
        shown["conversation"] = [turn_json(turn) for turn in conversation.turns]
    return shown


def turn_json(turn: Turn) -> dict[str, Json]:
    """Give a turn as one object."""
    return {
        "number": turn.number,
        "turn_id": turn.turn_id,
        "sequence": turn.sequence,
        "prompt": turn.prompt,
        "reply": turn.reply,
        "end": turn.end or None,
        "why": turn.why or None,
        "created": turn.created_at or None,
    }


def context(events: tuple[ChatEvent, ...], runtime: str, model: Json) -> tuple[str, Json]:
    """Give runtime and model after some events, from those before them."""
    for event in events:
        if event.event_type == "context.changed":
            runtime, model = Members(event.raw).text("runtime"), event.raw.get("model_override")
    return runtime, model


def _manifest(name: str, data: bytes | None, strict: _Strict) -> Members:
    if data is None:
        strict(False, "conversation.json is missing or no plain file")  # noqa: FBT003 - a rule that never holds
        return Members({})
    strict(len(data) <= MAX_BYTES, "conversation.json is larger than 16 MiB")
    try:
        head = Members(json_object(data))
    except BadRecord as wrong:
        strict(False, f"conversation.json: {wrong.reason}")  # noqa: FBT003
        return Members({})
    raw = head.raw
    strict(raw.keys() <= _MANIFEST, "conversation.json has a key that the format does not know")
    strict(raw.get("schema_version", 1) == 1, "conversation.json is of another version")
    strict(ID.fullmatch(name), "the name of the directory is no id of a conversation")
    strict(raw.get("conversation_id") == name, "conversation.json is of another conversation")
    strict(_is_word(raw.get("runtime")), "conversation.json names no runtime")
    model = raw.get("model_override")
    strict(model is None or _is_word(model), "model_override is no printable name")
    title = raw.get("title", "")
    good = isinstance(title, str) and len(title.strip()) <= MAX_TITLE and "\0" not in title
    strict(good, f"the title is no text of at most {MAX_TITLE} characters")
    for key in ("created_at", "updated_at"):
        strict(key not in raw or _is_time(raw[key]), f"{key} of conversation.json is no time")
    head.whole("last_event_sequence", -1)
    head.whole("turn_count", 0)
    strict(not head.odd, "; ".join(head.odd))
    return head


def _events(name: str, data: bytes | None, strict: _Strict) -> tuple[tuple[ChatEvent, ...], int, bool]:
    if data is None:
        strict(False, "events.jsonl is missing or no plain file")  # noqa: FBT003
        return (), 0, False
    strict(len(data) <= MAX_BYTES, "events.jsonl is larger than 16 MiB")
    events: list[ChatEvent] = []
    damaged = 0
    torn = bool(data) and not data.endswith(b"\n")
    for number, start, end in _lines(data):
        raw = data[start:end]
        strict(raw and end - start <= MAX_LINE, f"line {number} is empty or longer than 128 KiB")
        strict(b"\r" not in raw, f"line {number} holds a carriage return")
        if not raw.strip():
            continue
        try:
            event = _event(name, raw, number, start, strict)
        except BadRecord as wrong:
            damaged += not (torn and end == len(data))
            strict(False, f"line {number}: {wrong.reason}")  # noqa: FBT003
            continue
        strict(
            event.sequence == len(events), f"line {number} has sequence {event.sequence}, not {len(events)}"
        )
        events.append(event)
    strict(not torn, "the last line of events.jsonl has no line end")
    strict(events, "events.jsonl holds no event")
    return tuple(events), damaged, torn


def _lines(data: bytes) -> Iterator[tuple[int, int, int]]:
    start = number = 0
    while start < len(data):
        number += 1
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        yield number, start, end
        start = end + 1


def _event(name: str, raw: bytes, line: int, start: int, strict: _Strict) -> ChatEvent:
    fields = json_object(raw)
    own = Members(fields)
    sequence, kind = fields.get("sequence"), fields.get("event_type")
    if isinstance(sequence, bool) or not isinstance(sequence, int) or sequence < 0:
        raise BadRecord("the sequence is no whole number from 0 on")
    if not isinstance(kind, str):
        raise BadRecord("there is no event type")
    where = f"line {line}: "
    strict(kind in ENDS or kind in _OTHERS, f"{where}unknown type {kind[:40]!r}")
    strict(fields.keys() <= set(FIELDS), f"{where}a key that the format does not know")
    strict(fields.get("schema_version", 1) == 1, f"{where}another version")
    strict(fields.get("conversation_id") == name, f"{where}of another conversation")
    for key in ("event_id", "turn_id"):
        strict(key not in fields or fields[key] is None or _is_id(fields[key]), f"{where}{key} is no id")
    strict("created_at" not in fields or _is_time(fields["created_at"]), f"{where}created_at is no time")
    given = frozenset(key for key in _DATA if fields.get(key) is not None)
    needed, allowed = _TAKES.get(kind, (frozenset[str](), frozenset(_DATA)))
    strict(needed <= given <= allowed, f"{where}{kind} has members of another type, or lacks one")
    for key in ("text", "error"):
        strict(_is_text(fields.get(key)), f"{where}{key} is blank, holds NUL or is longer than {MAX_TEXT}")
    for key in ("reason", "runtime", "model_override"):
        value = fields.get(key)
        strict(value is None or _is_word(value), f"{where}{key} is not printable")
    return ChatEvent(
        sequence, kind, line, start, start + len(raw), fields, own.text("turn_id"), own.text("text")
    )


def _turns(events: tuple[ChatEvent, ...], strict: _Strict) -> tuple[Turn, ...]:
    """Fold events to turns; a prompt within an open turn begins another one all the same."""
    turns: list[Turn] = []
    parts: list[str] = []
    active = ""
    for place, event in enumerate(events):
        kind = event.event_type
        created = kind == "conversation.created"
        strict(created == (not place), "conversation.created does not stand first, and only there")
        if kind in {"context.changed", "context.compacted"}:
            strict(not active, f"{kind} stands within a turn")
        elif kind == "user.message":
            strict(not active, "turns overlap")
            if turns and active:
                turns[-1] = msgspec.structs.replace(turns[-1], reply="".join(parts))
            active, parts = event.turn_id or f"#{event.sequence}", []
            when = Members(event.raw).text("created_at")
            turns.append(Turn(len(turns) + 1, event.turn_id, event.sequence, event.text, created_at=when))
        elif kind == "assistant.chunk" or kind in ENDS:
            strict(active and event.turn_id == active, f"{kind} belongs to no open turn")
            if not turns or not active:
                continue
            if kind == "assistant.chunk":
                parts.append(event.text)
                strict(sum(map(len, parts)) <= MAX_TEXT, "a reply is longer than 16,000 characters")
                continue
            strict(kind != "turn.completed" or parts, "a completed turn has no text of the assistant")
            own = Members(event.raw)
            turns[-1] = msgspec.structs.replace(
                turns[-1], reply="".join(parts), end=ENDS[kind], why=own.text("error") or own.text("reason")
            )
            active, parts = "", []
    if active and turns:
        turns[-1] = msgspec.structs.replace(turns[-1], reply="".join(parts))
    return tuple(turns)


def _compare(head: Members, events: tuple[ChatEvent, ...], strict: _Strict) -> None:
    """Compare the manifest with the fold of the events that it knows of."""
    completed, active = 0, None
    for event in events:
        if event.event_type == "user.message":
            active = event.turn_id
        elif event.event_type in ENDS:
            completed += event.event_type == "turn.completed"
            active = None
    strict(head.whole("turn_count", 0) == completed, "conversation.json counts other turns than the log")
    strict(head.raw.get("active_turn_id") == active, "conversation.json names another open turn than the log")
    runtime, model = context(events, head.text("runtime"), head.raw.get("model_override"))
    same = (runtime, model) == (head.text("runtime"), head.raw.get("model_override"))
    strict(same, "conversation.json names another runtime or model than the log")


def _last(events: tuple[ChatEvent, ...], name: str) -> str:
    named = [event for event in events if event.event_type == "context.changed"]
    return Members(named[-1].raw).text(name) if named else ""


def _is_id(value: Json) -> bool:
    return isinstance(value, str) and ID.fullmatch(value.strip()) is not None


def _is_word(value: Json) -> bool:
    word = value.strip() if isinstance(value, str) else ""
    return bool(word) and len(word) <= MAX_WORD and word.isprintable()


def _is_time(value: Json) -> bool:
    """Say whether the original reads a time: ISO 8601, or seconds since 1970 (formats/rivumi.md 2)."""
    if isinstance(value, str):
        return seconds_of(value) is not None or _SECONDS.fullmatch(value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Json) -> bool:
    if value is None:
        return True
    return isinstance(value, str) and bool(value) and len(value) <= MAX_TEXT and "\0" not in value
