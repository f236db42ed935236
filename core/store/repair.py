"""Puts the end of a run right when told to, and back again; looking at it changes nothing.

Of a run directory it is the end of its log, mended under the lease of the run.

The only repair there is: what a crash left behind the last record (`core.repair`). The cut bytes lie in a
side file, and go back from there as long as the run is exactly what the repair left.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from pathlib import Path
from typing import Final

import msgspec

from refold.core.errors import Refused, RunLocked, StoreError
from refold.core.formats.registry import FORMATS, by_name
from refold.core.repair import RepairPlan
from refold.core.store.files import (
    append_durably,
    fsync_directory,
    open_error,
    open_regular,
    read_range,
    shown,
    status_of,
)
from refold.core.store.journal import JournalStore
from refold.core.store.lock import RunLock
from refold.core.store.notes import NotedRepair, NotesStore
from refold.core.store.reader import RunReader
from refold.core.store.run_id import check_run_id
from refold.core.store.session_lease import SessionWriterLease
from refold.core.store.session_names import EVENTS, is_run_directory
from refold.core.store.session_tail import plan_for_log, repair_log
from refold.core.store.tail import read_tail

_FOOT: Final = 65_536


class NothingToUndo(Refused):
    """The run is not what a repair left behind; nothing was changed."""


class Undone(msgspec.Struct, frozen=True):
    """Bytes that were put back."""

    path: Path
    side_file: str
    torn_bytes: int


def plan_for(reader: RunReader) -> RepairPlan | None:
    """Say what the end of a run needs; None where it is clean. Nothing is locked or written.

    Raises:
        UnsupportedVersion: the run was written by a newer version.
        CorruptJournal: the damage is deeper than a torn tail.
        StoreError: the file cannot be read.
    """
    if reader.session is not None:
        return plan_for_log(reader.path)
    fd = open_regular(reader.path)
    try:
        return read_tail(fd, reader.path, reader.format)[0].plan
    finally:
        os.close(fd)


def repair(plan: RepairPlan, format_name: str, *, notes: NotesStore | None = None) -> bool:
    """Carry out a plan under the lock of the run; False where it could not be noted.

    Raises:
        PlanOutdated: the run has changed since the plan was made; nothing was changed.
        RunLocked: somebody holds the run.
        StoreError: the run cannot be opened, locked or written.
    """
    path = Path(plan.file.path)
    changed = _changed(path)
    if format_name in FORMATS:
        run = path
        with JournalStore(path.parent, by_name(format_name)).open(_run_id(path), repair=plan):
            noted = NotedRepair(plan.keep, plan.side_file, _foot(path, plan.keep))
    else:
        run = path.parent
        repair_log(run, plan)
        noted = NotedRepair(plan.keep, plan.side_file, _foot(path, plan.keep))
    if plan.action == "complete":
        return True
    # The bytes are as old as the run was: an undo gives it that time back.
    with contextlib.suppress(OSError):
        os.utime(path.with_name(plan.side_file), ns=(changed, changed), follow_symlinks=False)
    if notes is None:
        return True
    try:
        notes.update(run, lambda known: msgspec.structs.replace(known, repair=noted))
    except (StoreError, OSError):
        return False
    return True


def undo(path: Path, *, notes: NotesStore | None = None) -> Undone:
    """Put back what the last repair cut off, under the lock of the run.

    Raises:
        NothingToUndo: no repair cut anything, or the run is not exactly as it left it.
        RunLocked: somebody holds the run.
        StoreError: the run cannot be opened, locked or written.
    """
    with contextlib.ExitStack() as held:
        if is_run_directory(path):
            lease = held.enter_context(SessionWriterLease.hold(path))
            log, stem = lease.directory / EVENTS, EVENTS
        else:
            log, stem = path, _run_id(path)
            os.close(open_regular(path, append=True))
            lock = RunLock.take(path.with_suffix(".lock"))
            held.callback(lock.release)
        own = RunLock.hold(open_regular(log, append=True), log)
        held.callback(own.release)
        if not own.still_ours():
            raise RunLocked(f"{shown(log)}: the file is being replaced", remedy="try again")
        size = status_of(own.fileno(), log).st_size
        side_file = _side_file(log, stem, size, None if notes is None else notes.read(path).repair)
        torn, changed = _bytes_of(side_file), _changed(side_file)
        append_durably(own.fileno(), torn, log)
        with contextlib.suppress(OSError):
            os.utime(own.fileno(), ns=(changed, changed))
        # The run is as it was; a side file that stays is in nobody's way.
        with contextlib.suppress(OSError):
            side_file.unlink()
            fsync_directory(log.parent)
    if notes is not None:
        with contextlib.suppress(StoreError, OSError):
            if notes.read(path).repair is not None:
                notes.update(path, lambda known: msgspec.structs.replace(known, repair=None))
    return Undone(path, side_file.name, len(torn))


def _changed(path: Path) -> int:
    """Give when a file was last changed, in nanoseconds.

    Raises:
        StoreError: it cannot be looked at.
    """
    try:
        return path.lstat().st_mtime_ns
    except OSError as error:
        raise open_error(path, error) from error


def _run_id(path: Path) -> str:
    run_id = check_run_id(path.name.removesuffix(".json"))
    if path.name != f"{run_id}.json":
        raise Refused(
            f"{shown(path)}: a run that is written to is named <id>.json", remedy="rename a copy of it"
        )
    return run_id


def _side_file(path: Path, run_id: str, size: int, noted: NotedRepair | None) -> Path:
    """Find the file of the last repair, which must have left the run exactly as it is."""
    if noted is not None:
        side_file = path.with_name(noted.side_file)
        if noted.keep == size and side_file.name in _side_files(path, run_id, size):
            if _foot(path, size) != noted.foot:
                raise NothingToUndo(f"{shown(path)}: the run was rewritten since it was repaired")
            return side_file
    found = _side_files(path, run_id, size)
    if found:
        return path.with_name(max(found, key=lambda name: (len(name), name)))
    if _side_files(path, run_id, None):
        raise NothingToUndo(
            f"{shown(path)}: the run is not as the repair left it: records were added or cut since",
            remedy="the cut bytes stay in the side file beside it",
        )
    raise NothingToUndo(f"{shown(path)}: no repair cut anything off this run")


def _side_files(path: Path, run_id: str, size: int | None) -> list[str]:
    """Give the names of the side files for bytes cut off at a size; of all where none is given."""
    where = r"\d+" if size is None else str(size)
    name = re.compile(rf"{re.escape(run_id)}\.{where}(?:\.\d+)?\.torn")
    try:
        with os.scandir(path.parent) as entries:
            return [entry.name for entry in entries if name.fullmatch(entry.name)]
    except OSError as error:
        raise open_error(path.parent, error) from error


def _bytes_of(side_file: Path) -> bytes:
    fd = open_regular(side_file)
    try:
        return read_range(fd, 0, status_of(fd, side_file).st_size, side_file)
    finally:
        os.close(fd)


def _foot(path: Path, end: int) -> str:
    """Give the hash of the last bytes before a place."""
    fd = open_regular(path)
    try:
        return hashlib.sha256(read_range(fd, max(0, end - _FOOT), end, path)).hexdigest()
    finally:
        os.close(fd)
