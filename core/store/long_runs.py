"""What is kept of long runs between two looks at a list: readers of growing ones, indexes of the others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from refold.core.store.growing import Change
from refold.core.store.reader import RunReader
from refold.core.store.roots import LONG, Candidate

if TYPE_CHECKING:
    from refold.core.store.in_turn import InTurn

_LIVE_READERS = 2
"""Long runs that grow keep their index, so that only what is new is read."""


class LongRuns:
    """Gives a reader for each run of a list, and takes it back when the run was read."""

    def __init__(self, cache: Path | None, fault: Callable[[Exception], object]) -> None:
        """Prepare; nothing is opened.

        Args:
            cache: Where finished indexes are kept; None for nowhere.
            fault: Told of each error that is a fault of ours.
        """
        self._cache = cache
        self._fault = fault
        self._live: OrderedDict[str, RunReader] = OrderedDict()
        self._beside: InTurn | None = None

    def close(self) -> None:
        """Close the files kept open; what is being written into the cache is waited for."""
        while self._live:
            self._live.popitem()[1].close()
        if self._beside is not None:
            self._beside.close()

    def reader(self, found: Candidate, hint: str) -> RunReader:
        """Give the reader that already knows the beginning of a run, or a new one; raise StoreError."""
        reader = self._live.pop(found.path, None)
        if reader is not None:
            if reader.poll() in {Change.SAME, Change.GREW}:
                return reader
            reader.close()
        cache = self._cache if found.size > LONG else None
        return RunReader.open(Path(found.path), hint=hint, cache=cache)

    def take_back(self, found: Candidate, reader: RunReader, *, settled: bool) -> None:
        """Close a reader that has read its run, or keep it where more is to come."""
        if not settled and found.size > LONG:
            self._live[found.path] = reader
            if len(self._live) > _LIVE_READERS:
                self._live.popitem(last=False)[1].close()
            return
        try:
            if settled and self._cache is not None and found.size > LONG:
                self._keep_index(reader, self._cache)
        finally:
            reader.close()

    def _keep_index(self, reader: RunReader, cache: Path) -> None:
        """Keep a finished index; whoever reads the list does not wait for the disk."""
        keeping = reader.keeping(cache)
        if keeping is not None:
            if self._beside is None:
                from refold.core.store.in_turn import InTurn

                self._beside = InTurn(self._fault)
            self._beside.do(keeping)
