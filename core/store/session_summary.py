"""Reads a run directory to its row: the log in pieces, after growth only what is new; nothing is changed."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from refold.core.errors import BadRecord, NotPermitted, NotRegular, RunNotFound, StoreError
from refold.core.rivumi.log_facts import LogFacts
from refold.core.rivumi.manifest import Manifest, Pending, read_request
from refold.core.rivumi.snapshot import Part
from refold.core.rivumi.summary import Found, Parts, standing, summary
from refold.core.sizes import sized
from refold.core.store.files import open_error, open_regular, read_range, status_of
from refold.core.store.session_files import SIDE_LIMIT
from refold.core.store.session_names import EVENTS, MANIFEST
from refold.core.summary import RunSummary

_PIECE: Final = 1 << 18
_LONGEST_LINE: Final = 32 << 20
"""Lines above this many bytes are counted as damage and not looked at."""
_TRIES: Final = 3
_TAIL: Final = 32 << 10
"""Bytes of the end of a manifest in which its phase stands: what comes after it is short."""
_LOG_TAIL: Final = 8 << 10
_REQUEST: Final = 64 << 10
_MEMBER: Final = '"{}"\\s*:\\s*"([^"\\\\]{{0,200}})"'
_PHASE = re.compile(_MEMBER.format("phase").encode())
_MODEL = re.compile(_MEMBER.format("model_id").encode())


class SessionReading:
    """One run directory that is being read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._log = LogFacts()
        self._offset = 0
        """Where the first line begins that is not taken in for good."""
        self._inode = 0
        self._held: list[bytes] = []
        """The pieces of a line whose end was not read yet."""
        self._held_bytes = 0
        self._long = False
        self._parts: Parts | None = None
        self._state: tuple[int, int] = (0, 0)
        self._tries = 0

    def step(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> bool:
        """Read for at most so long; True once the row can be made.

        Raises:
            StoreError: the directory cannot be looked into.
        """
        until = clock() + seconds
        if self._parts is None:
            self._begin()
            if clock() > until:
                return False
        while True:
            more = self._read_on()
            if not more and self._settled():
                return True
            if clock() > until:
                return False

    def again(self) -> None:
        """Read what is new: everything where the log was replaced."""
        self._parts = None
        self._tries = 0

    def row(self, found: Found) -> RunSummary:
        """Give the row; after `step` said True."""
        return summary(found, self._parts or Parts(), self._log)

    @property
    def is_whole(self) -> bool:
        """False where the system failed on a part: the next try may succeed although nothing changed."""
        parts = self._parts or Parts()
        each = (parts.manifest, parts.request, parts.events, parts.result, parts.checkpoint)
        return not any(part.state in {"unreadable", "not_permitted"} for part in each)

    def _begin(self) -> None:
        directory = self.path
        before = _stamp(directory / MANIFEST)
        manifest = read_part(directory, MANIFEST, SIDE_LIMIT)
        request = read_part(directory, "request.json", SIDE_LIMIT)
        result, checkpoint = Part("result.json"), Part("checkpoint.json")
        if manifest.state == "missing":
            result = read_part(directory, result.name, SIDE_LIMIT)
            checkpoint = read_part(directory, checkpoint.name, SIDE_LIMIT)
        events, inode = _log_part(directory / EVENTS)
        if inode != self._inode or events.size < self._offset + self._held_bytes:
            self._log, self._offset, self._long = LogFacts(), 0, False
            self._hold(b"")
            self._inode = inode
        self._state = before
        self._parts = Parts(manifest, request, events, result, checkpoint)

    def _read_on(self) -> bool:
        """Take one piece of the log in; False at its end."""
        if self._parts is None or self._parts.events.state != "read":
            return False
        path = self.path / EVENTS
        try:
            fd = open_regular(path)
        except StoreError as error:
            self._parts = msgspec.structs.replace(self._parts, events=_part_of(EVENTS, error))
            return False
        try:
            start = self._offset + self._held_bytes
            piece = read_range(fd, start, start + _PIECE, path)
        finally:
            os.close(fd)
        if b"\n" in piece:
            *lines, rest = b"".join((*self._held, piece)).split(b"\n")
            for line in lines:
                self._offset += len(line) + 1
                if self._long:
                    self._long = False
                else:
                    self._log.feed(line)
            self._hold(rest)
        elif piece:
            # A line of many pieces is joined once, at its end.
            self._held.append(piece)
            self._held_bytes += len(piece)
        if self._long or self._held_bytes > _LONGEST_LINE:
            if not self._long:
                self._log.skip("E_OVERSIZE")
            self._offset, self._long = self._offset + self._held_bytes, True
            self._hold(b"")
        if len(piece) == _PIECE:
            return True
        if self._held_bytes and self._log.feed(b"".join(self._held), ended=False):
            self._offset += self._held_bytes
            self._hold(b"")
        return False

    def _hold(self, rest: bytes) -> None:
        """Keep the beginning of a line whose end was not read yet."""
        self._held, self._held_bytes = [rest] if rest else [], len(rest)

    def _settled(self) -> bool:
        """Say whether manifest and log belong together; else read the manifest again."""
        if self._parts is None:
            return False
        now = _stamp(self.path / MANIFEST)
        if now == self._state:
            return True
        self._tries += 1
        if self._tries >= _TRIES:
            self._parts = msgspec.structs.replace(self._parts, moving=True)
            return True
        self._state = now
        manifest = read_part(self.path, MANIFEST, SIDE_LIMIT)
        self._parts = msgspec.structs.replace(self._parts, manifest=manifest)
        return False


def preview_of(found: Found) -> RunSummary | None:
    """Give a first row from some bytes of the end of manifest and log; None where they do not tell.

    Raises:
        StoreError: a file cannot be read.
    """
    directory = Path(found.path)
    end = _ends(directory / MANIFEST, _TAIL)
    phases = _PHASE.findall(end)
    if not phases:
        return None
    log = LogFacts()
    lines = _ends(directory / EVENTS, _LOG_TAIL).split(b"\n")
    whole = (directory / EVENTS).lstat().st_size <= _LOG_TAIL
    for line in lines[:-1] if whole else lines[1:-1]:
        log.feed(line)
    if lines[-1]:
        log.feed(lines[-1], ended=False)
    phase = phases[-1].decode("ascii", "replace")
    models = _MODEL.findall(end)
    pending = Pending("", log.waiting(), "", "") if phase == "waiting_approval" else None
    if pending is not None and not pending.name:
        return None
    manifest = Manifest({}, "G1", phase=phase, pending=pending, last_event_sequence=log.last_sequence)
    status = standing(manifest, "", Parts(), log)
    return RunSummary(
        id=found.name,
        path=found.path,
        format="rivumi",
        status=status.name,
        rule=status.rule,
        model=models[-1].decode("utf-8", "replace") if models else log.model,
        updated=found.updated,
        size=found.size,
        prompt=_instruction(directory),
        torn=log.torn,
        last_seq=log.last_sequence,
        in_flight=log.open_calls(),
        last_words=log.words,
        reason=log.reason,
        complete=False,
    )


def read_part(directory: Path, name: str, limit: int) -> Part:
    """Read one small file of a run; a link is not followed."""
    path = directory / name
    try:
        fd = open_regular(path)
    except StoreError as error:
        return _part_of(name, error)
    try:
        size = status_of(fd, path).st_size
        if size > limit:
            return Part(
                name,
                "too_large",
                size=size,
                detail=f"{sized(size)}, of which no more than {sized(limit)} are read",
            )
        data = read_range(fd, 0, limit, path)
    except StoreError as error:
        return _part_of(name, error)
    finally:
        os.close(fd)
    return Part(name, "read", data, len(data))


def _log_part(path: Path) -> tuple[Part, int]:
    """What the log is, as far as a look tells, and its inode; a good one is opened only to be read."""
    try:
        status = path.lstat()
        if stat.S_ISREG(status.st_mode):
            return Part(path.name, "read", size=status.st_size), status.st_ino
        os.close(open_regular(path))
    except StoreError as error:
        return _part_of(path.name, error), 0
    except (OSError, ValueError) as error:
        return _part_of(path.name, open_error(path, error)), 0
    return Part(path.name), 0


def _part_of(name: str, error: StoreError) -> Part:
    if isinstance(error, RunNotFound):
        return Part(name)
    said = str(error).rpartition(": ")[2].removesuffix(", not a file")
    if isinstance(error, NotRegular):
        return Part(name, "link" if "link" in said else "not_regular", detail=f"it is {said}")
    if isinstance(error, NotPermitted):
        return Part(name, "not_permitted", detail="not permitted to read it")
    return Part(name, "unreadable", detail=said)


def _instruction(directory: Path) -> str:
    part = read_part(directory, "request.json", _REQUEST)
    try:
        return read_request(part.data).instruction if part.state == "read" else ""
    except BadRecord:
        return ""


def _ends(path: Path, most: int) -> bytes:
    fd = open_regular(path)
    try:
        size = status_of(fd, path).st_size
        return read_range(fd, max(0, size - most), size, path)
    finally:
        os.close(fd)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.lstat()
    except OSError:
        return 0, 0
    return found.st_ino, found.st_mtime_ns
