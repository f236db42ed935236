"""Appends the events of one run: one line, one write, one fsync each (formats/rivumi.md 2, "Append").

What a failed write left behind is cut off again, so that nothing later can be joined to it.
"""

from __future__ import annotations

import os
from pathlib import Path

from refold.core.errors import JournalClosed, LeaseLost, WriteFailed
from refold.core.store.files import (
    append_durably,
    create_private,
    fsync_directory,
    open_regular,
    shown,
    status_of,
)
from refold.core.store.lock import RunLock
from refold.core.store.session_lease import SessionWriterLease
from refold.core.store.session_names import EVENTS


class EventWriter:
    """The end of a log, open for appending under a lease."""

    def __init__(
        self,
        lease: SessionWriterLease,
        *,
        last_sequence: int = -1,
        size: int = 0,
    ) -> None:
        """Open the log, made where it is missing and nothing is expected in it.

        Raises:
            NotRegular: a link or something else lies there.
            LeaseLost: it is not of the size it was judged by.
            StoreError: it cannot be opened.
        """
        self._lease = lease
        self._last = last_sequence
        path = lease.directory / EVENTS
        fd = open_regular(path, append=True) if size or os.path.lexists(path) else _made(path)
        # Held as well: whoever unlinks the lock file does not make room for a second writer of ours.
        self._own = RunLock.hold(fd, path)
        self._end = size
        try:
            self.require()
        except BaseException:
            self.close()
            raise

    @property
    def last_sequence(self) -> int:
        """The last event that is on disk; -1 before the first."""
        return self._last

    @property
    def closed(self) -> bool:
        """True once nothing can be appended any more."""
        return not self._own.held

    def append(self, line: bytes) -> int:
        """Append the line of the next event and give its sequence once it is on disk.

        Raises:
            LeaseLost: the lease is lost, or somebody else changed the log; nothing was written.
            JournalClosed: the writer was closed.
            WriteFailed: the event is not known to be on disk; the writer is closed.
        """
        path = self._lease.directory / EVENTS
        if self.closed:
            raise JournalClosed(f"{shown(path)}: the log was closed", remedy="claim the run again")
        self._lease.require()
        self.require()
        try:
            append_durably(self._own.fileno(), line, path)
        except BaseException:
            self.close()
            raise
        self._end += len(line)
        self._last += 1
        return self._last

    def close(self) -> None:
        """Give the log up; once is enough."""
        self._own.release()

    def require(self) -> None:
        """Check that the log is as this writer left it.

        Raises:
            LeaseLost: somebody else changed or replaced it.
        """
        path = self._lease.directory / EVENTS
        if not self._own.still_ours():
            raise LeaseLost(f"{shown(path)}: the log was removed or replaced", remedy="claim the run again")
        size = status_of(self._own.fileno(), path).st_size
        if size != self._end:
            raise LeaseLost(
                f"{shown(path)}: somebody else changed the log: it has {size} bytes, not {self._end}",
                remedy="find out who writes it, then claim the run again",
            )


def _made(path: Path) -> int:
    """Make an empty log whose name outlasts a power failure: an original takes it for "nothing yet"."""
    fd = create_private(path)
    try:
        fsync_directory(path.parent)
    except OSError as error:
        os.close(fd)
        raise WriteFailed(
            f"{shown(path)}: may not outlast a power failure: {error.strerror}", remedy="check the disk"
        ) from error
    return fd
