"""Moves runs into the trash beside them, by rename alone: the one place that carries such a plan out.

The run itself goes first, and that one rename is what counts: before it the run is where it was, after it
the run is in the trash with a manifest that says what lay where. What lies beside it follows. The lock is
held all the while, so nobody writes to a run that is being moved, and it goes last.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from refold.core.errors import NotRegular, RunLocked, StoreError
from refold.core.keeping import NOTHING, TRASH, Kept
from refold.core.records import Json
from refold.core.store.clock import stamp_of, utc_now
from refold.core.store.files import (
    create_private,
    fsync_directory,
    shown,
    sync,
    write_all,
    write_failed,
)
from refold.core.store.lock import RunLock, holder_of, locked_inodes
from refold.core.store.roots import LOCK_SUFFIX, SUFFIX
from refold.core.store.run_id import is_run_id
from refold.core.store.session_names import LOCK, NESTED, PART_NAMES, is_run_directory
from refold.core.trash import (
    MANIFEST,
    Found,
    Part,
    PartKind,
    Reason,
    TrashPlan,
    TrashRefused,
    plan_trash,
)

VERSION: Final = 1
_PROMPT: Final = 200
_SIDE: Final = re.compile(r"([^.]+)\.\d+(?:\.\d+)?\.torn")


class TrashChanged(StoreError):
    """The run is not what was planned with."""

    error_class = "changed"


class Trashed(msgspec.Struct, frozen=True):
    """A run that was moved."""

    plan: TrashPlan
    durable: bool
    """The move is known to be on disk."""


class Around:
    """What many runs share: which locks are held, and what repairs cut off; each is looked at once."""

    def __init__(self) -> None:
        self.locked = locked_inodes() or frozenset()
        self._beside: dict[Path, dict[str, list[str]]] = {}

    def side_files(self, root: Path, stem: str) -> list[str]:
        """Give the names of what repairs cut off a run."""
        if root not in self._beside:
            self._beside[root] = _side_files(root)
        return self._beside[root].get(stem, [])


def plan_for(
    path: Path,
    *,
    kept: Kept = NOTHING,
    forks: Sequence[str] = (),
    uncertain: Sequence[str] = (),
    suffix: str | None = None,
    around: Around | None = None,
) -> TrashPlan:
    """Look at a run and plan to move it to the trash; nothing is changed, and nothing is locked.

    Args:
        path: The run.
        kept: What is noted about it.
        forks: The ids of the runs that were forked from it.
        uncertain: The names of its calls that may have run without a result.
        suffix: What makes the name of the entry one of its own; random if left out.
        around: What is known already of what lies around, where many runs are planned for.
    """
    found = look(path, around or Around())
    return plan_trash(
        found, suffix=suffix or os.urandom(4).hex(), kept=kept, forks=forks, uncertain=uncertain
    )


def look(path: Path, around: Around) -> Found:
    """Look at a run and what lies beside it, and at what stands against moving it."""
    place = Path(os.path.abspath(path))  # noqa: PTH100 - a link keeps its own name here
    root, directory = place.parent, is_run_directory(place)
    stem = place.name.removesuffix(SUFFIX) if not directory else place.name
    against: list[Reason] = []
    main = _part(place, "run")
    if main is None:
        missing = Reason("missing", "it is not there any more")
        return Found(str(place), str(root), stem, (), 0, (missing,))
    parts = [main]
    if directory:
        lock = place / LOCK
        if stat.S_ISLNK(main.mode):
            against.append(
                Reason(
                    "link",
                    "it is a link to a directory",
                    "move the run that it leads to, or the link by hand",
                )
            )
        if root.name == NESTED:
            against.append(
                Reason(
                    "nested", "it belongs to the run that started it", "move that run: this one goes with it"
                )
            )
    else:
        parts += [part for name in around.side_files(root, stem) if (part := _part(root / name, "side"))]
        lock = root / f"{stem}{LOCK_SUFFIX}"
        found = _part(lock, "lock")
        parts += [found] if found is not None else []
    against += [*_lock_reasons(place, lock, around.locked), *_place_reasons(root)]
    size = _size(place) if directory else sum(part.size for part in parts)
    inside = _inside(place) if directory else ()
    return Found(str(place), str(root), stem, tuple(parts), size, tuple(against), directory, inside)


def carry_out(plan: TrashPlan, *, status: str = "", prompt: str = "", now: datetime | None = None) -> Trashed:
    """Move a run to the trash as planned.

    Args:
        plan: The plan; refused where the run has changed since.
        status: How the run stood, for the list of the trash.
        prompt: What it was asked, for the same.
        now: The time to note.

    Raises:
        TrashRefused: something stands against it.
        RunLocked: a process holds the run.
        TrashChanged: the run is not what was planned with.
        StoreError: it could not be moved; it lies where it lay.
    """
    if plan.refused:
        raise TrashRefused(plan)
    root = Path(plan.found.root)
    main = plan.found.parts[0]
    with _held(root, plan.found) as made_lock:
        again = _again(plan.found)
        against = again.against
        if not _is_same(again, plan.found):
            raise TrashChanged(
                f"{shown(root / main.name)}: the run has changed since the plan was made",
                remedy="look at it again, then plan anew",
            )
        if against:
            raise TrashRefused(
                msgspec.structs.replace(plan, found=msgspec.structs.replace(again, against=tuple(against)))
            )
        # A lock file that was made for this is none of the run's, and moves the time of a directory.
        parts = (main, *(part for part in again.parts[1:] if not (made_lock and part.kind == "lock")))
        entry = _make_entry(root, plan, parts, status=status, prompt=prompt, now=now or utc_now())
        _move(root, entry, parts)
        if made_lock and not again.directory:
            with contextlib.suppress(OSError):
                (root / f"{plan.id}{LOCK_SUFFIX}").unlink()
        elif made_lock:
            with contextlib.suppress(OSError):
                (entry / main.name / LOCK).unlink()
                os.utime(entry / main.name, ns=(main.mtime_ns, main.mtime_ns))
        return Trashed(plan, _settled(entry, root))


def _again(found: Found) -> Found:
    """Look again at the names of a plan, once they are held; what else lies beside them is not looked for."""
    root = Path(found.root)
    parts = [_part(root / part.name, part.kind) for part in found.parts]
    main = parts[0]
    if main is None:
        return msgspec.structs.replace(found, parts=())
    directory = is_run_directory(root / main.name)
    here = tuple(part for part in parts if part is not None)
    inside = _inside(root / main.name) if directory else ()
    reasons = tuple(_place_reasons(root))
    return msgspec.structs.replace(found, parts=here, against=reasons, directory=directory, inside=inside)


def _is_same(now: Found, before: Found) -> bool:
    """Say whether a run is what was planned with; a lock file made in a directory moves its own times."""
    if not now.parts or now.directory != before.directory:
        return False
    if now.directory:
        return now.parts[0].inode == before.parts[0].inode and _stamps(now.inside) == _stamps(before.inside)
    return _stamps(now.parts) == _stamps(before.parts)


def _stamps(parts: Sequence[Part]) -> list[tuple[str, tuple[int, int, int]]]:
    """Give what tells whether somebody wrote; the lock is no part of what a run says."""
    return [(part.name, part.stamp) for part in parts if part.kind != "lock"]


@contextmanager
def _held(root: Path, found: Found) -> Iterator[bool]:
    """Hold a run while it is moved; gives whether its lock file had to be made for that.

    Where the run stays such a file goes again, while it is held.
    """
    main = found.parts[0]
    place = root / main.name
    lock = place / LOCK if found.directory else root / f"{found.id}{LOCK_SUFFIX}"
    made = not os.path.lexists(lock)
    before = _part(place, "run")
    held = RunLock.take(lock)
    own = -1
    try:
        if stat.S_ISREG(main.mode):
            own = _hold_journal(place)
        yield made
    except BaseException:
        if made and held.still_ours():
            with contextlib.suppress(OSError):
                lock.unlink()
                if found.directory and before is not None:
                    os.utime(place, ns=(before.mtime_ns, before.mtime_ns))
        raise
    finally:
        if own >= 0:
            os.close(own)
        held.release()


def _hold_journal(path: Path) -> int:
    """Lock the journal itself, as our own writers do; -1 where it may not even be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return -1
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        raise RunLocked(
            f"{shown(path)}: a process writes to this run", remedy="wait until it ends"
        ) from error
    except OSError:
        os.close(fd)
        return -1
    return fd


def _make_entry(
    root: Path, plan: TrashPlan, parts: Sequence[Part], *, status: str, prompt: str, now: datetime
) -> Path:
    """Make the directory of a run in the trash, with the manifest in it; both are on disk then."""
    trash = root / TRASH
    entry = trash / plan.entry
    values: dict[str, Json] = {
        "version": VERSION,
        "id": plan.id,
        "root": shown(root),
        "time": stamp_of(now),
        "bytes": plan.found.bytes,
        "status": status,
        "prompt": prompt[:_PROMPT],
        "parts": [msgspec.to_builtins(part) for part in parts],
    }
    try:
        if not os.path.lexists(trash):
            trash.mkdir(0o700)
            fsync_directory(root)
        _require_directory(trash)
        entry.mkdir(0o700)
    except OSError as error:
        raise write_failed(
            trash, "nothing can be put into the trash", error, "the run lies where it lay"
        ) from error
    manifest = entry / MANIFEST
    try:
        fd = create_private(manifest)
        try:
            write_all(fd, json.dumps(values, indent=1).encode() + b"\n")
            sync(fd)
        finally:
            os.close(fd)
        fsync_directory(entry)
        fsync_directory(trash)
    except BaseException as error:
        _unmake(entry)
        if isinstance(error, OSError):
            rest = "the run lies where it lay"
            raise write_failed(manifest, "could not be written", error, rest) from error
        raise
    return entry


def _move(root: Path, entry: Path, parts: Sequence[Part]) -> None:
    """Move every part, or none."""
    moved: list[str] = []
    try:
        for part in parts:
            (root / part.name).rename(entry / part.name)
            moved.append(part.name)
    except BaseException as error:
        back = all(_back(entry / name, root / name) for name in reversed(moved))
        if back:
            _unmake(entry)
        if isinstance(error, OSError):
            rest = "the run lies where it lay" if back else f"a part of it lies in {shown(entry)}: restore it"
            raise write_failed(root / parts[len(moved)].name, "could not be moved", error, rest) from error
        raise


def _back(source: Path, target: Path) -> bool:
    try:
        if os.path.lexists(target):
            return False
        source.rename(target)
    except OSError:
        return False
    return True


def _unmake(entry: Path) -> None:
    with contextlib.suppress(OSError):
        (entry / MANIFEST).unlink(missing_ok=True)
        entry.rmdir()


def _settled(entry: Path, root: Path) -> bool:
    try:
        return fsync_directory(entry) and fsync_directory(root)
    except OSError:
        return False


def _require_directory(trash: Path) -> None:
    if not stat.S_ISDIR(os.lstat(trash).st_mode):
        raise NotRegular(f"{shown(trash)}: not a directory", remedy="move it away, then try again")


def _part(path: Path, kind: PartKind) -> Part | None:
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return None
    return Part(path.name, kind, found.st_size, found.st_mode, found.st_mtime_ns, found.st_ino)


def _inside(directory: Path) -> tuple[Part, ...]:
    """Look at the files that a run directory consists of; its workspace is none of them."""
    names = sorted(PART_NAMES - {LOCK})
    return tuple(part for name in names if (part := _part(directory / name, "run")) is not None)


def _side_files(root: Path) -> dict[str, list[str]]:
    """Give the names of what repairs cut off the runs of a directory, by the ids of the runs."""
    found: dict[str, list[str]] = {}
    try:
        with os.scandir(root) as entries:
            for entry in entries:
                name = _SIDE.fullmatch(entry.name)
                if name is not None and is_run_id(name[1]):
                    found.setdefault(name[1], []).append(entry.name)
    except OSError:
        return {}
    return {stem: sorted(names) for stem, names in found.items()}


def _lock_reasons(place: Path, lock: Path, inodes: frozenset[int]) -> Iterator[Reason]:
    """Say who holds a run; a number alone may be that of a file on another disk, and is no reason.

    Who is not seen from here stands in the way all the same: the move takes the locks.
    """
    suspected: list[Path] = []
    for path in (lock, place):
        with contextlib.suppress(OSError):
            if os.lstat(path).st_ino in inodes:
                suspected.append(path)
    holder = holder_of(*suspected) if suspected else None
    if holder is not None:
        by = f"process {holder.pid} ({holder.command})"
        yield Reason("locked", f"{by} holds it", "wait until it ends, or end it")


def _place_reasons(root: Path) -> Iterator[Reason]:
    trash = root / TRASH
    if not os.access(root, os.W_OK | os.X_OK):
        yield Reason("permission", f"{shown(root)} may not be written to", "see to its owner and mode")
    try:
        status = os.lstat(trash)
    except OSError:
        return
    if not stat.S_ISDIR(status.st_mode):
        yield Reason("trash", f"{shown(trash)} is not a directory", "move it away")
    elif os.geteuid() not in (0, status.st_uid):
        yield Reason("trash", f"{shown(trash)} belongs to another user", "move it away")
    elif status.st_dev != root.stat().st_dev:
        yield Reason(
            "other_disk", f"{shown(trash)} lies on another file system", "a move there would be a copy"
        )
    elif not os.access(trash, os.W_OK | os.X_OK):
        yield Reason("permission", f"{shown(trash)} may not be written to", "see to its owner and mode")


def _size(directory: Path) -> int:
    size = 0
    for base, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(base, name)).st_size  # noqa: PTH118 - many of them
    return size
