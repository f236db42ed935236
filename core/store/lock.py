"""Who may write a run: an exclusive flock, and who holds one, found without taking it.

The lock is a BSD flock on `<id>.lock`, as other writers of this format take it (formats/fisk-ai.md 3.2);
lock files are never removed, but for the one of a run that goes to the trash, and one that was made to ask
for that: under the lock, as `RunLock.take` notices. Only taking it decides; the rest are hints
(design/safety.md 6).
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import stat
import threading
import time
import weakref
from pathlib import Path

import msgspec

from refold.core.errors import LockUnsure, NotRegular, RunLocked, StoreError
from refold.core.store.files import is_directory, make_private, open_error, shown, status_of

_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_TRIES = 100
_COMMAND_LIMIT = 200
_PROC = Path("/proc")
_HELD: weakref.WeakSet[RunLock] = weakref.WeakSet()
"""The locks of this process, to be let go of in a forked child."""


class Holder(msgspec.Struct, frozen=True):
    """A process that holds a lock."""

    pid: int
    command: str
    """Its command line, shortened: text from outside."""


class RunLock:
    """An exclusive lock on one open file, kept until it is released or the process dies.

    The descriptor is not passed to programs that are started, and a forked child closes its copy at once,
    so that a child which lives on does not keep the run locked.
    """

    def __init__(self, file: io.FileIO, path: Path) -> None:
        self._file = file
        self.path = path
        # The file behind an open descriptor stays the same one: it is asked who it is once.
        locked = status_of(file.fileno(), path)
        self._inode, self._device = locked.st_ino, locked.st_dev
        self._name = os.fspath(path)
        _HELD.add(self)

    @classmethod
    def take(cls, path: Path) -> RunLock:
        """Lock the file of this path, made if it is missing.

        Raises:
            RunLocked: somebody holds it; this process counts.
            LockUnsure: the file system cannot lock.
            StoreError: the lock file cannot be opened.
        """
        for _ in range(_TRIES):
            lock = cls.hold(_open_lock_file(path), path)
            if lock.still_ours():
                return lock
            # Somebody removed or replaced the file between our open and our lock: that lock guards nothing.
            lock.release()
        raise RunLocked(
            f"{shown(path)}: the lock file is being replaced all the time",
            remedy="find out what removes it",
        )

    @classmethod
    def hold(cls, fd: int, path: Path) -> RunLock:
        """Lock a file that is open already; the descriptor belongs to the lock from here on.

        Raises:
            RunLocked: somebody holds it; this process counts.
            LockUnsure: the file system cannot lock.
        """
        file = io.FileIO(fd, "r+")
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise _locked(path) from error
        except OSError as error:
            file.close()
            raise LockUnsure(
                f"{shown(path)}: this file system does not lock: {error.strerror}",
                remedy="keep runs on a local disk",
            ) from error
        return cls(file, path)

    @property
    def held(self) -> bool:
        """True until it is released."""
        return not self._file.closed

    def fileno(self) -> int:
        """Give the descriptor of the locked file.

        Raises:
            ValueError: the lock was released.
        """
        return self._file.fileno()

    def still_ours(self) -> bool:
        """Say whether the path still leads to the very file that we locked."""
        return self.found() is not None

    def found(self) -> os.stat_result | None:
        """Give what the path leads to where that is the very file that we locked, else None."""
        if self._file.closed:
            return None
        try:
            named = os.lstat(self._name)
        except OSError:
            return None
        return named if named.st_ino == self._inode and named.st_dev == self._device else None

    def release(self) -> None:
        """Give the lock up; once is enough."""
        if self.held:
            # Closing alone leaves it locked where a copy of the descriptor is open elsewhere. A file system
            # that does not unlock ends nothing that was done under the lock.
            with contextlib.suppress(OSError):
                fcntl.flock(self._file.fileno(), fcntl.LOCK_UN)
            self._drop()

    def _drop(self) -> None:
        self._file.close()
        _HELD.discard(self)


def _drop_in_child() -> None:
    for lock in tuple(_HELD):
        lock._drop()  # noqa: SLF001 - unlocking, as release does, would take the lock from the parent


os.register_at_fork(after_in_child=_drop_in_child)


def locked_inodes() -> frozenset[int] | None:
    """Give the inodes under an exclusive flock, from one quick look at /proc/locks; None where unknown.

    A hint for lists: inodes of different disks can be equal, and locks taken in another pid namespace do
    not show.
    """
    try:
        text = (_PROC / "locks").read_bytes()
    except OSError:
        return None
    inodes: set[int] = set()
    for line in text.split(b"\n"):
        words = line.split()
        # 1: FLOCK ADVISORY WRITE <pid> <major>:<minor>:<inode> 0 EOF; a waiting one has "->" second.
        if len(words) >= 6 and words[1] == b"FLOCK" and words[3] == b"WRITE":
            inode = words[5].rpartition(b":")[2]
            if inode.isdigit():
                inodes.add(int(inode))
    return frozenset(inodes)


class LockedSoon:
    """Looks for locked inodes on a thread of its own, beside what has to be done in any case.

    The kernel lets a reader of /proc/locks wait for some milliseconds, in which it uses no processor.
    """

    def __init__(self) -> None:
        self._found: frozenset[int] | None = None
        self._thread = threading.Thread(target=self._look, name="refold-locks", daemon=True)
        self._thread.start()

    def inodes(self) -> frozenset[int] | None:
        """Give what `locked_inodes` gives, once it is known."""
        self._thread.join()
        return self._found

    def _look(self) -> None:
        self._found = locked_inodes()


def holder_of(*paths: Path, seconds: float = 0.5) -> Holder | None:
    """Give a process that holds an exclusive flock on one of these files; None where none is seen from here.

    Exact for processes whose descriptors we may look at (our own, or all for root); it takes no lock and
    gives up after so many seconds.
    """
    wanted: list[os.stat_result] = []
    for path in paths:
        try:
            wanted.append(path.stat())
        except (OSError, ValueError):
            continue
    if not wanted:
        return None
    deadline = time.monotonic() + seconds
    try:
        processes = [name for name in os.listdir(_PROC) if name.isdecimal()]  # noqa: PTH208 - names, not paths
    except OSError:
        return None
    # New processes last started, first looked at: a live run is younger than most of the system.
    for name in sorted(processes, key=int, reverse=True):
        if time.monotonic() > deadline:
            return None
        if _holds(_PROC / name, wanted):
            return Holder(int(name), _command(_PROC / name))
    return None


def _holds(process: Path, wanted: list[os.stat_result]) -> bool:
    try:
        descriptors = os.listdir(process / "fd")  # noqa: PTH208 - names, not paths
    except OSError:
        return False
    for descriptor in descriptors:
        link = f"{process}/fd/{descriptor}"
        try:
            # Sockets, pipes and the like need no further look.
            if not os.readlink(link).startswith("/"):  # noqa: PTH115 - a Path a descriptor is slow
                continue
            status = os.stat(link)  # noqa: PTH116
            if not any(os.path.samestat(status, each) for each in wanted):
                continue
            information = (process / "fdinfo" / descriptor).read_bytes()
        except OSError:
            continue
        if any(
            line.startswith(b"lock:") and b"FLOCK" in line and b"WRITE" in line
            for line in information.split(b"\n")
        ):
            return True
    return False


def _command(process: Path) -> str:
    try:
        with (process / "cmdline").open("rb") as file:
            words = file.read(4 * _COMMAND_LIMIT)
    except OSError:
        return ""
    return words.replace(b"\0", b" ").decode("utf-8", "backslashreplace").strip()[:_COMMAND_LIMIT]


def _open_lock_file(path: Path) -> int:
    for _ in range(_TRIES):
        try:
            fd = _create_lock_file(path)
            if fd is None:
                fd = os.open(path, _FLAGS)
        except FileNotFoundError as error:
            if not is_directory(path.parent):
                raise open_error(path, error) from error
            continue
        except (OSError, ValueError) as error:
            raise open_error(path, error) from error
        try:
            if not stat.S_ISREG(status_of(fd, path).st_mode):
                raise NotRegular(f"{shown(path)}: not a file", remedy="remove it when no run uses it")
        except StoreError:
            os.close(fd)
            raise
        return fd
    raise RunLocked(f"{shown(path)}: the lock file comes and goes", remedy="find out what removes it")


def _create_lock_file(path: Path) -> int | None:
    try:
        fd = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return None
    make_private(fd, path)
    return fd


def _locked(path: Path) -> RunLocked:
    holder = holder_of(path)
    by = (
        f"by process {holder.pid} ({holder.command})"
        if holder
        else "by another process or a concurrent run of the same id"
    )
    return RunLocked(
        f"{shown(path)}: run is already locked {by}",
        remedy="wait until it ends; reading needs no lock",
    )
