"""Which directories hold runs, and what lies in each of them."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from refold.core.formats.names import keeps_directories
from refold.core.keeping import TRASH
from refold.core.store.session_names import is_run_directory

SUFFIX = ".json"
LOCK_SUFFIX = ".lock"
LONG = 1 << 20
"""Runs above this many bytes are long ones."""
STRETCH = 256
"""Entries that are looked at in one go."""

RootState: TypeAlias = Literal[
    "unseen", "runs", "empty", "missing", "not-permitted", "not-a-directory", "unreadable", "same"
]


class Root(msgspec.Struct, frozen=True):
    """A directory that holds runs."""

    path: Path
    hint: str
    """The word of the format that its runs have where a file does not say: refold, fisk-ai; rivumi says that
    each directory in it is a run."""
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
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    mode: int
    """Type and permission bits; 0 where the entry could not be looked at."""
    note: str = ""
    """Why it could not be looked at."""


class Stretch(NamedTuple):
    """Some entries of a directory, in the order in which the system lists them."""

    names: str
    """The names of the candidates, joined with slashes."""
    stamps: array[int]
    """Their sizes, then their mtimes and ctimes in nanoseconds, their inodes and their modes."""
    locks: dict[str, int]
    """Inode of the lock file by the stem of its name: read from the directory, without a stat."""
    others: int = 0
    directories: tuple[str, ...] = ()
    """The names of directories, and of links, in which runs may lie."""


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


def read_directory(root: Root) -> Iterator[Stretch | RootReport]:
    """Read one directory a stretch at a time, at last the report on it.

    Nothing is opened but the directory; every candidate is looked at once, a lock file never.
    """
    try:
        fd = os.open(root.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        yield _failed(root, error)
        return
    runs = others = 0
    of_directories = keeps_directories(root.hint)
    try:
        # A name is found sooner from an open directory than from the root of the file system.
        with os.scandir(fd) as entries:
            while chunk := list(islice(entries, STRETCH)):
                stretch = _stretch(chunk, root.path, of_directories=of_directories)
                runs += len(stretch.stamps) // 5
                others += stretch.others
                yield stretch
    except OSError as error:
        yield RootReport(root, "unreadable", runs, others, f"the directory was read in part: {reason(error)}")
        return
    finally:
        os.close(fd)
    yield _report(root, runs, others)


def is_called_like_a_journal(root: Root, name: str) -> bool:
    """Say whether a name that ends as that of a journal is that of a run directory."""
    path = root.path / name
    if keeps_directories(root.hint):
        return path.is_symlink() or path.is_dir()
    return is_run_directory(path)


def _may_hold_a_run(entry: os.DirEntry[str]) -> bool:
    """Say whether an entry is a directory, or a link that may lead to one; it costs no look at it."""
    try:
        return not entry.name.startswith(".") and (entry.is_dir(follow_symlinks=False) or entry.is_symlink())
    except OSError:
        return False


def _stretch(chunk: list[os.DirEntry[str]], directory: Path, *, of_directories: bool) -> Stretch:
    runs = [entry for entry in chunk if entry.name.endswith(SUFFIX)]
    try:
        odd = [entry for entry in runs if not entry.is_file(follow_symlinks=False)]
    except OSError:
        odd = runs
    odd = [entry for entry in odd if _may_hold_a_run(entry)]
    if odd:
        # A run directory may be called like a journal.
        runs_inside = {entry for entry in odd if of_directories or is_run_directory(directory / entry.name)}
        runs = [entry for entry in runs if entry not in runs_inside]
    locks: dict[str, int] = {}
    others = 0
    directories: list[str] = []
    if len(runs) < len(chunk):
        taken = set(runs)
        rest = [entry for entry in chunk if entry not in taken and entry.name != TRASH]
        found = [entry for entry in rest if entry.name.endswith(LOCK_SUFFIX)]
        locks = {entry.name[: -len(LOCK_SUFFIX)]: entry.inode() for entry in found}
        others = len(rest) - len(found)
        directories = [entry.name for entry in rest if _may_hold_a_run(entry)]
    stats: list[_Look]
    try:
        stats = [entry.stat(follow_symlinks=False) for entry in runs]
    except OSError:
        runs, stats = _one_by_one(runs)
    columns = (
        [found.st_size for found in stats]
        + [found.st_mtime_ns for found in stats]
        + [found.st_ctime_ns for found in stats]
        + [found.st_ino for found in stats]
        + [found.st_mode for found in stats]
    )
    listing = "/".join([entry.name for entry in runs])
    return Stretch(listing, packed(columns), locks, others, tuple(directories))


def packed(numbers: list[int]) -> array[int]:
    """Pack sizes, mtimes, ctimes, inodes and modes, as many of each, into 64 bits a number.

    A time beyond the year 2262 becomes the last that fits, for the future must not become the past; an inode
    that does not fit wraps around, and stays one of its own.
    """
    try:
        return array("q", numbers)
    except OverflowError:
        count = len(numbers) // 5
        times = [min(max(number, -(2**63)), 2**63 - 1) for number in numbers[count : 3 * count]]
        rest = [(number + 2**63) % 2**64 - 2**63 for number in numbers]
        return array("q", [*rest[:count], *times, *rest[3 * count :]])


class _Refused(NamedTuple):
    """What stands for a look that the system refused."""

    st_ino: int
    st_size: int = 0
    st_mtime_ns: int = 0
    st_ctime_ns: int = 0
    st_mode: int = 0


_Look: TypeAlias = os.stat_result | _Refused


def _one_by_one(
    runs: list[os.DirEntry[str]],
) -> tuple[list[os.DirEntry[str]], list[os.stat_result | _Refused]]:
    """Look at entries of which one cannot be looked at; leave out those that have vanished."""
    kept: list[os.DirEntry[str]] = []
    stats: list[os.stat_result | _Refused] = []
    for entry in runs:
        try:
            stats.append(entry.stat(follow_symlinks=False))
        except FileNotFoundError:
            continue
        except OSError:
            stats.append(_Refused(entry.inode()))
        kept.append(entry)
    return kept, stats


def look(path: str) -> Candidate | None:
    """Look at one path; None where nothing is there."""
    stem = os.path.basename(path)[: -len(SUFFIX)]  # noqa: PTH119 - a str, as scandir gives it
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError as error:
        return Candidate(path, stem, 0, 0, 0, 0, 0, reason(error))
    return Candidate(
        path, stem, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_mode
    )


def device_of(root: Root) -> int:
    """Give the device on which a directory lies, 0 where it is not there."""
    try:
        return root.path.stat().st_dev
    except (OSError, ValueError):
        return 0


def lock_inode(path: str) -> int:
    """Give the inode of the lock file beside a journal, 0 where there is none."""
    try:
        return os.lstat(path[: -len(SUFFIX)] + LOCK_SUFFIX).st_ino
    except (OSError, ValueError):
        return 0


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


def counting(report: RootReport, more: int) -> RootReport:
    """Give a report that counts runs which are directories too."""
    if not more or report.state not in {"runs", "empty"}:
        return report
    return _report(report.root, report.runs + more, max(0, report.others - more))


def _report(root: Root, runs: int, others: int) -> RootReport:
    if runs:
        return RootReport(root, "runs", runs, others, "1 run" if runs == 1 else f"{runs} runs")
    detail = "no runs in it"
    if others:
        detail += f", but {others} other file{'' if others == 1 else 's'}"
    return RootReport(root, "empty", 0, others, detail)
