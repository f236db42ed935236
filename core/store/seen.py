"""What was seen of runs before: hashes of their bytes in the cache, to notice that history was rewritten.

A journal has no check sum, so a changed text is still a good record (design/safety.md 0.6, 2.4 rows 7, 27).
The bytes that were looked at before are known here by their hashes, piece by piece, up to the last line end:
an append changes none of them, and a torn end may be cut. Deleting the cache forgets; nothing else is lost.
What was seen of runs that are gone is forgotten now and then.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from refold.core.errors import RefoldError
from refold.core.rewritten import Rewritten as Rewritten
from refold.core.store.files import open_regular, private_directory, read_range, replace_atomically, status_of

LONGEST: Final = 256 << 20
"""Longer files are looked at only by who reads all of them anyway."""
PIECE: Final = 2 << 10
"""Bytes that share one hash: so closely is it known what changed."""
_BLOCK: Final = 64 * PIECE
_DIGEST: Final = 16
_LAYOUT: Final = 4
_BEGINNING: Final = 64 << 10
_LINES: Final = 8
"""So many lines at most, and bytes, tell one run from another."""
_SUFFIX: Final = ".seen"
_FEWEST: Final = 16
"""Whenever so many runs are remembered, or two, four, eight ... times as many, those that are gone leave."""
_AWAY: Final = 30 * 86_400
"""Seconds for which a run is remembered whose disk or directory is not there: it may come back."""


class _Seen(msgspec.Struct, array_like=True):
    layout: int
    device: int
    inode: int
    size: int
    """Bytes that were seen, up to the last line end."""
    head: bytes
    """The hash of the first line, or of its beginning: two runs differ there."""
    next: tuple[bytes, ...]
    """The hashes of the next whole lines."""
    path: bytes
    """Where the run lies."""
    pieces: bytes
    """One hash after the other."""


def look(fd: int, path: Path, cache: Path, *, accept: bool = False) -> Rewritten | None:
    """Hold the bytes of a run against what was seen of it, and remember them where they are the same.

    Args:
        fd: The open file.
        path: Where it lies; it is known by that.
        cache: The directory of the cache.
        accept: Remember the bytes in any case, and say nothing.

    Returns:
        Where it differs first; None where nothing differs, or nothing was seen before.

    Raises:
        Unreadable: the system answers a read with an error.
    """
    found = status_of(fd, path)
    before = None if accept else _load(cache, path)
    head, after = _beginning(fd, path)
    if before is not None and before.head != head and not _is_same(before, found, after):
        # Another run in the place of one that is gone.
        before = None
    made = bytearray()
    end = lines = 0
    for start, piece in _pieces(fd, found.st_size, path):
        digest = _hash(piece)
        if before is not None and start < before.size:
            seen = before.pieces[len(made) : len(made) + _DIGEST]
            length = min(PIECE, before.size - start)
            if (digest if length == len(piece) else _hash(piece[:length])) != seen or len(piece) < length:
                stop = min(start + length, start + len(piece))
                # A line end that is the last byte belongs to its own line.
                last = lines + 1 + piece.count(b"\n", 0, max(0, stop - start - 1))
                return Rewritten(start, stop, lines + 1, last, before.size, found.st_size)
        made += digest
        newline = piece.rfind(b"\n")
        if newline >= 0:
            end, lines = start + newline + 1, lines + piece.count(b"\n")
    reached = len(made) // _DIGEST * PIECE
    if before is not None and before.size > found.st_size and reached < before.size:
        return Rewritten(found.st_size, found.st_size, lines + 1, lines + 1, before.size, found.st_size)
    whole = end // PIECE
    del made[whole * _DIGEST :]
    if end % PIECE:
        made += _hash(read_range(fd, whole * PIECE, end, path))
    now = _Seen(_LAYOUT, found.st_dev, found.st_ino, end, head, after, _place(path), bytes(made))
    if now != before and end:
        _save(cache, path, now)
    return None


def _pieces(fd: int, size: int, path: Path) -> Iterator[tuple[int, bytes]]:
    for block in range(0, size, _BLOCK):
        data = read_range(fd, block, min(size, block + _BLOCK), path)
        for start in range(0, len(data), PIECE):
            yield block + start, data[start : start + PIECE]


def _beginning(fd: int, path: Path) -> tuple[bytes, tuple[bytes, ...]]:
    """Give the hash of the first line, which may be cut, and those of the whole lines after it."""
    lines = read_range(fd, 0, _BEGINNING, path).split(b"\n", _LINES)
    return _hash(lines[0][:PIECE]), tuple(_hash(line) for line in lines[1:-1])


def _is_same(before: _Seen, found: os.stat_result, after: tuple[bytes, ...]) -> bool:
    """Say whether a run whose first line is another is still the one that was seen.

    It is where the file is the same one. The system gives the number of a file that is gone to the next one
    that is made, though: of that the other lines are others as well.
    """
    if (before.device, before.inode) != (found.st_dev, found.st_ino):
        return False
    return not before.next or not after or not {*before.next}.isdisjoint(after)


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()


def _place(path: Path) -> bytes:
    return os.fsencode(os.path.realpath(path))


def _file(cache: Path, path: Path) -> Path:
    name = hashlib.sha256(_place(path)).hexdigest()[:32]
    return cache / "seen" / f"{name}{_SUFFIX}"


def _load(cache: Path, path: Path) -> _Seen | None:
    entry = _read(_file(cache, path))
    return entry if entry is not None and entry.path == _place(path) else None


def _read(file: Path) -> _Seen | None:
    try:
        with os.fdopen(open_regular(file), "rb") as opened:
            check, payload = opened.read(_DIGEST), opened.read()
            if check != _hash(payload):
                return None
            entry = msgspec.msgpack.decode(payload, type=_Seen)
    except (OSError, RefoldError, msgspec.MsgspecError, ValueError):
        return None
    fits = len(entry.pieces) == -(-entry.size // PIECE) * _DIGEST
    return entry if entry.layout == _LAYOUT and fits else None


def _save(cache: Path, path: Path, entry: _Seen) -> None:
    target, payload = _file(cache, path), msgspec.msgpack.encode(entry)
    try:
        private_directory(cache)
        private_directory(target.parent)
        is_new = not target.exists()
        replace_atomically(target, _hash(payload) + payload)
        if is_new:
            _forget_the_gone(target.parent)
    except (OSError, RefoldError):
        return


def _forget_the_gone(directory: Path) -> None:
    """Forget what was seen of runs that are gone; `_FEWEST` says how often.

    What cannot be read here stays: another build may know what it says, and a read may fail once.
    """
    names = [name for name in os.listdir(directory) if name.endswith(_SUFFIX)]  # noqa: PTH208 - names
    if len(names) < _FEWEST or len(names) & (len(names) - 1):
        return
    for name in names:
        file = directory / name
        entry = _read(file)
        if entry is not None and _is_gone(entry, file):
            file.unlink(missing_ok=True)


def _is_gone(entry: _Seen, file: Path) -> bool:
    """Say whether a run is gone for good: from a directory that lies on the disk where it was seen."""
    try:
        os.lstat(entry.path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError:
        return False
    else:
        return False
    with contextlib.suppress(OSError):
        if os.stat(os.path.dirname(entry.path)).st_dev == entry.device:  # noqa: PTH116, PTH120 - bytes
            return True
    return time.time() - file.stat().st_mtime > _AWAY
