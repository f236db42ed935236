"""What the files of a run directory are called, and how one is told from other directories.

Whoever opens a run asks this of every path; so nothing is imported here that reads such a directory.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from refold.core.nested import NESTED as NESTED

LOCK: Final = ".writer.lock"
MANIFEST: Final = "session.json"
EVENTS: Final = "events.jsonl"
MARKS: Final = (MANIFEST, "request.json", "result.json", EVENTS)
"""A directory that holds one of these is a run (formats/rivumi.md 7: `sessions`)."""

SIDE: Final = ("request.json", "verification.json", "result.json", "checkpoint.json")
PARTS: Final = (MANIFEST, EVENTS, *SIDE)
PART_NAMES: Final = frozenset({*PARTS, LOCK, "changes.patch", "test.log", "review.md"})
"""The files that a run consists of."""
_NAME_LIMIT: Final = 255
"""Bytes that a file system takes as one name."""


def is_run_name(text: str) -> bool:
    """Say whether a text may name the directory of a run: one plain segment of a path, not hidden."""
    if not text or text.startswith(".") or any(mark in text for mark in "/\\\0"):
        return False
    try:
        return len(os.fsencode(text)) <= _NAME_LIMIT
    except UnicodeEncodeError:
        return False


def is_run_directory(path: Path) -> bool:
    """Say whether a path is a directory in which a run lies; nothing is opened."""
    try:
        return path.is_dir() and any(mode_of(path / name) is not None for name in MARKS)
    except (OSError, ValueError):
        return False


def is_litter(name: str) -> bool:
    """Say whether a name is that of a file which an interrupted write leaves behind."""
    return any(name.startswith(f".{part}.") for part in PARTS)


def mode_of(path: Path) -> int | None:
    """Give type and permissions of what lies there; None for nothing, 0 where the system does not say."""
    try:
        return path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return 0
