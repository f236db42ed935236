"""All runs of all directories as rows: newest first, in small pieces of work, looked at and never touched.

`Catalog` remembers what it has told its owner. Each call gives a generator of items, and each `next()` on
it does one small piece of work, so that a screen can drive it from its own loop and stop at any moment.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from heapq import merge
from itertools import repeat
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from refold.core.store import list_cache
from refold.core.store.files import odd_kind
from refold.core.store.lock import LockedSoon, locked_inodes
from refold.core.store.roots import (
    LOCK_SUFFIX,
    LONG,
    SUFFIX,
    Candidate,
    RootReport,
    counting,
    device_of,
    distinct,
    is_called_like_a_journal,
    lock_inode,
    look,
)
from refold.core.store.roots import Root as Root
from refold.core.store.shelf import Gone as Gone
from refold.core.store.shelf import Item as Item
from refold.core.store.shelf import Progress as Progress
from refold.core.store.shelf import Shelf, Slot, Unread
from refold.core.summary import RunSummary

if TYPE_CHECKING:
    from refold.core.store.journal_reads import JournalReads
    from refold.core.store.session_reads import SessionReads
    from refold.core.store.session_shelf import SessionShelf, Waiting

_FIRST = 50
"""How many rows are wanted before anything else is done."""
_SHORT = 16 << 10
"""Runs up to this many bytes are read in full at once: a preview would be no quicker."""


_AnyShelf: TypeAlias = "Shelf | SessionShelf"
_Rows: TypeAlias = "tuple[_AnyShelf, Iterable[RunSummary]]"
"""Rows that stand, all of one directory, newest first."""
_AnyUnread: TypeAlias = "Unread | Waiting"


_updated = attrgetter("updated")
_mtime = itemgetter(0)


class _Pass(NamedTuple):
    """One look at directories, while it is being worked off."""

    looked_ns: int
    """When it began: what has changed since will be seen by the next one."""
    held: dict[_AnyShelf, set[str]]
    """The names of the held runs."""


class Catalog:
    """The runs of some directories.

    Rows are keyed by `RunSummary.path`; a row that is told again replaces the one told before. Whoever
    stops a generator early may start another `scan` at any time: it tells only what is not known yet.
    """

    def __init__(
        self,
        roots: Sequence[Root],
        *,
        cache: Path | None,
        fault: Callable[[Exception], object] = lambda _: None,
    ) -> None:
        """Prepare a catalog; nothing is read yet.

        Args:
            roots: The directories, each read once however often it is named.
            cache: The directory of the cache; None to do without.
            fault: Told of each error that is a fault of ours; the run stands in the list with its type.
        """
        self._fault = fault
        self._roots = tuple(roots)
        self._cache = cache
        self._shelves: dict[str, Shelf] = {}
        self._sessions: dict[str, SessionShelf] = {}
        """The run directories of the same directories, where there are any."""
        self._same: list[RootReport] = []
        self._journal_reads: JournalReads | None = None
        self._session_reads: SessionReads | None = None
        self._must_load = cache is not None
        self._must_save = False

    def close(self) -> None:
        """Close the files kept open and write what the cache does not have yet."""
        for _ in self._save():
            pass
        if self._journal_reads is not None:
            self._journal_reads.close()

    def roots_report(self) -> tuple[RootReport, ...]:
        """Say of every directory, in the order given, what was found in it at the last look."""
        reports = {
            id(shelf.root): counting(shelf.report, self._sessions[directory].count)
            if directory in self._sessions
            else shelf.report
            for directory, shelf in self._shelves.items()
        }
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
            shelf = self._shelves.pop(directory)
            for stem in list(shelf.told):
                yield from shelf.forget(stem)
            sessions = self._sessions.pop(directory, None)
            for name in list(sessions.told) if sessions is not None else ():
                yield from sessions.forget(name) if sessions is not None else ()
        for root in kept:
            self._shelves.setdefault(os.fspath(root.path), Shelf(root))
        yield from self._load()
        yield from self._look([self._shelves[os.fspath(root.path)] for root in kept])
        yield from self._save()

    def refresh(self, paths: Iterable[str | os.PathLike[str]]) -> Iterator[Item]:
        """Tell what has changed at these paths: journals, lock files, or whole directories.

        Paths that have nothing to do with a run are passed over; so is everything before the first `scan`.
        """
        homes = self._homes()
        whole: dict[str, Shelf] = {}
        journals: dict[str, Shelf] = {}
        inside: dict[str, list[str]] = {}
        for path in paths:
            text = os.fspath(path)
            if text in homes:
                whole[homes[text].directory] = homes[text]
                continue
            parent, name = os.path.split(text)
            stem = name.removesuffix(SUFFIX).removesuffix(LOCK_SUFFIX)
            if parent in homes and name.endswith(SUFFIX) and self._is_session(homes[parent], name):
                inside.setdefault(homes[parent].directory, []).append(name)
                continue
            if parent in homes and stem != name:
                journals[homes[parent].path_of(stem + SUFFIX)] = homes[parent]
                continue
            while parent not in homes and parent not in {"", "/"}:
                parent, name = os.path.split(parent)
            if parent in homes and self._is_inside(homes[parent], name):
                inside.setdefault(homes[parent].directory, []).append(name)
        if whole:
            yield from self._look(list(whole.values()))
        yield from self._look_again(journals)
        for directory, names in inside.items():
            yield from self._look_inside(directory, names)

    def refresh_holders(self) -> Iterator[Item]:
        """Tell the runs that are held now and were not, or the other way round; reads only /proc/locks.

        A writer that dies leaves no trace in its directory: ask once a second while the list is shown. What
        happens inside run directories nobody reports either: they are looked at too.
        """
        locked = locked_inodes() or frozenset()
        for shelf in self._shelves.values():
            held = shelf.held_now(locked)
            for stem in shelf.held ^ held:
                yield from shelf.finding(stem + SUFFIX)
                slot = shelf.slot(stem + SUFFIX)
                # Also a row that is to be read again: a run that was just written to is the one that is held.
                row = None if slot is None else slot.page.rows[slot.place]
                told = None if row is None else shelf.tell(row, held)
                if told is not None:
                    yield told
        for directory, sessions in self._sessions.items():
            held = sessions.held_now(locked)
            stirred = sessions.held ^ held
            for name in sessions.stirred():
                if name is None:
                    yield Progress(0, 0)
                else:
                    stirred.add(name)
            yield from self._look_inside(directory, sorted(stirred))

    def _is_session(self, shelf: Shelf, name: str) -> bool:
        """Say whether a name like that of a journal is that of a run directory, or was until now."""
        sessions = self._sessions.get(shelf.directory)
        if sessions is not None and name in sessions.looks:
            return True
        return is_called_like_a_journal(shelf.root, name)

    def _is_inside(self, shelf: Shelf, name: str) -> bool:
        """Say whether a name is that of a run directory, or of what may have become one."""
        sessions = self._sessions.get(shelf.directory)
        if sessions is not None and name in sessions.looks:
            return True
        return not name.startswith(".") and os.path.isdir(shelf.path_of(name))  # noqa: PTH112 - it never raises

    def _homes(self) -> dict[str, Shelf]:
        homes: dict[str, Shelf] = {}
        for spelled, shelf in self._shelves.items():
            homes[os.path.realpath(spelled)] = shelf
            homes[os.path.abspath(spelled)] = shelf  # noqa: PTH100 - a link keeps its own name here
        return homes

    def _devices(self) -> dict[str, int]:
        return {directory: device_of(shelf.root) for directory, shelf in self._shelves.items()}

    def _load(self) -> Iterator[Item]:
        if not self._must_load or self._cache is None:
            return
        self._must_load = False
        for found in list_cache.load(self._cache, self._devices()):
            if found is not None:
                directory, page = found
                self._shelves[directory].pages.append(page)
            yield Progress(0, 0)

    def _save(self) -> Iterator[Item]:
        if not self._must_save or self._cache is None:
            return
        self._must_save = False
        devices = self._devices()
        listed = {
            directory: (devices[directory], shelf)
            for directory, shelf in self._shelves.items()
            if shelf.listed
        }
        for _ in list_cache.save(self._cache, listed):
            yield Progress(0, 0)
        if self._sessions:
            from refold.core.store import session_cache

            sessions = {
                directory: (devices[directory], shelf)
                for directory, shelf in self._sessions.items()
                if directory in listed
            }
            for _ in session_cache.save(self._cache, sessions):
                yield Progress(0, 0)

    def _look(self, shelves: Sequence[Shelf]) -> Iterator[Item]:
        """Read whole directories, then tell what is new in them."""
        looked_ns = time.time_ns()
        locks = LockedSoon()
        rows: list[_Rows] = []
        unread: list[_AnyUnread] = []
        for shelf in shelves:
            standing, waiting = yield from shelf.look()
            rows.append((shelf, standing))
            unread += waiting
            if shelf.directories or shelf.directory in self._sessions:
                sessions = yield from self._sessions_of(shelf)
                found, more = yield from sessions.look(shelf.directories)
                found.sort(key=_updated, reverse=True)
                rows.append((sessions, found))
                unread += more
        now = self._pass(looked_ns, locks.inodes())
        for any_shelf, of_one in _newest_first(rows):
            yield from any_shelf.tell_all(of_one, now.held[any_shelf])
        for shelf in shelves:
            unread += shelf.lost()
        yield from self._read_all(unread, now)

    def _sessions_of(self, shelf: Shelf) -> Generator[Item, None, SessionShelf]:
        """Give the shelf of the run directories of a directory; a new one with what the cache knows."""
        known = self._sessions.get(shelf.directory)
        if known is not None:
            return known
        from refold.core.store import session_cache
        from refold.core.store.session_shelf import SessionShelf

        made = self._sessions[shelf.directory] = SessionShelf(shelf.root)
        if self._cache is not None:
            devices = {shelf.directory: (device_of(shelf.root), made)}
            for _ in session_cache.load(self._cache, devices):
                yield Progress(0, 0)
        return made

    def _look_inside(self, directory: str, names: Sequence[str]) -> Iterator[Item]:
        """Look at single run directories, then tell what is new of them."""
        if not names:
            return
        looked_ns = time.time_ns()
        sessions = yield from self._sessions_of(self._shelves[directory])
        standing, waiting = yield from sessions.look_again(names)
        now = self._pass(looked_ns, locked_inodes())
        yield from sessions.tell_all(standing, now.held[sessions])
        yield from self._read_all([*waiting], now)

    def _look_again(self, journals: dict[str, Shelf]) -> Iterator[Item]:
        """Look at single runs, then tell what is new of them."""
        looked_ns = time.time_ns()
        standing: list[tuple[Shelf, RunSummary]] = []
        unread: list[_AnyUnread] = []
        for path, shelf in journals.items():
            yield from shelf.finding(_stem(path) + SUFFIX)
            found = look(path)
            if found is None:
                yield from shelf.forget(_stem(path))
                continue
            slot = shelf.look_at(found, lock_inode(path))
            row = shelf.row(slot)
            if row is None:
                unread.append((found.mtime_ns, slot.place, slot.page, shelf))
            else:
                standing.append((shelf, row))
        now = self._pass(looked_ns, locked_inodes())
        for shelf, row in standing:
            told = shelf.tell(row, now.held[shelf])
            if told is not None:
                yield told
        yield from self._read_all(unread, now)

    def _pass(self, looked_ns: int, inodes: frozenset[int] | None) -> _Pass:
        locked = inodes or frozenset()
        shelves: list[_AnyShelf] = [*self._shelves.values(), *self._sessions.values()]
        return _Pass(looked_ns, {shelf: shelf.held_now(locked) for shelf in shelves})

    def _read_all(self, unread: list[_AnyUnread], now: _Pass) -> Iterator[Item]:
        """Tell the runs that no row stands for, newest first; of long ones a preview, at last all of it."""
        unread.sort(key=_mtime, reverse=True)
        later: list[tuple[Shelf, Slot] | tuple[SessionShelf, str]] = []
        done = 0
        for number, waiting in enumerate(unread):
            if waiting[2] is None:
                _, name, _, sessions = waiting
                if sessions.is_done(name):
                    continue
                if sessions.looks[name].size <= (_SHORT if number < _FIRST else LONG):
                    yield from self._read_session(sessions, name, now, Progress(done, len(unread)))
                    done += 1
                    continue
                later.append((sessions, name))
                if name not in sessions.told:
                    yield from _preview_session(sessions, name, now)
                continue
            _, place, page, shelf = waiting
            slot = Slot(page, place)
            if shelf.is_done(slot):
                continue
            found = shelf.candidate(slot)
            if found.size <= (_SHORT if number < _FIRST else LONG) or odd_kind(found.mode):
                yield from self._read(shelf, slot, found, now, Progress(done, len(unread)))
                done += 1
                continue
            later.append((shelf, slot))
            if found.stem not in shelf.told:
                yield from self._preview(shelf, found, now)
        for one in later:
            progress = Progress(done, len(unread))
            if isinstance(one[1], str):
                if not one[0].is_done(one[1]):
                    yield from self._read_session(one[0], one[1], now, progress)
            elif not one[0].is_done(one[1]):
                yield from self._read(one[0], one[1], one[0].candidate(one[1]), now, progress)
            done += 1

    def _read(
        self, shelf: Shelf, slot: Slot, found: Candidate, now: _Pass, progress: Progress
    ) -> Iterator[Item]:
        """Read a run in full and tell its row."""
        row = yield from self._reads().read(shelf, slot, found, now.looked_ns, progress)
        if row is None:
            return
        self._must_save |= slot.page.rows[slot.place] is row
        told = shelf.tell(row, now.held[shelf])
        if told is not None:
            yield told

    def _preview(self, shelf: Shelf, found: Candidate, now: _Pass) -> Iterator[Item]:
        row = self._reads().first_row(shelf, found)
        told = None if row is None else shelf.tell(row, now.held[shelf])
        if told is not None:
            yield told

    def _reads(self) -> JournalReads:
        """Give what reads journals; it is loaded when there is one to read."""
        if self._journal_reads is None:
            from refold.core.store.journal_reads import JournalReads

            self._journal_reads = JournalReads(self._cache, self._fault)
        return self._journal_reads

    def _read_session(self, shelf: SessionShelf, name: str, now: _Pass, progress: Progress) -> Iterator[Item]:
        """Read a run directory in full and tell its row."""
        from refold.core.store.session_reads import SessionReads

        if self._session_reads is None:
            self._session_reads = SessionReads(self._fault)
        row = yield from self._session_reads.read(shelf, name, now.looked_ns, progress)
        self._must_save = True
        told = None if row is None else shelf.tell(row, now.held[shelf])
        if told is not None:
            yield told


def _preview_session(shelf: SessionShelf, name: str, now: _Pass) -> Iterator[Item]:
    from refold.core.store.session_reads import first_row

    row = first_row(shelf, name)
    told = None if row is None else shelf.tell(row, now.held[shelf])
    if told is not None:
        yield told


def _newest_first(rows: Sequence[_Rows]) -> Iterator[tuple[_AnyShelf, Iterable[RunSummary]]]:
    """Join the rows of several directories."""
    if len(rows) == 1:
        yield rows[0]
        return
    pairs = [zip(of_one, repeat(shelf)) for shelf, of_one in rows]
    for row, shelf in merge(*pairs, key=lambda pair: pair[0].updated, reverse=True):
        yield shelf, (row,)


def _stem(path: str) -> str:
    return os.path.basename(path).removesuffix(SUFFIX)  # noqa: PTH119 - a str, as scandir gives it
