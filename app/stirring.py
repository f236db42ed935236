"""Waits until something stirs at a path: the system says so at once where it can, else the time runs out.

It only shortens a wait. Whoever waits looks for itself afterwards, so a report that never comes, as on a
network disk or at the limit of watches, costs the time and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import Final

_MODIFY: Final = 0x002
_ATTRIB: Final = 0x004
_MOVED_TO: Final = 0x080
_CREATE: Final = 0x100
_DELETE_SELF: Final = 0x400
_MOVE_SELF: Final = 0x800
_STIRS: Final = _MODIFY | _ATTRIB | _MOVED_TO | _CREATE | _DELETE_SELF | _MOVE_SELF
"""What of a file or of the entries of a directory is reported: see inotify(7)."""


class Stirring:
    """Watches one path, a file or a directory, until it is closed; made and closed on the event loop."""

    def __init__(self, path: Path) -> None:
        self._stirred = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._fd = _watched(path)
        if self._fd >= 0:
            self._loop.add_reader(self._fd, self._take)

    def close(self) -> None:
        """Watch no longer."""
        if self._fd >= 0:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    @property
    def told(self) -> bool:
        """Whether the system reports; False where only the time runs out."""
        return self._fd >= 0

    async def wait(self, seconds: float) -> None:
        """Wait for a report, at most so long; what was reported since the last wait ends it at once."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stirred.wait(), seconds)
        self._stirred.clear()

    def _take(self) -> None:
        with contextlib.suppress(OSError):
            os.read(self._fd, 1 << 16)
        self._stirred.set()


def _watched(path: Path) -> int:
    """Give a descriptor that can be read when something stirs; -1 where the system gives none."""
    if sys.platform != "linux":
        return -1
    import ctypes

    try:
        libc = ctypes.CDLL(None, use_errno=True)
        fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if fd >= 0 and libc.inotify_add_watch(fd, os.fsencode(path), _STIRS) < 0:
            os.close(fd)
            return -1
    except (OSError, AttributeError, ValueError):
        return -1
    return fd
