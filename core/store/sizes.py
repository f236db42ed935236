"""How big a directory is: what lies in it and below, no link followed, a step at a time."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from refold.core.store.exposure import mode_of

_STEP: Final = 200
"""So many entries are looked at in one step."""


class Measured(NamedTuple):
    """What is known of a directory so far."""

    files: int = 0
    bytes: int = 0
    free: int | None = None
    """Bytes that are left on its disk; None where nobody tells."""
    mode: int = 0
    """Its permission bits; 0 where it cannot be looked at."""
    hidden: int = 0
    """Directories below that cannot be looked into."""
    done: bool = False


def measure(path: Path) -> Iterator[Measured]:
    """Give what is known of a directory, again and again, until all of it is; nothing is raised."""
    found = Measured(free=_free(path), mode=mode_of(path))
    waiting = [os.fspath(path)]
    seen = 0
    while waiting:
        place = waiting.pop()
        try:
            entries = os.scandir(place)
        except OSError:
            found = found._replace(hidden=found.hidden + 1)
            continue
        with entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(entry.path)
                elif stat.S_ISREG(status.st_mode):
                    found = found._replace(files=found.files + 1, bytes=found.bytes + status.st_size)
                seen += 1
                if seen % _STEP == 0:
                    yield found
    yield found._replace(done=True)


def _free(path: Path) -> int | None:
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize
