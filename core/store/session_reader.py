"""One run directory open for reading: its log grows like a journal, its other files are read on demand."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from refold.core.errors import BadRecord, CorruptJournal, StoreError
from refold.core.findings import Finding
from refold.core.formats import Format
from refold.core.formats.registry import of_directories
from refold.core.formats.rivumi import EventDecoder
from refold.core.records import Json, Record
from refold.core.rivumi.events import Event
from refold.core.rivumi.events_state import EventsState
from refold.core.rivumi.manifest import Manifest, Request, read_manifest, read_request
from refold.core.rivumi.snapshot import Part, Snapshot
from refold.core.rivumi.timeline import EventTimeline
from refold.core.rivumi.timeline_builder import EventBuilder
from refold.core.state import RunState
from refold.core.store import index_cache
from refold.core.store.files import is_directory, open_error, open_regular, shown
from refold.core.store.growing import Change
from refold.core.store.reader import RunReader
from refold.core.store.session_files import part_of, read_run
from refold.core.store.session_names import EVENTS, LOCK, MANIFEST, NESTED, is_run_directory

_SIDE: Final = (MANIFEST, "request.json", "result.json", "verification.json", "changes.patch")
_LONGEST_SIDE: Final = 64 << 20
LONGEST_PATCH: Final = 1 << 20
"""Bytes of the recorded changes that are shown."""
_MOST_INNER: Final = 1000
_Facts: TypeAlias = tuple[Manifest | None, str, Request | None]
"""The manifest, why there is none, and the request."""


class SessionReader(RunReader):
    """A run directory that is being read. Made by `RunReader.open`."""

    def __init__(self, path: Path, file: Path, fd: int, log_problem: str) -> None:
        """Read a directory.

        Args:
            path: The directory.
            file: Its log, the file behind a link that stays in the run.
            fd: The open log; something empty where there is none.
            log_problem: Why there is none.
        """
        super().__init__(path, fd, "rivumi")
        self._file = file
        self.run_id = Path(os.path.abspath(path)).name  # noqa: PTH100 - of a path like "." too
        self.session = self
        self.log_problem = log_problem
        self._seen = self._marks()
        self._restoring: Iterator[None] | None = None
        """An index that is being taken over from the cache, piece by piece."""
        self._kept: tuple[object, _Facts] | None = None
        """Manifest and request as they were read, and of which state of the files."""
        if log_problem:
            self.mtime = path.stat().st_mtime

    def again(self) -> SessionReader:
        """Open the same log once more."""
        fd = os.dup(self._fd)
        try:
            return SessionReader(self.path, self._file, fd, self.log_problem)
        except BaseException:
            os.close(fd)
            raise

    @property
    def locks(self) -> tuple[Path, ...]:
        """The file that a writer of the run locks."""
        return (self.path / LOCK,)

    @property
    def timeline(self) -> EventTimeline:
        """The rows so far."""
        timeline = self._builder.timeline
        assert isinstance(timeline, EventTimeline)  # noqa: S101 - made below
        return timeline

    @property
    def beside(self) -> object:
        """What is equal as long as the files beside the log are the same."""
        return self._seen

    @property
    def manifest(self) -> Manifest | None:
        """What `session.json` claims now; None where it is missing or cannot be read."""
        return self._facts()[0]

    @property
    def manifest_problem(self) -> str:
        """Why there is no manifest; empty where there is one."""
        return self._facts()[1]

    @property
    def request(self) -> Request | None:
        """What the run was asked to do; None where that is missing or cannot be read."""
        return self._facts()[2]

    def _facts(self) -> _Facts:
        kept = self._kept
        if kept is None or kept[0] != self._seen:
            kept = self._kept = (self._seen, _facts(self.path))
        return kept[1]

    def step(self, seconds: float) -> bool:
        """Index for at most about so long; what the cache knows is taken over first.

        Returns:
            True when the end of the file has been reached.
        """
        until = time.perf_counter() + seconds
        try:
            for _ in self._restoring or ():
                if time.perf_counter() >= until:
                    self.complete = False
                    return False
        except (msgspec.MsgspecError, ValueError, LookupError):
            self._builder = self._new_builder()
            self._scanner = self._new_scanner()
        self._restoring = None
        return super().step(max(0.0, until - time.perf_counter()))

    def _restore(self, snapshot: msgspec.Raw) -> bool:
        """Begin to take an index over; `step` goes on with it."""
        builder = self._builder
        assert isinstance(builder, EventBuilder)  # noqa: S101 - made below
        self._restoring = builder.restoring(snapshot)
        return True

    def part(self, name: str, limit: int = _LONGEST_SIDE) -> Part:
        """Give one of the files of the run as it is now."""
        return part_of(self.path, name, limit)

    def patch(self) -> Part:
        """Give the recorded changes; more than `LONGEST_PATCH` bytes of them are not read."""
        return self.part("changes.patch", LONGEST_PATCH)

    def inner(self, name: str) -> Path | None:
        """Give the directory of the run of one of its own agents, where there is one."""
        if not name or "/" in name or "\0" in name or name in {".", ".."}:
            return None
        path = self.path / NESTED / name
        return path if is_run_directory(path) and not path.is_symlink() else None

    def inner_runs(self) -> tuple[str, ...]:
        """Give the names of the runs of its own agents, sorted."""
        try:
            with os.scandir(self.path / NESTED) as entries:
                names = [entry.name for entry, _ in zip(entries, range(_MOST_INNER), strict=False)]
        except OSError:
            return ()
        return tuple(sorted(name for name in names if self.inner(name) is not None))

    def snapshot(self) -> Snapshot:
        """Read every file of the run; raise StoreError where the directory is gone."""
        return read_run(self.path)

    def examine(self) -> tuple[Finding, ...]:
        """Give everything that is wrong with the run, or worth knowing."""
        from refold.core.rivumi.findings import findings

        return findings(self.snapshot())

    def event(self, item: int) -> Event:
        """Decode an item; raise BadRecord where it is no event."""
        if not self.timeline.type_of(item):
            raise BadRecord("these bytes are no event")
        return self._decoded(self.raw(item))

    def asked(self, item: int, line: bytes) -> tuple[tuple[int, str, Json], ...]:
        """Give the call that an event asks for, if it does; raise BadRecord where it is no event."""
        if self.timeline.type_of(item) != "tool.requested":
            return ()
        data = self._decoded(line).data
        name = data.get("name")
        key = self.timeline.answered(item)
        return ((key, name if isinstance(name, str) else "", data.get("arguments")),)

    def denied(self, item: int, longest: int) -> bool:
        """Say nothing: an event that ends a call tells whether it went well."""
        return False

    def outcome_unknown(self, item: int, longest: int) -> bool:
        """Say whether the end of a call was recorded by somebody who did not know it."""
        life = self.timeline.life(item)
        return life is not None and life.now.outcome_unknown

    def runs_again(self, item: int) -> bool:
        """Say whether it was decided about a call without an end that it runs again."""
        life = self.timeline.life(item)
        return life is not None and life.now.settled == "rerun"

    def _decoded(self, line: bytes) -> Event:
        decoder = self.decoder
        assert isinstance(decoder, EventDecoder)  # noqa: S101 - the format of directories has no other
        return decoder.event(line.removeprefix(b"\xef\xbb\xbf"))

    def record(self, item: int) -> Record:
        """Decode the envelope of an item."""
        raw = self.raw(item)
        return self.decoder.record(raw.removeprefix(b"\xef\xbb\xbf"))

    def salvaged_at(self, item: int) -> RunState:
        """Refuse: the messages of a run directory stand in its manifest, not in its log.

        Raises:
            CorruptJournal: always.
        """
        raise CorruptJournal("the run is a directory: its log holds no messages to fold")

    def events_at(self, item: int) -> EventsState:
        """Give what the events up to and including an item prove."""
        return self.timeline.state_at(item)

    def poll(self) -> Change:
        """Say what happened to the log or to the files beside it since the last look."""
        now = self._marks()
        moved = now != self._seen
        self._seen = now
        if not is_directory(self.path):
            return Change.GONE
        if self.log_problem:
            if _has_log(self.path):
                return Change.REPLACED
            return Change.GREW if moved else Change.SAME
        change = super().poll()
        return Change.GREW if moved and change is Change.SAME else change

    def _marks(self) -> tuple[tuple[int, int, int], ...]:
        """What changes when one of the side files is written or replaced."""
        return tuple(_mark(self.path / name) for name in _SIDE)

    def _format(self) -> Format:
        return of_directories()

    def _new_builder(self) -> EventBuilder:
        return EventBuilder(self.decoder)

    def _choose_decoder(self) -> None:
        """Do nothing: the lines of every generation are the same."""


def _facts(path: Path) -> _Facts:
    """Read manifest and request."""
    manifest: Manifest | None = None
    request: Request | None = None
    problem = ""
    part = part_of(path, MANIFEST, _LONGEST_SIDE)
    if part.known:
        try:
            manifest = read_manifest(part.data)
        except BadRecord as wrong:
            problem = f"session.json: {wrong.reason}"
    else:
        problem = f"session.json: {part.detail or part.state}"
    part = part_of(path, "request.json", _LONGEST_SIDE)
    if part.known:
        try:
            request = read_request(part.data)
        except BadRecord:
            request = None
    return manifest, problem, request


def _mark(path: Path) -> tuple[int, int, int]:
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return (0, 0, 0)
    return found.st_ino, found.st_mtime_ns, found.st_size


def open_session(path: Path, cache: Path | None = None) -> SessionReader:
    """Open a run directory; one without a log, or with one that cannot be read, is opened too.

    Args:
        path: The directory.
        cache: Where finished indexes are kept; None for no cache.

    Raises:
        StoreError: it cannot be looked into.
    """
    problem = ""
    file = _log_of(path)
    try:
        fd = open_regular(file)
    except StoreError as error:
        problem = f"{EVENTS}: {str(error).removeprefix(f'{shown(file)}: ')}"
        fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        reader = SessionReader(path, file, fd, problem)
        if cache is not None and reader.size >= index_cache.SMALLEST:
            reader.take_cached(cache)
    except BaseException:
        os.close(fd)
        raise
    return reader


def _log_of(path: Path) -> Path:
    """The log, or the file behind a link that does not lead out of the run."""
    file = path / EVENTS
    try:
        linked = file.is_symlink()
    except OSError as error:
        raise open_error(path, error) from error
    if not linked:
        return file
    try:
        target = file.resolve(strict=True)
        return target if target.is_relative_to(path.resolve()) else file
    except (OSError, RuntimeError, ValueError):
        return file


def _has_log(path: Path) -> bool:
    """Say whether the log can be opened now."""
    try:
        os.close(open_regular(_log_of(path)))
    except StoreError:
        return False
    return True
