"""The columns of a Timeline, and the small values its answers are made of."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias, overload
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


Numbers: TypeAlias = "array[int] | memoryview[int]"
"""A column: an array while it grows, a view of what a cache holds while nothing is added to it."""


def place_of(value: int, numbers: Numbers, start: int) -> int:
    """Give the first place from one on that holds a value; raise ValueError where there is none."""
    if isinstance(numbers, memoryview):
        return start + array(numbers.format, numbers[start:].tobytes()).index(value)
    return numbers.index(value, start)


class ByTurn(Sequence[int]):
    """A column that only an assistant record changes: kept once a turn, read once an item."""

    __slots__ = ("turns", "values")

    def __init__(self, turns: Numbers, values: Numbers) -> None:
        self.turns = turns
        """The turn of each item."""
        self.values = values
        """What holds before the first turn, then from each turn on."""

    def __len__(self) -> int:
        return len(self.turns)

    @overload
    def __getitem__(self, item: int) -> int: ...
    @overload
    def __getitem__(self, item: slice) -> Sequence[int]: ...
    def __getitem__(self, item: int | slice) -> int | Sequence[int]:
        if isinstance(item, slice):
            return [self.values[turn] for turn in self.turns[item]]
        return self.values[self.turns[item]]


class PackedColumns(msgspec.Struct, array_like=True):
    """The columns as bytes, in one fixed order."""

    data: list[memoryview]
    """Decoded, they are views of what was read: nothing is copied."""
    codes: str
    """Their types, a letter each."""
    turns: int
    """The check sum of the column of turns, by which others are looked up."""


_BY_ITEM: Final = {
    "offset": "Q", "length": "I", "line": "I", "seq": "I", "kind": "B", "flags": "B", "llm": "I",
    "results": "I", "remote": "H", "calls": "I", "errors": "H", "answered_left": "B", "messages": "I",
    "link": "b", "seconds": "d",
}  # fmt: skip
"""The columns that are kept once an item, in the order of a row, and the types they begin with."""
_BY_TURN: Final = {
    "in_tokens": "I", "out_tokens": "I", "cache_read": "I", "cache_create": "I", "last_assistant": "I",
}  # fmt: skip
_WIDER: Final = {"B": "I", "H": "I", "b": "q", "I": "q", "q": "Q"}
"""The type that a column goes on with when a number does not fit."""


def _widths(code: str) -> str:
    """Give the types that a column of this one may have become."""
    return code + _widths(_WIDER[code]) if code in _WIDER else code


def _may_become(begun: str, code: str) -> bool:
    return code in _widths(begun)


def _code(column: Numbers | array[float] | memoryview[float]) -> str:
    return column.format if isinstance(column, memoryview) else column.typecode


def _grown(column: memoryview[int]) -> array[int]:
    grown: array[int] = array(column.format)
    grown.frombytes(column.cast("B"))
    return grown


def _extended(column: array[int], before: int, values: Sequence[int]) -> array[int]:
    """Give so much of a column with more values, in a type into which all of them fit."""
    del column[before:]
    try:
        column.extend(values)
    except OverflowError:
        del column[before:]
    else:
        return column
    for code in _widths(column.typecode)[1:]:
        try:
            wider = array(code, column)
            wider.extend(values)
        except OverflowError:
            continue
        return wider
    raise OverflowError("a number of more than 64 bits")


_Growing: TypeAlias = "tuple[tuple[array[int] | array[float], ...], tuple[array[int], ...]]"


class Columns:
    """The columns themselves, one entry an item."""

    __slots__ = (*_BY_ITEM, *_BY_TURN, "_grows")

    offset: Numbers
    length: Numbers
    line: Numbers
    seq: Numbers
    kind: Numbers
    flags: Numbers
    llm: Numbers
    """Assistant records up to and including this item; the sums below run likewise."""
    results: Numbers
    remote: Numbers
    calls: Numbers
    """Calls requested."""
    errors: Numbers
    in_tokens: ByTurn
    out_tokens: ByTurn
    cache_read: ByTurn
    cache_create: ByTurn
    last_assistant: ByTurn
    """The item of the last assistant record, plus one; 0 where there is none."""
    answered_left: Numbers
    """Calls of the open turn that have no result."""
    messages: Numbers
    """Messages of the conversation if every turn were committed."""
    link: Numbers
    """A result: the ordinal of the call it answers in the open turn; -1 where it answers none."""
    seconds: array[float] | memoryview[float]
    """Recorded time as a POSIX time stamp; NaN where none is recorded."""

    def __init__(self) -> None:
        for name, code in _BY_ITEM.items():
            setattr(self, name, array(code))
        for name, code in _BY_TURN.items():
            setattr(self, name, ByTurn(self.llm, array(code, (0,))))
        self._grows: _Growing | None = None
        """The columns of each item and of each turn, once one was added to; until then they may be views."""

    def add(self, rows: Sequence[tuple[int | float, ...]]) -> None:
        """Add items, one at least, of each its entries in the order in which the columns stand above.

        Raises:
            OverflowError: a number of more than 64 bits; nothing is added.
        """
        by_item, _ = self._grows or self._growing()
        try:
            for column, values in zip(by_item, zip(*rows, strict=True), strict=True):
                column.extend(values)
        except OverflowError:
            before = len(self.seconds)
            try:
                for name, values in zip(_BY_ITEM, zip(*rows, strict=True), strict=True):
                    setattr(self, name, _extended(getattr(self, name), before, values))
            except OverflowError:
                for column in self._growing()[0]:
                    del column[before:]
                raise
            self._growing()

    def begin_turn(
        self, in_tokens: int, out_tokens: int, cache_read: int, cache_create: int, last_assistant: int
    ) -> None:
        """Note what holds from a new turn on; its first item is added next.

        Raises:
            OverflowError: a number of more than 64 bits; nothing is noted.
        """
        of_in, of_out, of_read, of_create, of_last = (self._grows or self._growing())[1]
        try:
            of_in.append(in_tokens)
            of_out.append(out_tokens)
            of_read.append(cache_read)
            of_create.append(cache_create)
            of_last.append(last_assistant)
        except OverflowError:
            before = len(of_last)
            turn = (in_tokens, out_tokens, cache_read, cache_create, last_assistant)
            try:
                for name, value in zip(_BY_TURN, turn, strict=True):
                    by_turn = getattr(self, name)
                    by_turn.values = _extended(by_turn.values, before, (value,))
            except OverflowError:
                for column in self._growing()[1]:
                    del column[before:]
                raise
            self._growing()

    def growing(self) -> Iterator[None]:
        """Copy the columns that are views, one a step; who adds an item copies all that are left at once."""
        for name in _BY_ITEM:
            column = getattr(self, name)
            if isinstance(column, memoryview):
                setattr(self, name, _grown(column))
                yield
        for name in _BY_TURN:
            by_turn = getattr(self, name)
            by_turn.turns = self.llm
            if isinstance(by_turn.values, memoryview):
                by_turn.values = _grown(by_turn.values)
                yield

    def _growing(self) -> _Growing:
        for _ in self.growing():
            pass
        items = tuple(getattr(self, name) for name in _BY_ITEM)
        self._grows = items, tuple(getattr(self, name).values for name in _BY_TURN)
        return self._grows

    def arrays(self) -> list[Numbers | array[float] | memoryview[float]]:
        """All that is kept, in one fixed order."""
        return [
            *(getattr(self, name) for name in _BY_ITEM),
            *(getattr(self, name).values for name in _BY_TURN),
        ]

    def packed(self) -> PackedColumns:
        """Give all that is kept, for a cache."""
        arrays = self.arrays()
        data = [memoryview(column.tobytes()) for column in arrays]
        return PackedColumns(data, "".join(map(_code, arrays)), crc32(self.llm))

    def restore(self, kept: PackedColumns) -> None:
        """Take over what was kept, instead of what there is; it is copied when something is added.

        Raises:
            ValueError: they do not belong together: as many entries in each, and one for each turn.
        """
        begun = [*_BY_ITEM.values(), *_BY_TURN.values()]
        if len(kept.codes) != len(begun) or not all(map(_may_become, begun, kept.codes)):
            raise ValueError("columns of other types")
        try:
            views: list[memoryview[int]] = [
                data.cast(code)  # type: ignore[call-overload] # of one of the types that it knows
                for data, code in zip(kept.data, kept.codes, strict=True)
            ]
        except TypeError as error:
            raise ValueError(str(error)) from error
        by_item, by_turn = views[: len(_BY_ITEM)], views[len(_BY_ITEM) :]
        llm = by_item[[*_BY_ITEM].index("llm")]
        # Turns are numbered upwards: where they are the ones that were kept, the last is the highest.
        highest = llm[-1] if len(llm) else 0
        items, turns = {len(view) for view in by_item}, {len(view) for view in by_turn}
        if len(items) != 1 or turns != {highest + 1} or crc32(llm) != kept.turns:
            raise ValueError("columns that do not belong together")
        for name, view in zip(_BY_ITEM, by_item, strict=True):
            setattr(self, name, view)
        for name, view in zip(_BY_TURN, by_turn, strict=True):
            setattr(self, name, ByTurn(llm, view))
        self._grows = None

    def cut(self, items: int) -> None:
        """Forget all items from one on."""
        by_item, by_turn = self._grows or self._growing()
        for column in by_item:
            del column[items:]
        turns = self.llm[-1] if items else 0
        for values in by_turn:
            del values[turns + 1 :]
