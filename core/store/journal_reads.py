"""From journals to their rows: one after the other in slices, of those that grow only what is new.

A list whose rows all stand in the cache reads none, and need not load this, nor what it takes to read one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final

from refold.core.errors import BadRecord, RunNotFound, StoreError
from refold.core.store import list_cache
from refold.core.store.files import odd_kind
from refold.core.store.long_runs import LongRuns
from refold.core.store.roots import Candidate
from refold.core.store.shelf import Item, Progress, Shelf, Slot
from refold.core.store.summarise import (
    SHORT,
    empty,
    failed_on,
    not_a_file,
    preview,
    summarise,
    summarise_usual,
    unopened,
)
from refold.core.summary import RunSummary

SLICE: Final = 0.0015
"""Seconds that one step may take."""


class JournalReads:
    """Reads journals, and remembers the last long ones that were being written."""

    def __init__(self, cache: Path | None, fault: Callable[[Exception], object]) -> None:
        """Begin with none.

        Args:
            cache: Where finished indexes are kept; None for nowhere.
            fault: Told of each error that is a fault of ours; the run stands in the list with its type.
        """
        self._fault = fault
        self._long = LongRuns(cache, fault)

    def close(self) -> None:
        """Close the files kept open; what is being written into the cache is waited for."""
        self._long.close()

    def read(
        self, shelf: Shelf, slot: Slot, found: Candidate, looked_ns: int, progress: Progress
    ) -> Generator[Item, None, RunSummary | None]:
        """Read a run to its end.

        Args:
            shelf: Where it stands; it takes the row.
            slot: Its place there.
            found: What is known of its file.
            looked_ns: When the look began that found it changed.
            progress: What is told while it is read.

        Returns:
            Its row; None where the run is gone.
        """
        settled = list_cache.is_settled(found, looked_ns)
        try:
            row = yield from self._summary(found, shelf.hint, progress, settled=settled)
        except RunNotFound:
            yield from shelf.forget(found.stem)
            return None
        except StoreError as error:
            return unopened(found, error, hint=shelf.hint)
        except Exception as error:  # a fault of ours with one run must not take the others from the list
            self._fault(error)
            return failed_on(found, error, hint=shelf.hint)
        if not odd_kind(found.mode):
            shelf.keep(slot, row, settled=settled)
        return row

    def _summary(
        self, found: Candidate, hint: str, progress: Progress, *, settled: bool
    ) -> Generator[Item, None, RunSummary]:
        if odd_kind(found.mode):
            return not_a_file(found, hint=hint)
        if not found.size:
            return empty(found, hint=hint)
        usual = summarise_usual(found, hint=hint) if found.size <= SHORT else None
        if usual is not None:
            return usual
        reader = self._long.reader(found, hint)
        try:
            while not reader.step(SLICE):
                yield progress
            row = summarise(found, reader)
        except BaseException:
            reader.close()
            raise
        self._long.take_back(found, reader, settled=settled)
        return row

    def first_row(self, shelf: Shelf, found: Candidate) -> RunSummary | None:
        """Give a first row from bounded reads; None where they do not tell."""
        try:
            return preview(found, hint=shelf.hint)
        except (BadRecord, StoreError):  # the reading in full says why
            return None
        except Exception as error:  # as in `read`: one run must not take the others from the list
            self._fault(error)
            return failed_on(found, error, hint=shelf.hint)
