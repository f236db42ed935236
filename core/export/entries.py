"""What the writers are given: the facts of a run, and its records one by one, already redacted."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from refold.core.formats.names import keeps_directories
from refold.core.links import link
from refold.core.pasted import pasted
from refold.core.records import Record
from refold.core.state import Counters


class Problem(msgspec.Struct, frozen=True):
    """Something noticed about a record."""

    code: str
    message: str


class Entry(msgspec.Struct, frozen=True):
    """One record, or one damaged stretch of bytes."""

    item: int
    seq: int | None
    kind: str
    line: int
    start: int
    end: int
    turn: int
    seconds: float | None
    """Since the first recorded time; None where none was recorded."""
    is_error: bool
    recovered: bool
    record: Record | None
    """None for damage, and for a record that is too long to be shown whole."""
    text: str = ""
    """The beginning of its bytes as text, where there is no record."""
    left: int = 0
    """So many bytes follow that text."""
    problems: tuple[Problem, ...] = ()
    link: str = ""
    """What opens it again: RUN@SEQ."""
    unanswered: frozenset[int] = frozenset()
    """Which of its calls have no result, counted from 0."""

    @property
    def place(self) -> str:
        """What to call it by: its sequence, or its line where it has none."""
        return f"#{self.line}" if self.seq is None else str(self.seq)


class Head(msgspec.Struct, frozen=True):
    """The facts of a run."""

    run_id: str
    format: str
    model: str
    created: str
    prompt: str
    items: int
    up_to: int | None
    """The last sequence that is written out, where not all are."""
    turns: int
    calls: int
    counters: Counters
    ended: str
    """The reason of the last terminal record; empty where there is none."""
    open_calls: int
    """How many calls of the last turn have no result."""
    nothing_began: bool
    """It is a fork that nobody has gone on with: these calls did not run in it."""
    damaged: int
    """How many records or stretches of bytes something is wrong with."""
    refold: str
    """The version that writes."""

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """Names and values for a list of facts; what is not known is left out."""
        rows = (
            ("open it with", self._opening),
            ("format", self.format),
            ("model", self.model),
            ("created", self.created),
            # A journal begins with it; of a run directory it stands beside the log.
            ("asked for", self.prompt if keeps_directories(self.format) else ""),
            ("ended", self.ended or "no terminal record"),
            ("records", f"{self.items:,}"),
            ("turns", f"{self.turns:,}"),
            ("calls", f"{self.calls:,}"),
            ("tokens", f"{self.counters.tokens:,}"),
            ("in flight", self._in_flight),
            ("up to", "" if self.up_to is None else f"seq {self.up_to}"),
            ("damage", f"{self.damaged:,}" if self.damaged else ""),
        )
        return tuple((name, value) for name, value in rows if value)

    @property
    def _opening(self) -> str:
        """The command that opens it; empty where its id cannot be pasted, or would be read as an option."""
        place = link(self.run_id, self.up_to)
        return "" if place.startswith("-") else pasted("refold", place)

    @property
    def _in_flight(self) -> str:
        if not self.open_calls:
            return ""
        calls = (
            "1 call without a result" if self.open_calls == 1 else f"{self.open_calls} calls without a result"
        )
        return f"{calls}: {'not run in this fork' if self.nothing_began else 'outcome unknown'}"


_COMMANDING: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0x110000, 0x10000))
    + "]"
)
"""What commands, reorders or hides (safety.md 3.2); not the joiners, which write Persian and emoji."""


def visible(text: str) -> str:
    """Give a text in which no character commands a terminal, turns a line around or hides."""
    return _COMMANDING.sub(_picture, text)


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if 0xDC80 <= code <= 0xDCFF:
        return f"‹x{code - 0xDC00:02X}›"
    return f"‹{code:02X}›" if code < 0x100 else f"‹U+{code:04X}›"


def title(entry: Entry) -> str:
    """Give a line that says which record this is, without any text of its own."""
    parts = [entry.kind]
    if entry.turn and entry.kind not in {"meta", "user"}:
        parts.append(f"turn {entry.turn}")
    if entry.seconds is not None:
        parts.append(f"+{entry.seconds:.1f}s")
    if entry.is_error:
        parts.append("error")
    if entry.recovered:
        parts.append("recovered from a damaged line")
    return " · ".join(parts)
