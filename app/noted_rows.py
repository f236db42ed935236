"""The rows of the list with what is noted about their runs, joined as they come and when notes change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from refold.core.store.catalog import Gone, Item
from refold.core.store.shelf import Progress
from refold.core.summary import RunSummary

if TYPE_CHECKING:
    from refold.core.store.kept import KeptIndex

_STRETCH: Final = 50
_PATIENCE: Final = 0.05
"""Seconds that the first row waits for the notes."""
_WORK: Final = Progress(0, 0)


class NotedRows:
    """Joins rows and notes, and remembers which rows it gave."""

    def __init__(self, directory: Path, cache: Path | None) -> None:
        """Prepare; nothing is read yet.

        Args:
            directory: Where the notes lie.
            cache: The directory of the cache; None to do without.
        """
        self._directory = directory
        self._cache = cache
        self._index: KeptIndex | None = None
        self._looking: Iterator[bool] | None = None
        """A look at the notes that is not done yet."""
        self._rows: dict[str, RunSummary] = {}
        """As their readers made them."""
        self._given: dict[str, RunSummary] = {}

    @property
    def is_behind(self) -> bool:
        """Whether the first look at the notes is not done yet."""
        return self._looking is not None

    def joined(self, items: Iterator[Item]) -> Iterator[Item]:
        """Give these items, the rows with what is noted; the first time the notes are looked at before."""
        index = self._opened()
        if not self._rows and self._looking is None:
            # A few notes are read before the first row; thousands of them do not keep the rows back.
            self._looking = index.look()
            end = time.perf_counter() + _PATIENCE
            for _ in self._looking:
                yield _WORK
                if time.perf_counter() >= end:
                    break
            else:
                self._looking = None
        for item in items:
            if isinstance(item, RunSummary):
                self._rows[item.path] = item
                row = self._given[item.path] = index.joined(item)
                yield row
            else:
                if isinstance(item, Gone):
                    self._rows.pop(item.path, None)
                    self._given.pop(item.path, None)
                yield item

    def again(self) -> Iterator[Item]:
        """Give the rows about which something else is noted now; one such look at a time."""
        index = self._opened()
        changed = self._looking is not None
        looking = self._looking = self._looking or index.look()
        for step in looking:
            changed = changed or step
            yield _WORK
        self._looking = None
        if not changed:
            return
        for number, (path, row) in enumerate(list(self._rows.items())):
            if number % _STRETCH == _STRETCH - 1:
                yield _WORK
            joined = index.joined(row)
            if joined != self._given.get(path):
                self._given[path] = joined
                yield joined

    def close(self) -> None:
        """Keep in the cache what was read."""
        if self._index is not None:
            self._index.save()

    def _opened(self) -> KeptIndex:
        if self._index is None:
            from refold.core.store.kept import KeptIndex

            self._index = KeptIndex(self._directory, self._cache)
        return self._index
