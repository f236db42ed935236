"""The right to write one run directory, and the manifest that only its holder replaces (formats/rivumi.md 4).

The token of a lease stands in the lock file, in the manifest on disk and in every manifest value that was
claimed with it. Before each write three things are checked, and none of them reads the manifest:

- the path of the lock leads to the very file that we hold locked;
- the value to be written carries the token of this lease;
- the path of the manifest leads to the very file that this lease wrote last, unchanged. That file is kept
  open, so its number cannot be given to another one: equal device, number, size and times mean our own bytes,
  and our own bytes hold our token. A writer that took the run over has put another file there.

Only where the number is ours and a time is not (a backup that linked the file, say) is the file read, once.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import TracebackType

import msgspec

from refold.core.errors import LeaseLost, NotRegular, StoreError, TooLarge
from refold.core.rivumi.draft import SessionManifest
from refold.core.rivumi.snapshot import RESUME_LIMIT
from refold.core.sizes import sized
from refold.core.store.clock import utc_now
from refold.core.store.files import (
    open_regular,
    read_range,
    replace_and_keep,
    shown,
    status_of,
    sync,
    write_all,
    write_failed,
)
from refold.core.store.lock import RunLock
from refold.core.store.session_names import LOCK, MANIFEST

_REMEDY = "claim the run again and go on from what is on disk"


class _Written(msgspec.Struct, frozen=True):
    """The manifest as this lease knows it on disk."""

    fd: int
    status: os.stat_result
    data: bytes


class SessionWriterLease:
    """The lock on one run directory and the token that fences off every earlier holder.

    It ends when it is released or its process dies; a forked child does not have it.
    """

    def __init__(self, directory: Path, lock: RunLock, *, clock: Callable[[], datetime] = utc_now) -> None:
        self.directory = directory
        self.token = secrets.token_hex(16)
        self._lock = lock
        self._clock = clock
        self._written: _Written | None = None
        self._pid = os.getpid()

    @classmethod
    def acquire(cls, directory: Path, *, clock: Callable[[], datetime] = utc_now) -> SessionWriterLease:
        """Take the lease of a run directory, which must be there, and write its token to the lock file.

        Raises:
            RunLocked: somebody holds it; this process counts.
            NotRegular: the directory or the lock file is a link, or something else.
            WriteFailed: the lock file cannot be written.
            StoreError: there is no such directory, or it cannot be locked.
        """
        lease = cls.hold(directory, clock=clock)
        try:
            lease.announce()
        except BaseException:
            lease.release()
            raise
        return lease

    @classmethod
    def hold(cls, directory: Path, *, clock: Callable[[], datetime] = utc_now) -> SessionWriterLease:
        """Take the lock alone: no byte changes, so that a claim can still be refused without a trace.

        Raises:
            RunLocked: somebody holds it; this process counts.
            NotRegular: the directory or the lock file is a link, or something else.
            StoreError: there is no such directory, or it cannot be locked.
        """
        if directory.is_symlink():
            raise NotRegular(f"{shown(directory)}: a symbolic link", remedy="name the directory itself")
        place = directory.resolve()
        return cls(place, RunLock.take(place / LOCK), clock=clock)

    @property
    def held(self) -> bool:
        """True until it is released, and never in a forked child."""
        return self._lock.held and self._pid == os.getpid()

    def announce(self) -> None:
        """Write process and token to the lock file, as the original does; nobody decides by them.

        Raises:
            WriteFailed: they are not known to be on disk.
        """
        fd = self._lock.fileno()
        try:
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, os.SEEK_SET)
            write_all(fd, f"pid={os.getpid()} token={self.token}\n".encode())
            sync(fd)
        except OSError as error:
            raise write_failed(self._lock.path, "could not be written", error, "the run stands") from error

    def require(self) -> None:
        """Check that this lease still is the only one.

        Raises:
            LeaseLost: it is not; nothing may be written.
        """
        if not self.held:
            raise LeaseLost(f"{shown(self.directory)}: the lease was given up", remedy=_REMEDY)
        if not self._lock.still_ours():
            raise LeaseLost(
                f"{shown(self._lock.path)}: the lock file was removed or replaced: others may write this run",
                remedy="find out what removed it, then claim the run again",
            )
        if self._written is not None and not self._stands(self._written):
            raise LeaseLost(
                f"{shown(self.directory / MANIFEST)}: another writer replaced it; nothing was written",
                remedy=_REMEDY,
            )

    def adopt(self, data: bytes) -> None:
        """Take the manifest that lies there for the one to begin from.

        Args:
            data: the bytes it was judged by.

        Raises:
            LeaseLost: other bytes lie there by now.
            StoreError: it cannot be read.
        """
        path = self.directory / MANIFEST
        fd = open_regular(path)
        try:
            status = status_of(fd, path)
            same = read_range(fd, 0, len(data) + 1, path) == data
        except BaseException:
            os.close(fd)
            raise
        self._keep(_Written(fd, status, data))
        if not same:
            raise LeaseLost(f"{shown(path)}: it changed while it was looked at", remedy=_REMEDY)

    def save(self, manifest: SessionManifest) -> SessionManifest:
        """Put a manifest in the place of the one on disk and give it as it was written: with the time.

        Raises:
            LeaseLost: the value belongs to another lease, or this lease is lost; nothing was written.
            TooLarge: no original reads a manifest of this size; nothing was written.
            WriteFailed: it is not known to be on disk.
        """
        path = self.directory / MANIFEST
        if manifest.token != self.token:
            raise LeaseLost(f"{shown(path)}: the value belongs to another lease", remedy=_REMEDY)
        self.require()
        if self._written is None and os.path.lexists(path):
            raise LeaseLost(f"{shown(path)}: it was not read before it was to be replaced", remedy=_REMEDY)
        beating = manifest.beating(self._clock())
        data = beating.encode()
        if len(data) > RESUME_LIMIT:
            raise TooLarge(
                f"{shown(path)}: {sized(len(data))}; its own program reads none above {sized(RESUME_LIMIT)}",
                remedy="give the conversation a summary in the place of its older messages",
            )
        fd = replace_and_keep(path, data)
        self._keep(_Written(fd, os.fstat(fd), data))
        return beating

    def release(self) -> None:
        """Give the lease up; once is enough. The token stays in the files, as the original leaves it."""
        self._keep(None)
        self._lock.release()

    def __enter__(self) -> SessionWriterLease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _keep(self, written: _Written | None) -> None:
        if self._written is not None:
            os.close(self._written.fd)
        self._written = written

    def _stands(self, written: _Written) -> bool:
        path = self.directory / MANIFEST
        try:
            there = os.lstat(path)
            if not os.path.samestat(there, written.status):
                return False
            if _times(there) == _times(written.status):
                return True
            if there.st_size != len(written.data):
                return False
            same = read_range(written.fd, 0, len(written.data) + 1, path) == written.data
        except (OSError, StoreError):
            return False
        if same:
            self._written = msgspec.structs.replace(written, status=there)
        return same


def _times(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns
