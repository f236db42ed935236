"""The list cache: summaries of runs that have not changed, in one file that may vanish at any moment.

An entry counts only while device, inode, size and both change times of its file are the same. What cannot
be read, is of another build or fails its check sum is a miss, never an error.
"""

from __future__ import annotations

import os
import struct
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from refold.core.errors import RefoldError
from refold.core.store.files import private_directory, replace_atomically
from refold.core.store.roots import Candidate
from refold.core.summary import RunSummary
from refold.core.version import __version__

_NAME = "list.cache"
_FORMAT = 1
"""Raised whenever a summary would be derived in another way from the same bytes."""
_MAGIC = f"refold list {_FORMAT} {__version__}\n".encode()
_FRAME = struct.Struct("<II")
_BLOCK_BYTES = 1 << 16
"""A block is closed at about this size: decoding it takes well under a millisecond."""
_LONGEST_START = 8192
_KEEP_SECONDS = 90 * 86_400
SETTLED_NS = 2_000_000_000
"""A file changed within this time may change again without a new time stamp: its summary is not kept."""


class CachedRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A summary, and what the file was like when it was made."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    mode: int
    opened: bool
    """The file could be read; only then does it say anything tomorrow."""
    summary: RunSummary

    def fits(self, found: Candidate) -> bool:
        """Say whether the file is still what the summary was made from."""
        return (
            self.mtime_ns == found.mtime_ns
            and self.size == found.size
            and self.inode == found.inode
            and self.ctime_ns == found.ctime_ns
            and self.device == found.device
            and self.mode == found.mode
        )


class _Block(msgspec.Struct, array_like=True):
    directory: str
    used: int
    """When a list last showed this directory, in seconds since 1970."""
    rows: list[CachedRow]


class _SealedBlock(msgspec.Struct, array_like=True):
    directory: str
    used: int
    rows: msgspec.Raw


_decode = msgspec.msgpack.Decoder(_Block).decode
_decode_sealed = msgspec.msgpack.Decoder(_SealedBlock).decode
_encode = msgspec.msgpack.Encoder().encode


def is_settled(found: Candidate, now_ns: int) -> bool:
    """Say whether the times of a file are old enough to tell its next change."""
    return abs(now_ns - found.mtime_ns) >= SETTLED_NS and abs(now_ns - found.ctime_ns) >= SETTLED_NS


def load(cache: Path, directories: Collection[str]) -> Iterator[dict[str, CachedRow]]:
    """Give the cached rows of these directories by path, one small batch at a time."""
    starts = tuple(_start(directory) for directory in directories)
    for payload in _frames(_read(cache / _NAME)):
        rows = _rows(payload) if bytes(payload[:_LONGEST_START]).startswith(starts) else []
        yield {row.summary.path: row for row in rows}


def save(cache: Path, shelves: Mapping[str, Shelf]) -> Iterator[bool]:
    """Write the rows of these directories, joined with what another process wrote since.

    Yields after each slice of work: False, at last True where the file was written. A cache that cannot be
    written is left as it is.
    """
    now = int(time.time())
    parts = [_MAGIC]
    for directory, shelf in shelves.items():
        for batch in _batches(shelf.rows.values()):
            parts.extend(_sealed(directory, now, batch))
            yield False
    for payload in _frames(_read(cache / _NAME)):
        parts.extend(_theirs(payload, shelves, now))
        yield False
    try:
        private_directory(cache)
        replace_atomically(cache / _NAME, b"".join(parts))
    except (OSError, RefoldError):
        yield False
        return
    yield True


class Shelf(NamedTuple):
    """What one directory has to be kept of."""

    rows: Mapping[str, CachedRow]
    present: Collection[str]
    """The paths that are there: rows of other paths are dropped, whoever wrote them."""


def _theirs(payload: memoryview, shelves: Mapping[str, Shelf], now: int) -> list[bytes]:
    """Give what to keep of a block that is in the file already."""
    try:
        block = _decode_sealed(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
    shelf = shelves.get(block.directory)
    if shelf is None:
        return [_frame(bytes(payload))] if now - block.used < _KEEP_SECONDS else []
    rows = [
        row
        for row in _rows(payload)
        if row.summary.path not in shelf.rows and row.summary.path in shelf.present
    ]
    return _sealed(block.directory, now, rows) if rows else []


def _start(directory: str) -> bytes:
    """Give the first bytes of every block of a directory; nothing starts so where its name is no Unicode."""
    try:
        return b"\x93" + _encode(directory)
    except UnicodeEncodeError:
        return b"\0"


def _rows(payload: memoryview) -> list[CachedRow]:
    try:
        return _decode(payload).rows
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []


def _batches(rows: Iterable[CachedRow]) -> Iterator[list[CachedRow]]:
    batch: list[CachedRow] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += 256 + len(row.summary.prompt)
        if size >= _BLOCK_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _sealed(directory: str, now: int, rows: list[CachedRow]) -> list[bytes]:
    try:
        return [_frame(_encode(_Block(directory, now, rows)))]
    except UnicodeEncodeError:
        if len(rows) == 1:
            return []
        middle = len(rows) // 2
        return [*_sealed(directory, now, rows[:middle]), *_sealed(directory, now, rows[middle:])]


def _frame(payload: bytes) -> bytes:
    return _FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def _frames(data: bytes) -> Iterator[memoryview]:
    """Give the payloads that are whole, up to the first one that is not."""
    if not data.startswith(_MAGIC):
        return
    view = memoryview(data)
    at = len(_MAGIC)
    while at + _FRAME.size <= len(view):
        length, check = _FRAME.unpack_from(view, at)
        at += _FRAME.size
        payload = view[at : at + length]
        if len(payload) != length or zlib.crc32(payload) != check:
            return
        yield payload
        at += length


def _read(path: Path) -> bytes:
    """Give the bytes of the cache file; none where it cannot be read or is no plain file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    with os.fdopen(fd, "rb") as file:
        try:
            return file.read()
        except OSError:
            return b""
