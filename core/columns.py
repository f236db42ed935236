"""The columns of a Timeline, and the small values its answers are made of."""

from __future__ import annotations

import re
from array import array
from typing import NamedTuple

KINDS = ("meta", "user", "assistant", "result", "event", "note", "terminal", "damage", "call")
META, USER, ASSISTANT, RESULT, EVENT, NOTE, TERMINAL, DAMAGE, CALL = range(9)

ERROR = 1
"""Flag: a result with is_error, or a terminal record that says error."""
RECOVERED = 2
"""Flag: read out of a damaged line; the strict fold does not use it."""
REMOTE = 4
FOLDED = 8
"""Flag: the best-effort fold uses it."""
OPEN = 16
"""Flag: after this item an assistant turn stands open (its results may still come)."""
SEQUENCED = 32
"""Flag: the item has a sequence number."""


def finder(wanted: int, unwanted: int = 0) -> re.Pattern[bytes]:
    """Give a pattern that finds items by their flags, a hundred times faster than looking at each."""
    flags = bytes(value for value in range(256) if value & (wanted | unwanted) == wanted)
    return re.compile(b"[" + re.escape(flags) + b"]")


WITH_ERROR = finder(ERROR)
STRICT = finder(SEQUENCED, RECOVERED)
"""Finds what the original program would read as records."""


class Row(NamedTuple):
    """One line of the timeline: a record, a call of an assistant record, or damage."""

    kind: str
    item: int
    seq: int | None
    call: int
    """The ordinal of a call within its assistant record; -1 for every other kind."""


class Span(NamedTuple):
    """Where an item stands in the file."""

    start: int
    """First byte."""
    end: int
    """Byte after the last one, newline excluded."""
    line: int
    """1-based."""


class Bucket(NamedTuple):
    """What one cell of the ruler stands for."""

    kind: str
    error: bool
    """Whether one of its items has a problem."""
    errors: int
    """How many of its results report an error."""
    damage: bool
    first_row: int
    last_row: int


class Mark(NamedTuple):
    """A finding as the builder notes it; `Timeline.findings` makes it a sentence."""

    item: int
    code: str
    start: int
    end: int
    reason: str


class Columns:
    """The columns themselves, one entry an item."""

    __slots__ = (
        "answered_left",
        "cache_create",
        "cache_read",
        "calls",
        "errors",
        "flags",
        "in_tokens",
        "kind",
        "last_assistant",
        "length",
        "line",
        "link",
        "llm",
        "messages",
        "offset",
        "out_tokens",
        "remote",
        "results",
        "seconds",
        "seq",
    )

    def __init__(self) -> None:
        self.offset = array("Q")
        self.length = array("Q")
        self.line = array("Q")
        self.seq = array("Q")
        self.kind = array("B")
        self.flags = array("B")
        self.llm = array("I")
        """Assistant records up to and including this item; the sums below run likewise."""
        self.results = array("I")
        self.remote = array("I")
        self.calls = array("I")
        """Calls requested."""
        self.errors = array("I")
        self.in_tokens = array("q")
        self.out_tokens = array("q")
        self.cache_read = array("q")
        self.cache_create = array("q")
        self.last_assistant = array("I")
        """The item of the last assistant record, plus one; 0 where there is none."""
        self.answered_left = array("I")
        """Calls of the open turn that have no result."""
        self.messages = array("I")
        """Messages of the conversation if every turn were committed."""
        self.link = array("i")
        """A result: the ordinal of the call it answers in the open turn; -1 where it answers none."""
        self.seconds = array("d")
        """Recorded time as a POSIX time stamp; NaN where none is recorded."""

    def arrays(self) -> list[array[int] | array[float]]:
        """All columns in one fixed order."""
        return [getattr(self, name) for name in self.__slots__]
