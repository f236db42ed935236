"""Whether others on this machine can read a run: its mode, and that of the directory it lies in."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def is_exposed(path: str) -> bool:
    """Say whether the modes of a run and of the directory it lies in let others read it."""
    own, around = mode_of(path), mode_of(os.path.dirname(path))  # noqa: PTH120 - a str that need not be UTF-8
    if os.path.isdir(path):  # noqa: PTH112
        own &= (own & 0o011) << 2
    return bool(own & 0o044 & ((around & 0o011) << 2))


def mode_of(path: str | Path) -> int:
    """Give the permission bits of a file; 0 where it cannot be looked at."""
    try:
        return stat.S_IMODE(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return 0
