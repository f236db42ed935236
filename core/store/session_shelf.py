"""What is known of the run directories in one directory, and what of it was told.

The counterpart of `shelf` for runs that are directories (formats/rivumi.md 1). A row stands while
manifest and log of its run have the same size, times and inodes.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import msgspec

from refold.core.formats.names import keeps_directories
from refold.core.rivumi.summary import Found, closed
from refold.core.status import RUNNING
from refold.core.store.roots import STRETCH, Candidate, Root, reason
from refold.core.store.session_names import EVENTS, LOCK, MANIFEST, NESTED, is_litter, is_run_directory
from refold.core.store.shelf import Gone, Item, Progress
from refold.core.summary import RunSummary

_SIDE: Final = ("request.json", "result.json", "checkpoint.json")
_MOST_NESTED: Final = 200
_DEEPEST: Final = 12
"""Levels of nesting that are looked into."""
_FOUND: Final = "lost+found"
"""What a check of the disk makes at the top of it; never a run."""
_RECENT_NS: Final = 600 * 10**9
_ROUNDS: Final = 8
_LOOKED_AT: Final = 100
"""Directories that are looked at in one go: each takes five looks."""

Stamp: TypeAlias = tuple[int, ...]
"""Size, mtime, ctime, inode and mode of manifest and log; of a run without a manifest more files."""


class Look(NamedTuple):
    """What one look at a directory found; nothing was opened."""

    name: str
    """Below the root: of a nested run with the names of its parents."""
    stamp: Stamp
    size: int
    mtime_ns: int
    ctime_ns: int
    changed_ns: int
    """The mtime of the directory itself: each save of a manifest moves it."""
    lock: int = 0
    """The inode of the lock file."""
    lock_odd: bool = False
    closed: str = ""
    """Why nothing in it can be read."""
    code: str = ""
    nested: tuple[str, ...] = ()


Waiting: TypeAlias = "tuple[int, str, None, SessionShelf]"
"""A run that has to be read: its mtime, its name, and where it stands."""


class SessionShelf:
    """The run directories of one root."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self.directory = os.fspath(root.path)
        self.looks: dict[str, Look] = {}
        self.rows: dict[str, RunSummary] = {}
        """The row of each run while nobody holds it, for as long as its stamp is the same."""
        self.stamps: dict[str, Stamp] = {}
        """The stamp that a row was read with."""
        self.told: dict[str, RunSummary] = {}
        self.unsettled: set[str] = set()
        self.held: set[str] = set()
        self._passed: dict[str, int] = {}
        """Directories that are no runs yet, and their mtimes."""
        self._round = 0

    @property
    def count(self) -> int:
        """How many runs there are, the nested ones not counted."""
        return sum("/" not in name for name in self.looks)

    def path_of(self, name: str) -> str:
        """Give the path of a run."""
        return f"{self.directory}/{name}"

    def look(self, names: Sequence[str]) -> Generator[Item, None, tuple[list[RunSummary], list[Waiting]]]:
        """Look at all directories of the root.

        Returns:
            The rows that still stand, and the runs that have to be read.
        """
        rows: list[RunSummary] = []
        waiting: list[Waiting] = []
        before = set(self.looks)
        self._passed.clear()
        for number, name in enumerate(names):
            for found in self._looks(name):
                before.discard(found.name)
                row = self._take(found)
                if row is None:
                    waiting.append((found.mtime_ns, found.name, None, self))
                else:
                    rows.append(row)
            if number % _LOOKED_AT == _LOOKED_AT - 1:
                yield Progress(0, 0)
        seen = set(names)
        for name in before:
            own = name.partition("/")[0]
            # A run that came while the directory was read does not stand in what was read.
            if own in seen or not os.path.lexists(self.path_of(own)):
                yield from self.forget(name)
        yield Progress(0, 0)
        return rows, waiting

    def look_again(
        self, names: Iterable[str]
    ) -> Generator[Item, None, tuple[list[RunSummary], list[Waiting]]]:
        """Look at some directories, and at the runs nested in them."""
        rows: list[RunSummary] = []
        waiting: list[Waiting] = []
        for name in dict.fromkeys(part.partition("/")[0] for part in names):
            gone = {known for known in self.looks if known == name or known.startswith(f"{name}/")}
            for found in self._looks(name):
                gone.discard(found.name)
                row = self._take(found)
                if row is None:
                    waiting.append((found.mtime_ns, found.name, None, self))
                else:
                    rows.append(row)
            for known in gone:
                yield from self.forget(known)
            yield Progress(0, 0)
        return rows, waiting

    def stirred(self) -> Iterator[str | None]:
        """Give the directories in which something was written since the last look; None for mere work.

        Those that were quiet for long have their turn at every eighth call: whoever goes on with one of them
        takes its lock, and that is seen at once.
        """
        self._round = (self._round + 1) % _ROUNDS
        recent = time.time_ns() - _RECENT_NS
        known = {name: look.changed_ns for name, look in self.looks.items()}
        known.update(self._passed)
        for number, (name, changed) in enumerate(known.items()):
            if number % STRETCH == STRETCH - 1:
                yield None
            if changed < recent and number % _ROUNDS != self._round and name not in self.unsettled:
                continue
            if name in self.unsettled or _changed(self.path_of(name)) != changed:
                yield name

    def candidate(self, name: str) -> Candidate:
        """Give what is known of a run, as it is for a file."""
        look = self.looks[name]
        stem = name.rpartition("/")[2]
        return Candidate(self.path_of(name), stem, look.size, look.mtime_ns, look.ctime_ns, 0, stat.S_IFDIR)

    def found(self, name: str) -> Found:
        """Give what a row says of the directory."""
        look = self.looks[name]
        path, stem = self.path_of(name), name.rpartition("/")[2]
        return Found(stem, path, look.mtime_ns / 1e9, look.size, look.lock_odd)

    def is_done(self, name: str) -> bool:
        """Say whether a run need not be read any more."""
        return name not in self.looks or self.row(name) is not None

    def row(self, name: str) -> RunSummary | None:
        """Give the row of a run if it stands."""
        look, row = self.looks.get(name), self.rows.get(name)
        if look is None or row is None or name in self.unsettled or self.stamps.get(name) != look.stamp:
            return None
        return row

    def keep(self, name: str, row: RunSummary, *, settled: bool) -> None:
        """Remember a row for as long as the files of its run do not change."""
        self.rows[name] = row
        self.stamps[name] = self.looks[name].stamp
        if settled:
            self.unsettled.discard(name)
        else:
            self.unsettled.add(name)

    def tell_all(self, rows: Iterable[RunSummary], held: Collection[str]) -> Iterator[RunSummary]:
        """Give the rows that were not told like that before."""
        for row in rows:
            told = self.tell(row, held)
            if told is not None:
                yield told

    def tell(self, row: RunSummary, held: Collection[str]) -> RunSummary | None:
        """Give a row as it is now, or None where it was told like that before."""
        name = row.path[len(self.directory) + 1 :]
        if held and name in held:
            self.held.add(name)
            row = msgspec.structs.replace(row, status=RUNNING.name, rule=RUNNING.rule)
        else:
            self.held.discard(name)
        before = self.told.get(name)
        if before is not None and (before is row or before == row):
            return None
        self.told[name] = row
        return row

    def held_now(self, locked: AbstractSet[int]) -> set[str]:
        """Give the names of the runs whose lock file is held."""
        return (
            {name for name, look in self.looks.items() if look.lock and look.lock in locked}
            if locked
            else set()
        )

    def forget(self, name: str) -> Iterator[Item]:
        """Drop a run that is gone; tell so if it was told of."""
        for known in (self.looks, self.rows, self.stamps):
            known.pop(name, None)
        self.unsettled.discard(name)
        self.held.discard(name)
        if self.told.pop(name, None) is not None:
            yield Gone(self.path_of(name))

    def _take(self, found: Look) -> RunSummary | None:
        self.looks[found.name] = found
        if found.closed:
            return closed(self.found(found.name), found.closed, found.code)
        return self.row(found.name)

    def _looks(self, name: str) -> Iterator[Look]:
        """Look at a directory and at the runs nested in it."""
        look = look_at(self.directory, name, sure=keeps_directories(self.root.hint))
        if look is None:
            changed = _changed(self.path_of(name))
            # What is no run after so long will not become one while we look; there may be thousands.
            if changed > time.time_ns() - _RECENT_NS:
                self._passed[name] = changed
            return
        yield look
        yield from self._inside(look)

    def _inside(self, look: Look, depth: int = 1) -> Iterator[Look]:
        """Look at the runs nested in a run, and at those nested in them; say where it is left at that."""
        below = f"{look.name}/{NESTED}"
        if look.nested and depth > _DEEPEST:
            yield _odd(below, None, f"runs nested more than {_DEEPEST} levels deep are not listed", "")
            return
        for child in look.nested[:_MOST_NESTED]:
            inner = look_at(self.directory, f"{below}/{child}", sure=False)
            if inner is not None:
                yield inner
                yield from self._inside(inner, depth + 1)
        if len(look.nested) > _MOST_NESTED:
            yield _odd(
                below, None, f"more than {_MOST_NESTED} runs of its own agents: others are not listed", ""
            )


def look_at(root: str, name: str, *, sure: bool) -> Look | None:
    """Look at one directory; None where it is no run.

    Args:
        root: The directory in which it lies.
        name: Its name there.
        sure: Whatever lies in this root is a run, also what cannot be looked into.
    """
    path = f"{root}/{name}"
    try:
        own = os.lstat(path)
        if stat.S_ISLNK(own.st_mode):
            if "/" in name or not is_run_directory(Path(path)):
                return None
            return _odd(name, own, "it is a symbolic link, not a directory", "E_NOT_REGULAR")
        if not stat.S_ISDIR(own.st_mode):
            return None
        found = [_stat(f"{path}/{part}") for part in (MANIFEST, EVENTS)]
        if found[0] is None:
            found += [_stat(f"{path}/{part}") for part in _SIDE]
            if not any(found) and not sure:
                return None
        lock, nested = _stat(f"{path}/{LOCK}"), _stat(f"{path}/{NESTED}")
        if not any(found) and lock is None and not _has_traces(path):
            return None
    except PermissionError:
        # It may be a run: none is hidden for want of a right.
        return _odd(name, None, "not permitted to look into it", "E_PERM") if name != _FOUND else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return _odd(name, None, f"it cannot be looked into: {reason(error)}", "E_PERM") if sure else None
    present = [each for each in found if each is not None]
    ages = present or [own]
    is_file = lock is not None and stat.S_ISREG(lock.st_mode)
    return Look(
        name,
        tuple(number for each in found for number in _stamp(each)),
        sum(each.st_size for each in present),
        max(each.st_mtime_ns for each in ages),
        max(each.st_ctime_ns for each in ages),
        own.st_mtime_ns,
        lock.st_ino if lock is not None and is_file else 0,
        lock is not None and not is_file,
        nested=_names(f"{path}/{NESTED}") if nested is not None and stat.S_ISDIR(nested.st_mode) else (),
    )


def _odd(name: str, own: os.stat_result | None, why: str, code: str) -> Look:
    mtime, ctime = (own.st_mtime_ns, own.st_ctime_ns) if own is not None else (0, 0)
    return Look(name, (), 0, mtime, ctime, mtime, closed=why, code=code)


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def _stamp(found: os.stat_result | None) -> Stamp:
    if found is None:
        return (0, 0, 0, 0, 0)
    return (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_mode)


def _changed(path: str) -> int:
    try:
        return os.lstat(path).st_mtime_ns
    except (OSError, ValueError):
        return 0


def _has_traces(path: str) -> bool:
    """Say whether an interrupted write left something in a directory."""
    return any(is_litter(name) for name in _names(path, hidden=True))


def _names(path: str, *, hidden: bool = False) -> tuple[str, ...]:
    try:
        with os.scandir(path) as entries:
            names = [entry.name for entry, _ in zip(entries, range(_MOST_NESTED + 1), strict=False)]
    except OSError:
        return ()
    return tuple(sorted(name for name in names if hidden or not name.startswith(".")))
