"""The search over all runs: by the index where it reaches, by the files themselves for the rest."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from refold.core.search_hits import LIMIT, Hit
from refold.core.search_text import Query
from refold.core.store.search_database import IndexProblem
from refold.core.store.search_index import SearchIndex
from refold.core.store.search_scan import look_up, scan
from refold.core.store.search_source import Source

_FEW: Final = 20_000
"""Places that are taken from the index at once; of what stands in more, only those in the newest runs."""


class Reach(NamedTuple):
    """How far a search is, or was when it ended."""

    searched: int
    """Files that were searched."""
    total: int
    unindexed: int = 0
    """How many of all had to be read, wholly or in part."""
    problem: str = ""
    """Why the index was of no use; empty where it was, or none was asked for."""


class Wrong(NamedTuple):
    """All hits in a file that were told so far are not to be counted: they follow anew."""

    file: str


Told: TypeAlias = Hit | Reach | Wrong | None


def search(
    query: Query, sources: Sequence[Source], index: SearchIndex | None = None, *, limit: int = LIMIT
) -> Iterator[Told]:
    """Yield the hits of a query as they are found, and how far the search is; None stands between steps.

    At the end every hit was told that `ranked` keeps, in whatever way the index was used. First come those
    that the index knows, then those of what is not indexed, each from the newest run on.

    Args:
        query: What is looked for.
        sources: Where, newest run first, as `find_sources` gives them.
        index: Where words are known; None to read everything.
        limit: So many hits are wanted; what stands in older runs than these is not looked for.
    """
    hits = _Wanted(limit)
    rest: list[tuple[Source, int]] = []
    problem = ""
    if index is None:
        rest = [(source, 0) for source in sources]
    else:
        try:
            yield from _indexed(query, sources, index, hits, rest)
        except IndexProblem as error:
            problem = str(error)
            rest = [(source, 0) for source in sources]
    total, unindexed = len(sources), sum(source.size > start for source, start in rest)
    done = total - len(rest)
    yield Reach(done, total, unindexed, problem)
    for source, start in rest:
        if hits.is_past(source):
            break
        for hit in scan(query, source, start):
            if hit is not None and hits.add(hit):
                yield hit
            elif hit is None:
                yield None
            if hits.is_past(source):
                break
        done += 1
        yield Reach(done, total, unindexed, problem)
    yield Reach(total, total, unindexed, problem)


class _Wanted:
    """The places of the hits that will be kept, as far as is known."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._places: list[tuple[int, str, int, int]] = []

    def add(self, hit: Hit) -> bool:
        """Count a hit; False where it lies behind as many others as are wanted."""
        if len(self._places) >= self.limit and hit.place > self._places[self.limit - 1]:
            return False
        insort(self._places, hit.place)
        return True

    def is_past(self, source: Source) -> bool:
        """Say whether everything in a file lies behind as many hits as are wanted."""
        if len(self._places) < self.limit:
            return False
        return (-source.updated_ns, source.run, source.number) > self._places[self.limit - 1][:3]

    def forget(self, source: Source) -> None:
        """Take the hits of a file out again."""
        key = (source.run, source.number)
        self._places = [place for place in self._places if place[1:3] != key]


def _indexed(
    query: Query,
    sources: Sequence[Source],
    index: SearchIndex,
    hits: _Wanted,
    rest: list[tuple[Source, int]],
) -> Iterator[Told]:
    """Tell what the index knows; put into `rest` what has to be read, and from where."""
    index.refresh()
    places = index.places(query, _FEW)
    for source in sources:
        standing = index.standing(source)
        if standing is None:
            rest.append((source, 0))
            continue
        if source.kind == "lines" and standing.upto < source.size:
            rest.append((source, standing.upto))
        if hits.is_past(source):
            continue
        found = (
            places.get(standing.id) if places is not None else index.places_in(query, standing, hits.limit)
        )
        if found and source.kind == "lines":
            # Another process may have indexed more since we learned how far it was: that is read below.
            found = [place for place in found if place < standing.upto]
        if not found:
            continue
        looking = look_up(query, source, found)
        while True:
            try:
                hit = next(looking)
            except StopIteration as end:
                if end.value is False:
                    yield Wrong(source.file)
                    hits.forget(source)
                    rest[:] = [(other, start) for other, start in rest if other.file != source.file]
                    rest.append((source, 0))
                break
            if hit is None:
                yield None
            elif hits.add(hit):
                yield hit
