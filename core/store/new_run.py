"""A run that appears whole or not at all: written aside, synced, and named by a link that overwrites nothing.

Until the link no list shows it; after it the run is complete. What a killed process leaves behind is a file
named `.<id>.<hex>.fork`, held by a lock while somebody writes it; the next new run in that directory removes
those whose maker is dead (design/safety.md 2.4, rows 2 and 37).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from refold.core.errors import RunExists, StoreError
from refold.core.repair import PlanOutdated
from refold.core.store.files import (
    create_private,
    fsync_directory,
    private_directory,
    read_range,
    shown,
    sync,
    write_all,
    write_failed,
)
from refold.core.store.notes import Notes, NotesStore, prefix_of
from refold.core.store.run_id import check_run_id

TEMPORARY = ".fork"
"""How the name of an unfinished run ends; no list shows such a file."""
_LEFTOVER = re.compile(r"\.[A-Za-z0-9][A-Za-z0-9_-]{0,127}\.[0-9a-f]{16}" + re.escape(TEMPORARY))
_YOUNG = 5.0
"""Seconds for which an unfinished file is left alone although nobody locks it: its maker is just about to."""
_OLD = 3600.0
"""Seconds after which it is removed where nothing can be locked."""
_PIECE = 1 << 20
_CANNOT_COPY = {errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF}


class NewRun(msgspec.Struct, frozen=True):
    """A run that was made."""

    path: Path
    durable: bool
    """False where the directory could not be synced."""
    noted: bool
    """False where something had to be noted about it, and could not be."""


def make_run(
    directory: Path,
    run_id: str,
    write: Callable[[int], None],
    *,
    notes: NotesStore | None = None,
    note: Callable[[Notes], Notes] | None = None,
) -> NewRun:
    """Make a run.

    Args:
        directory: where it goes; made if it is not there.
        run_id: its id.
        write: fills the open file, and raises if what it wrote is not what was meant.
        notes: where something is noted about it.
        note: what; None for nothing.

    Raises:
        RunExists: there is a run of that id; nothing was written.
        WriteFailed: the run is not known to be on disk; nothing of it is left.
        StoreError: the directory or file cannot be made.
    """
    private_directory(directory)
    target = require_free(directory, run_id)
    sweep(directory, notes)
    temporary = directory / f".{run_id}.{os.urandom(8).hex()}{TEMPORARY}"
    noted = note is None
    fd = create_private(temporary)
    try:
        try:
            # The system copies between files only into one that is not opened for appending.
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_APPEND)
            with contextlib.suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            write(fd)
            sync(fd)
            if note is not None and notes is not None:
                # Before the run has its name: no kill may leave it there without its lineage.
                noted = _noted(notes, temporary, note)
            os.link(temporary, target)
        except BaseException as error:
            if noted and note is not None and notes is not None:
                _forget(notes, temporary, prefix_of(temporary))
            if isinstance(error, FileExistsError):
                raise _taken(target) from error
            if isinstance(error, OSError):
                rest = "nothing of it is left"
                raise write_failed(target, "the new run was not made", error, rest) from error
            raise
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()
    finally:
        os.close(fd)
    if noted and note is not None and notes is not None:
        _settle(notes, target)
    try:
        durable = fsync_directory(directory)
    except OSError:
        durable = False
    return NewRun(target, durable, noted)


def require_free(directory: Path, run_id: str) -> Path:
    """Give the path that a new run will have.

    Raises:
        InvalidRunId: the text is no run id.
        RunExists: something lies there.
    """
    target = directory / f"{check_run_id(run_id)}.json"
    if os.path.lexists(target):
        raise _taken(target)
    return target


def sweep(directory: Path, notes: NotesStore | None = None) -> int:
    """Remove what killed makers of new runs left in a directory; give how many files that were.

    Only regular files of ours with a name of ours, whose maker is dead: nobody holds their lock.
    """
    swept = 0
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for name in [entry.name for entry in entries if _LEFTOVER.fullmatch(entry.name)]:
            path = directory / name
            with contextlib.suppress(OSError):
                if _is_abandoned(path):
                    swept += _remove(path, notes)
    return swept


def _remove(path: Path, notes: NotesStore | None) -> int:
    """Remove one such file, and what was noted about a run that was never made."""
    whole = path.with_name(f"{path.name[1:].partition('.')[0]}.json")
    prefix = prefix_of(path) if notes is not None else ""
    path.unlink()
    if notes is not None:
        if whole.exists():
            # What was noted about it may still lie under the name that is gone; its first line leads there.
            _settle(notes, whole)
        _forget(notes, path, prefix)
    return 1


def _is_abandoned(path: Path) -> bool:
    found = path.lstat()
    age = time.time() - found.st_mtime
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or age < _YOUNG:
        return False
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return age > _OLD
    finally:
        os.close(fd)
    return True


def copy(source: int, target: int, start: int, end: int) -> None:
    """Add a stretch of one file to another, copied by the system itself where it can.

    Raises:
        PlanOutdated: the source ends before.
        OSError: the system refuses.
    """
    by_system = hasattr(os, "copy_file_range")
    while start < end:
        copied = 0
        if by_system:
            try:
                copied = os.copy_file_range(source, target, end - start, offset_src=start)
            except OSError as error:
                if error.errno not in _CANNOT_COPY:
                    raise
                by_system = False
        if not copied:
            data = os.pread(source, min(end - start, _PIECE), start)
            if not data:
                raise PlanOutdated("the parent became shorter while it was copied; no run was made")
            write_all(target, data)
            copied = len(data)
        start += copied


def pieces(fd: int, path: Path, start: int, end: int | None = None) -> Iterator[bytes]:
    """Yield the bytes of an open file from start to end, or to where it ends, a piece at a time.

    Raises:
        Unreadable: the system answers with an error.
    """
    while end is None or start < end:
        data = read_range(fd, start, start + _PIECE if end is None else min(start + _PIECE, end), path)
        if not data:
            return
        yield data
        start += len(data)


def stamp(moment: datetime) -> str:
    """Write a time as the original writes one (formats/fisk-ai.md 1.6): RFC 3339, no zeros at the end."""
    text = moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00")
    return text.rstrip("0").removesuffix(".") + "Z"


def _noted(notes: NotesStore, run: Path, note: Callable[[Notes], Notes]) -> bool:
    try:
        notes.update(run, note)
    except (StoreError, OSError):
        return False
    return True


def _settle(notes: NotesStore, run: Path) -> None:
    """Put what was noted before a run had its name under that name; until then its first line leads to it."""
    _noted(notes, run, lambda same: same)


def _forget(notes: NotesStore, run: Path, prefix: str) -> None:
    with contextlib.suppress(StoreError, OSError):
        notes.forget(run, prefix)


def _taken(target: Path) -> RunExists:
    return RunExists(f"{shown(target)}: already there", remedy="choose another id")
