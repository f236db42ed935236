"""The process that searches all runs and keeps the index, so that neither ever holds the screen.

A query goes before the index, and a newer query before an older one. The index is brought up to date when a
query was answered, and left alone until there is another.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from refold.app.own_child import Parent
from refold.app.search_words import Ask, Found, Indexed, Went, Where, spoken
from refold.core.search_hits import Hit
from refold.core.search_text import QueryError, parse_query
from refold.core.store.search import Reach, Wrong, search
from refold.core.store.search_database import IndexProblem
from refold.core.store.search_index import SearchIndex, open_index, open_to_build
from refold.core.store.search_source import Source, find_sources

_EVERY: Final = 0.05
"""Seconds between two messages while hits stream in; the first hit is told at once."""
_INDEX_EVERY: Final = 0.25
_AT_ONCE: Final = 100
"""Hits in one message: whoever reads it does nothing else meanwhile."""
_NICE: Final = 10
"""A screen on a busy machine waits for none of this."""


class Searcher:
    """Answers queries, and between them indexes what is new."""

    def __init__(self, parent: Parent, where: Where) -> None:
        self._parent = parent
        self._roots = where.as_roots()
        self._cache = Path(where.cache) if where.cache is not None else None
        self._index: SearchIndex | None = None
        self._building: Iterator[int] | None = None
        self._is_stale = False
        self._done = self._total = 0
        self._told = 0.0

    def run(self) -> None:
        """Answer until the parent is gone."""
        while True:
            while not self._parent.heard() and self._step():
                pass
            ask = msgspec.convert(self._parent.hear(), Ask)
            while self._parent.heard():
                ask = msgspec.convert(self._parent.hear(), Ask)
            self._answer(ask)

    def _answer(self, ask: Ask) -> None:
        sources = find_sources(self._roots)
        self._is_stale = True
        problem = self._open()
        try:
            query = parse_query(ask.text)
        except QueryError:
            self._parent.tell(spoken(Went(ask.number, Reach(0, len(sources)), ended=True)))
            return
        reach = Reach(0, len(sources))
        hits: list[Hit] = []
        wrong: list[str] = []
        told, first = time.monotonic(), True
        for one in search(query, sources, self._index):
            match one:
                case Hit():
                    hits.append(one)
                case Wrong(file):
                    hits = [hit for hit in hits if hit.file != file]
                    wrong.append(file)
                case Reach():
                    reach = one
            now = time.monotonic()
            if now - told >= _EVERY or (hits and first):
                told, first = now, first and not hits
                self._tell(ask.number, hits, wrong, reach)
                hits, wrong = [], []
            if self._parent.heard():
                return
        if problem and not reach.problem:
            reach = reach._replace(problem=problem)
        self._tell(ask.number, hits, wrong, reach, ended=True)

    def _tell(
        self, number: int, hits: list[Hit], wrong: list[str], reach: Reach, *, ended: bool = False
    ) -> None:
        for start in range(0, max(len(hits), bool(wrong)), _AT_ONCE):
            self._parent.tell(spoken(Found(number, hits[start : start + _AT_ONCE], wrong)))
            wrong = []
        self._parent.tell(spoken(Went(number, reach, ended)))

    def _open(self) -> str:
        """Open the index to write to it, else to read it; say why it is of no use."""
        if self._cache is None or (self._index is not None and self._index.may_build):
            return ""
        if self._index is not None:
            self._index.close()
            self._index = None
        problem = ""
        try:
            self._index = open_to_build(self._cache)
        except IndexProblem as error:
            problem = str(error)
            try:
                self._index = open_index(self._cache)
            except IndexProblem:
                self._index = None
            else:
                # Another Refold keeps it: it is as good as ours.
                problem = "" if self._index is not None else problem
        return problem

    def _step(self) -> bool:
        """Index a little; False where there is nothing to do."""
        if self._building is None and not (self._is_stale and self._may_build):
            return False
        try:
            if self._building is None:
                self._building = self._begin(find_sources(self._roots))
            taken = next(self._building)
        except StopIteration:
            self._building = None
            self._tell_index(ended=True)
        except (IndexProblem, sqlite3.Error) as error:
            self._building = None
            self._is_stale = False
            self._tell_index(ended=True, problem=str(error))
            if self._index is not None:
                self._index.close()
                self._index = None
        else:
            self._done += taken
            if time.monotonic() - self._told >= _INDEX_EVERY:
                self._tell_index(ended=False)
        return True

    @property
    def _may_build(self) -> bool:
        return self._index is not None and self._index.may_build

    def _begin(self, sources: Sequence[Source]) -> Iterator[int]:
        assert self._index is not None  # noqa: S101 - asked for before
        self._is_stale = False
        self._total = sum(source.size for source in sources)
        self._done = self._total - self._index.missing(sources)
        return self._index.build(sources)

    def _tell_index(self, *, ended: bool, problem: str = "") -> None:
        self._told = time.monotonic()
        size = self._index.size() if self._index is not None else 0
        self._parent.tell(spoken(Indexed(self._done, self._total, ended, size, problem)))


def main() -> None:
    """Search for the process that started this one, and let that go first."""
    os.nice(_NICE)
    parent = Parent()
    Searcher(parent, msgspec.convert(parent.hear(), Where)).run()


if __name__ == "__main__":
    main()
