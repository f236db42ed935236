"""Rows as columns, so that thousands of rows are read back at once.

Most texts of a list repeat from row to row (model, rule, tools); what the name says anyway (id, path) is not
stored for each.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import Final, NamedTuple, get_type_hints

import msgspec

from refold.core.store.roots import SUFFIX
from refold.core.summary import RunSummary

BLOCK: Final = 256
"""Rows that are packed together."""
NOWHERE: Final = 2**32 - 1
_HINTS: Final = get_type_hints(RunSummary)
_FROM_NAME: Final = ("id", "path")
_NEVER: Final = "kept"
"""What is noted about runs is no part of what they say, and is joined to it later."""
_FIELDS: Final = tuple(name for name in RunSummary.__struct_fields__ if name != _NEVER)
_STORED: Final = tuple(name for name in _FIELDS if name not in _FROM_NAME)
_DEFAULTS: Final = {
    field.name: field.default
    for field in msgspec.structs.fields(RunSummary)
    if field.default is not msgspec.NODEFAULT
}
_LISTS: Final = tuple(name for name in _FIELDS if _HINTS[name] == tuple[str, ...])
_CODES: Final = {name: {int: "q", float: "d", bool: "B"}.get(_HINTS[name], "I") for name in _FIELDS}
"""The type code of each column; texts and lists of them are places in a table."""


class PackedRows(msgspec.Struct, array_like=True, gc=False):
    """Some rows, column by column; one value where all rows have the same."""

    ids: str
    """Joined with slashes: no file name has one."""
    columns: list[bytes]
    """The other fields in their order, without the path."""
    texts: list[str]
    """Every distinct text."""
    lists: list[tuple[str, ...]]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PackedRows).decode


def pack(rows: Sequence[RunSummary]) -> bytes:
    """Give rows, one at least, as columns.

    Raises:
        OverflowError: A number does not fit into 64 bits.
        UnicodeEncodeError: A text is no Unicode.
    """
    texts: dict[str, int] = {}
    lists: dict[tuple[str, ...], int] = {}
    columns: list[bytes] = []
    for name in _STORED:
        values = [getattr(row, name) for row in rows]
        code = _CODES[name]
        if name in _LISTS:
            values = [lists.setdefault(value, len(lists)) for value in values]
        elif code == "I":
            values = [texts.setdefault(value, len(texts)) for value in values]
        columns.append(array(code, values[:1] if len(set(values)) == 1 else values).tobytes())
    ids = "/".join([row.id for row in rows])
    return _encode(PackedRows(ids, columns, list(texts), list(lists)))


def unpack(packed: bytes, directory: str) -> list[RunSummary]:
    """Give the rows again.

    Args:
        packed: What `pack` gave.
        directory: Where the runs lie, with a slash at its end.

    Raises:
        ValueError: The columns do not belong together.
        IndexError: A column names a text that is not there.
        msgspec.DecodeError: These are no rows.
    """
    found = _decode(packed)
    # One call for all names: ids and paths are cut from the listing as a whole.
    ids = found.ids.split("/")
    paths = (directory + found.ids.replace("/", f"{SUFFIX}\0{directory}") + SUFFIX).split("\0")
    count = len(ids)
    spread: list[Iterable[object]] = [ids, paths]
    needed = len(spread)
    for name, column in zip(_STORED, found.columns, strict=True):
        values = _values(name, column, found)
        if len(values) == 1:
            spread.append(repeat(values[0], count))
            if values[0] == _DEFAULTS[name]:
                continue
        elif len(values) == count:
            spread.append(values)
        else:
            raise ValueError("columns of different length")
        # What follows the last column that differs from its default is not passed at all.
        needed = len(spread)
    return list(map(RunSummary, *spread[:needed]))


def _values(name: str, column: bytes, found: PackedRows) -> Sequence[object]:
    code = _CODES[name]
    numbers = array(code, column)
    if code == "B":
        return [*map(bool, numbers)]
    if code != "I":
        return numbers
    table: Sequence[object] = found.lists if name in _LISTS else found.texts
    # One call for all of them; for a single place it would give no tuple.
    return itemgetter(*numbers)(table) if len(numbers) > 1 else [table[number] for number in numbers]


class KeptRows:
    """The rows of one directory as the cache keeps them, newest first: made when somebody asks for them."""

    def __init__(self, directory: str, stretches: int, blocks: list[bytes]) -> None:
        """Take what `pack` gave, `BLOCK` rows each but for the last.

        Args:
            directory: As for `unpack`.
            stretches: Of how many stretches of the directory these are the rows.
            blocks: What was packed.
        """
        self._directory = directory
        self.stretches = stretches
        self._blocks = blocks
        self._rows: list[list[RunSummary]] = []
        self.is_broken = False
        """Some of them turned out to be no rows: whoever has told them has told too few."""

    def newest_first(self) -> Iterator[RunSummary]:
        """Give all rows."""
        return chain.from_iterable(map(self._block, range(len(self._blocks))))

    def making(self) -> Iterator[None]:
        """Make all rows, a block after the other: who asks for one by its place waits for all of them."""
        while len(self._rows) < len(self._blocks):
            self._block(len(self._rows))
            yield

    def at(self, places: Iterable[int]) -> list[RunSummary | None]:
        """Give the rows at these places, None where there is none."""
        blocks = [self._block(number) for number in range(len(self._blocks))]
        found = [divmod(place, BLOCK) for place in places]
        return [
            blocks[block][place] if block < len(blocks) and place < len(blocks[block]) else None
            for block, place in found
        ]

    def _block(self, number: int) -> list[RunSummary]:
        while len(self._rows) <= number:
            block, self._blocks[len(self._rows)] = self._blocks[len(self._rows)], b""
            try:
                self._rows.append(unpack(block, self._directory))
            except (ValueError, IndexError, msgspec.DecodeError):
                self._rows.append([])
                self.is_broken = True
        return self._rows[number]


class KeptPlaces(NamedTuple):
    """Where the rows of one stretch of a directory stand among those that the cache keeps."""

    kept: KeptRows
    places: array[int]
    """One for each run; `NOWHERE` for one without a row."""
    whole: bool
    """Each run has a row."""
