"""Which directories hold runs, and what lies in each of them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec

SUFFIX = ".json"
LOCK_SUFFIX = ".lock"
_SLICE = 256

RootState: TypeAlias = Literal[
    "unseen", "runs", "empty", "missing", "not-permitted", "not-a-directory", "unreadable", "same"
]


class Root(msgspec.Struct, frozen=True):
    """A directory that holds runs."""

    path: Path
    hint: str
    """The word of the format that its runs have where a file does not say: refold, fisk-ai."""
    origin: str
    """Who named it: default, config, --root."""


class RootReport(NamedTuple):
    """What was found in one directory, also when that is nothing."""

    root: Root
    state: RootState
    runs: int = 0
    others: int = 0
    """Files that are no runs: side files, temporary files, packed copies. Lock files are not counted."""
    detail: str = ""
    """A sentence for people; says why where there are no runs."""


class Candidate(NamedTuple):
    """One directory entry whose name says that it is a run."""

    path: str
    stem: str
    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    mode: int
    """Type and permission bits; 0 where the entry could not be looked at."""
    note: str = ""
    """Why it could not be looked at."""


class Listing(NamedTuple):
    """One directory, read once."""

    report: RootReport
    candidates: list[Candidate]
    locks: dict[str, int]
    """Inode of the lock file by the stem of its name; read from the directory, without a stat."""


def distinct(roots: Sequence[Root]) -> tuple[list[Root], list[RootReport]]:
    """Split roots into those to read and reports on those that are another one under a second name."""
    kept: list[Root] = []
    same: list[RootReport] = []
    seen: dict[object, Root] = {}
    for root in roots:
        key = _identity(root.path)
        first = seen.setdefault(key, root)
        if first is root:
            kept.append(root)
        else:
            same.append(RootReport(root, "same", detail=f"the same directory as {first.path}"))
    return kept, same


def _identity(path: Path) -> object:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return os.path.abspath(path)  # noqa: PTH100 - what is missing still has one name
    return found.st_dev, found.st_ino


def read_directory(root: Root) -> Iterator[Listing | None]:
    """Read one directory in slices: None after each slice, at last the listing.

    Nothing is opened; every candidate is looked at once, a lock file never.
    """
    directory = os.fspath(root.path)
    candidates: list[Candidate] = []
    locks: dict[str, int] = {}
    others = 0
    try:
        entries = os.scandir(directory)
    except (OSError, ValueError) as error:
        yield Listing(_failed(root, error), candidates, locks)
        return
    failure: OSError | None = None
    count = 0
    with entries:
        while True:
            try:
                entry = next(entries, None)
            except OSError as error:
                failure = error
                break
            if entry is None:
                break
            name = entry.name
            if name.endswith(SUFFIX):
                candidates.append(_candidate(entry, name[: -len(SUFFIX)]))
            elif name.endswith(LOCK_SUFFIX):
                locks[name[: -len(LOCK_SUFFIX)]] = entry.inode()
            else:
                others += 1
            count += 1
            if count % _SLICE == 0:
                yield None
    yield Listing(_report(root, len(candidates), others, failure), candidates, locks)


def _candidate(entry: os.DirEntry[str], stem: str) -> Candidate:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError as error:
        return Candidate(entry.path, stem, 0, 0, 0, 0, 0, 0, reason(error))
    return _of(entry.path, stem, found)


def look(path: str) -> Candidate | None:
    """Look at one path as the directory listing would; None where nothing is there."""
    stem = os.path.basename(path)[: -len(SUFFIX)]  # noqa: PTH119 - a str, as scandir gives it
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError as error:
        return Candidate(path, stem, 0, 0, 0, 0, 0, 0, reason(error))
    return _of(path, stem, found)


def lock_inode(path: str) -> int:
    """Give the inode of the lock file beside a journal, 0 where there is none."""
    try:
        return os.lstat(path[: -len(SUFFIX)] + LOCK_SUFFIX).st_ino
    except (OSError, ValueError):
        return 0


def odd_kind(mode: int) -> str:
    """Name what lies there instead of a regular file; empty for a regular file."""
    if stat.S_ISREG(mode):
        return ""
    for is_kind, word in _KINDS:
        if is_kind(mode):
            return word
    return "something that is no file"


_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def _of(path: str, stem: str, found: os.stat_result) -> Candidate:
    return Candidate(
        path,
        stem,
        found.st_dev,
        found.st_ino,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
        found.st_mode,
    )


def reason(error: OSError | ValueError) -> str:
    """Say in the words of the system why something failed."""
    text = getattr(error, "strerror", None) or str(error)
    return text[:1].lower() + text[1:]


def _failed(root: Root, error: OSError | ValueError) -> RootReport:
    if isinstance(error, FileNotFoundError):
        return RootReport(root, "missing", detail="the directory does not exist")
    if isinstance(error, PermissionError):
        return RootReport(root, "not-permitted", detail="not permitted to read the directory")
    if isinstance(error, NotADirectoryError):
        return RootReport(root, "not-a-directory", detail="it is not a directory")
    return RootReport(root, "unreadable", detail=f"the directory cannot be read: {reason(error)}")


def _report(root: Root, runs: int, others: int, failure: OSError | None) -> RootReport:
    if failure is not None:
        return RootReport(
            root, "unreadable", runs, others, f"the directory was read in part: {reason(failure)}"
        )
    if runs:
        return RootReport(root, "runs", runs, others, "1 run" if runs == 1 else f"{runs} runs")
    detail = "no runs in it" if not others else f"no runs in it, but {others} other files"
    return RootReport(root, "empty", 0, others, detail)
