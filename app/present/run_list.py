"""The runs of the list in their order: sorted, filtered, and kept so while rows come, change and go."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from refold.core.filter import Filter, haystack
from refold.core.nearest import nearest
from refold.core.status import STATUSES
from refold.core.summary import RunSummary

_STEP: Final = 1000
"""Rows that a filter passes over in one step: about a millisecond."""
_NAMED: Final = 8
"""Forks of a run that are named; its lineage shows all."""


class Sort(NamedTuple):
    """By which column the rows are sorted, and which way round."""

    key: str = "updated"
    descending: bool = True


class Forks(NamedTuple):
    """The forks of a run."""

    total: int = 0
    named: tuple[str, ...] = ()
    """The ids of some of them, sorted: of all, where they are few."""


class _Backwards(str):
    """A text that sorts the other way round."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)


_Rank: TypeAlias = "tuple[int | float | str, str, str]"

NUMBERS: Final[Mapping[str, Callable[[RunSummary], float]]] = {
    "status": lambda run: STATUSES.index(run.status),
    "turns": lambda run: run.turns,
    "calls": lambda run: run.calls,
    "errors": lambda run: run.errors,
    "tokens": lambda run: run.tokens,
    "updated": lambda run: run.updated,
    "size": lambda run: run.size,
    "star": lambda run: run.kept.star,
}
TEXTS: Final[Mapping[str, Callable[[RunSummary], str]]] = {
    "id": lambda run: (run.kept.name or run.id).casefold(),
    "tags": lambda run: " ".join(run.kept.tags).casefold(),
    "agent": lambda run: run.format,
    "model": lambda run: run.model.casefold(),
    "prompt": lambda run: run.prompt[:200].casefold(),
    "created": lambda run: run.created,
    "directory": lambda run: run.path.rpartition("/")[0],
}
FIRST_DESCENDING: Final = frozenset(
    {"turns", "calls", "errors", "tokens", "updated", "size", "created", "star"}
)
"""What one wants to see the most of, or the newest, when sorting by it."""


class _Entry:
    """A row with what is worked out once for it."""

    __slots__ = ("folded", "rank", "summary")

    def __init__(self, summary: RunSummary, rank: _Rank) -> None:
        self.summary = summary
        self.folded = haystack(summary)
        self.rank = rank


class _Ordered:
    """Entries in the order of their ranks."""

    def __init__(self) -> None:
        self.ranks: list[_Rank] = []
        self.entries: list[_Entry] = []

    def add(self, entry: _Entry) -> None:
        at = bisect_left(self.ranks, entry.rank)
        self.ranks.insert(at, entry.rank)
        self.entries.insert(at, entry)

    def remove(self, entry: _Entry) -> None:
        at = self.place(entry)
        if at is not None:
            del self.ranks[at]
            del self.entries[at]

    def place(self, entry: _Entry) -> int | None:
        at = bisect_left(self.ranks, entry.rank)
        return at if at < len(self.entries) and self.entries[at] is entry else None

    def fill(self, entries: list[_Entry]) -> None:
        self.entries = entries
        self.ranks = [entry.rank for entry in entries]


class RunList:
    """All runs that are known, and those of them that the filter shows, each keyed by its path."""

    def __init__(self) -> None:
        self.sort = Sort()
        self.filter = Filter()
        self._by_path: dict[str, _Entry] = {}
        self._forks: dict[str, dict[str, str]] = {}
        """By the id of a parent, the ids of its forks by their paths."""
        self._all = _Ordered()
        self._shown = self._all
        self._hits: Mapping[str, bool] = {}
        self._touched: set[str] | None = None

    def __len__(self) -> int:
        return len(self._shown.entries)

    def __getitem__(self, index: int) -> RunSummary:
        return self._shown.entries[index].summary

    @property
    def total(self) -> int:
        """How many runs are known."""
        return len(self._by_path)

    @property
    def hidden(self) -> int:
        """How many of them the filter hides."""
        return self.total - len(self)

    def run(self, path: str) -> RunSummary | None:
        """Give the row of a path, shown or not."""
        entry = self._by_path.get(path)
        return None if entry is None else entry.summary

    def index_of(self, path: str) -> int | None:
        """Give the place of a run among the shown ones."""
        entry = self._by_path.get(path)
        return None if entry is None else self._shown.place(entry)

    def forks(self, run: RunSummary) -> Forks:
        """Tell of the runs that say to be forks of this one; at the same cost however many."""
        forks = self._forks.get(run.id, {})
        some = [fork for path, fork in islice(forks.items(), _NAMED + 1) if path != run.path]
        return Forks(len(forks) - (run.path in forks), tuple(sorted(some[:_NAMED])))

    def shown(self) -> list[RunSummary]:
        """Give the shown runs in order, as they stand now."""
        return [entry.summary for entry in self._shown.entries]

    def every(self) -> list[RunSummary]:
        """Give all runs in order, also those that the filter hides."""
        return [entry.summary for entry in self._all.entries]

    def candidates(self) -> list[RunSummary]:
        """Give the runs that pass all of the filter but its text terms, in order."""
        matches = self.filter.matches
        return [entry.summary for entry in self._all.entries if matches(entry.summary, entry.folded)]

    def put(self, summary: RunSummary) -> None:
        """Take a new row, or a changed one in place of the one before."""
        entry = _Entry(summary, self._rank(summary))
        self.drop(summary.path)
        self._by_path[summary.path] = entry
        if summary.parent:
            self._forks.setdefault(summary.parent, {})[summary.path] = summary.id
        self._all.add(entry)
        if self._shown is not self._all and self._passes(entry):
            self._shown.add(entry)
        if self._touched is not None:
            self._touched.add(summary.path)

    def drop(self, path: str) -> None:
        """Forget a run."""
        entry = self._by_path.pop(path, None)
        if entry is None:
            return
        parent = entry.summary.parent
        if parent:
            forks = self._forks[parent]
            del forks[path]
            if not forks:
                del self._forks[parent]
        self._all.remove(entry)
        if self._shown is not self._all:
            self._shown.remove(entry)

    def sort_by(self, sort: Sort) -> None:
        """Bring all rows into another order."""
        self.sort = sort
        for entry in self._by_path.values():
            entry.rank = self._rank(entry.summary)
        for ordered in {id(part): part for part in (self._all, self._shown)}.values():
            ordered.fill(sorted(ordered.entries, key=_rank_of))

    def narrow(self, wanted: Filter, hits: Mapping[str, bool] | None = None) -> Iterator[None]:
        """Show the runs that pass a filter; what is shown changes with the last step.

        Args:
            wanted: The filter.
            hits: By path, whether the bytes of a run pass the text terms; a run that is not in it is not
                searched yet and not shown. The mapping is looked at again for each row that comes later.
        """
        answers = {} if hits is None else hits
        self._touched = set()
        shown: list[_Entry] = []
        entries = list(self._all.entries)
        for start in range(0, len(entries), _STEP):
            if start:
                yield
            part = entries[start : start + _STEP]
            shown += [entry for entry in part if _passes(entry, wanted, answers)]
        touched, self._touched = self._touched, None
        self.filter, self._hits = wanted, answers
        if not wanted:
            self._shown = self._all
            return
        by_path = self._by_path
        self._shown = _Ordered()
        still = [entry for entry in shown if by_path.get(entry.summary.path) is entry]
        self._shown.fill(sorted(still, key=_rank_of))
        for path in touched:
            entry = by_path.get(path)
            if entry is not None and self._passes(entry) and self._shown.place(entry) is None:
                self._shown.add(entry)

    def found(self, path: str) -> None:
        """Show a run whose bytes turned out to pass, or hide it again, by what the hits say now."""
        entry = self._by_path.get(path)
        if entry is None or self._shown is self._all:
            return
        there = self._shown.place(entry) is not None
        passes = self._passes(entry)
        if passes and not there:
            self._shown.add(entry)
        elif there and not passes:
            self._shown.remove(entry)

    def _passes(self, entry: _Entry) -> bool:
        return _passes(entry, self.filter, self._hits)

    def _rank(self, summary: RunSummary) -> _Rank:
        key, descending = self.sort
        first: float | str
        if key in NUMBERS:
            number = NUMBERS[key](summary)
            first = -number if descending else number
        else:
            text = TEXTS[key](summary)
            first = _Backwards(text) if descending else text
        return (first, summary.id, summary.path)


def _rank_of(entry: _Entry) -> _Rank:
    return entry.rank


def _passes(entry: _Entry, wanted: Filter, hits: Mapping[str, bool]) -> bool:
    if not wanted.matches(entry.summary, entry.folded):
        return False
    return not wanted.text or hits.get(entry.summary.path, False)


def meant(runs: RunList) -> str:
    """Say what was probably meant, where a single word alone lets nothing through and is like a status."""
    word = runs.filter.source.strip().casefold()
    near = nearest(word, STATUSES, 0.8) if len(runs.filter.tests) == 1 and not len(runs) else ""
    return f"; did you mean status:{near}?" if near else ""
