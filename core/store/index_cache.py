"""Finished Timelines of big runs, kept in the cache directory so that a run opens at once the next time.

A cache entry is only ever a faster way to the same answer: whatever does not fit the file exactly is ignored,
and deleting the directory changes nothing (design/speed.md 3 "Cache"). Runs with damage are not kept.
"""

from __future__ import annotations

import os
import sys
import time
import zlib
from pathlib import Path
from typing import NamedTuple

import msgspec

from refold.core.errors import RefoldError
from refold.core.store.files import open_regular, private_directory, replace_atomically
from refold.core.version import __version__

DIRECTORY = "index"
SMALLEST = 1 << 20
"""Runs below this many bytes are indexed anew: that is as fast."""
LAYOUT = f"{__version__}/9/{sys.byteorder}"
_YOUNG = 2.0
"""A file changed so few seconds ago may change again within one tick of its clock."""


class Place(NamedTuple):
    """Which bytes a snapshot stands for."""

    device: int
    inode: int
    mtime_ns: int
    offset: int
    """Where the next line starts."""
    number: int
    """The number of that line."""
    head: bytes
    """The first bytes of the file."""
    foot: bytes
    """The last bytes before `offset`."""


class _Entry(msgspec.Struct, array_like=True):
    layout: str
    place: tuple[int, int, int, int, int, bytes, bytes]
    check: int
    """The check sum of place and snapshot: a bit that flipped in a column would read as another number."""
    snapshot: msgspec.Raw


def _file(cache: Path, device: int, inode: int) -> Path:
    return cache / DIRECTORY / f"{device:x}-{inode:x}.index"


def save(cache: Path, place: Place, snapshot: bytes) -> bool:
    """Keep a snapshot; False where that was not worth it or not possible, which is never an error."""
    if place.offset < SMALLEST or time.time() - place.mtime_ns / 1e9 < _YOUNG:
        return False
    target = _file(cache, place.device, place.inode)
    entry = _Entry(LAYOUT, (*place,), _check(place, snapshot), msgspec.Raw(snapshot))
    try:
        private_directory(cache)
        private_directory(target.parent)
        replace_atomically(target, msgspec.msgpack.encode(entry))
    except (OSError, RefoldError):
        return False
    return True


def load(cache: Path, device: int, inode: int) -> tuple[Place, msgspec.Raw] | None:
    """Give what was kept for a file, or None; whether it still fits is for the caller to see."""
    try:
        with os.fdopen(open_regular(_file(cache, device, inode)), "rb") as file:
            entry = msgspec.msgpack.decode(file.read(), type=_Entry)
    except (OSError, RefoldError, msgspec.MsgspecError, ValueError):
        return None
    place = Place(*entry.place)
    fits = entry.layout == LAYOUT and entry.check == _check(place, entry.snapshot)
    return (place, entry.snapshot) if fits else None


def _check(place: Place, snapshot: bytes | msgspec.Raw) -> int:
    return zlib.crc32(snapshot, zlib.crc32(msgspec.msgpack.encode(place)))
