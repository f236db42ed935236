"""From run directories to their rows: one after the other in slices, of those that grow only what is new."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final

from refold.core.errors import RunNotFound, StoreError
from refold.core.rivumi.summary import closed
from refold.core.store import list_cache
from refold.core.store.session_shelf import SessionShelf
from refold.core.store.session_summary import SessionReading, preview_of
from refold.core.store.shelf import Item, Progress
from refold.core.summary import RunSummary

SLICE: Final = 0.0015
"""Seconds that one step may take."""
_SHORT: Final = 16 << 10
"""Shorter runs are read anew when they grow."""
_LIVE: Final = 4
"""So many longer runs that grow keep what was read of them."""


class SessionReads:
    """Reads run directories, and remembers the last ones that were being written."""

    def __init__(self, fault: Callable[[Exception], object] = lambda _: None) -> None:
        """Begin with none.

        Args:
            fault: Told of each error that is a fault of ours; the run stands in the list with its type.
        """
        self._fault = fault
        self._live: OrderedDict[str, SessionReading] = OrderedDict()

    def read(
        self, shelf: SessionShelf, name: str, looked_ns: int, progress: Progress
    ) -> Generator[Item, None, RunSummary | None]:
        """Read a run to its end.

        Args:
            shelf: Where it stands; it takes the row.
            name: Its name there.
            looked_ns: When the look began that found it changed.
            progress: What is told while it is read.

        Returns:
            Its row; None where the run is gone.
        """
        found, path = shelf.found(name), shelf.path_of(name)
        settled = list_cache.is_settled(shelf.candidate(name), looked_ns)
        reading = self._live.pop(path, None)
        if reading is None:
            reading = SessionReading(Path(path))
        else:
            reading.again()
        try:
            while not reading.step(SLICE):
                yield progress
            row = reading.row(found)
            settled = settled and reading.is_whole
        except RunNotFound:
            # A part of it vanished: the next look tells which.
            row, settled = closed(found, "its files went away while they were read", "E_MISSING"), False
        except StoreError as error:
            row, settled = closed(found, str(error), "E_PERM"), False
        except Exception as error:  # a fault of ours with one run must not take the others from the list
            self._fault(error)
            note = f"a fault in refold: {type(error).__name__} while reading it"
            row, settled = closed(found, note, ""), False
        else:
            if not settled and found.size > _SHORT:
                self._live[path] = reading
                if len(self._live) > _LIVE:
                    self._live.popitem(last=False)
        if not os.path.lexists(path):
            yield from shelf.forget(name)
            return None
        if name in shelf.looks:
            shelf.keep(name, row, settled=settled)
        return row


def first_row(shelf: SessionShelf, name: str) -> RunSummary | None:
    """Give a first row from bounded reads; None where they do not tell."""
    try:
        return preview_of(shelf.found(name))
    except StoreError:  # the reading in full says why
        return None
