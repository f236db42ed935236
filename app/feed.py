"""What the directories of runs say, told as it becomes known, from the first look to the last append."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from refold.app.loading import one_slice, others_first
from refold.app.log import record_fault
from refold.app.noted_rows import NotedRows
from refold.app.present.runs import Loading
from refold.core.store.catalog import Catalog, Gone, Item, Root
from refold.core.store.roots import RootReport
from refold.core.summary import RunSummary


class Told(NamedTuple):
    """One slice of news."""

    runs: tuple[RunSummary, ...] = ()
    gone: tuple[str, ...] = ()
    loading: Loading = Loading()


class Feed:
    """Drives a catalog: what was asked for by name goes first, the reading of all goes on beside it."""

    def __init__(
        self,
        roots: Sequence[Root],
        *,
        cache: Path | None,
        notes: Path | None = None,
        log_file: Path | None = None,
    ) -> None:
        """Prepare a feed.

        Args:
            roots: The directories.
            cache: The directory of the cache; None to do without.
            notes: Where the notes lie that are joined to the rows; None to do without.
            log_file: Where faults of ours with single runs are told; None for nowhere.
        """
        self._catalog = Catalog(roots, cache=cache, fault=partial(record_fault, log_file))
        self._noted = None if notes is None else NotedRows(notes, cache)
        self._directories = frozenset(str(root.path) for root in roots)
        self._scan: Iterator[Item] | None = None
        self._paths: dict[str, None] = {}
        self._again: dict[str, None] = {}
        self._holders = False
        self._notes = False
        self._wake = asyncio.Event()
        self._loading = Loading()

    @property
    def reports(self) -> tuple[RootReport, ...]:
        """What the last look found in each directory."""
        return self._catalog.roots_report()

    def look_at(self, paths: Iterable[str]) -> None:
        """Look again at runs or directories that changed."""
        for path in paths:
            # A directory is being read as a whole already; what this pass may have missed comes after it.
            later = self._scan is not None and path in self._directories
            (self._again if later else self._paths)[path] = None
        self._wake.set()

    def look_at_all(self) -> None:
        """Look again at everything."""
        self._scan = self._items(self._catalog.scan())
        self._loading = Loading()
        self._wake.set()

    def look_for_holders(self) -> None:
        """Look again at who holds which run."""
        self._holders = True
        self._wake.set()

    def look_at_notes(self) -> None:
        """Look again at what is noted about the runs."""
        self._notes = self._noted is not None
        self._wake.set()

    async def told(self) -> AsyncGenerator[Told, None]:
        """Yield the news for ever, each after a slice of work of a few milliseconds."""
        self._scan = self._items(self._catalog.scan())
        urgent: Iterator[Item] | None = None
        while True:
            urgent = urgent or self._urgent()
            work = urgent or self._scan
            if work is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            items, ended = one_slice(work)
            if ended and work is self._scan:
                self._scan_ended()
            if ended and work is urgent:
                urgent = None
            yield self._told(items)
            await others_first()

    def close(self) -> None:
        """Close the files that were kept open, and keep in the cache what was read."""
        self._catalog.close()
        if self._noted is not None:
            self._noted.close()

    def _urgent(self) -> Iterator[Item] | None:
        if self._paths:
            paths, self._paths = self._paths, {}
            if self._scan is not None:
                # The reading of everything may still hold what it saw of these files before they changed.
                self._again.update(paths)
            return self._items(self._catalog.refresh(paths))
        if self._holders:
            self._holders = False
            return self._items(self._catalog.refresh_holders())
        # Thousands of notes that no cache knows are read when the rows are there.
        if self._notes and self._noted is not None and (self._scan is None or not self._noted.is_behind):
            self._notes = False
            return self._noted.again()
        return None

    def _items(self, items: Iterator[Item]) -> Iterator[Item]:
        return items if self._noted is None else self._noted.joined(items)

    def _scan_ended(self) -> None:
        self._scan = None
        self._notes = self._notes or (self._noted is not None and self._noted.is_behind)
        self._loading = self._loading._replace(finished=True)
        self._paths.update(self._again)
        self._again.clear()

    def _told(self, items: list[Item]) -> Told:
        runs: list[RunSummary] = []
        gone: list[str] = []
        for item in items:
            if isinstance(item, RunSummary):
                runs.append(item)
            elif isinstance(item, Gone):
                gone.append(item.path)
            elif item.total:
                self._loading = self._loading._replace(done=item.done, total=item.total)
        return Told(tuple(runs), tuple(gone), self._loading)
