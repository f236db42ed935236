"""The search of an open run: begun, carried on in slices beside everything else, walked through, ended."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from refold.app.lines import Cell, Line
from refold.app.loading import others_first
from refold.app.present import units
from refold.app.present.layout import cell
from refold.app.safe import Safe
from refold.app.screens.run_file import SLICE
from refold.core.store.reader import RunReader

if TYPE_CHECKING:
    from refold.app.present.find import Hunt

_REDRAW: Final = 0.1


class RunFind:
    """One search at a time; the first match is gone to at once, the others are counted meanwhile."""

    def __init__(self) -> None:
        self.query = ""
        """What is searched for; empty while nothing is."""
        self._hunt: Hunt | None = None

    @property
    def pattern(self) -> re.Pattern[str] | None:
        """The matches in what is shown."""
        if not self.query:
            return None
        from refold.core.search import text_pattern

        return text_pattern(self.query)

    @property
    def found(self) -> bool:
        """Whether any record matches, as far as is known."""
        return self._hunt is not None and bool(self._hunt.hits)

    @property
    def outstanding(self) -> bool:
        """Whether records came after the search was done."""
        return self._hunt is not None and self._hunt.complete and self._hunt.outstanding

    def begin(self, reader: RunReader, query: str, item: int) -> None:
        """Look for a text from an item on, once `work` is awaited."""
        from refold.app.present.find import Hunt

        self.query = query
        self._hunt = Hunt(reader, query, item)

    def stop(self) -> None:
        """Look for nothing."""
        self._hunt = None
        self.query = ""

    def neighbour(self, item: int, step: int) -> int | None:
        """Give the next match after (step 1) or before (step -1) an item."""
        if self._hunt is None:
            return None
        return self._hunt.after(item) if step > 0 else self._hunt.before(item)

    def words(self, item: int | None) -> Line:
        """Say what is searched for and how many records match."""
        hunt = self._hunt
        if hunt is None:
            return ()
        place = hunt.place(item) if item is not None else None
        count = f"{units.grouped(len(hunt.hits))}{'' if hunt.complete else '…'}"
        where = f"{place} of {count}" if place is not None else f"{count} found"
        return (cell("/", "dim"), cell(hunt.query, "match", 20), Cell(Safe(f" {where}  "), "dim"))

    async def work(self, go: Callable[[int], None], changed: Callable[[], None]) -> None:
        """Search in small slices.

        Args:
            go: Puts the cursor on an item: the first match.
            changed: Is called when there is something else to tell.
        """
        hunt = self._hunt
        if hunt is None:
            return
        first = not hunt.complete
        now = drawn = time.perf_counter()
        deadline = now + SLICE
        for _ in hunt.steps():
            if first and hunt.hits:
                first = False
                go(hunt.hits[0])
            now = time.perf_counter()
            if now < deadline:
                continue
            if now - drawn > _REDRAW:
                drawn = now
                changed()
            await others_first()
            deadline = time.perf_counter() + SLICE
        if first and hunt.hits:
            go(hunt.hits[0])
        changed()
