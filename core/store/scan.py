"""Cuts a growing file into lines at byte 0x0A only, a bounded piece at a time.

A line above `HUGE` is never held whole: what comes out is its skeleton, the same JSON with the content of
every long string left out, so that one record of any size costs the index no more memory or time at a
stretch than any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from io import BytesIO
from itertools import islice
from typing import NamedTuple

CHUNK = 1 << 18
"""Bytes asked for in one read."""
FIRST = 1 << 17
"""Bytes asked for in the first read: a screenful of rows, and no more than that before they are painted."""
HUGE = 1 << 18
"""Lines above this many bytes come as skeletons."""
_SLICE = 1 << 18
"""Bytes of a huge line looked at in one step."""
_KEPT = 4096
"""Strings up to this many bytes stay in a skeleton."""
_BATCH = 64
"""Lines given at once at most."""
_LARGEST = 32 << 20
"""A skeleton above this many bytes is given up: the line becomes damage that can be looked at."""

_NEWLINE = 0x0A
_STRING = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)

Read = Callable[[int, int], bytes]
"""Reads (offset, size) and gives at most that many bytes; fewer only at the end of the file."""


class Line(NamedTuple):
    """One line of a file."""

    text: bytes
    """Its bytes, newline excluded; the skeleton where it is huge."""
    offset: int
    number: int
    """1-based."""
    length: int
    """True length in bytes, newline excluded."""
    terminated: bool
    """False for a last line that has no newline."""

    @property
    def is_huge(self) -> bool:
        """Say whether `text` is only a skeleton."""
        return self.length != len(self.text)


class Skeleton:
    """Takes a huge line piece by piece and keeps its structure."""

    def __init__(self) -> None:
        self._kept: list[bytes] = []
        self._size = 0
        self._string: list[bytes] | None = None
        self._string_size = 0
        self._escaped = b""

    def feed(self, data: bytes) -> None:
        """Take the next piece of the line."""
        if self._size > _LARGEST:
            return
        if self._escaped:
            data = self._escaped + data
            self._escaped = b""
        position = 0
        while position < len(data):
            position = self._text(data, position) if self._string is None else self._inside(data, position)

    def _text(self, data: bytes, position: int) -> int:
        quote = data.find(b'"', position)
        end = len(data) if quote < 0 else quote + 1
        self._kept.append(data[position:end])
        self._size += end - position
        if quote < 0:
            return end
        self._string, self._string_size = [], 0
        return quote + 1

    def _inside(self, data: bytes, position: int) -> int:
        match = _STRING.match(data, position)
        end = match.end() if match else position
        piece = data[position:end]
        self._string_size += len(piece)
        if self._string is not None and self._string_size <= _KEPT:
            self._string.append(piece)
        if end >= len(data):
            return end
        if data[end : end + 1] == b"\\":
            self._escaped = data[end:]
            return len(data)
        if self._string_size <= _KEPT:
            self._kept.extend(self._string or [])
        self._kept.append(b'"')
        self._string = None
        return end + 1

    def bytes(self) -> bytes:
        """Give the skeleton of what was fed; bytes that are no JSON where it was given up."""
        return b"\0" if self._size > _LARGEST else b"".join(self._kept)


class Scanner:
    """Reads lines from a position on; asked again after the file has grown, it goes on where it stopped."""

    def __init__(self, read: Read, *, offset: int = 0, number: int = 1, held: bytes = b"") -> None:
        """Begin at a place in a file; `held` is what was read from there on, if anything was."""
        self._read = read
        self._chunk = held
        self._lines = BytesIO(held)
        """The same bytes, to be cut into many lines at once."""
        self._cut = 0
        """Where the next line starts in the chunk."""
        self._end = offset + len(held)
        """File position after the chunk."""
        self.offset = offset
        """Where the next line starts in the file."""
        self.number = number
        self._huge: Skeleton | None = None
        self._huge_fed = 0
        self._at_end = False
        self._wanted = FIRST

    def next(self) -> Line | None:
        """Give the next complete line; None where there is none yet or the step was used up on a huge line.

        `waiting` tells the two apart.
        """
        if self._huge is not None:
            return self._go_on()
        newline = self._chunk.find(b"\n", self._cut)
        if newline >= 0:
            return self._take(newline)
        return self._read_more()

    def batch(self) -> list[bytes]:
        """Give some complete lines that are at hand, newlines included, without going past them: see `took`.

        There are none where the next line has to be read first, or is huge; `next` does that.
        """
        if self._huge is not None or self._cut >= len(self._chunk):
            return []
        self._lines.seek(self._cut)
        lines = list(islice(self._lines, _BATCH))
        if lines[-1][-1] != _NEWLINE:
            lines.pop()
        return lines

    def took(self, lines: list[bytes]) -> None:
        """Go past lines of a batch, counted from its first."""
        size = sum(map(len, lines))
        self._cut += size
        self.offset += size
        self.number += len(lines)

    def held(self, start: int, end: int) -> bytes | None:
        """Give bytes of the file as they were read, None where they are not all at hand any more."""
        first = self._end - len(self._chunk)
        return self._chunk[start - first : end - first] if first <= start <= end <= self._end else None

    @property
    def waiting(self) -> bool:
        """Say whether the end of the file was reached: the next line is not complete yet."""
        return self._at_end

    @property
    def reached(self) -> int:
        """How far the file was looked through, in bytes: within a huge line beyond its start."""
        return self.offset + (self._huge_fed if self._huge is not None else 0)

    def _take(self, newline: int) -> Line:
        text = self._chunk[self._cut : newline]
        self._cut = newline + 1
        return self._line(text)

    def _line(self, text: bytes) -> Line:
        line = Line(text, self.offset, self.number, len(text), terminated=True)
        self.offset += len(text) + 1
        self.number += 1
        return line

    def _read_more(self) -> Line | None:
        more = self._read(self._end, self._wanted)
        self._wanted = CHUNK
        self._at_end = not more
        if not more:
            return None
        rest = self._chunk[self._cut :]
        self._end += len(more)
        newline = more.find(b"\n")
        if newline >= 0:
            # The line across the two pieces alone is put together, not the pieces.
            self._hold(more)
            self._cut = newline + 1
            return self._line(rest + more[:newline])
        self._hold(rest + more)
        if len(self._chunk) > HUGE:
            self._huge = Skeleton()
            self._huge_fed = 0
        return None

    def _hold(self, chunk: bytes) -> None:
        self._chunk, self._lines, self._cut = chunk, BytesIO(chunk), 0

    def _go_on(self) -> Line | None:
        """Look at one more slice of a huge line."""
        if self._huge is None:
            return None
        if self._cut >= len(self._chunk):
            more = self._read(self._end, _SLICE)
            self._at_end = not more
            if not more:
                return None
            self._hold(more)
            self._end += len(more)
        stop = min(len(self._chunk), self._cut + _SLICE)
        newline = self._chunk.find(b"\n", self._cut, stop)
        self._huge.feed(self._chunk[self._cut : newline if newline >= 0 else stop])
        self._huge_fed += (newline if newline >= 0 else stop) - self._cut
        if newline < 0:
            self._cut = stop
            return None
        line = Line(self._huge.bytes(), self.offset, self.number, self._huge_fed, terminated=True)
        self._huge = None
        self._cut = newline + 1
        self.offset += line.length + 1
        self.number += 1
        return line

    def tail(self) -> Line | None:
        """Give the bytes after the last newline as a line of its own; call it only while `waiting`."""
        if self._huge is not None:
            return Line(self._huge.bytes(), self.offset, self.number, self._huge_fed, terminated=False)
        text = self._chunk[self._cut :]
        return Line(text, self.offset, self.number, len(text), terminated=False) if text else None
