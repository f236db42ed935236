"""The `text:` part of a filter, answered by the bytes of one run after the other."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from refold.core.filter import TextTerm
from refold.core.search import Search
from refold.core.store.grep import NOWHERE, Looked, grep
from refold.core.summary import RunSummary

_REMEMBERED: Final = 8
"""The answers to so many sets of texts are kept: typing goes back and forth."""


class Searched(NamedTuple):
    """One run is searched."""

    path: str
    passes: bool
    """Whether it has what is wanted, and not what is not."""


class TextSearch:
    """Searches runs and remembers the answer of each as long as its file is the same."""

    def __init__(self) -> None:
        self.hits: dict[str, bool] = {}
        """By path, the answer to the terms that were asked for last."""
        self.done = 0
        self.total = 0
        self._terms: tuple[TextTerm, ...] = ()
        self._searches: list[Search] = []
        self._looked: dict[str, Looked] = {}
        self._known: OrderedDict[tuple[str, ...], dict[str, Looked]] = OrderedDict()

    def begin(self, terms: Sequence[TextTerm]) -> None:
        """Forget the answers to other terms."""
        self.hits = {}
        self.done = self.total = 0
        self._terms = tuple(terms)
        self._searches = [search for term in terms for search in term.searches]
        queries = tuple(search.query for search in self._searches)
        self._looked = self._known.setdefault(queries, {})
        self._known.move_to_end(queries)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    def steps(self, runs: Sequence[RunSummary]) -> Iterator[Searched | None]:
        """Search these runs in order, in small steps; an answer is given when it is known."""
        self.done, self.total = 0, len(runs)
        for run in runs:
            passes = yield from self._one(run)
            self.done += 1
            yield Searched(run.path, passes)

    def again(self, runs: Sequence[RunSummary]) -> Iterator[Searched | None]:
        """Search runs that came or changed since."""
        for run in runs:
            passes = yield from self._one(run)
            yield Searched(run.path, passes)

    def _one(self, run: RunSummary) -> Generator[None, None, bool]:
        from refold.core.store.session_files import texts_of

        hits = self.hits
        found: frozenset[int] = frozenset()
        for path in texts_of(Path(run.path)):
            known = str(path)
            looked = yield from grep(path, self._searches, self._looked.get(known, NOWHERE))
            if looked is None:
                self._looked.pop(known, None)
            else:
                self._looked[known] = looked
                found |= looked.hits
        hits[run.path] = self._passes(found)
        return hits[run.path]

    def _passes(self, found: frozenset[int]) -> bool:
        number = 0
        for term in self._terms:
            there = any(number + place in found for place in range(len(term.searches)))
            if there is term.negated:
                return False
            number += len(term.searches)
        return True
