"""The list cache: the rows of runs that have not changed, in one file that may vanish at any moment.

A row counts only while device, inode, size, mode and both change times of its file are the same. What
cannot be read, is of another build or fails its check sum is a miss, never an error.
"""

from __future__ import annotations

import os
import struct
import time
import zlib
from array import array
from collections.abc import Generator, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import NamedTuple

import msgspec

from refold.core.errors import StoreError
from refold.core.store.files import open_regular, private_directory, replace_atomically
from refold.core.store.packed_rows import BLOCK, NOWHERE, KeptPlaces, KeptRows, pack
from refold.core.store.roots import Candidate
from refold.core.store.shelf import Page, Shelf, Slot
from refold.core.summary import RunSummary
from refold.core.version import __version__

NAME = "list.cache"
_FORMAT = 8
"""Raised whenever a summary would be derived in another way from the same bytes."""
KIND = b"refold list "
MAGIC = KIND + f"{_FORMAT} {__version__}\n".encode()
_MANY = 4096
"""Rows whose places are noted in one step."""
_FRAME = struct.Struct("<II")
KEEP_SECONDS = 90 * 86_400
_SETTLED_NS = 2_000_000_000
"""A file changed within this time may change again without a new time stamp."""


class _Head(msgspec.Struct, array_like=True):
    """What the payloads of one directory begin with."""

    directory: str
    device: int
    used: int
    """When a list last showed this directory, in seconds since 1970."""
    stretches: int
    """How many payloads follow that say what stands in the directory; those after them are its rows."""
    blocks: int


class _Stretch(msgspec.Struct, array_like=True):
    names: str
    stamps: bytes
    places: bytes
    whole: bool


class _Directory(NamedTuple):
    head: _Head
    payloads: list[bytes]
    """All of them, that of the head first."""


_decode_head = msgspec.msgpack.Decoder(_Head).decode
_decode_stretch = msgspec.msgpack.Decoder(_Stretch).decode
_encode = msgspec.msgpack.Encoder().encode


def is_settled(found: Candidate, looked_ns: int) -> bool:
    """Say whether the times of a file, looked at then, were old enough to tell its next change."""
    return looked_ns - found.ctime_ns >= _SETTLED_NS and abs(looked_ns - found.mtime_ns) >= _SETTLED_NS


def load(cache: Path, devices: Mapping[str, int]) -> Iterator[tuple[str, Page] | None]:
    """Give the cached pages of these directories in order, None after each slice of work without one.

    Args:
        cache: The directory of the cache.
        devices: The directories and the devices on which they lie now.
    """
    for found in _directories(cache / NAME):
        if found is not None and devices.get(found.head.directory) == found.head.device:
            for page in _pages(found):
                yield found.head.directory, page
        yield None


def save(cache: Path, shelves: Mapping[str, tuple[int, Shelf]]) -> Iterator[bool]:
    """Write the rows of these directories, joined with what another process wrote since.

    Yields after each slice of work: False, at last True where the file was written. A cache that cannot be
    written is left as it is.

    Args:
        cache: The directory of the cache.
        shelves: Device and shelf of each directory that was read to its end.
    """
    now = int(time.time())
    unread = {directory: _unread(shelf) for directory, (_, shelf) in shelves.items()}
    parts = [MAGIC]
    for found in _directories(cache / NAME):
        if found is not None and found.head.directory in shelves:
            yield from _adopt(found, *shelves[found.head.directory], unread[found.head.directory])
        elif found is not None and now - found.head.used < KEEP_SECONDS:
            parts.extend(map(framed, found.payloads))
        yield False
    for directory, (device, shelf) in shelves.items():
        for payload in (yield from _sealed(shelf, directory, device, now)):
            parts.append(framed(payload))
            yield False
    try:
        private_directory(cache)
        replace_atomically(cache / NAME, b"".join(parts))
    except (OSError, StoreError):
        yield False
        return
    yield True


def _directories(file: Path) -> Iterator[_Directory | None]:
    """Give what is kept of each directory when all of it is read, None for each payload before that."""
    found: _Directory | None = None
    for payload in frames(file):
        if found is None:
            try:
                found = _Directory(_decode_head(payload), [])
            except (msgspec.DecodeError, UnicodeDecodeError):
                return
        found.payloads.append(payload)
        if len(found.payloads) > found.head.stretches + found.head.blocks:
            yield found
            found = None
        else:
            yield None


def _pages(found: _Directory) -> Iterator[Page]:
    """Give the pages of a directory, none from the first one on whose columns do not belong together."""
    stretches = found.head.stretches
    directory = os.path.join(found.head.directory, "")  # noqa: PTH118 - a prefix of strings
    kept = KeptRows(directory, stretches, found.payloads[1 + stretches :])
    for payload in found.payloads[1 : 1 + stretches]:
        stamps, places = array("q"), array("I")
        try:
            stretch = _decode_stretch(payload)
            stamps.frombytes(stretch.stamps)
            places.frombytes(stretch.places)
        except (ValueError, msgspec.DecodeError):
            return
        page = Page(stretch.names, stamps, KeptPlaces(kept, places, stretch.whole))
        if len(stamps) != 5 * len(places) or len(page.names) != len(places):
            return
        yield page


def _adopt(found: _Directory, device: int, shelf: Shelf, unread: Mapping[str, Slot]) -> Iterator[bool]:
    """Take over rows that we lack and another process has read."""
    for page in _pages(found) if unread and found.head.device == device else ():
        for place, name in enumerate(page.names):
            slot = unread.get(name)
            if slot is not None and slot.page.stamp(slot.place) == page.stamp(place):
                slot.page.rows[slot.place] = page.rows[place]
        yield False


def _unread(shelf: Shelf) -> dict[str, Slot]:
    return {
        name: Slot(page, place)
        for page in shelf.pages
        if None in page.rows
        for place, name in enumerate(page.names)
        if page.rows[place] is None and name and name not in shelf.unsettled
    }


def _sealed(shelf: Shelf, directory: str, device: int, now: int) -> Generator[bool, None, list[bytes]]:
    """Give the payloads of a directory: no rows that may not stand tomorrow, nor any that cannot be kept."""
    pages = [*shelf.pages]
    try:
        return (yield from _payloads(pages, shelf.unsettled, directory, device, now))
    except (UnicodeEncodeError, OverflowError):
        pages = [_compact(page) for page in pages]
    try:
        return (yield from _payloads(pages, shelf.unsettled, directory, device, now))
    except UnicodeEncodeError:  # the name of the directory is none that can be kept
        return []


def _payloads(
    pages: Sequence[Page], unsettled: Set[str], directory: str, device: int, now: int
) -> Generator[bool, None, list[bytes]]:
    rows: list[RunSummary] = []
    origins: list[tuple[int, int]] = []
    stretches: list[tuple[str, bytes, int]] = []
    for number, of_shelf in enumerate(pages):
        for _ in of_shelf.making():
            yield False
        # In one step: between two of them a run may be looked at again, and stands there with another stamp.
        page = of_shelf if of_shelf.listing else _compact(of_shelf)
        stretches.append((page.listing, page.stamps.tobytes(), page.count))
        names = page.names
        for place, row in enumerate(page.rows):
            if row is not None and names[place] not in unsettled:
                rows.append(row)
                origins.append((number, place))
        yield False
    times = [row.updated for row in rows]
    order = sorted(range(len(rows)), key=times.__getitem__, reverse=True)
    yield False
    places = [array("I", [NOWHERE]) * count for _, _, count in stretches]
    for at, found in enumerate(order):
        number, place = origins[found]
        places[number][place] = at
        if at % _MANY == 0:
            yield False
    starts = range(0, len(rows), BLOCK)
    payloads = [_encode(_Head(directory, device, now, len(stretches), len(starts)))]
    for (listing, stamps, _), of_page in zip(stretches, places, strict=True):
        whole = NOWHERE not in of_page
        payloads.append(_encode(_Stretch(listing, stamps, of_page.tobytes(), whole)))
        yield False
    for start in starts:
        payloads.append(pack([rows[found] for found in order[start : start + BLOCK]]))
        yield False
    return payloads


def _compact(page: Page) -> Page:
    """Give a page without the runs that are gone and without those that cannot be kept."""
    kept = [place for place, name in enumerate(page.names) if name and _can_be_kept(name, page.rows[place])]
    stamps = array("q", [page.stamp(place)[column] for column in range(5) for place in kept])
    listing = "/".join([page.names[place] for place in kept])
    return Page(listing, stamps, [page.rows[place] for place in kept])


def _can_be_kept(name: str, row: RunSummary | None) -> bool:
    try:
        _encode(name)
        if row is not None:
            pack([row])
    except (UnicodeEncodeError, OverflowError):
        return False
    return True


def framed(payload: bytes) -> bytes:
    """Give a payload with what tells whether it is whole."""
    return _FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def frames(path: Path) -> Iterator[bytes]:
    """Give the payloads of the cache file that are whole, up to the first one that is not."""
    try:
        fd = open_regular(path)
    except StoreError:
        return
    with os.fdopen(fd, "rb") as file:
        try:
            if file.read(len(MAGIC)) != MAGIC:
                return
            left = os.fstat(fd).st_size
            while len(head := file.read(_FRAME.size)) == _FRAME.size:
                length, check = _FRAME.unpack(head)
                payload = file.read(length) if length <= left else b""
                if len(payload) != length or zlib.crc32(payload) != check:
                    return
                yield payload
        except OSError:
            return
