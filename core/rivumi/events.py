r"""The lines of an event log, each with its place in the file.

Lines end at `\n` and nowhere else (formats/rivumi.md 9, weakness 7). What either reader of the original
refuses and still has a meaning is read here, with its oddity named; only a line without a sequence or a
type is a bad one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from refold.core.errors import BadRecord
from refold.core.formats.tolerant import MAX_DEPTH, parse, plain, too_deep
from refold.core.records import Json

BOM: Final = b"\xef\xbb\xbf"

_ENVELOPE = frozenset({"event_type", "run_id", "task_id", "sequence", "data", "event_id", "created_at"})
_EXTERNAL = frozenset({"sequence", "event_type", "text", "data"})
_MAX_SEQUENCE = 2**63 - 1
_NULS: Final = bytes(8)
_BLANK = b" \t\r\n\v\f"


class Event(msgspec.Struct, frozen=True):
    """One event and where it stands."""

    sequence: int
    event_type: str
    """Without the blanks around it."""
    line: int
    """1-based, blank lines counted."""
    start: int
    """First byte of its line, 0-based."""
    end: int
    """Byte after the last one of its line, the line end not counted."""
    run_id: str = ""
    task_id: str | None = None
    data: dict[str, Json] = {}
    event_id: str = ""
    created_at: str | int | float | None = None
    """As recorded."""
    text: str | None = None
    """What an external program said; events of the loop have none."""
    extra: dict[str, Json] = {}
    """Keys that the format does not know, kept."""
    odd: tuple[str, ...] = ()
    """What one of the original's readers refuses about the line."""


class BadLine(msgspec.Struct, frozen=True):
    """A line that is no event; its bytes stay in the file."""

    line: int
    start: int
    end: int
    code: str
    """The damage code (`core.findings`)."""
    reason: str


class EventLog(msgspec.Struct, frozen=True):
    """What a log says, in the order of the file."""

    events: tuple[Event, ...] = ()
    bad: tuple[BadLine, ...] = ()
    """Lines inside the log that cannot be read."""
    torn: BadLine | None = None
    """An end without a line end that cannot be read: the rest of an interrupted write."""
    unterminated: bool = False
    """The last event is whole but has no line end."""
    bom: bool = False
    size: int = 0

    @property
    def last(self) -> Event | None:
        """The last event of the file, whatever its sequence."""
        return self.events[-1] if self.events else None


def read_log(data: bytes) -> EventLog:
    """Give the events and the bad lines of a log."""
    events: list[Event] = []
    bad: list[BadLine] = []
    torn: BadLine | None = None
    unterminated = False
    for number, start, end, ended in _lines(data):
        raw = data[start:end]
        if number == 1:
            raw = raw.removeprefix(BOM)
        if not raw.strip(_BLANK):
            continue
        try:
            events.append(_event(raw, number, start, end))
            unterminated = not ended
        except BadRecord as wrong:
            line = BadLine(number, start, end, damage_code(raw, wrong), wrong.reason)
            if ended:
                bad.append(line)
            else:
                torn = line
    return EventLog(tuple(events), tuple(bad), torn, unterminated, data.startswith(BOM), len(data))


def damage_code(raw: bytes, wrong: BadRecord) -> str:
    """Give the code of a line that is no event: a run of NUL bytes is what a loss of power leaves."""
    return "E_NUL_RUN" if _NULS in raw else wrong.code


def _lines(data: bytes) -> Iterator[tuple[int, int, int, bool]]:
    """The number, first byte, end and completeness of each line."""
    start, number = 0, 0
    while start < len(data):
        number += 1
        end = data.find(b"\n", start)
        if end < 0:
            yield number, start, len(data), False
            return
        yield number, start, end, True
        start = end + 1


def _event(raw: bytes, line: int, start: int, end: int) -> Event:
    fields = json_object(raw)
    sequence, kind = fields.get("sequence"), fields.get("event_type")
    odd = [] if _is_utf8(raw) else ["bytes that are not UTF-8"]
    if isinstance(sequence, bool) or not isinstance(sequence, int) or not 0 <= sequence <= _MAX_SEQUENCE:
        raise BadRecord("the sequence is no whole number from 0 on")
    if not isinstance(kind, str) or not kind.strip():
        raise BadRecord("there is no event type")
    if kind != kind.strip():
        odd.append("blanks around the event type")
    data = fields.get("data")
    if data is None and "data" in fields:
        odd.append("data is null")
    elif data is not None and not isinstance(data, dict):
        raise BadRecord("data is not an object")
    run_id, task_id, event_id = (_text(fields, name, odd) for name in ("run_id", "task_id", "event_id"))
    text = _text(fields, "text", odd)
    created = fields.get("created_at")
    if isinstance(created, bool | list | dict):
        odd.append("created_at is no time")
        created = None
    known = _ENVELOPE if "run_id" in fields else _ENVELOPE | _EXTERNAL
    extra = {key: value for key, value in fields.items() if key not in known}
    odd.extend(f"a key {key!r} that the format does not know" for key in extra)
    return Event(
        sequence,
        kind.strip(),
        line,
        start,
        end,
        run_id or "",
        task_id,
        data if isinstance(data, dict) else {},
        event_id or "",
        created,
        text,
        extra,
        tuple(odd),
    )


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _text(fields: dict[str, Json], name: str, odd: list[str]) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        odd.append(f"{name} is no text")
        return None
    return value


def json_object(raw: bytes) -> dict[str, Json]:
    """Give the one JSON object that some bytes hold; of a repeated key the last one counts.

    Raises:
        BadRecord: they hold none (E_BAD_JSON, E_BAD_UTF8, E_NONFINITE, E_TOO_DEEP, E_BAD_RECORD).
    """
    value = json_value(raw)
    if not isinstance(value, dict):
        raise BadRecord("JSON, but not an object")
    return value


def json_value(raw: bytes) -> Json:
    """Give the one JSON value that some bytes hold.

    Raises:
        BadRecord: they hold none (E_BAD_JSON, E_BAD_UTF8, E_NONFINITE, E_TOO_DEEP).
    """
    if not too_deep(raw):
        try:
            value: Json = msgspec.json.decode(raw)
        except (msgspec.DecodeError, ValueError, RecursionError):
            # The quick decoder says neither which rule is broken nor what can still be read.
            return plain(parse(raw))
        return value
    raise BadRecord(f"nested more than {MAX_DEPTH} levels deep", code="E_TOO_DEEP")
