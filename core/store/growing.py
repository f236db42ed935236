"""The index of one open file of records: it grows in slices, follows the file, and is kept in the cache.

Nothing here writes into the run, locks, or holds a payload. All calls are made from one thread and are short;
`step` stops at its budget (design/speed.md 3, architecture.md "The Timeline").
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from refold.core.columns import META
from refold.core.formats import HEAD_BYTES, Decoder, Format
from refold.core.formats.registry import format_of
from refold.core.store import index_cache
from refold.core.store.files import read_range, status_of
from refold.core.store.scan import Line, Scanner
from refold.core.timeline import Timeline
from refold.core.timeline_builder import Builder

if TYPE_CHECKING:
    from refold.core.rivumi.timeline_builder import EventBuilder

AnyBuilder: TypeAlias = "Builder | EventBuilder"

_LONGEST_HEAD = 4 << 20
"""A meta record above this many bytes is not looked at to tell the version."""
META_WITHIN = 64
"""Items among which the meta record is looked for."""
_FOOT = 4096
"""Bytes before the indexed end that are compared to notice a rewritten file."""


class Change(Enum):
    """What happened to the file of an open run."""

    SAME = "same"
    GREW = "grew"
    SHRANK = "shrank"
    REPLACED = "replaced"
    """Another file stands at the path, or bytes that were read before have changed."""
    GONE = "gone"


class GrowingIndex:
    """The Timeline of a file that may still grow, over an open descriptor."""

    def __init__(self, path: Path, fd: int, hint: str) -> None:
        self.path = path
        self._file = path
        self.run_id = path.name.removesuffix(".json")
        self._fd = fd
        self._hint = hint
        found = status_of(fd, path)
        self.size = found.st_size
        self.mtime = found.st_mtime
        self.mode = found.st_mode
        """Type and permission bits of the file."""
        self.bytes_read = 0
        """How many bytes were asked of the system; for tests that count."""
        self._head = self._read_head()
        self.format: Format = self._format()
        self.decoder: Decoder = self.format.decoder(self._head)
        self._has_decoder = self._is_decisive(self._head)
        self._builder: AnyBuilder = self._new_builder()
        self._scanner = self._new_scanner()
        self._has_tail = False
        self._before_tail = 0
        self._foot = b""
        self._cached: index_cache.Place | None = None
        """What the cache has kept of this run."""
        self.complete = False
        """True once the index has reached the end of the file; growth makes it False again."""
        self._changes = 0
        """Raised before the index is changed: who packs it on another thread sees that it was."""

    def close(self) -> None:
        """Close the file; the Timeline stays usable."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def descriptor(self) -> int:
        """Give a descriptor of its own for the file that is read, for a thread; the caller closes it."""
        return os.dup(self._fd)

    @property
    def file(self) -> Path:
        """The file that holds the records."""
        return self._file

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode of the file that is being read."""
        found = status_of(self._fd, self._file)
        return found.st_dev, found.st_ino

    @property
    def timeline(self) -> Timeline:
        """The rows so far."""
        return self._builder.timeline

    @property
    def settled(self) -> int:
        """How many items stay as they are, whatever is appended: those of an unfinished last line may not."""
        return self._before_tail if self._has_tail else self.timeline.items

    @property
    def progress(self) -> float:
        """How much of the file is indexed, from 0 to 1."""
        return 1.0 if self.complete or not self.size else min(1.0, self._scanner.reached / self.size)

    def take_cached(self, cache: Path) -> bool:
        """Start from an index that was kept, if it stands for the very bytes of this file."""
        now = status_of(self._fd, self._file)
        found = index_cache.load(cache, now.st_dev, now.st_ino)
        if found is None:
            return False
        place, snapshot = found
        same_file = (now.st_dev, now.st_ino) == (place.device, place.inode) and now.st_size >= place.offset
        if not same_file or (now.st_size == place.offset and now.st_mtime_ns != place.mtime_ns):
            return False
        if place.head != self._head[:_FOOT] or place.foot != self._foot_bytes(place.offset):
            return False
        if not self._restore(snapshot):
            return False
        self._scanner = Scanner(self._pread, offset=place.offset, number=place.number)
        self._cached = place
        return True

    def _restore(self, snapshot: msgspec.Raw) -> bool:
        """Take over an index; False where it is none."""
        if not isinstance(self._builder, Builder):
            return False
        try:
            self._builder.restore(snapshot)
        except (msgspec.MsgspecError, ValueError, AttributeError):
            self._builder = self._new_builder()
            return False
        return True

    def keep_index(self, cache: Path) -> bool:
        """Keep the finished index in a cache directory; False where it is not worth keeping."""
        keeping = self.keeping(cache)
        return keeping is not None and keeping()

    def keeping(self, cache: Path) -> Callable[[], bool] | None:
        """Give the work of keeping the finished index, for a thread; None where it is not worth it.

        The thread reads nothing of the file, which may be closed by then, and keeps no index that was
        changed under its eyes: one that is half fed fits no file.
        """
        if not self.complete or self._has_tail or self._scanner.offset < index_cache.SMALLEST:
            return None
        now, builder, changes = status_of(self._fd, self._file), self._builder, self._changes
        place = index_cache.Place(
            device=now.st_dev,
            inode=now.st_ino,
            mtime_ns=now.st_mtime_ns,
            offset=self._scanner.offset,
            number=self._scanner.number,
            head=self._head[:_FOOT],
            foot=self._foot_bytes(self._scanner.offset),
        )
        if place == self._cached:
            return None

        def keep() -> bool:
            snapshot = builder.snapshot()
            if snapshot is None or self._changes != changes:
                return False
            return index_cache.save(cache, place, snapshot)

        return keep

    def step(self, seconds: float) -> bool:
        """Index for at most about so long.

        Returns:
            True when the end of the file has been reached.
        """
        deadline = time.perf_counter() + seconds
        self._take_back_tail()
        self._choose_decoder()
        scanner = self._scanner
        if self.size > scanner.offset:
            # An index from a cache is copied before lines are added to it: of a long run that takes a while.
            for _ in self.timeline.columns.growing():
                if time.perf_counter() >= deadline:
                    self.complete = False
                    return False
        while True:
            lines = scanner.batch()
            if lines:
                self._changes += 1
                self._builder.feed_all(lines, scanner.offset, scanner.number)
                scanner.took(lines)
            elif (line := scanner.next()) is not None:
                self._feed(line)
                if not line.is_huge:
                    # It was read with those that follow it: they come before the clock.
                    continue
            elif scanner.waiting:
                self._reach_end()
                return True
            if time.perf_counter() >= deadline:
                self.complete = False
                return False

    def index_all(self) -> Timeline:
        """Index to the end of the file; for callers that may block."""
        while not self.step(1.0):
            pass
        return self.timeline

    def _format(self) -> Format:
        return format_of(self._head, hint=self._hint)

    def _new_builder(self) -> AnyBuilder:
        return Builder(self.decoder)

    def _new_scanner(self) -> Scanner:
        """Begin at the start of the file: a short one is read already."""
        return Scanner(self._pread, held=self._head if len(self._head) < HEAD_BYTES else b"")

    def _is_decisive(self, head: bytes) -> bool:
        return len(head) >= HEAD_BYTES or self.format.opens(head)

    def _feed(self, line: Line) -> None:
        length = line.length if line.is_huge else None
        self._changes += 1
        self._builder.feed(line.text, line.offset, line.number, length=length)

    def _choose_decoder(self) -> None:
        """Look at the head again while no meta record has been seen: it may have been empty or torn."""
        if self._has_decoder or META in self.timeline.columns.kind[:META_WITHIN]:
            self._has_decoder = True
            return
        head = self._read_head()
        if head == self._head:
            return
        self._head = head
        self.format = format_of(head, hint=self._hint)
        self._has_decoder = self._is_decisive(head)
        decoder = self.format.decoder(head)
        changed = (type(decoder), decoder.version) != (type(self.decoder), self.decoder.version)
        self.decoder = self._builder.decoder = decoder
        if changed and self.timeline.items and isinstance(self._builder, Builder):
            self._changes += 1
            self._builder.clear()
            self._scanner = self._new_scanner()

    def _take_back_tail(self) -> None:
        if self._has_tail:
            self._builder.take_back()
            self._has_tail = False

    def _reach_end(self) -> None:
        tail = self._scanner.tail()
        if tail is not None:
            self._before_tail = self.timeline.items
            self._changes += 1
            self._builder.feed_tail(
                tail.text, tail.offset, tail.number, length=tail.length if tail.is_huge else None
            )
            self._has_tail = True
        self.complete = True
        end = self._scanner.offset
        held = self._scanner.held(max(0, end - _FOOT), end)
        self._foot = self._foot_bytes(end) if held is None else held
        now = status_of(self._fd, self._file)
        if now.st_size == self._known_size:
            self.mtime = now.st_mtime

    @property
    def _known_size(self) -> int:
        """How many bytes of the file were read, the torn ones at its end included."""
        tail = self._scanner.tail()
        return self._scanner.offset + (tail.length if tail else 0)

    def _foot_bytes(self, end: int) -> bytes:
        start = max(0, end - _FOOT)
        return self._pread(start, end - start)

    def poll(self) -> Change:
        """Say what happened to the file since the last `step`; a stat, and a small read where it grew."""
        try:
            now = self._file.stat(follow_symlinks=False)
            mine = os.fstat(self._fd)
        except OSError:
            return Change.GONE
        if (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino):
            return Change.REPLACED
        known = self._known_size
        touched, self.size = mine.st_mtime != self.mtime, mine.st_size
        if self.size < known:
            return Change.SHRANK
        grew = self.size > known
        # A writer that appends makes it longer: what was only touched may have been changed anywhere.
        appended = grew and (not touched or self._foot_bytes(self._scanner.offset) == self._foot)
        if touched and self.complete and not appended:
            return Change.REPLACED
        self.mtime = mine.st_mtime
        return Change.GREW if grew else Change.SAME

    def _read_head(self) -> bytes:
        head = self._pread(0, HEAD_BYTES)
        while b"\n" not in head and HEAD_BYTES <= len(head) < _LONGEST_HEAD:
            more = self._pread(len(head), len(head))
            if not more:
                break
            head += more
        return head

    def _pread(self, offset: int, size: int) -> bytes:
        data = read_range(self._fd, offset, offset + size, self._file)
        self.bytes_read += len(data)
        return data
