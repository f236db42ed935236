"""The columns of a Timeline, and the small values its answers are made of."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import NamedTuple, overload
from zlib import crc32

import msgspec

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


class Mark(NamedTuple):
    """A finding as the builder notes it; `Timeline.findings` makes it a sentence."""

    item: int
    code: str
    start: int
    end: int
    reason: str


class ByTurn(Sequence[int]):
    """A column that only an assistant record changes: kept once a turn, read once an item."""

    __slots__ = ("_turns", "values")

    def __init__(self, turns: array[int], code: str) -> None:
        self._turns = turns
        """The turn of each item."""
        self.values = array(code, (0,))
        """What holds before the first turn, then from each turn on."""

    def __len__(self) -> int:
        return len(self._turns)

    @overload
    def __getitem__(self, item: int) -> int: ...
    @overload
    def __getitem__(self, item: slice) -> Sequence[int]: ...
    def __getitem__(self, item: int | slice) -> int | Sequence[int]:
        if isinstance(item, slice):
            return [self.values[turn] for turn in self._turns[item]]
        return self.values[self._turns[item]]


class PackedColumns(msgspec.Struct, array_like=True):
    """The columns as bytes, in one fixed order."""

    data: list[memoryview]
    """Decoded, they are views of what was read: nothing is copied twice."""
    turns: int
    """The check sum of the column of turns, by which others are looked up."""


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
        self.in_tokens = ByTurn(self.llm, "q")
        self.out_tokens = ByTurn(self.llm, "q")
        self.cache_read = ByTurn(self.llm, "q")
        self.cache_create = ByTurn(self.llm, "q")
        self.last_assistant = ByTurn(self.llm, "I")
        """The item of the last assistant record, plus one; 0 where there is none."""
        self.answered_left = array("I")
        """Calls of the open turn that have no result."""
        self.messages = array("I")
        """Messages of the conversation if every turn were committed."""
        self.link = array("i")
        """A result: the ordinal of the call it answers in the open turn; -1 where it answers none."""
        self.seconds = array("d")
        """Recorded time as a POSIX time stamp; NaN where none is recorded."""

    def by_turn(self) -> tuple[ByTurn, ...]:
        """The columns that are kept once a turn."""
        return (
            self.in_tokens, self.out_tokens, self.cache_read, self.cache_create, self.last_assistant,
        )  # fmt: skip

    def by_item(self) -> tuple[array[int] | array[float], ...]:
        """The columns that are kept once an item, in the order in which a builder adds a row."""
        return (
            self.offset, self.length, self.line, self.seq, self.kind, self.flags, self.llm, self.results,
            self.remote, self.calls, self.errors, self.answered_left, self.messages, self.link, self.seconds,
        )  # fmt: skip

    def arrays(self) -> list[array[int] | array[float]]:
        """All that is kept, in one fixed order."""
        return [*self.by_item(), *(column.values for column in self.by_turn())]

    def packed(self) -> PackedColumns:
        """Give all that is kept, for a cache."""
        data = [memoryview(column.tobytes()) for column in self.arrays()]
        return PackedColumns(data, crc32(self.llm))

    def restore(self, kept: PackedColumns) -> None:
        """Take over what was kept, instead of what there is.

        Raises:
            ValueError: they do not belong together: as many entries in each, and one for each turn.
        """
        for column, data in zip(self.arrays(), kept.data, strict=True):
            del column[:]
            column.frombytes(data)
        items = {len(column) for column in self.by_item()}
        turns = {len(column.values) for column in self.by_turn()}
        # Turns are numbered upwards: where they are the ones that were kept, the last is the highest.
        highest = self.llm[-1] if self.llm else 0
        if len(items) != 1 or turns != {highest + 1} or crc32(self.llm) != kept.turns:
            raise ValueError("columns that do not belong together")

    def begin_turn(
        self, in_tokens: int, out_tokens: int, cache_read: int, cache_create: int, last_assistant: int
    ) -> None:
        """Note what holds from a new turn on; its first item is added next."""
        self.in_tokens.values.append(in_tokens)
        self.out_tokens.values.append(out_tokens)
        self.cache_read.values.append(cache_read)
        self.cache_create.values.append(cache_create)
        self.last_assistant.values.append(last_assistant)

    def cut(self, items: int) -> None:
        """Forget all items from one on."""
        for column in self.by_item():
            del column[items:]
        turns = self.llm[-1] if items else 0
        for by_turn in self.by_turn():
            del by_turn.values[turns + 1 :]
