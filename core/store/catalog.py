"""All runs of all directories as rows: newest first, in small pieces of work, looked at and never touched.

`Catalog` remembers what it has told its owner. Each call gives a generator of items, and each `next()` on
it does one small piece of work, so that a screen can drive it from its own loop and stop at any moment.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from refold.core.errors import RunNotFound, StoreError
from refold.core.status import RUNNING
from refold.core.store import list_cache
from refold.core.store.list_cache import CachedRow
from refold.core.store.lock import locked_inodes
from refold.core.store.reader import Change, RunReader
from refold.core.store.roots import (
    LOCK_SUFFIX,
    SUFFIX,
    Candidate,
    Listing,
    RootReport,
    distinct,
    lock_inode,
    look,
    odd_kind,
    read_directory,
)
from refold.core.store.roots import Root as Root
from refold.core.store.summarise import empty, not_a_file, preview, summarise, unopened
from refold.core.summary import RunSummary

SLICE = 0.0015
"""Seconds that one `next()` may spend on reading a run."""
_FIRST = 50
"""How many rows are wanted before anything else is done."""
_SHORT = 16 << 10
"""Runs up to this many bytes are read in full at once: a preview would be no quicker."""
_BIG = 1 << 20
"""Runs above this many bytes are read in full only when every run has a row."""
_LIVE_READERS = 2
"""Big runs that grow keep their index, so that only what is new is read."""


class Progress(NamedTuple):
    """Some work was done, and there is nothing new to show for it."""

    done: int
    """Runs read in full in this pass."""
    total: int
    """Runs to read in full in this pass; 0 while the directories are still being listed."""


class Gone(NamedTuple):
    """A run that was told of before is no longer there."""

    path: str


Item: TypeAlias = RunSummary | Progress | Gone


class _Pass(NamedTuple):
    """One look at directories, while it is being worked off."""

    looked_ns: int
    """When it began: what has changed since will be seen by the next one."""
    locked: frozenset[int]
    done: int
    total: int


class Catalog:
    """The runs of some directories.

    Rows are keyed by `RunSummary.path`; a row that is told again replaces the one told before. Whoever
    stops a generator early may start another `scan` at any time: it tells only what is not known yet.
    """

    def __init__(self, roots: Sequence[Root], *, cache: Path | None) -> None:
        """Prepare a catalog; nothing is read yet.

        Args:
            roots: The directories, each read once however often it is named.
            cache: The directory of the cache; None to do without.
        """
        self._roots = tuple(roots)
        self._cache = cache
        self._shelves: dict[str, _Shelf] = {}
        self._same: list[RootReport] = []
        self._live: OrderedDict[str, RunReader] = OrderedDict()
        self._must_load = cache is not None
        self._must_save = False

    def close(self) -> None:
        """Close the files kept open and write what the cache does not have yet."""
        for _ in self._save():
            pass
        while self._live:
            self._live.popitem()[1].close()

    def roots_report(self) -> tuple[RootReport, ...]:
        """Say of every directory, in the order given, what was found in it at the last look."""
        reports = {id(shelf.root): shelf.report for shelf in self._shelves.values()}
        reports.update({id(report.root): report for report in self._same})
        return tuple(reports.get(id(root), RootReport(root, "unseen")) for root in self._roots)

    def scan(self) -> Iterator[Item]:
        """Tell every run that was not told yet or has changed, newest first.

        First come rows from the cache, then rows of all other runs, of the long ones only a preview
        (`complete` is False), then the long ones in full. `Progress` stands where there was work without a
        row, `Gone` for what has been removed.
        """
        kept, self._same = distinct(self._roots)
        for directory in self._shelves.keys() - {os.fspath(root.path) for root in kept}:
            yield from self._shelves.pop(directory).forget_all()
        for root in kept:
            self._shelves.setdefault(os.fspath(root.path), _Shelf(root))
        yield from self._load()
        yield from self._look_at([self._shelves[os.fspath(root.path)] for root in kept])
        yield from self._save()

    def refresh(self, paths: Iterable[str | os.PathLike[str]]) -> Iterator[Item]:
        """Tell what has changed at these paths: journals, lock files, or whole directories.

        Paths that have nothing to do with a run are passed over; so is everything before the first `scan`.
        """
        homes = self._homes()
        whole: list[_Shelf] = []
        journals: dict[str, _Shelf] = {}
        for path in paths:
            text = os.fspath(path)
            if text in homes:
                whole.append(homes[text])
                continue
            parent, name = os.path.split(text)
            stem = name.removesuffix(SUFFIX).removesuffix(LOCK_SUFFIX)
            if parent in homes and stem != name:
                journals[homes[parent].path_of(stem)] = homes[parent]
        if whole:
            yield from self._look_at(whole)
        yield from self._look_again(journals)

    def refresh_holders(self) -> Iterator[Item]:
        """Tell the runs that are held now and were not, or the other way round; reads only /proc/locks.

        A writer that dies leaves no trace in its directory: ask once a second while the list is shown.
        """
        locked = locked_inodes() or frozenset()
        for shelf in self._shelves.values():
            for path in shelf.held ^ shelf.held_now(locked):
                row = shelf.tell(shelf.rows[path], locked)
                if row is not None:
                    yield row

    def _homes(self) -> dict[str, _Shelf]:
        homes: dict[str, _Shelf] = {}
        for spelled, shelf in self._shelves.items():
            homes[os.path.realpath(spelled)] = shelf
            homes[os.path.abspath(spelled)] = shelf  # noqa: PTH100 - a link keeps its own name here
        return homes

    def _load(self) -> Iterator[Item]:
        if not self._must_load or self._cache is None:
            return
        self._must_load = False
        for rows in list_cache.load(self._cache, self._shelves.keys()):
            for path, row in rows.items():
                self._shelves[os.path.dirname(path)].rows.setdefault(path, row)  # noqa: PTH120
            yield Progress(0, 0)

    def _save(self) -> Iterator[Item]:
        if not self._must_save or self._cache is None:
            return
        kept = {directory: shelf.to_keep() for directory, shelf in self._shelves.items() if shelf.paths}
        self._must_save = False
        for _ in list_cache.save(self._cache, kept):
            yield Progress(0, 0)

    def _look_at(self, shelves: Sequence[_Shelf]) -> Iterator[Item]:
        """List directories, then tell what is new in them."""
        looked_ns = time.time_ns()
        found: list[tuple[Candidate, _Shelf]] = []
        for shelf in shelves:
            for listing in read_directory(shelf.root):
                if listing is None:
                    yield Progress(0, 0)
                else:
                    found.extend([(candidate, shelf) for candidate in listing.candidates])
                    yield from shelf.list(listing)
        yield from self._tell(found, looked_ns)

    def _look_again(self, journals: dict[str, _Shelf]) -> Iterator[Item]:
        """Look at single runs, then tell what is new of them."""
        looked_ns = time.time_ns()
        found: list[tuple[Candidate, _Shelf]] = []
        for path, shelf in journals.items():
            candidate = look(path)
            if candidate is None:
                yield from shelf.forget(path)
            else:
                shelf.add(path, candidate.stem, lock_inode(path))
                found.append((candidate, shelf))
        yield from self._tell(found, looked_ns)

    def _tell(self, found: list[tuple[Candidate, _Shelf]], looked_ns: int) -> Iterator[Item]:
        found.sort(key=_mtime, reverse=True)
        locked = locked_inodes() or frozenset()
        unread: list[tuple[Candidate, _Shelf]] = []
        for candidate, shelf in found:
            known = shelf.rows.get(candidate.path)
            if known is None or not known.fits(candidate) or candidate.path in shelf.unsettled:
                unread.append((candidate, shelf))
                continue
            row = shelf.tell(known, locked)
            if row is not None:
                yield row
        later: list[tuple[Candidate, _Shelf]] = []
        done = 0
        for place, (candidate, shelf) in enumerate(unread):
            if candidate.size <= (_SHORT if place < _FIRST else _BIG) or odd_kind(candidate.mode):
                yield from self._read(candidate, shelf, _Pass(looked_ns, locked, done, len(unread)))
                done += 1
                continue
            later.append((candidate, shelf))
            if candidate.path not in shelf.told:
                yield from _preview(candidate, shelf, locked)
        for candidate, shelf in later:
            yield from self._read(candidate, shelf, _Pass(looked_ns, locked, done, len(unread)))
            done += 1

    def _read(self, candidate: Candidate, shelf: _Shelf, now: _Pass) -> Iterator[Item]:
        """Read a run in full and tell its row."""
        settled = list_cache.is_settled(candidate, now.looked_ns)
        try:
            summary = yield from self._summary(candidate, shelf, now, keep=not settled)
            opened = not odd_kind(candidate.mode)
        except RunNotFound:
            yield from shelf.forget(candidate.path)
            return
        except StoreError as error:
            summary = unopened(candidate, error, hint=shelf.root.hint)
            opened = False
        known = CachedRow(
            candidate.device,
            candidate.inode,
            candidate.size,
            candidate.mtime_ns,
            candidate.ctime_ns,
            candidate.mode,
            opened,
            summary,
        )
        shelf.put(known, settled=settled and opened)
        self._must_save = True
        row = shelf.tell(known, now.locked)
        if row is not None:
            yield row

    def _summary(
        self, candidate: Candidate, shelf: _Shelf, now: _Pass, *, keep: bool
    ) -> Generator[Item, None, RunSummary]:
        if odd_kind(candidate.mode):
            return not_a_file(candidate, hint=shelf.root.hint)
        if not candidate.size:
            return empty(candidate, hint=shelf.root.hint)
        reader = self._take_reader(candidate, shelf)
        try:
            while not reader.step(SLICE):
                yield Progress(now.done, now.total)
            summary = summarise(candidate, reader)
            if not keep and self._cache is not None and candidate.size > _BIG:
                reader.keep_index(self._cache)
        except BaseException:
            reader.close()
            raise
        if keep and candidate.size > _BIG:
            self._live[candidate.path] = reader
            if len(self._live) > _LIVE_READERS:
                self._live.popitem(last=False)[1].close()
        else:
            reader.close()
        return summary

    def _take_reader(self, candidate: Candidate, shelf: _Shelf) -> RunReader:
        """Give the reader that already knows the beginning of a run, or a new one."""
        reader = self._live.pop(candidate.path, None)
        if reader is not None:
            if reader.poll() in {Change.SAME, Change.GREW}:
                return reader
            reader.close()
        cache = self._cache if candidate.size > _BIG else None
        return RunReader.open(Path(candidate.path), hint=shelf.root.hint, cache=cache)


class _Shelf:
    """What is known of one directory."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self.directory = os.fspath(root.path)
        self.report = RootReport(root, "unseen")
        self.rows: dict[str, CachedRow] = {}
        """What each file was like when its row was made, and the row as it is while nobody holds the run."""
        self.told: dict[str, RunSummary] = {}
        self.unsettled: set[str] = set()
        """Files that were read so soon after a change that the next one may not show in their times."""
        self.paths: set[str] = set()
        """The candidates that the directory held at the last look."""
        self.locks: dict[str, int] = {}
        """Inode of a lock file by the stem of its name."""
        self.held: set[str] = set()

    def path_of(self, stem: str) -> str:
        """Give the path of a run as a listing of the directory spells it."""
        return os.path.join(self.directory, stem + SUFFIX)  # noqa: PTH118 - strings, as scandir gives them

    def list(self, listing: Listing) -> Iterator[Item]:
        """Take over a listing; tell what is gone."""
        self.report = listing.report
        self.locks = listing.locks
        self.paths = {candidate.path for candidate in listing.candidates}
        for path in [path for path in (*self.rows, *self.told) if path not in self.paths]:
            yield from self.forget(path)

    def add(self, path: str, stem: str, lock: int) -> None:
        """Take over a look at one run."""
        self.paths.add(path)
        if lock:
            self.locks[stem] = lock
        else:
            self.locks.pop(stem, None)

    def put(self, known: CachedRow, *, settled: bool) -> None:
        """Remember the row of a file."""
        path = known.summary.path
        self.rows[path] = known
        if settled:
            self.unsettled.discard(path)
        else:
            self.unsettled.add(path)

    def tell(self, known: CachedRow, locked: frozenset[int]) -> RunSummary | None:
        """Give a row as it is now, or None where it was told like that before."""
        row = known.summary
        if locked and known.opened and (known.inode in locked or self.locks.get(row.id, 0) in locked):
            self.held.add(row.path)
            row = running(row)
        elif self.held:
            self.held.discard(row.path)
        before = self.told.get(row.path)
        if before is row or before == row:
            return None
        self.told[row.path] = row
        return row

    def held_now(self, locked: frozenset[int]) -> set[str]:
        """Give the paths of the readable runs that are held."""
        if not locked:
            return set()
        paths = {self.path_of(stem) for stem, inode in self.locks.items() if inode in locked}
        paths.update([path for path, row in self.rows.items() if row.inode in locked])
        return {path for path in paths if path in self.rows and self.rows[path].opened}

    def forget(self, path: str) -> Iterator[Item]:
        """Drop a run that is gone; tell so if it was told of."""
        self.rows.pop(path, None)
        self.paths.discard(path)
        self.unsettled.discard(path)
        self.held.discard(path)
        if self.told.pop(path, None) is not None:
            yield Gone(path)

    def forget_all(self) -> Iterator[Item]:
        """Drop every run of a directory that is no longer looked at."""
        for path in list(self.told):
            yield from self.forget(path)

    def to_keep(self) -> list_cache.Shelf:
        """Give what the cache may keep."""
        rows = {path: row for path, row in self.rows.items() if row.opened and path not in self.unsettled}
        return list_cache.Shelf(rows, self.paths)


def running(row: RunSummary) -> RunSummary:
    """Give the row of a run that somebody holds."""
    return msgspec.structs.replace(row, status=RUNNING.name, rule=RUNNING.rule)


def _preview(candidate: Candidate, shelf: _Shelf, locked: frozenset[int]) -> Iterator[Item]:
    try:
        row = preview(candidate, hint=shelf.root.hint)
    except StoreError:
        return  # the reading in full says why
    if locked and (candidate.inode in locked or shelf.locks.get(candidate.stem, 0) in locked):
        row = running(row)
    shelf.told[row.path] = row
    yield row


def _mtime(pair: tuple[Candidate, _Shelf]) -> int:
    return pair[0].mtime_ns
