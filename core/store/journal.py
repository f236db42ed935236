"""Runs of one file each: `<id>.json` beside `<id>.lock` in a directory of their own.

One writer a run, held off by a lock that ends with its process; one write and one fsync a record, so that
a record that was acknowledged is on disk, whole, and on a line of its own (architecture.md "Native journal",
contracts.md "Opening for append", formats/fisk-ai.md 3).
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Protocol

import msgspec

from refold.core.errors import (
    BadRecord,
    JournalClosed,
    RunExists,
    RunLocked,
    SequenceConflict,
    SequenceGap,
    UnsupportedVersion,
    WriteFailed,
)
from refold.core.formats import Decoder, Format
from refold.core.formats.journal import NATIVE
from refold.core.journal_text import fold_bytes
from refold.core.records import VERSION, IncompleteRecord, MetaRecord, Record, UnknownRecord
from refold.core.repair import RepairPlan, TornTail
from refold.core.state import RunState
from refold.core.store.clock import SystemStamps, stamp_of
from refold.core.store.files import (
    append_durably,
    create_private,
    fsync_directory,
    odd_kind,
    open_error,
    open_regular,
    private_directory,
    read_range,
    shown,
    status_of,
    write_failed,
)
from refold.core.store.lock import RunLock
from refold.core.store.run_id import check_run_id, is_run_id
from refold.core.store.run_id import new_run_id as new_run_id
from refold.core.store.tail import carry_out, lines_backwards, read_tail

_NEVER_WRITTEN = (IncompleteRecord, UnknownRecord)
LOOK_BACK = 64 << 20
"""How many bytes from the end are searched for a record that is appended a second time."""


class WritableFormat(Format, Protocol):
    """A format in which records can be written."""

    def encode(self, record: Record, version: int | None = None) -> bytes:
        """Give the one line, newline included, that stands for a record in a run of this version."""
        ...

    def plain_line(self, record: Record, version: int) -> bytes | None:
        """Give that line if it is sure to be read again; None where only reading it tells."""
        ...


class Journal:
    """A run opened for appending: the only writer of its file until it is closed.

    Safe to use from several threads. Once an append has failed half way the journal is closed for good;
    opening the run again starts from what is on disk. A forked child cannot append.
    """

    def __init__(
        self,
        run_id: str,
        path: Path,
        *,
        lock: RunLock,
        own: RunLock,
        format_: WritableFormat,
        decoder: Decoder,
        empty: bool,
        last_seq: int,
        stamps: Callable[[], str],
        repaired: RepairPlan | None = None,
    ) -> None:
        self.run_id = run_id
        self.path = path
        self.repaired = repaired
        """What was done to the end of the file when it was opened."""
        self.name_is_durable = False
        """True once an append has synced the directory too; stays False where that cannot be done."""
        self._lock = lock
        self._own = own
        self._format = format_
        self._decoder = decoder
        self._empty = empty
        self._last_seq = last_seq
        self._stamps = stamps
        self._end = status_of(own.fileno(), own.path).st_size
        self._directory_done = False
        self._one_at_a_time = threading.RLock()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def last_seq(self) -> int:
        """The sequence of the last record; 0 before the first."""
        return self._last_seq

    @property
    def closed(self) -> bool:
        """True once nothing can be appended any more."""
        return not self._own.held

    def close(self) -> None:
        """Give up the file and its lock, after an append that is under way; once is enough."""
        if self._own.held or self._lock.held:
            # Not in the middle of an append: its descriptor could be another file's by the time it writes.
            with self._one_at_a_time:
                self._own.release()
                self._lock.release()

    def append(self, record: Record) -> int:
        """Write a record and give its sequence once it is on disk.

        A sequence of 0 means the next one; `time` is added where the format records it and it is missing.
        A record that stands there already, with the same content, is not written again.

        Raises:
            SequenceGap: the sequence is further on than the next one, or the first record is not meta.
            SequenceConflict: another record stands at this sequence, or a second meta record was given.
            BadRecord: the record cannot be written so that it would be read again.
            JournalClosed: the journal was closed before.
            RunLocked: the lock file is not ours any more; the journal is closed.
            WriteFailed: the record is not known to be durable; the journal is closed.
        """
        with self._one_at_a_time:
            if self.closed:
                raise JournalClosed(f"{shown(self.path)}: the run was closed", remedy="open it again")
            if isinstance(record, _NEVER_WRITTEN):
                raise BadRecord("only the five kinds of records can be written")
            seq = record.seq or self._last_seq + 1
            if seq > self._last_seq + 1:
                raise SequenceGap(f"record seq gap: seq {seq} skips ahead of {self._last_seq}")
            if seq <= self._last_seq:
                return self._already_there(record, seq)
            if self._empty != isinstance(record, MetaRecord):
                raise self._misplaced(record, seq)
            line, decoder = self._checked(self._stamped(record, seq))
            try:
                self._require_undisturbed()
                append_durably(self._own.fileno(), line, self.path, end=self._end)
                if not self._directory_done:
                    self._make_name_durable()
                self._decoder, self._empty = decoder, False
                self._end += len(line)
                self._last_seq = seq
            except BaseException:
                self.close()
                raise
            return seq

    def _stamped(self, record: Record, seq: int) -> Record:
        now = self._stamps()
        if isinstance(record, MetaRecord):
            record = msgspec.structs.replace(
                record,
                run_id=self.run_id,
                version=record.version or VERSION,
                created=record.created or now,
            )
        return msgspec.structs.replace(record, seq=seq, time=record.time or now)

    def _checked(self, record: Record) -> tuple[bytes, Decoder]:
        """Give the line of a record, read back if need be: what we could not read must not be written."""
        decoder = self._decoder
        if isinstance(record, MetaRecord):
            decoder = self._format.decoder(self._format.encode(record))
        plain = self._format.plain_line(record, decoder.version)
        line = self._format.encode(record, decoder.version) if plain is None else plain
        if not line or line.find(b"\n") != len(line) - 1:
            raise BadRecord("the record does not make one line")
        if not decoder.readable:
            raise UnsupportedVersion(decoder.version, decoder.supported)
        if plain is None:
            decoder.record(line[:-1])
        return line, decoder

    def _already_there(self, record: Record, seq: int) -> int:
        for line in lines_backwards(self._own.fileno(), self._end, self.path):
            if self._end - line.start - len(line.data) > LOOK_BACK:
                break
            try:
                there = self._decoder.record(line.data)
            except BadRecord:
                continue
            if there.seq > seq:
                continue
            if there.seq == seq and type(there) is type(record):
                if isinstance(there, MetaRecord) and isinstance(record, MetaRecord) and not record.created:
                    record = msgspec.structs.replace(record, created=there.created)
                again = msgspec.structs.replace(self._stamped(record, seq), time=there.time)
                if self._format.encode(again, self._decoder.version) == line.data + b"\n":
                    return seq
            break
        raise SequenceConflict(
            f"{shown(self.path)}: seq {seq} is there already with other content",
            remedy="the run was changed by somebody else, or the record was numbered wrongly",
        )

    def _misplaced(self, record: Record, seq: int) -> SequenceGap | SequenceConflict:
        if isinstance(record, MetaRecord):
            return SequenceConflict(f"duplicate meta at seq {seq}: a run has one meta record, its first")
        return SequenceGap("the run is empty: its first record must be a meta record")

    def _require_undisturbed(self) -> None:
        if not self._lock.still_ours():
            raise RunLocked(
                f"{shown(self._lock.path)}: the lock file was removed or replaced: others may write this run",
                remedy="find out what removed it, then open the run again",
            )
        found = self._own.found()
        if found is None:
            raise WriteFailed(
                f"{shown(self.path)}: the file was removed or replaced; the record was not written",
                remedy="open the run again if it is still there",
            )
        if found.st_size != self._end:
            raise WriteFailed(
                f"{shown(self.path)}: somebody else changed the file: it has {found.st_size} bytes, "
                f"not {self._end}; the record was not written",
                remedy="find out who writes it, then open the run again",
            )

    def _make_name_durable(self) -> None:
        # Also for a run that we did not make: its maker may have been killed just before.
        try:
            self.name_is_durable = fsync_directory(self.path.parent)
        except OSError as error:
            rest = "it is in the file, but the file may be gone after a power failure"
            raise write_failed(self.path, "the record may not be on disk", error, rest) from error
        self._directory_done = True


class JournalStore:
    """The runs of one directory, which is made, 0700, when the first run is created in it."""

    def __init__(
        self,
        directory: Path,
        format: WritableFormat = NATIVE,  # noqa: A002 - callers say format=
        *,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self.directory = directory.absolute()
        self._format = format
        self._stamps = SystemStamps() if clock is None else lambda: stamp_of(clock())

    def path_of(self, run_id: str) -> Path:
        """Give the path of a run, which need not exist.

        Raises:
            InvalidRunId: the text is no run id.
        """
        return self.directory / f"{check_run_id(run_id)}.json"

    def create(self, run_id: str | None, meta: MetaRecord) -> Journal:
        """Begin a run, under a new id where none is given; its meta record is on disk on return.

        The record gets the id, sequence 1 and, where missing, version and time. If anything fails nothing is
        left but the lock file.

        Raises:
            InvalidRunId: the text is no run id; nothing was touched.
            RunExists: there is something of that name, were it empty.
            RunLocked: somebody is creating the same run.
            WriteFailed: the record is not known to be durable.
            StoreError: the directory or file cannot be made.
        """
        run_id = new_run_id() if run_id is None else check_run_id(run_id)
        path = self.path_of(run_id)
        private_directory(self.directory)
        if os.path.lexists(path):
            raise RunExists(f"{shown(path)}: already there", remedy="choose another id")
        with contextlib.ExitStack() as undo:
            lock = RunLock.take(_lock_path(path))
            undo.callback(lock.release)
            fd = create_private(path)
            undo.callback(_remove_again, path, os.fstat(fd))
            own = RunLock.hold(fd, path)
            undo.callback(own.release)
            journal = Journal(
                run_id,
                path,
                lock=lock,
                own=own,
                format_=self._format,
                decoder=self._format.decoder(b""),
                empty=True,
                last_seq=0,
                stamps=self._stamps,
            )
            journal.append(msgspec.structs.replace(meta, seq=1))
            undo.pop_all()
            return journal

    def begin(self, run_id: str | None, meta: MetaRecord) -> Journal:
        """Begin a run as `create` does, also in an empty file, as a repair of its first line leaves it.

        Raises:
            StoreError: as `create` and `open` do; an empty file stays, or holds the meta record.
        """
        try:
            return self.create(run_id, meta)
        except RunExists:
            if run_id is None or not _is_empty(self.path_of(run_id)):
                raise
            there = self.open(run_id)
            try:
                if there.last_seq:
                    raise
                there.append(msgspec.structs.replace(meta, seq=1))
            except BaseException:
                there.close()
                raise
            return there

    def open(self, run_id: str, *, repair: RepairPlan | None = None) -> Journal:
        """Open a run for appending after its last record.

        An empty file, as a crash while creating leaves it, opens with `last_seq` 0 and takes a meta record.

        Args:
            run_id: the run.
            repair: the plan of a `TornTail` raised before, to be carried out now.

        Raises:
            InvalidRunId: the text is no run id; nothing was touched.
            RunNotFound: there is no such run; no lock file was made.
            TornTail: the end must be repaired first, as its plan says; nothing was changed.
            PlanOutdated: the run has changed since the plan was made; nothing was changed.
            RunLocked: somebody holds the run.
            UnsupportedVersion: the run was written by a newer version.
            CorruptJournal: the damage is deeper than a torn tail.
            StoreError: the file cannot be opened, locked, read or repaired.
        """
        path = self.path_of(run_id)
        # Before the lock: a run that is not there, or not ours to write, gets no lock file.
        os.close(open_regular(path, append=True))
        with contextlib.ExitStack() as undo:
            lock = RunLock.take(_lock_path(path))
            undo.callback(lock.release)
            own = RunLock.hold(open_regular(path, append=True), path)
            undo.callback(own.release)
            if not own.still_ours():
                raise RunLocked(f"{shown(path)}: the file is being replaced", remedy="try again")
            tail, decoder = read_tail(own.fileno(), path, self._format)
            if repair is not None:
                carry_out(repair, tail.plan, own.fileno(), path)
            elif tail.plan is not None:
                raise TornTail(tail.plan)
            undo.pop_all()
            return Journal(
                run_id,
                path,
                lock=lock,
                own=own,
                format_=self._format,
                decoder=decoder,
                empty=tail.empty,
                last_seq=tail.last_seq,
                stamps=self._stamps,
                repaired=repair,
            )

    def load(self, run_id: str) -> RunState:
        """Fold a run to its state; nothing is locked or written.

        Raises:
            InvalidRunId: the text is no run id; nothing was touched.
            RunNotFound: there is no such run.
            FoldError: its records do not fold.
            StoreError: the file cannot be read.
        """
        path = self.path_of(run_id)
        fd = open_regular(path)
        try:
            data = read_range(fd, 0, status_of(fd, path).st_size, path)
        finally:
            os.close(fd)
        return fold_bytes(data, hint=self._format.name)

    def list(self) -> Iterator[str]:
        """Yield the ids of all runs in order, the unreadable ones included.

        Raises:
            StoreError: the directory cannot be read; one that is not there is empty.
        """
        try:
            with os.scandir(self.directory) as entries:
                stems = [
                    entry.name.removesuffix(".json")
                    for entry in entries
                    if entry.name.endswith(".json") and not entry.is_dir(follow_symlinks=False)
                ]
        except FileNotFoundError:
            return
        except OSError as error:
            raise open_error(self.directory, error) from error
        yield from sorted(filter(is_run_id, stems))


def _lock_path(path: Path) -> Path:
    return path.with_suffix(".lock")


def _is_empty(path: Path) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return not odd_kind(found.st_mode) and found.st_size == 0


def _remove_again(path: Path, made: os.stat_result) -> None:
    """Remove a file that we made and nobody was told of, unless something else lies there now."""
    with contextlib.suppress(OSError):
        if os.path.samestat(os.lstat(path), made):
            path.unlink()
