"""The replay of an event log as the original reduces it: the same JSON, byte for byte (formats/rivumi.md 6).

What the original lets escape as another exception is an error here too, marked `uncaught`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final, TypeAlias

import msgspec

from refold.core.errors import FoldError

MAX_EVENTS: Final = 10_000
MAX_LINE: Final = 131_072
MAX_TEXT: Final = 16_000

_IDS = ("run_id", "conversation_id", "turn_id")
_DETAILS = (
    "summary",
    "terminal_reason",
    "reason",
    "error",
    "tool",
    "tool_name",
    "name",
    "model",
    "runtime",
    "provider",
    "base_sha",
)
_TEXTS = ("text", *_DETAILS, "model_override")
_TURN_STARTS = frozenset({"user.message", "turn_started"})
_TURN_ENDS = frozenset(
    {"turn.completed", "turn.failed", "turn.cancelled", "turn.interrupted", "turn_completed"}
)
_RUN_ENDS = frozenset({"run.completed", "run.failed", "run.cancelled"})

Raw: TypeAlias = "dict[str, object]"
"""One event as it was decoded, repeated keys merged."""


class ReplayRefused(FoldError):
    """The original's replay refuses this log."""

    error_class: ClassVar[str] = "replay"

    def __init__(self, code: str, message: str, *, uncaught: str = "") -> None:
        super().__init__(message, remedy="the run can still be read: refold state")
        self.code = code
        """Short name of the rule (formats/rivumi.md 10)."""
        self.uncaught = uncaught
        """The exception that the original lets escape; empty where it refuses in its own words."""


class TimelineItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event of the replay."""

    sequence: int
    event_type: str
    run_id: str | None = None
    conversation_id: str | None = None
    turn_id: str | None = None
    text: str | None = None
    detail: str | None = None


class ReplayState(msgspec.Struct, frozen=True):
    """What a log reduces to."""

    first_sequence: int | None = None
    last_sequence: int | None = None
    event_count: int = 0
    run_id: str | None = None
    conversation_id: str | None = None
    active_turn_id: str | None = None
    completed_turn_ids: tuple[str, ...] = ()
    terminal_event_type: str | None = None
    timeline: tuple[TimelineItem, ...] = ()

    def value(self) -> Raw:
        """Give it as the object that is printed: nothing that is null, empty lists kept."""
        members: Raw = {name: getattr(self, name) for name in self.__struct_fields__}
        members["completed_turn_ids"] = list(self.completed_turn_ids)
        members["timeline"] = [msgspec.to_builtins(item) for item in self.timeline]
        members["schema_version"] = 1
        return {name: value for name, value in members.items() if value is not None}

    def canonical(self) -> bytes:
        """Give its canonical JSON, without a line end.

        Raises:
            ReplayRefused: a text holds half of a surrogate pair, which the original cannot print.
        """
        text = json.dumps(self.value(), ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            raise ReplayRefused(
                "surrogate",
                f"half of a surrogate pair at character {error.start} cannot be printed",
                uncaught="UnicodeEncodeError",
            ) from error


class _Normal(msgspec.Struct):
    """One event after the checks of a single event."""

    sequence: int
    event_type: str
    ids: dict[str, str]
    texts: dict[str, str]
    data: Raw


def replay(events: Iterable[Raw]) -> ReplayState:
    """Reduce events to the state of the original's replay.

    Raises:
        ReplayRefused: an event, or the log as a whole, breaks one of its rules.
    """
    normal = [_normal(event, index) for index, event in enumerate(events)]
    if len(normal) > MAX_EVENTS:
        raise ReplayRefused("too_many", f"event log exceeds {MAX_EVENTS} events")
    normal.sort(key=lambda event: event.sequence)
    return _reduce(normal)


def replay_bytes(data: bytes) -> ReplayState:
    """Reduce the bytes of a log.

    Raises:
        ReplayRefused: a line or the log breaks a rule.
    """
    return replay(list(raw_events(data)))


def raw_events(data: bytes) -> Iterator[Raw]:
    """Give the objects of a log as the original's replay reads them.

    Raises:
        ReplayRefused: a line is cut off, too long, or no object.
    """
    start, number = 0, 0
    while start < len(data):
        number += 1
        end = data.find(b"\n", start)
        line = data[start:] if end < 0 else data[start:end]
        start = len(data) if end < 0 else end + 1
        if not line.strip():
            continue
        if end < 0:
            raise ReplayRefused("partial_final_line", "event JSONL has a partial final line")
        if len(line) > MAX_LINE:
            raise ReplayRefused("line_too_long", f"event JSONL line {number} exceeds {MAX_LINE} bytes")
        value = _decoded(line, number)
        if not isinstance(value, dict):
            raise ReplayRefused("line_not_object", f"event JSONL line {number} must contain an object")
        yield value


def _decoded(line: bytes, number: int) -> object:
    """Decode with the decoder that the original uses: it takes a mark of byte order, NaN and UTF-16."""
    try:
        value: object = json.loads(line)
    except json.JSONDecodeError as error:
        raise ReplayRefused("line_not_json", f"event JSONL line {number} is not valid JSON") from error
    except UnicodeDecodeError as error:
        what = f"event JSONL line {number}: byte {error.start} is no {error.encoding}"
        raise ReplayRefused("line_not_utf8", what, uncaught="UnicodeDecodeError") from error
    except ValueError as error:
        what = f"event JSONL line {number}: a number of more than 4300 digits"
        raise ReplayRefused("number_too_long", what, uncaught="ValueError") from error
    except RecursionError as error:
        what = f"event JSONL line {number}: nested too deeply"
        raise ReplayRefused("too_deep", what, uncaught="RecursionError") from error
    return value


def _normal(event: Raw, index: int) -> _Normal:
    sequence, kind = event.get("sequence"), event.get("event_type")
    if isinstance(sequence, bool) or not isinstance(sequence, int) or sequence < 0:
        raise ReplayRefused("sequence", f"event {index} requires a non-negative integer sequence")
    if not isinstance(kind, str) or not kind.strip():
        raise ReplayRefused("event_type", f"event {index} requires event_type")
    ids: dict[str, str] = {}
    for name in _IDS:
        value = event.get(name)
        if value is None:
            continue
        if not isinstance(value, str) or not value.strip():
            raise ReplayRefused(name, f"event {index} has invalid {name}")
        ids[name] = value.strip()
    data = event.get("data")
    if data is not None and not isinstance(data, dict):
        raise ReplayRefused("data", f"event {index} data must be an object")
    texts: dict[str, str] = {}
    for name in _TEXTS:
        value = event.get(name)
        if value is None:
            continue
        if not isinstance(value, str):
            raise ReplayRefused("field", f"event {index} has invalid {name}")
        texts[name] = _bounded(value, name)
    return _Normal(sequence, kind.strip(), ids, texts, data or {})


def _reduce(ordered: list[_Normal]) -> ReplayState:
    stable: dict[str, str] = {}
    active: str | None = None
    ended: dict[str, None] = {}
    terminal: str | None = None
    timeline: list[TimelineItem] = []
    before: int | None = None
    for event in ordered:
        if event.sequence == before:
            raise ReplayRefused("duplicate", f"duplicate event sequence: {before}")
        before = event.sequence
        for name in ("run_id", "conversation_id"):
            value = event.ids.get(name)
            if value is not None and stable.setdefault(name, value) != value:
                raise ReplayRefused(name, f"event log contains multiple {name} values")
        turn = event.ids.get("turn_id")
        if turn is not None and event.event_type in _TURN_STARTS:
            active = turn
        elif turn is not None and event.event_type in _TURN_ENDS:
            ended.setdefault(turn)
            active = None if active == turn else active
        if event.event_type in _RUN_ENDS | _TURN_ENDS:
            terminal = event.event_type
        timeline.append(
            TimelineItem(
                event.sequence, event.event_type, **event.ids, text=_text(event), detail=_detail(event)
            )
        )
    return ReplayState(
        timeline[0].sequence if timeline else None,
        before,
        len(timeline),
        stable.get("run_id"),
        stable.get("conversation_id"),
        active,
        tuple(ended),
        terminal,
        tuple(timeline),
    )


def _text(event: _Normal) -> str | None:
    own = event.texts.get("text")
    if own:
        return own
    inner = event.data.get("text")
    return _bounded(inner, "data.text") if isinstance(inner, str) and inner else None


def _detail(event: _Normal) -> str | None:
    for source in (event.texts, event.data):
        for name in _DETAILS:
            value = source.get(name)
            if isinstance(value, str) and value:
                return _bounded(value, name)
    return None


def _bounded(text: str, name: str) -> str:
    if "\0" in text:
        raise ReplayRefused("nul", f"{name} cannot contain NUL")
    return text[:MAX_TEXT]
