"""Looks along a run for the next record of a kind: a stop, or a change of what is watched. In small steps."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from enum import Enum
from typing import Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from refold.core.breakpoints import Condition, Texts, first_stop, names_a_file
from refold.core.fields import WATCHED, value_at
from refold.core.search import Search
from refold.core.timeline import Timeline
from refold.core.touches import Named, Touches

T = TypeVar("T")

_AT_ONCE: Final = 256
"""Items that are looked at in one step where none of them has to be read."""

_BEYOND: Final = 64
"""Items after a call that are taken in at one go, until its end is among them."""


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
        """Whether it is the name of a file, any part of its path."""
        return self.name not in WATCHED


class Change(Enum):
    """How what is watched changes at an item."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    """A call was to change the file; whether it did nobody knows."""
    NAMED = "named"
    """A call names the file, and no call of the whole run reveals a change of it."""


Changes: TypeAlias = Seeking[Change | None]


class Touching(Protocol):
    """Knows which call touched which file, as far as it was asked."""

    @property
    def touches(self) -> Touches:
        """What is known."""

    def extend(self, upto: int) -> Iterator[None]:
        """Take in all items before one, in small steps."""


def next_change(
    watched: Watched, timeline: Timeline, texts: Texts, touching: Touching, start: int, step: int
) -> Changes:
    """Look for the next item with which what is watched changes.

    A file changes with the end of a call that changed it, as State says, and at a call without an end that
    was to. Where no call of the run reveals a change of it, the next one that names it is given instead.
    """
    if watched.is_file:
        return _OfFile(watched.name, timeline, texts, touching, start, step)

    def test(item: int) -> Generator[None, None, Change | None]:
        yield from ()
        values = (value_at(timeline, watched.name, at) for at in (item - 1, item))
        return Change.KNOWN if item > 0 and next(values) != next(values) else None

    return Seeking(timeline, start, step, test)


class _OfFile(Seeking[Change | None]):
    """A look for changes of a file; for calls that name it where there is no change in the whole run."""

    def __init__(
        self, name: str, timeline: Timeline, texts: Texts, touching: Touching, start: int, step: int
    ) -> None:
        super().__init__(timeline, start, step, self._changed)
        self._name = name.casefold()
        self._search = Search(name)
        self._texts = texts
        self._touching = touching
        self._files = Named(touching.touches, self._name)

    def steps(self) -> Generator[None, None, None]:
        yield from super().steps()
        if self.found is None:
            yield from self._touching.extend(self.timeline.items)
            wanted = yield from self._files.look()
            if (yield from self._touching.touches.reveal_change_of(wanted)):
                self.answer = Change.KNOWN
                return
            self._at, self._test = self._start, self._named
            yield from super().steps()

    def _changed(self, item: int) -> Generator[None, None, Change | None]:
        timeline, touches = self.timeline, self._touching.touches
        yield from self._touching.extend(item + 1)
        wanted = yield from self._files.look()
        sure = yield from touches.changed_at(item, wanted)
        if sure is not None:
            return Change.KNOWN if sure else Change.UNKNOWN
        if not timeline.own_calls(item):
            return None
        upto = item + 1
        open_ = yield from touches.would_change(item, wanted)
        while open_:
            if not touches.still_waits(open_[-1], item):
                open_.pop()
                yield
                continue
            if upto >= timeline.items:
                return Change.UNKNOWN
            upto += _BEYOND
            yield from self._touching.extend(upto)
        return None

    def _named(self, item: int) -> Generator[None, None, Change | None]:
        named = yield from names_a_file(self._search, self.timeline, self._texts, item)
        return Change.NAMED if named else None
