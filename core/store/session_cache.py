"""The rows of run directories that have not changed, in a file beside the list cache and as disposable."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from refold.core.errors import StoreError
from refold.core.store.files import private_directory, replace_atomically
from refold.core.store.list_cache import KEEP_SECONDS, MAGIC, framed, frames
from refold.core.store.session_shelf import SessionShelf
from refold.core.summary import RunSummary

NAME = "directories.cache"
_STRETCH = 200


class _Entry(msgspec.Struct, array_like=True, gc=False):
    name: str
    stamp: tuple[int, ...]
    row: RunSummary


class _Block(msgspec.Struct, array_like=True):
    directory: str
    device: int
    used: int
    """When a list last showed this directory, in seconds since 1970."""
    entries: list[_Entry]


_decode = msgspec.msgpack.Decoder(_Block).decode
_encode = msgspec.msgpack.Encoder().encode


def load(cache: Path, shelves: Mapping[str, tuple[int, SessionShelf]]) -> Iterator[None]:
    """Give the shelves the rows that are kept; each counts while the stamp of its run is the same.

    Args:
        cache: The directory of the cache.
        shelves: Device and shelf of each directory.
    """
    for block in _blocks(cache):
        device, shelf = shelves.get(block.directory, (-1, None))
        if shelf is not None and device == block.device:
            for entry in block.entries:
                shelf.rows.setdefault(entry.name, entry.row)
                shelf.stamps.setdefault(entry.name, entry.stamp)
        yield


def save(cache: Path, shelves: Mapping[str, tuple[int, SessionShelf]]) -> Iterator[None]:
    """Write the rows of these directories beside those of others; what cannot be written is left out."""
    now = int(time.time())
    parts = [MAGIC]
    for block in _blocks(cache):
        if block.directory not in shelves and now - block.used < KEEP_SECONDS:
            parts += _sealed(block)
        yield
    for directory, (device, shelf) in shelves.items():
        names = [*shelf.rows]
        for start in range(0, len(names), _STRETCH):
            # Looked up in the step that takes the row: a run may go, or change, between two of them.
            entries = [
                _Entry(name, shelf.stamps[name], shelf.rows[name])
                for name in names[start : start + _STRETCH]
                if name in shelf.rows and name in shelf.looks and name not in shelf.unsettled
            ]
            parts += _sealed(_Block(directory, device, now, entries))
            yield
    try:
        private_directory(cache)
        replace_atomically(cache / NAME, b"".join(parts))
    except (OSError, StoreError):
        return


def _blocks(cache: Path) -> Iterator[_Block]:
    for payload in frames(cache / NAME):
        try:
            yield _decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue


def _sealed(block: _Block) -> list[bytes]:
    """Encode a block, without the rows whose text is no Unicode or whose numbers do not fit."""
    try:
        return [framed(_encode(block))]
    except (UnicodeEncodeError, OverflowError):
        kept = [entry for entry in block.entries if _fits(entry)]
        if len(kept) == len(block.entries):
            return []
        return _sealed(msgspec.structs.replace(block, entries=kept))


def _fits(entry: _Entry) -> bool:
    try:
        _encode(entry)
    except (UnicodeEncodeError, OverflowError):
        return False
    return True
