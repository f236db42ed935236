"""A run played like a film: when each of its records is due, by whatever clock is asked.

Nothing here reads a clock or waits. A pace says how long after the record before it a record comes; a
playhead says which record is shown since when. What is due is counted from the moment at which a record was
due, never from the one at which somebody looked, so that no delay adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec

from refold.core.timeline import Timeline

IDLE: Final = 2.0
"""Seconds after which a record comes at the latest, however long nothing happened."""
STEP: Final = 0.4
"""Seconds from one record to the next where no times were recorded."""
SPEEDS: Final = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_LOOKED_BACK: Final = 64
"""So many records without a time are passed over to find the time before one."""


class Pace(msgspec.Struct, frozen=True):
    """How long it takes from one record to the next, at the speed of one."""

    recorded: bool = True
    """By the times of the records, idle time capped; else, and for a record without a time, by `step`."""
    idle: float = IDLE
    step: float = STEP

    def wait(self, timeline: Timeline, item: int) -> float:
        """Give the seconds from the record before an item to the item; the first one is due at once."""
        if item <= 0:
            return 0.0
        seconds = timeline.columns.seconds
        own = seconds[item]
        if not self.recorded or own != own:
            return self.step
        for before in range(item - 1, max(-1, item - 1 - _LOOKED_BACK), -1):
            if seconds[before] == seconds[before]:
                return min(self.idle, max(0.0, own - seconds[before]))
        return 0.0

    def moments(self, timeline: Timeline, items: int) -> Iterator[float]:
        """Give for each of the first items the seconds from the beginning at which it is due."""
        due = 0.0
        for item in range(items):
            due += self.wait(timeline, item)
            yield due


AS_RECORDED: Final = Pace()
"""What a run is played at, and written into a recording, unless another pace is asked for."""


class Loop(NamedTuple):
    """A stretch of items that is played again and again, both ends included."""

    first: int
    last: int | None = None
    """None while the end is not marked."""

    def to(self, item: int) -> Loop:
        """Mark the other end, on whichever side of the first one it lies."""
        return Loop(min(self.first, item), max(self.first, item))

    def holds(self, item: int) -> bool:
        """Say whether an item lies in a finished loop."""
        return self.last is not None and self.first <= item <= self.last


class Playhead(msgspec.Struct, frozen=True):
    """Which item is shown, and since when; a value, replaced at each step."""

    item: int = 0
    speed: float = 1.0
    since: float | None = None
    """When the item was due, by the clock, were it played at this speed from the first; None while paused."""
    spent: float = 0.0
    """Seconds of the run that have passed behind the item, while paused."""

    @property
    def playing(self) -> bool:
        """Whether time goes on."""
        return self.since is not None

    def passed(self, now: float) -> float:
        """Give the seconds of the run, not of the clock, that have passed since the item was due."""
        return self.spent if self.since is None else max(0.0, now - self.since) * self.speed

    def play(self, now: float) -> Playhead:
        """Let time go on from where it stood."""
        if self.since is not None:
            return self
        return msgspec.structs.replace(self, since=now - self.spent / self.speed, spent=0.0)

    def pause(self, now: float) -> Playhead:
        """Let time stand still."""
        return msgspec.structs.replace(self, since=None, spent=self.passed(now))

    def at_speed(self, speed: float, now: float) -> Playhead:
        """Go on at another speed without a jump: what has passed of a wait has passed."""
        passed = self.passed(now)
        if self.since is None:
            return msgspec.structs.replace(self, speed=speed)
        return msgspec.structs.replace(self, speed=speed, since=now - passed / speed)

    def seek(self, item: int, now: float) -> Playhead:
        """Show an item as if it were due now."""
        return Playhead(item, self.speed, None if self.since is None else now)

    def due(self, wait: float) -> float:
        """Give the moment, by the clock, at which so many seconds of the run have passed behind the item."""
        return float("inf") if self.since is None else self.since + wait / self.speed

    def on(self, item: int, wait: float) -> Playhead:
        """Show what comes after so long a wait, at the moment at which it was due."""
        return Playhead(item, self.speed, None if self.since is None else self.due(wait))


def advance(head: Playhead, now: float, wait: Callable[[int], float], last: int) -> Iterator[Playhead]:
    """Give the playhead at every item that has become due, one after the other.

    Args:
        head: where it stands.
        now: the time, by the clock that the head goes by.
        wait: how long after the one before it an item comes.
        last: the last item that there is.
    """
    while head.playing and head.item < last:
        ahead = wait(head.item + 1)
        if head.due(ahead) > now:
            return
        head = head.on(head.item + 1, ahead)
        yield head


def next_speed(speed: float, step: int) -> float:
    """Give the next faster (step 1) or slower (step -1) speed; the last one there is stays."""
    place = min(range(len(SPEEDS)), key=lambda index: abs(SPEEDS[index] - speed))
    return SPEEDS[min(max(0, place + step), len(SPEEDS) - 1)]
