"""Looks along a run for the next record of a kind: a stop, or a change of what is watched. In small steps."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from refold.core.breakpoints import Answer, Condition, Texts, first_stop, names_a_file
from refold.core.fields import WATCHED, value_at
from refold.core.search import Search
from refold.core.timeline import Timeline

T = TypeVar("T")

_AT_ONCE: Final = 256
"""Items that are looked at in one step where none of them has to be read."""


class Seeking(Generic[T]):
    """One look along a run; take steps until they end."""

    def __init__(
        self, timeline: Timeline, start: int, step: int, test: Callable[[int], Generator[None, None, T]]
    ) -> None:
        """Look from an item on.

        Args:
            timeline: The run.
            start: The item that is passed first, and not looked at.
            step: 1 towards the end, -1 towards the beginning.
            test: Says of an item, by anything that is true, that it is the one.
        """
        self.found: int | None = None
        """The item, once it is found."""
        self.answer: T | None = None
        """What the test said of it."""
        self.timeline = timeline
        self._start = self._at = start
        self._step = step
        self._test = test

    @property
    def progress(self) -> float:
        """How much of what lies ahead was looked at, from 0 to 1."""
        ahead = self._start if self._step < 0 else self.timeline.items - 1 - self._start
        return min(1.0, abs(self._at - self._start) / ahead) if ahead > 0 else 1.0

    def steps(self) -> Generator[None, None, None]:
        """Look further; each step is a small piece of work."""
        looked = 0
        item = self._at + self._step
        while 0 <= item < self.timeline.items:
            self._at = item
            answer = yield from self._test(item)
            if answer:
                self.found, self.answer = item, answer
                return
            looked += 1
            if looked % _AT_ONCE == 0:
                yield
            item += self._step


def next_stop(
    conditions: Sequence[Condition], timeline: Timeline, texts: Texts, start: int, step: int
) -> Seeking[Condition | None]:
    """Look for the next item at which a replay stops; the answer is the condition that stops it."""
    return Seeking(timeline, start, step, lambda item: first_stop(conditions, timeline, texts, item))


class Watched(NamedTuple):
    """What is watched: one of `fields.WATCHED`, or else the name of a file."""

    name: str

    @property
    def is_file(self) -> bool:
        """Whether it is the name of a file; it changes wherever a call names it."""
        return self.name not in WATCHED


def next_change(watched: Watched, timeline: Timeline, texts: Texts, start: int, step: int) -> Seeking[bool]:
    """Look for the next item with which what is watched changes."""
    if watched.is_file:
        search = Search(watched.name)
        return Seeking(timeline, start, step, lambda item: names_a_file(search, timeline, texts, item))

    def test(item: int) -> Answer:
        yield from ()
        return item > 0 and value_at(timeline, watched.name, item) != value_at(
            timeline, watched.name, item - 1
        )

    return Seeking(timeline, start, step, test)
