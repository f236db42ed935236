"""Rows of the list as columns: every distinct text once, so that thousands of rows are read back at once.

Most texts of a list repeat from row to row (model, rule, tools); what the directory says anyway (name,
path, size, time) is not stored at all.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Final, get_type_hints

import msgspec

from refold.core.store.roots import SUFFIX
from refold.core.summary import RunSummary

_HINTS: Final = get_type_hints(RunSummary)
_FROM_FILE: Final = ("id", "path", "size", "updated")
_NEVER: Final = "kept"
"""What is noted about runs is no part of what they say, and is joined to it later."""
_FIELDS: Final = tuple(name for name in RunSummary.__struct_fields__ if name != _NEVER)
_DEFAULTS: Final = {
    field.name: field.default
    for field in msgspec.structs.fields(RunSummary)
    if field.default is not msgspec.NODEFAULT
}
_NUMBERS: Final = tuple(name for name in _FIELDS if _HINTS[name] is int and name not in _FROM_FILE)
_FLAGS: Final = tuple(name for name in _FIELDS if _HINTS[name] is bool)
_LISTS: Final = tuple(name for name in _FIELDS if _HINTS[name] == tuple[str, ...])
_TEXTS: Final = tuple(name for name in _FIELDS if name not in (*_FROM_FILE, *_NUMBERS, *_FLAGS, *_LISTS))


class PackedRows(msgspec.Struct, array_like=True, gc=False):
    """Some rows, column by column in the order of the fields; one value where all rows have the same."""

    missing: list[int]
    """The places that have no row."""
    numbers: list[bytes]
    flags: list[bytes]
    texts: list[str]
    """Every distinct text."""
    text_places: list[bytes]
    """Places in `texts`."""
    lists: list[tuple[str, ...]]
    list_places: list[bytes]


def pack(rows: Sequence[RunSummary | None]) -> PackedRows:
    """Give rows as columns.

    Raises:
        OverflowError: A number does not fit into 64 bits.
    """
    present = [row for row in rows if row is not None]
    texts: dict[str, int] = {}
    lists: dict[tuple[str, ...], int] = {}

    def packed(code: str, numbers: list[int]) -> bytes:
        return array(code, numbers[:1] if len(set(numbers)) == 1 else numbers).tobytes()

    return PackedRows(
        missing=[place for place, row in enumerate(rows) if row is None],
        numbers=[packed("q", [getattr(row, name) for row in present]) for name in _NUMBERS],
        flags=[packed("B", [getattr(row, name) for row in present]) for name in _FLAGS],
        text_places=[
            packed("I", [texts.setdefault(getattr(row, name), len(texts)) for row in present])
            for name in _TEXTS
        ],
        list_places=[
            packed("I", [lists.setdefault(getattr(row, name), len(lists)) for row in present])
            for name in _LISTS
        ],
        texts=list(texts),
        lists=list(lists),
    )


def unpack(packed: PackedRows, directory: str, listing: str, stamps: array[int]) -> list[RunSummary | None]:
    """Give the rows again.

    Args:
        packed: The rows as columns.
        directory: Where they lie, with a slash at its end.
        listing: The names of the files, joined with slashes.
        stamps: Their sizes, then their mtimes in nanoseconds, then whatever else.

    Raises:
        ValueError: The columns do not belong together.
        IndexError: A column names a text that is not there.
    """
    # One call for all names: ids and paths are cut from the listing as a whole.
    ids = listing.removesuffix(SUFFIX).split(f"{SUFFIX}/") if listing else []
    paths = (directory + listing.replace("/", f"\0{directory}")).split("\0") if listing else []
    count = len(ids)
    sizes, mtimes = stamps[:count].tolist(), stamps[count : 2 * count].tolist()
    gaps = frozenset(packed.missing)
    if gaps:
        kept = [place for place in range(count) if place not in gaps]
        ids, paths = [ids[place] for place in kept], [paths[place] for place in kept]
        sizes, mtimes = [sizes[place] for place in kept], [mtimes[place] for place in kept]
    columns: dict[str, Sequence[object]] = {
        "id": ids,
        "path": paths,
        "size": sizes,
        "updated": [mtime / 1e9 for mtime in mtimes],
    }
    columns.update(zip(_NUMBERS, [array("q", column) for column in packed.numbers], strict=True))
    columns.update(zip(_FLAGS, [[*map(bool, column)] for column in packed.flags], strict=True))
    columns.update(zip(_TEXTS, [_named(packed.texts, places) for places in packed.text_places], strict=True))
    columns.update(zip(_LISTS, [_named(packed.lists, places) for places in packed.list_places], strict=True))
    spread = _spread(columns, len(ids))
    rows: list[RunSummary | None] = list(map(RunSummary, *spread)) if spread else []
    if not gaps:
        return rows
    rest = iter(rows)
    return [None if place in gaps else next(rest) for place in range(count)]


def _named(values: Sequence[object], places: bytes) -> Sequence[object]:
    """Give the value at each place."""
    numbers = array("I", places)
    # One call for all of them; for a single place it would give no tuple.
    return itemgetter(*numbers)(values) if len(numbers) > 1 else [values[number] for number in numbers]


def _spread(columns: Mapping[str, Sequence[object]], count: int) -> list[Iterable[object]]:
    """Give what to make so many rows of, field by field up to the last that differs from its default.

    Raises:
        ValueError: A column is of another length.
    """
    spread: list[Iterable[object]] = []
    needed = 0
    for name in _FIELDS:
        column = columns[name]
        if len(column) == count and count > 1:
            spread.append(column)
        elif len(column) == 1 and count:
            spread.append(repeat(column[0], count))
            if column[0] == _DEFAULTS.get(name):
                continue
        elif count or column:
            raise ValueError("columns of different length")
        needed = len(spread)
    return spread[:needed]
