"""A regular expression, or words, found in one run by a process that can be stopped."""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from refold.app.hunt_child import Matches, Spans, Task
from refold.app.own_child import OwnChild
from refold.app.present.find import Hits
from refold.core.records import Json
from refold.core.search import expression_of, words_of
from refold.core.search_text import QueryError, parse_query
from refold.core.store.reader import RunReader

_CHUNK: Final = 131_072
_MOST: Final = 512
"""Records in one chunk."""
_PATIENCE: Final = 10.0
"""Seconds after which a process that says nothing is given up; it gives up an expression long before."""
_MARKED: Final = 100_000
"""In so many records what was matched is marked."""


class ChildHunt(Hits):
    """One search. What it matched is marked where it stands: an expression itself is never run here."""

    def __init__(self, reader: RunReader, query: str, start: int) -> None:
        """Look for an expression, or for words as the search of all runs does.

        Args:
            reader: The run.
            query: What was typed: `/an expression/` or `words: some words`.
            start: The item to begin at; the search goes on to the end and then from the beginning.
        """
        super().__init__(query)
        self.problem = ""
        """Why the search ended early."""
        self._reader = reader
        self._expression = expression_of(query)
        self._words = words_of(query)
        self._marks: re.Pattern[str] | None = None
        """What is marked of the words; None while an expression is looked for."""
        if self._expression is None:
            try:
                self._marks = parse_query(self._words or "").marks
            except QueryError as error:
                self.problem = f"{error}: {error.remedy}"
        self._start = start
        self._upto = 0
        self._texts: dict[int, list[str]] = {}
        """What was matched in each item: in another one the same text may be no match."""
        self._child: OwnChild | None = None

    @property
    def outstanding(self) -> bool:
        """Whether there are items that came after the search was done."""
        return not self.problem and (not self.complete or self._upto < self._reader.timeline.items)

    def pattern_at(self, item: int) -> re.Pattern[str] | None:
        """Give the texts that were matched in an item, as far as they are known."""
        if self.place(item) is None:
            return None
        if self._marks is not None:
            return self._marks
        texts = self._texts.get(item)
        if not texts:
            return None
        return re.compile("|".join(map(re.escape, sorted(texts, key=len, reverse=True))))

    def pattern_beside(self, item: int) -> re.Pattern[str] | None:
        """Give what is marked beside the rows: words also where not all of them stand."""
        return self.pattern_at(item) if self._marks is None else self._marks

    async def work(self, changed: Callable[[], None]) -> None:
        """Look at what is outstanding; `changed` is called after each piece."""
        if self.problem:
            return
        try:
            if self._child is None:
                self._child = await self._begin()
            for spans in self._outstanding():
                if self.problem:
                    return
                self._child.tell(_plain(Spans(spans)))
                await self._take(self._child)
                changed()
        except OSError as error:
            self.problem = f"no process can be started to search: {error.strerror or error}"
        except asyncio.CancelledError:
            # What it would answer next is an answer to nobody.
            self.close()
            raise

    async def _begin(self) -> OwnChild:
        child = self._child = OwnChild.start("refold.app.hunt_child")
        device, inode = self._reader.identity
        child.tell(_plain(Task(str(self._reader.file), device, inode, self._expression, self._words)))
        await self._take(child)
        return child

    def close(self) -> None:
        """End the process, whatever it is at."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    async def _take(self, child: OwnChild) -> None:
        try:
            said = msgspec.convert(await asyncio.wait_for(child.hear(), _PATIENCE), Matches)
        except (EOFError, TimeoutError):
            self.problem = f"{self.query} was given up: it takes too long, or too much memory"
            return
        for item, texts in said.found:
            self._add(item)
            if texts and (len(self._texts) < _MARKED or item in self._texts):
                self._texts[item] = texts
        self.problem = said.problem
        if said.slow is not None:
            seq = self._reader.timeline.seq(said.slow)
            where = f"seq {seq}" if seq is not None else "one record"
            self.problem = (
                f"{self.query} took more than a second on {where}: stopped there. "
                "A repetition inside a repetition is often why."
            )

    def _outstanding(self) -> Iterator[list[tuple[int, int, int]]]:
        timeline = self._reader.timeline
        if not self.complete:
            self._upto = timeline.items
            yield from self._chunks(self._start, self._upto)
            yield from self._chunks(0, self._start)
            self.complete = True
        while self._upto < timeline.items:
            # The last item may have been a torn line that was read again in full.
            first = max(0, self._upto - 1)
            del self.hits[bisect_left(self.hits, first) :]
            for spans in self._chunks(first, timeline.items):
                yield spans
                self._upto = spans[-1][0] + 1

    def _chunks(self, first: int, stop: int) -> Iterator[list[tuple[int, int, int]]]:
        spans: list[tuple[int, int, int]] = []
        size = 0
        for item in range(first, stop):
            where = self._reader.timeline.span(item)
            spans.append((item, where.start, where.end))
            size += where.end - where.start
            if size >= _CHUNK or len(spans) >= _MOST:
                yield spans
                spans, size = [], 0
        if spans:
            yield spans


def _plain(value: msgspec.Struct) -> Json:
    plain: Json = msgspec.to_builtins(value)
    return plain
