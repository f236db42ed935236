"""The search of an open run: begun, carried on beside everything else, walked through, ended."""

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
    from refold.app.child_hunt import ChildHunt
    from refold.app.present.find import Hunt

_REDRAW: Final = 0.1


class RunFind:
    """One search at a time; the first match is gone to at once, the others are counted meanwhile."""

    def __init__(self) -> None:
        self.query = ""
        """What is searched for; empty while nothing is."""
        self._hunt: Hunt | ChildHunt | None = None

    def pattern_at(self, item: int) -> re.Pattern[str] | None:
        """Give what is marked where an item is shown; None where nothing is."""
        if not self.query:
            return None
        from refold.app.present.find import Hunt

        if self._hunt is not None and not isinstance(self._hunt, Hunt):
            return self._hunt.pattern_at(item)
        from refold.core.search import text_pattern

        return text_pattern(self.query)

    def pattern_beside(self, item: int) -> re.Pattern[str] | None:
        """Give what is marked beside the rows, where an item is shown; None where nothing is."""
        from refold.app.present.find import Hunt

        if self._hunt is not None and not isinstance(self._hunt, Hunt):
            return self._hunt.pattern_beside(item)
        return self.pattern_at(item)

    @property
    def marks(self) -> tuple[str, int]:
        """What changes whenever something else is marked."""
        from refold.app.present.find import Hunt

        grows = self._hunt is not None and not isinstance(self._hunt, Hunt)
        return self.query, len(self._hunt.hits) if self._hunt is not None and grows else 0

    @property
    def found(self) -> bool:
        """Whether any record matches, as far as is known."""
        return self._hunt is not None and bool(self._hunt.hits)

    @property
    def outstanding(self) -> bool:
        """Whether records came after the search was done."""
        return self._hunt is not None and self._hunt.complete and self._hunt.outstanding

    @property
    def problem(self) -> str:
        """Why the search ended early; empty where it did not."""
        from refold.app.present.find import Hunt

        return "" if self._hunt is None or isinstance(self._hunt, Hunt) else self._hunt.problem

    def begin(self, reader: RunReader, query: str, item: int) -> None:
        """Look for a text, for a regular expression between slashes, or for words behind `words:`.

        Nothing happens before `work` is awaited.
        """
        from refold.core.search import expression_of, words_of

        self._close()
        self.query = query
        if expression_of(query) is not None or words_of(query) is not None:
            from refold.app.child_hunt import ChildHunt

            self._hunt = ChildHunt(reader, query, item)
            return
        from refold.app.present.find import Hunt

        self._hunt = Hunt(reader, query, item)

    def stop(self) -> None:
        """Look for nothing."""
        self._close()
        self._hunt = None
        self.query = ""

    def _close(self) -> None:
        from refold.app.present.find import Hunt

        if self._hunt is not None and not isinstance(self._hunt, Hunt):
            self._hunt.close()

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
        count = units.grouped(len(hunt.hits))
        if not hunt.complete and not self.problem:
            count += "…"
        where = f"{count} record{'' if count == '1' else 's'}"
        if place is not None:
            where = f"{place} of {where}"
        if self.problem:
            where += ", stopped"
        from refold.core.search import expression_of, words_of

        words = words_of(hunt.query)
        shown: Line = (cell(hunt.query if words is None else words, "match", 20),)
        if words is not None:
            shown = (cell("words ", "dim"), *shown)
        elif expression_of(hunt.query) is None:
            shown = (cell("/", "dim"), *shown)
        return (*shown, Cell(Safe(f" {where}  "), "dim"))

    async def work(self, go: Callable[[int], None], changed: Callable[[], None]) -> None:
        """Search until everything that is there was looked at.

        Args:
            go: Puts the cursor on an item: the first match.
            changed: Is called when there is something else to tell.
        """
        hunt = self._hunt
        if hunt is None:
            return
        first = not hunt.complete
        drawn = time.perf_counter()

        def look() -> None:
            nonlocal first, drawn
            if first and hunt.hits:
                first = False
                go(hunt.hits[0])
                changed()
            if time.perf_counter() - drawn > _REDRAW:
                drawn = time.perf_counter()
                changed()

        from refold.app.present.find import Hunt

        if isinstance(hunt, Hunt):
            await _in_slices(hunt, look)
        else:
            await hunt.work(look)
        if first and hunt.hits:
            go(hunt.hits[0])
        changed()


async def _in_slices(hunt: Hunt, look: Callable[[], None]) -> None:
    deadline = time.perf_counter() + SLICE
    for _ in hunt.steps():
        look()
        if time.perf_counter() < deadline:
            continue
        await others_first()
        deadline = time.perf_counter() + SLICE
