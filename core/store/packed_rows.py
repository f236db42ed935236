"""Rows of the list as columns: every distinct text once, so that thousands of rows are read back at once.

Most texts of a list repeat from row to row (model, rule, tools); what the directory says anyway (name,
path, size, time) is not stored at all.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final, get_type_hints

import msgspec

from refold.core.store.roots import SUFFIX
from refold.core.summary import RunSummary

_HINTS: Final = get_type_hints(RunSummary)
_FROM_FILE: Final = ("id", "path", "size", "updated")
_NEVER: Final = "kept"
"""What is noted about runs is no part of what they say, and is joined to it later."""
_FIELDS: Final = tuple(name for name in RunSummary.__struct_fields__ if name != _NEVER)
_NUMBERS: Final = tuple(name for name in _FIELDS if _HINTS[name] is int and name not in _FROM_FILE)
_FLAGS: Final = tuple(name for name in _FIELDS if _HINTS[name] is bool)
_LISTS: Final = tuple(name for name in _FIELDS if _HINTS[name] == tuple[str, ...])
_TEXTS: Final = tuple(name for name in _FIELDS if name not in (*_FROM_FILE, *_NUMBERS, *_FLAGS, *_LISTS))


class PackedRows(msgspec.Struct, array_like=True, gc=False):
    """Some rows, column by column, each of them in the order of the fields."""

    missing: list[int]
    """The places that have no row."""
    numbers: list[bytes]
    flags: list[list[bool]]
    texts: list[str]
    """Every distinct text."""
    text_places: list[bytes]
    """Places in `texts`; one for all rows where they have the same text."""
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
    numbers = [array("q", [getattr(row, name) for row in present]).tobytes() for name in _NUMBERS]
    text_places = [[texts.setdefault(getattr(row, name), len(texts)) for row in present] for name in _TEXTS]
    list_places = [[lists.setdefault(getattr(row, name), len(lists)) for row in present] for name in _LISTS]
    return PackedRows(
        missing=[place for place, row in enumerate(rows) if row is None],
        numbers=numbers,
        flags=[[getattr(row, name) for row in present] for name in _FLAGS],
        texts=list(texts),
        text_places=[_packed(places) for places in text_places],
        lists=list(lists),
        list_places=[_packed(places) for places in list_places],
    )


def _packed(places: list[int]) -> bytes:
    return array("I", places[:1] if len(set(places)) == 1 else places).tobytes()


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
    columns.update(zip(_FLAGS, packed.flags, strict=True))
    for name, places in zip(_TEXTS, packed.text_places, strict=True):
        columns[name] = _spread(packed.texts, places, len(ids))
    for name, places in zip(_LISTS, packed.list_places, strict=True):
        columns[name] = _spread(packed.lists, places, len(ids))
    if any(len(column) != len(ids) for column in columns.values()):
        raise ValueError("columns of different length")
    rows: list[RunSummary | None] = list(map(RunSummary, *[columns[name] for name in _FIELDS]))
    if not gaps:
        return rows
    rest = iter(rows)
    return [None if place in gaps else next(rest) for place in range(count)]


def _spread(values: Sequence[object], places: bytes, count: int) -> list[object]:
    numbers = array("I", places)
    if len(numbers) == 1:
        return [values[numbers[0]]] * count
    return list(map(values.__getitem__, numbers))
