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
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

import msgspec

from refold.core.errors import StoreError
from refold.core.store.files import open_regular, private_directory, replace_atomically
from refold.core.store.packed_rows import PackedRows, pack, unpack
from refold.core.store.roots import Candidate
from refold.core.store.shelf import Page, Shelf, Slot
from refold.core.version import __version__

NAME = "list.cache"
_FORMAT = 7
"""Raised whenever a summary would be derived in another way from the same bytes."""
KIND = b"refold list "
MAGIC = KIND + f"{_FORMAT} {__version__}\n".encode()
_FRAME = struct.Struct("<II")
KEEP_SECONDS = 90 * 86_400
_SETTLED_NS = 2_000_000_000
"""A file changed within this time may change again without a new time stamp."""


class _Block(msgspec.Struct, array_like=True):
    directory: str
    device: int
    used: int
    """When a list last showed this directory, in seconds since 1970."""
    names: str
    stamps: bytes
    rows: msgspec.Raw
    """PackedRows; decoded only where the directory is looked at."""


_decode = msgspec.msgpack.Decoder(_Block).decode
_decode_rows = msgspec.msgpack.Decoder(PackedRows).decode
_encode = msgspec.msgpack.Encoder().encode


def is_settled(found: Candidate, looked_ns: int) -> bool:
    """Say whether the times of a file, looked at then, were old enough to tell its next change."""
    return looked_ns - found.ctime_ns >= _SETTLED_NS and abs(looked_ns - found.mtime_ns) >= _SETTLED_NS


def load(cache: Path, devices: Mapping[str, int]) -> Iterator[tuple[str, Page] | None]:
    """Give the cached pages of these directories in order, None for each that is not of them.

    Args:
        cache: The directory of the cache.
        devices: The directories and the devices on which they lie now.
    """
    for payload in frames(cache / NAME):
        block = _block(payload)
        wanted = block is not None and devices.get(block.directory) == block.device
        page = _page(block) if wanted and block is not None else None
        yield None if block is None or page is None else (block.directory, page)


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
    for payload in frames(cache / NAME):
        block = _block(payload)
        if block is not None and block.directory in shelves:
            _adopt(block, *shelves[block.directory], unread[block.directory])
        elif block is not None and now - block.used < KEEP_SECONDS:
            parts.append(framed(payload))
        yield False
    for directory, (device, shelf) in shelves.items():
        for page in shelf.pages:
            parts.extend(map(framed, _sealed(page, directory, device, now, shelf.unsettled)))
            yield False
    try:
        private_directory(cache)
        replace_atomically(cache / NAME, b"".join(parts))
    except (OSError, StoreError):
        yield False
        return
    yield True


def _block(payload: bytes) -> _Block | None:
    try:
        return _decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _page(block: _Block) -> Page | None:
    """Give the page of a block, None where its columns do not belong together."""
    stamps = array("q")
    directory = os.path.join(block.directory, "")  # noqa: PTH118 - a prefix of strings
    try:
        stamps.frombytes(block.stamps)
        rows = unpack(_decode_rows(block.rows), directory, block.names, stamps)
    except (ValueError, IndexError, msgspec.DecodeError):
        return None
    return Page(block.names, stamps, rows) if len(stamps) == 5 * len(rows) else None


def _adopt(block: _Block, device: int, shelf: Shelf, unread: Mapping[str, Slot]) -> None:
    """Take over rows that we lack and another process has read."""
    page = _page(block) if unread and block.device == device else None
    for place, name in enumerate(page.names) if page is not None else ():
        slot = unread.get(name)
        if slot is not None and page is not None and slot.page.stamp(slot.place) == page.stamp(place):
            slot.page.rows[slot.place] = page.rows[place]


def _unread(shelf: Shelf) -> dict[str, Slot]:
    return {
        name: Slot(page, place)
        for page in shelf.pages
        if None in page.rows
        for place, name in enumerate(page.names)
        if page.rows[place] is None and name and name not in shelf.unsettled
    }


def _sealed(page: Page, directory: str, device: int, now: int, unsettled: Set[str]) -> list[bytes]:
    """Encode a page as it may be kept: without rows that may not stand tomorrow."""
    if not page.listing:
        page = _compact(page)
    rows = page.rows
    if unsettled and not unsettled.isdisjoint(page.names):
        rows = [None if name in unsettled else row for name, row in zip(page.names, rows, strict=True)]
    try:
        sealed = msgspec.Raw(_encode(pack(rows)))
        return [_encode(_Block(directory, device, now, page.listing, page.stamps.tobytes(), sealed))]
    except UnicodeEncodeError:
        kept = _compact(page)
        same = len(kept.rows) == len(page.rows)
        return [] if same else _sealed(kept, directory, device, now, unsettled)


def _compact(page: Page) -> Page:
    """Give a page without the runs that are gone and without those whose text is no Unicode."""
    kept = [place for place, name in enumerate(page.names) if name and _is_unicode((name, page.rows[place]))]
    stamps = array("q", [page.stamp(place)[column] for column in range(5) for place in kept])
    listing = "/".join([page.names[place] for place in kept])
    return Page(listing, stamps, [page.rows[place] for place in kept])


def _is_unicode(value: object) -> bool:
    try:
        _encode(value)
    except UnicodeEncodeError:
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
