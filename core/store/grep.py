"""Which texts stand in the bytes of one file: in small steps, and after growth only what is new."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import NamedTuple

from refold.core.errors import StoreError
from refold.core.search import Search
from refold.core.store.files import open_regular

_PIECE = 1 << 18
"""Bytes of one step: a millisecond or two."""
_DECODED = 1 << 19
"""Records above this many bytes are not decoded to see whether a hit is in text that a reader would see."""
_VERIFIED = 1 << 17
"""Bytes that are decoded in one step."""


class Looked(NamedTuple):
    """How far a file was searched, and what was found."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    end: int
    """Where the last line began that may still grow."""
    hits: frozenset[int]
    """Which of the searches found their text."""


NOWHERE = Looked(0, 0, -1, 0, 0, frozenset())


def grep(
    path: Path, searches: Sequence[Search], before: Looked = NOWHERE
) -> Generator[None, None, Looked | None]:
    """Search one file; each step is a small piece of work, and the result is what is returned.

    Args:
        path: The file; it is opened for reading only, and no lock is taken.
        searches: The texts. A file is read no further than until all of them are found.
        before: What an earlier search for the same texts returned.

    Returns:
        What was found; None where the file cannot be read.
    """
    try:
        fd = open_regular(path)
    except StoreError:
        return None
    try:
        status = os.fstat(fd)
        same = (status.st_dev, status.st_ino) == before[:2] and status.st_size >= before.size
        if same and (status.st_size, status.st_mtime_ns) == before[2:4]:
            return before
        looking = _Looking(searches, before if same else NOWHERE)
        yield from looking.read(fd)
    except OSError:
        return None
    finally:
        os.close(fd)
    return Looked(
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        looking.end,
        frozenset(looking.hits),
    )


class _Looking:
    """One pass over a file."""

    def __init__(self, searches: Sequence[Search], before: Looked) -> None:
        self.hits = set(before.hits)
        self.end = before.end
        self._searches = searches
        self._reach = max((search.reach for search in searches), default=0)

    def read(self, fd: int) -> Generator[None, None, None]:
        """Read on to the end of the file, or until everything is found."""
        position = self.end
        rest = b""
        inside_long = False
        while len(self.hits) < len(self._searches):
            piece = os.pread(fd, _PIECE, position)
            if not piece:
                yield from self._lines(rest, whole=not inside_long)
                return
            position += len(piece)
            data = rest + piece
            cut = data.rfind(b"\n") + 1
            if cut:
                yield from self._lines(data[:cut], whole=not inside_long)
                rest, inside_long = data[cut:], False
                self.end = position - len(rest)
            elif len(data) > _DECODED:
                yield from self._lines(data, whole=False)
                rest, inside_long = data[-self._reach :], True
            else:
                rest = data
            yield

    def _lines(self, data: bytes, *, whole: bool) -> Generator[None, None, None]:
        """Search lines; of the first one only the end may be there."""
        for number, search in enumerate(self._searches):
            if number in self.hits:
                continue
            start = 0
            verified = 0
            while (found := search.candidate(data, start)) >= 0:
                first = data.rfind(b"\n", 0, found) + 1
                last = data.find(b"\n", found)
                line = data[first : len(data) if last < 0 else last]
                if (not whole and not first) or len(line) > _DECODED or search.in_record(line):
                    self.hits.add(number)
                    break
                start = first + len(line)
                verified += len(line)
                if verified >= _VERIFIED:
                    verified = 0
                    yield
