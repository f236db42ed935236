"""A search over all runs as the screen sees it: what was found, how far it is, and how far the index is."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from refold.app.own_child import OwnChild
from refold.app.present import units
from refold.app.search_words import Ask, Found, Indexed, Went, Where, said, spoken
from refold.core.search_hits import Hit, ranked
from refold.core.search_text import Query, QueryError, parse_query
from refold.core.store.search import Reach

if TYPE_CHECKING:
    from refold.app.settings import Settings


class Searching:
    """Asks one query after the other of a process of its own. Use it on the thread of the event loop."""

    def __init__(self, settings: Settings) -> None:
        """Prepare to search; nothing is started yet.

        Args:
            settings: Where to look, and where the index lies; without a cache there is none.
        """
        self.query: Query | None = None
        """What is searched for; None for nothing."""
        self.reach: Reach | None = None
        """How far the search is."""
        self.is_searching = False
        self.problem = ""
        """Why nothing can be searched for."""
        self._settings = settings
        self._child: OwnChild | None = None
        self._number = 0
        self._hits: list[Hit] = []
        self._ranked: list[Hit] | None = []
        self._indexed: Indexed | None = None

    @property
    def is_indexing(self) -> bool:
        """Whether the index is being brought up to date."""
        return self._indexed is not None and not self._indexed.ended

    @property
    def index_words(self) -> str:
        """How far the index is, or why there is none."""
        indexed, reach = self._indexed, self.reach
        if reach is not None and reach.problem:
            return reach.problem
        if indexed is None:
            return "no index: the cache is off" if self._settings.cache_dir is None else ""
        if indexed.problem:
            return indexed.problem
        if not indexed.ended:
            part = 100 * indexed.done // max(1, indexed.total)
            return f"indexing {min(99, part)}% of {units.size(indexed.total)}"
        return f"index {units.size(indexed.size)}"

    def hits(self) -> list[Hit]:
        """Give what was found, best first."""
        if self._ranked is None:
            self._ranked = ranked(self._hits)
        return self._ranked

    def ask(self, text: str) -> None:
        """Search for something else; an empty text, or one without a word, searches for nothing."""
        self._number += 1
        self._hits, self._ranked, self.reach = [], [], None
        try:
            self.query = parse_query(text)
        except QueryError:
            self.query = None
        self.is_searching = self.query is not None
        if self.is_searching and self._child is not None:
            self._child.tell(spoken(Ask(self._number, text)))

    async def changes(self) -> AsyncGenerator[None, None]:
        """Yield whenever something is another; the process is started at once, and again should it end."""
        for _ in range(3):
            try:
                self._child = OwnChild.start("refold.app.search_child")
            except OSError as error:
                self._end(f"no process can be started to search: {error.strerror or error}")
                yield
                return
            settings = self._settings
            roots = [(str(root.path), root.hint) for root in settings.roots]
            cache = None if settings.cache_dir is None else str(settings.cache_dir)
            self._child.tell(spoken(Where(roots, cache)))
            if self.query is not None:
                # It begins again: what the one before it found is found once more.
                self._hits, self._ranked, self.reach = [], [], None
                self.is_searching = True
                self._child.tell(spoken(Ask(self._number, self.query.source)))
            async for value in self._child.each():
                self._take(said(value))
                yield
        self._end("the process that searches has ended: search again from the list of runs")
        yield

    def _take(self, told: Found | Went | Indexed) -> None:
        if isinstance(told, Indexed):
            self._indexed = told
            return
        if told.number != self._number:
            return
        if isinstance(told, Went):
            self.reach, self.is_searching = told.reach, not told.ended
            return
        if told.wrong:
            wrong = frozenset(told.wrong)
            self._hits = [hit for hit in self._hits if hit.file not in wrong]
        self._hits += told.hits
        self._ranked = None

    def _end(self, problem: str) -> None:
        self.problem = problem
        self.is_searching = False

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.kill()
            self._child = None
