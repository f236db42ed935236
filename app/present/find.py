"""A text found in one run: records that show it, from the cursor on, in small slices of work."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Final

from refold.core.search import Search
from refold.core.store.reader import RunReader

_CHUNK: Final = 131_072
_DECODED: Final = 1_048_576
"""Records above this many bytes are not decoded to see whether a hit is in text that a reader would see."""
_VERIFIED: Final = 16


class Hits:
    """The items of a run that a search found so far, and how the cursor goes through them."""

    def __init__(self, query: str) -> None:
        self.query = query
        self.hits: list[int] = []
        """In order."""
        self.complete = False

    def after(self, item: int) -> int | None:
        """Give the next item with a hit; after the last one the first."""
        if not self.hits:
            return None
        index = bisect_right(self.hits, item)
        return self.hits[index % len(self.hits)]

    def before(self, item: int) -> int | None:
        """Give the item with a hit before this one; before the first one the last."""
        if not self.hits:
            return None
        return self.hits[bisect_left(self.hits, item) - 1]

    def place(self, item: int) -> int | None:
        """Give the 1-based number of an item among the hits; None where it is none."""
        index = bisect_left(self.hits, item)
        return index + 1 if index < len(self.hits) and self.hits[index] == item else None

    def _add(self, item: int) -> None:
        if self.place(item) is None:
            insort(self.hits, item)


class Hunt(Hits):
    """One search. Take steps from `steps` until it ends; hits are known as soon as they are found."""

    def __init__(self, reader: RunReader, query: str, start: int) -> None:
        """Look for a text.

        Args:
            reader: The run.
            query: The text as typed.
            start: The item to begin at; the search goes on to the end and then from the beginning.
        """
        super().__init__(query)
        self._reader = reader
        self._start = start
        self._search = Search(query)
        self._looked_at = 0
        self._upto = 0

    @property
    def progress(self) -> float:
        """How much of the run was looked at, from 0 to 1."""
        return 1.0 if self.complete else min(1.0, self._looked_at / max(1, self._reader.timeline.items))

    @property
    def outstanding(self) -> bool:
        """Whether there are items that were not looked at, such as those that came later."""
        return not self.complete or self._upto < self._reader.timeline.items

    def steps(self) -> Iterator[None]:
        """Look at what is outstanding; each step is one small slice of work."""
        timeline = self._reader.timeline
        if not self.complete:
            self._upto = timeline.items
            yield from self._range(self._start, self._upto)
            yield from self._range(0, self._start)
            self.complete = True
        while self._upto < timeline.items:
            # The last item may have been a torn line that was read again in full.
            first = max(0, self._upto - 1)
            self._upto = timeline.items
            del self.hits[bisect_left(self.hits, first) :]
            yield from self._range(first, self._upto)

    def _range(self, first: int, stop: int) -> Iterator[None]:
        item = first
        while item < stop:
            last = self._chunk_end(item, stop)
            if last == item:
                yield from self._large(item)
            else:
                yield from self._chunk(item, last)
            self._looked_at += max(1, last - item)
            item = max(last, item + 1)
            yield

    def _chunk_end(self, item: int, stop: int) -> int:
        """Give the item after the last one that fits into one chunk; the item itself where it does not."""
        offset = self._reader.timeline.columns.offset
        start = offset[item]
        last = item
        step = 64
        while last < stop:
            upto = min(last + step, stop)
            if self._reader.timeline.span(upto - 1).end - start > _CHUNK:
                if step == 1:
                    break
                step //= 4
                continue
            last = upto
        return last

    def _chunk(self, first: int, stop: int) -> Iterator[None]:
        timeline = self._reader.timeline
        start = timeline.span(first).start
        data = self._reader.bytes_at(start, timeline.span(stop - 1).end - start)
        position = 0
        verified = 0
        item = first
        while True:
            found = self._search.candidate(data, position)
            if found < 0:
                return
            item = min(
                max(item, bisect_left(timeline.columns.offset, start + found, first, stop) - 1), stop - 1
            )
            where = timeline.span(item)
            line = data[where.start - start : where.end - start]
            if self._search.in_record(line):
                self._add(item)
            verified += 1
            if verified % _VERIFIED == 0:
                yield
            position = max(where.end - start, found)

    def _large(self, item: int) -> Iterator[None]:
        where = self._reader.timeline.span(item)
        reach = self._search.reach
        position = 0
        while position < where.end - where.start:
            data = self._reader.raw_part(item, max(0, position - reach), _CHUNK + reach)
            if self._search.candidate(data) >= 0:
                whole = where.end - where.start
                if whole > _DECODED or self._search.in_record(self._reader.raw(item)):
                    self._add(item)
                return
            position += _CHUNK
            yield
