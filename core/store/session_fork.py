"""Makes a fork of a run directory: whole under its name, or not at all.

It is built in a directory beside its parent whose name begins with a dot, which no list shows, and renamed
last. What a killed process leaves is such a directory, locked while somebody builds it; the next fork in that
root removes those whose maker is dead. The parent is only read (formats/rivumi.md 6).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from refold.core.errors import InvalidRunId, RunExists, StoreError
from refold.core.fork import NoForkHere
from refold.core.records import ForkOrigin
from refold.core.repair import PlanOutdated
from refold.core.rivumi.fork import SessionForkPlan, plan_session_fork
from refold.core.rivumi.reading import Reading
from refold.core.rivumi.snapshot import Snapshot
from refold.core.store.files import (
    fsync_directory,
    is_directory,
    open_error,
    open_regular,
    read_range,
    replace_atomically,
    shown,
    write_failed,
)
from refold.core.store.fork import Forked
from refold.core.store.notes import NotesStore
from refold.core.store.run_id import is_segment
from refold.core.store.session_files import part_of, read_run
from refold.core.store.session_names import EVENTS, MANIFEST
from refold.core.store.session_workspace import SECONDS, apply_patch, clone

PATCH_LIMIT: Final = 64 << 20
_TEMPORARY: Final = ".fork"
_LEFTOVER = re.compile(r"\.fork-[0-9a-f]{32}" + re.escape(_TEMPORARY))
_YOUNG: Final = 5.0
_LONGEST_NAME: Final = 255


def new_session_id() -> str:
    """Give the id of a new fork, as the original names one."""
    return f"fork-{uuid.uuid4().hex}"


def plan_session_at(
    path: Path,
    at: int,
    *,
    child: str | None = None,
    prompt: str = "",
    reason: str = "",
    snapshot: Snapshot | None = None,
    reading: Reading | None = None,
) -> SessionForkPlan:
    """Plan a fork of a run directory after an event.

    Args:
        path: the directory.
        at: the sequence of the last event taken.
        child: the id of the new run; a new one where none is given.
        prompt: what the user says next; empty for nothing.
        reason: why it is forked; recorded.
        snapshot: the run as it was read before; it is read now where this is left out.
        reading: what the snapshot means.

    Raises:
        NoForkHere: the point is not legal, or the repository is not there.
        InvalidRunId: the id is not one safe name of a directory.
        StoreError: the run cannot be read.
    """
    child = check_session_id(child) if child is not None else new_session_id()
    plan = plan_session_fork(
        snapshot or read_run(path),
        at,
        path=str(path),
        child=child,
        mark=uuid.uuid4().hex[:8],
        patch=part_of(path, "changes.patch", PATCH_LIMIT),
        prompt=prompt,
        reason=reason,
        reading=reading,
    )
    repository = Path(plan.repository)
    if not is_directory(repository):
        raise NoForkHere(
            f"{shown(repository)}: the repository is not there, and the new run needs a clone of it",
            code="repository",
        )
    if path.absolute().resolve().parent.is_relative_to(repository.resolve()):
        raise NoForkHere("the new run would lie inside the repository it works on", code="repository")
    return plan


def check_session_id(child: str) -> str:
    """Give the id of a run directory back unchanged.

    Raises:
        InvalidRunId: it is not one safe name.
    """
    try:
        long = len(os.fsencode(child)) > _LONGEST_NAME
    except UnicodeEncodeError:
        long = True
    if not is_segment(child) or child.startswith((".", "-")) or "\\" in child or long:
        raise InvalidRunId(child)
    return child


def require_free_session(root: Path, child: str) -> Path:
    """Give the directory that a new run will have.

    Raises:
        InvalidRunId: the text is no id.
        RunExists: something lies there.
    """
    target = root / check_session_id(child)
    if os.path.lexists(target):
        raise RunExists(f"{shown(target)}: already there", remedy="choose another id")
    return target


def carry_out_session(
    plan: SessionForkPlan,
    *,
    notes: NotesStore | None = None,
    seconds: float = SECONDS,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Forked:
    """Make the fork.

    Args:
        plan: what to make.
        notes: where its lineage is noted too; its first event names the parent in any case.
        seconds: how long one command of git may take.
        now: the clock.

    Raises:
        PlanOutdated: the log of the parent does not begin as it did when the plan was made.
        RunExists: there is something of that name.
        Refused: git cannot make the workspace.
        StoreError: something cannot be written. Whatever fails, nothing of the fork is left.
    """
    parent = Path(plan.path)
    root = parent.absolute().parent
    target = require_free_session(root, plan.child)
    _require_same(parent, plan)
    sweep_sessions(root)
    with _building(root) as building:
        try:
            replace_atomically(building / "request.json", plan.request)
            clone(Path(plan.repository), plan.base_sha, building / "workspace", seconds=seconds)
            if plan.patch:
                apply_patch(building / "workspace", plan.patch, seconds=seconds)
            moment = now()
            replace_atomically(building / EVENTS, plan.event(moment))
            replace_atomically(building / MANIFEST, plan.manifest.stamped(moment).encode())
            # The workspace is git's work: nobody else knows which files would have to be synced.
            os.sync()
            fsync_directory(building)
            require_free_session(root, plan.child)
            building.rename(target)
        except OSError as error:
            if error.errno in {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}:
                raise RunExists(f"{shown(target)}: already there", remedy="choose another id") from error
            raise write_failed(target, "the fork was not made", error, "nothing of it is left") from error
    prefix = hashlib.sha256(plan.prefix).hexdigest()
    origin = ForkOrigin(plan.parent, plan.at, prefix, plan.reason)
    try:
        durable = fsync_directory(root)
    except OSError:
        durable = False
    return Forked(plan.child, target, prefix, durable, _noted(notes, target, origin))


@contextlib.contextmanager
def _building(root: Path) -> Iterator[Path]:
    """Give a new directory of our own, held by a lock; what is still there afterwards is removed."""
    building = root / f".{new_session_id()}{_TEMPORARY}"
    try:
        building.mkdir(0o700)
        fd = os.open(building, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        with contextlib.suppress(OSError):
            building.rmdir()
        raise open_error(root, error) from error
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield building
    finally:
        if os.path.lexists(building):
            _remove(building)
        os.close(fd)


def sweep_sessions(root: Path) -> int:
    """Remove what killed makers of forks left in a root; give how many directories that were."""
    swept = 0
    with contextlib.suppress(OSError), os.scandir(root) as entries:
        for name in [entry.name for entry in entries if _LEFTOVER.fullmatch(entry.name)]:
            if _is_abandoned(root / name):
                _remove(root / name)
                swept += 1
    return swept


def _is_abandoned(path: Path) -> bool:
    """Say whether a directory is one of ours whose maker is dead."""
    try:
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return False
        if time.time() - found.st_mtime < _YOUNG:
            return False
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)


def _require_same(parent: Path, plan: SessionForkPlan) -> None:
    file = parent / EVENTS
    fd = open_regular(file)
    try:
        found = read_range(fd, 0, len(plan.prefix), file)
    finally:
        os.close(fd)
    if found != plan.prefix:
        raise PlanOutdated(
            f"{shown(parent)}: the run was rewritten since the plan was made",
            remedy="look at it again, then fork",
        )


def _noted(notes: NotesStore | None, target: Path, origin: ForkOrigin) -> bool:
    if notes is None:
        return True
    try:
        notes.update(target, lambda known: msgspec.structs.replace(known, forked_from=origin))
    except (StoreError, OSError):
        return False
    return True
