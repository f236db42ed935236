"""What is known of the runs in one directory, and what of it was told."""

from __future__ import annotations

import os
from array import array
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import repeat
from operator import attrgetter
from typing import NamedTuple, TypeAlias

import msgspec

from refold.core.formats.names import keeps_directories
from refold.core.status import RUNNING
from refold.core.store.packed_rows import KeptPlaces, KeptRows
from refold.core.store.roots import SUFFIX, Candidate, Root, RootReport, Stretch, packed, read_directory
from refold.core.summary import RunSummary

_updated = attrgetter("updated")
_NEVER_HELD = frozenset({"E_PERM", "E_NOT_REGULAR"})


class Page:
    """A stretch of a directory, and the rows of its runs.

    Names and stamps are compared as a whole: a directory in which nothing has changed is recognised
    without a look at its single runs.
    """

    __slots__ = ("_names", "_rows", "listing", "stamps")

    def __init__(self, listing: str, stamps: array[int], rows: list[RunSummary | None] | KeptPlaces) -> None:
        self.listing = listing
        """The names, joined with slashes."""
        self.stamps = stamps
        """Sizes, mtimes, ctimes, inodes, modes: one column after the other."""
        self._rows = rows
        self._names: list[str] | None = None

    @property
    def rows(self) -> list[RunSummary | None]:
        """The row of each run while nobody holds it; None where it has to be read."""
        if isinstance(self._rows, KeptPlaces):
            self._rows = self._rows.kept.at(self._rows.places)
        return self._rows

    def making(self) -> Iterator[None]:
        """Make what `rows` gives where the cache keeps it, a piece at a time."""
        if isinstance(self._rows, KeptPlaces):
            yield from self._rows.kept.making()
            self._rows = self.rows

    @property
    def kept(self) -> KeptRows | None:
        """The rows that the cache keeps, where all of these are among them still."""
        rows = self._rows
        return rows.kept if isinstance(rows, KeptPlaces) and rows.whole else None

    @property
    def count(self) -> int:
        """How many runs it has."""
        return len(self.stamps) // 5

    @property
    def names(self) -> list[str]:
        """The file names; empty where a run is gone."""
        if self._names is None:
            self._names = self.listing.split("/") if self.stamps else []
        return self._names

    def matches(self, found: Stretch) -> bool:
        """Say whether these are the same runs, unchanged."""
        return self.listing == found.names and self.stamps == found.stamps

    def stamp(self, place: int) -> array[int]:
        """Give size, mtime, ctime, inode and mode of a run: its row stands while they are equal."""
        return self.stamps[place :: self.count]

    def inodes(self) -> array[int]:
        """Give the inodes of all its runs."""
        return self.stamps[3 * self.count : 4 * self.count]

    def change(self, place: int, stamp: array[int]) -> None:
        """Take over a changed run; its row is dropped."""
        self.stamps[place :: self.count] = stamp
        self.rows[place] = None

    def empty(self, place: int) -> None:
        """Take a run out; the page as a whole is never recognised again."""
        self.names[place] = ""
        self.listing = ""
        self.rows[place] = None


class Slot(NamedTuple):
    """The place of one run."""

    page: Page
    place: int


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

Unread: TypeAlias = "tuple[int, int, Page, Shelf]"
"""A run that has to be read: its mtime, and where it stands. Plain, for there are thousands at once."""


class Shelf:
    """The pages of one directory."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self.directory = os.fspath(root.path)
        self.hint = "refold" if keeps_directories(root.hint) else root.hint
        """What a file is taken for that does not say."""
        self.report = RootReport(root, "unseen")
        self.directories: tuple[str, ...] = ()
        """What may be runs of another kind: `session_shelf`."""
        self.pages: list[Page] = []
        self.told: dict[str, RunSummary] = {}
        """What the owner of the catalog knows, by the stem of the name."""
        self.unsettled: set[str] = set()
        """Names of files read so soon after a change that the next one may not show in their times."""
        self.locks: dict[str, int] = {}
        """Inode of a lock file by the stem of its name."""
        self.held: set[str] = set()
        """The stems of the runs told as running."""
        self.touched: set[str] = set()
        """Stems of runs looked at by themselves since the directory was read: what was seen then is old."""
        self.listed = False
        """The directory was read to its end at least once."""
        self.told_from: KeptRows | None = None
        """The rows of the cache that are being told just as they stand there."""
        self._index: dict[str, Slot] | None = None

    def path_of(self, name: str) -> str:
        """Give the path of a file in the directory."""
        return os.path.join(self.directory, name)  # noqa: PTH118 - strings, as scandir gives them

    def slot(self, name: str) -> Slot | None:
        """Find a run by its file name."""
        if self._index is None:
            self._index = _index(self.pages)
        return self._index.get(name)

    def finding(self, name: str) -> Iterator[Item]:
        """Make what `slot` and a change of this run need a piece at a time; they make the rest at once."""
        index: dict[str, Slot] = {}
        pages, done = self.pages, 0
        while self._index is None:
            if self.pages is not pages:
                # The directory was read meanwhile.
                pages, done = self.pages, 0
                index.clear()
            if done == len(pages):
                self._index = index
                break
            index.update(_index(pages[done : done + 1]))
            done += 1
            if done < len(pages):
                yield Progress(0, 0)
        slot = self._index.get(name)
        if slot is not None:
            yield from _making(slot.page)

    def look(self) -> Generator[Item, None, tuple[Iterable[RunSummary], list[Unread]]]:
        """Read the directory.

        Returns:
            The rows that still stand, newest first, and the runs that have to be read.
        """
        pages: list[Page] = []
        locks: dict[str, int] = {}
        directories: list[str] = []
        report = self.report
        before = self.pages
        index: dict[str, Slot] | None = None
        self.touched.clear()
        for found in read_directory(self.root):
            if isinstance(found, RootReport):
                report = found
                continue
            locks.update(found.locks)
            directories += found.directories
            page = before[len(pages)] if len(pages) < len(before) else None
            if page is None or not page.matches(found):
                if index is None:
                    index = {}
                    for page_before in before:
                        yield from _making(page_before)
                        index.update(_index((page_before,)))
                        yield Progress(0, 0)
                page = _page(found, index)
            pages.append(page)
            yield Progress(0, 0)
        self.pages, self.locks, self.report, self.listed = pages, locks, report, True
        self.directories = tuple(directories)
        self._index = None
        if self.told and (index is not None or len(pages) < len(before)):
            names = {name for page in pages for name in page.names}
            self.unsettled &= names
            for stem in [stem for stem in self.told if stem + SUFFIX not in names]:
                yield from self.finding(stem + SUFFIX)
                # A run that came while the directory was read does not stand in what was read.
                if not os.path.lexists(self.path_of(stem + SUFFIX)):
                    yield from self.forget(stem)
        self.told_from = _unchanged(pages) if not self.unsettled else None
        if self.told_from is not None:
            # The rows need not be made before they are told.
            return self.told_from.newest_first(), []
        rows: list[RunSummary] = []
        unread: list[Unread] = []
        for page in pages:
            yield from _making(page)
            self._sort_out(page, rows, unread)
            yield Progress(0, 0)
        rows.sort(key=_updated, reverse=True)
        return rows, unread

    def lost(self) -> list[Unread]:
        """Give the runs that have to be read because their rows in the cache turned out to be none."""
        rows: list[RunSummary] = []
        unread: list[Unread] = []
        if self.told_from is not None and self.told_from.is_broken:
            for page in self.pages:
                self._sort_out(page, rows, unread)
        self.told_from = None
        return unread

    def _sort_out(self, page: Page, rows: list[RunSummary], unread: list[Unread]) -> None:
        count = page.count
        mtimes = page.stamps[count : 2 * count]
        if not self.unsettled and all(page.rows):
            rows += page.rows  # type: ignore[arg-type] # none of them is None
        elif not any(page.rows):
            unread += zip(mtimes, range(count), repeat(page), repeat(self))
        else:
            for place, row in enumerate(page.rows):
                if row is None or page.names[place] in self.unsettled:
                    unread.append((mtimes[place], place, page, self))
                else:
                    rows.append(row)

    def look_at(self, found: Candidate, lock: int) -> Slot:
        """Take over a look at a single run; its row stands only if the file has not changed."""
        name = found.stem + SUFFIX
        self.touched.add(found.stem)
        if lock:
            self.locks[found.stem] = lock
        else:
            self.locks.pop(found.stem, None)
        stamp = packed([found.size, found.mtime_ns, found.ctime_ns, found.inode, found.mode])
        slot = self.slot(name)
        if slot is None:
            slot = Slot(Page(name, stamp, [None]), 0)
            self.pages.append(slot.page)
            if self._index is not None:
                self._index[name] = slot
        elif slot.page.stamp(slot.place) != stamp:
            slot.page.change(slot.place, stamp)
        return slot

    def row(self, slot: Slot) -> RunSummary | None:
        """Give the row at a place if it stands."""
        row = slot.page.rows[slot.place]
        return None if slot.page.names[slot.place] in self.unsettled else row

    def is_done(self, slot: Slot) -> bool:
        """Say whether a run need not be read any more: somebody asked for it meanwhile, or it is gone."""
        return not slot.page.names[slot.place] or self.row(slot) is not None

    def candidate(self, slot: Slot) -> Candidate:
        """Give what is known of the file at a place."""
        name = slot.page.names[slot.place]
        size, mtime_ns, ctime_ns, inode, mode = slot.page.stamp(slot.place)
        note = "" if mode else "the system refuses"
        return Candidate(
            self.path_of(name), name[: -len(SUFFIX)], size, mtime_ns, ctime_ns, inode, mode, note
        )

    def keep(self, slot: Slot, row: RunSummary, *, settled: bool) -> None:
        """Remember a row for as long as its file does not change."""
        slot.page.rows[slot.place] = row
        name = slot.page.names[slot.place]
        if settled:
            self.unsettled.discard(name)
        else:
            self.unsettled.add(name)

    def tell_all(self, rows: Iterable[RunSummary], held: Collection[str]) -> Iterator[RunSummary]:
        """Give the rows of a reading of the directory that were not told like that before."""
        told, touched = self.told, self.touched
        first = not (told or held)
        for row in rows:
            if first and not touched and not self.held:
                # Nothing else is known of any run: there is nothing to compare a row with.
                told[row.id] = row
                yield row
                continue
            if touched and row.id in touched:
                continue
            if held or self.held:
                shown = self.tell(row, held)
                if shown is not None:
                    yield shown
                continue
            before = told.get(row.id)
            if before is None or (before is not row and before != row):
                told[row.id] = row
                yield row

    def tell(self, row: RunSummary, held: Collection[str]) -> RunSummary | None:
        """Give a row as it is now, or None where it was told like that before."""
        stem = row.id
        if held and stem in held and _NEVER_HELD.isdisjoint(row.problems):
            self.held.add(stem)
            row = msgspec.structs.replace(row, status=RUNNING.name, rule=RUNNING.rule)
        elif self.held:
            self.held.discard(stem)
        before = self.told.get(stem)
        if before is not None and (before is row or before == row):
            return None
        self.told[stem] = row
        return row

    def held_now(self, locked: AbstractSet[int]) -> set[str]:
        """Give the stems of the runs that are held: their lock file, or the journal itself."""
        if not locked:
            return set()
        stems = {stem for stem, inode in self.locks.items() if inode in locked}
        for page in self.pages:
            inodes = page.inodes()
            if not locked.isdisjoint(inodes):
                names = zip(page.names, inodes, strict=True)
                stems.update([name[: -len(SUFFIX)] for name, inode in names if inode in locked])
        return stems

    def forget(self, stem: str) -> Iterator[Item]:
        """Drop a run that is gone; tell so if it was told of."""
        slot = self.slot(stem + SUFFIX)
        if slot is not None:
            slot.page.empty(slot.place)
            if self._index is not None:
                del self._index[stem + SUFFIX]
        self.unsettled.discard(stem + SUFFIX)
        self.held.discard(stem)
        if self.told.pop(stem, None) is not None:
            yield Gone(self.path_of(stem + SUFFIX))


def _making(page: Page) -> Iterator[Item]:
    """Make the rows of a page that the cache keeps, in small pieces of work."""
    for _ in page.making():
        yield Progress(0, 0)


def _unchanged(pages: Sequence[Page]) -> KeptRows | None:
    """Give the rows of the cache where these pages are all that it keeps of a directory, and unchanged."""
    kept = pages[0].kept if pages else None
    if kept is None or kept.stretches != len(pages) or any(page.kept is not kept for page in pages):
        return None
    return kept


def _index(pages: Sequence[Page]) -> dict[str, Slot]:
    index = {name: Slot(page, place) for page in pages for place, name in enumerate(page.names)}
    index.pop("", None)
    return index


def _page(found: Stretch, index: Mapping[str, Slot]) -> Page:
    """Give the page of a stretch, with the rows of the runs that have not changed."""
    page = Page(found.names, found.stamps, [None] * (len(found.stamps) // 5))
    for place, name in enumerate(page.names) if index else ():
        known = index.get(name)
        if known is not None and known.page.stamp(known.place) == page.stamp(place):
            page.rows[place] = known.page.rows[known.place]
    return page
