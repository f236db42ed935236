"""A run being played: what is shown when, what stops it, how the first row says so. Nothing is executed."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple, TypeAlias

from refold.app.lines import Cell, Line, Role
from refold.app.present import units
from refold.app.present.layout import cell, fit, span
from refold.app.present.reading import Reading
from refold.app.safe import Safe
from refold.core.breakpoints import Condition, first_stop
from refold.core.fields import value_at
from refold.core.playback import AS_RECORDED, Loop, Pace, Playhead, next_speed
from refold.core.seek import Change, Changes, Seeking, Watched, next_change, next_stop
from refold.core.timeline import Timeline

REST: Final = 0.8
"""Seconds, at the speed of one, that the last record of a loop is shown before its first one."""
_LONG: Final = 200
_LIMITS: Final = range(80, 11, -4)
"""Columns that a reason is cut to, the first with which all else has room."""
_LEAST: Final = 8
_OF_FILE: Final = {
    Change.KNOWN: " changed",
    Change.UNKNOWN: " perhaps changed, outcome unknown,",
    Change.NAMED: ": no change known, named",
    None: "",
}

Work: TypeAlias = Generator[None, None, None]


class Sought(NamedTuple):
    """What is looked for along the run."""

    seeking: Seeking[Condition | None] | Changes
    what: str
    watched: Watched | None
    """What is to change; None where a breakpoint is to stop."""
    step: int


class Player:
    """Plays one run. Whoever owns it tells it the time, and where the cursor was put by hand."""

    def __init__(self) -> None:
        self.head = Playhead()
        self.pace: Pace = AS_RECORDED
        self.loop: Loop | None = None
        self.conditions: tuple[Condition, ...] = ()
        """The breakpoints."""
        self.watched: Watched | None = None
        self.sought: Sought | None = None
        """What is looked for, while it is."""
        self.said: tuple[str, Role] | None = None
        """Why it stands where it stands, where that is worth a word."""
        self.touched = False
        """Whether anything of it was asked for, and is to be shown."""

    @property
    def playing(self) -> bool:
        """Whether time goes on."""
        return self.head.playing

    @property
    def typed(self) -> str:
        """The breakpoints as they are typed."""
        return "; ".join(condition.source for condition in self.conditions)

    def play(self, timeline: Timeline, item: int, now: float) -> None:
        """Play from an item on; from the end, from the beginning."""
        self.touched, self.said = True, None
        if self.loop is not None and self.loop.last is not None:
            if not self.loop.holds(item) or item == self.loop.last:
                item = self.loop.first
        elif item >= timeline.items - 1:
            item = 0
        if item != self.head.item:
            self.head = self.head.seek(item, now)
        self.head = self.head.play(now)

    def pause(self, now: float) -> None:
        """Let time stand still."""
        self.head = self.head.pause(now)

    def follow_cursor(self, item: int, now: float) -> None:
        """Go on from where the cursor was put by hand."""
        if item != self.head.item:
            self.head = self.head.seek(item, now)
            self.said = None

    def faster(self, step: int, now: float) -> None:
        """Play at the next faster (step 1) or slower (step -1) speed."""
        self.touched = True
        self.head = self.head.at_speed(next_speed(self.head.speed, step), now)

    def mark(self, item: int) -> None:
        """Mark the beginning of a loop; then its end; then none."""
        self.touched = True
        if self.loop is None:
            self.loop = Loop(item)
        else:
            self.loop = self.loop.to(item) if self.loop.last is None else None

    def steps(self, reading: Reading, now: float) -> Work:
        """Show, one by one, all records that have become due; each step is a small piece of work."""
        timeline = reading.timeline
        while self.head.playing:
            at, loop = self.head.item, self.loop
            if loop is not None and loop.holds(at) and at == loop.last:
                following, wait = loop.first, REST
            elif at + 1 < timeline.items:
                following, wait = at + 1, self.pace.wait(timeline, at + 1)
            else:
                return
            if self.head.due(wait) > now:
                return
            self.head = self.head.on(following, wait)
            stop = yield from first_stop(self.conditions, timeline, reading, following)
            if self.head.item != following:
                continue
            if stop is not None:
                self.head = Playhead(following, self.head.speed)
                self.said = (f"■ {stop.source}{_place(timeline, following)}", "accent")
                return
            yield

    def due(self, timeline: Timeline) -> float:
        """Give the moment at which the next record is due; infinity where there is none."""
        following = self.head.item + 1
        if self.loop is not None and self.head.item == self.loop.last:
            return self.head.due(REST)
        ends = following >= timeline.items
        return float("inf") if ends else self.head.due(self.pace.wait(timeline, following))

    def is_over(self, timeline: Timeline) -> bool:
        """Whether the last record is shown and no loop goes back from it."""
        looped = self.loop is not None and self.loop.last == self.head.item
        return self.head.playing and self.head.item >= timeline.items - 1 and not looped

    def seek_stop(self, reading: Reading, item: int, step: int) -> Sought:
        """Look for the next record that a breakpoint stops at."""
        found = next_stop(self.conditions, reading.timeline, reading, item, step)
        self.touched = True
        self.sought = Sought(found, self.typed, None, step)
        return self.sought

    def seek_change(self, reading: Reading, watched: Watched, item: int, step: int) -> Sought:
        """Look for the next change of what is watched."""
        found = next_change(watched, reading.timeline, reading, reading.changing.index, item, step)
        self.touched = True
        self.sought = Sought(found, watched.name, watched, step)
        return self.sought

    def found(self, sought: Sought, timeline: Timeline, now: float) -> str:
        """Stand at what was found; give what is to be said where nothing was."""
        self.sought = None
        item, where = sought.seeking.found, "after" if sought.step > 0 else "before"
        if item is None:
            if sought.watched is None:
                return f"No breakpoint stops {where} this record."
            if sought.watched.is_file:
                if sought.seeking.answer is Change.KNOWN:
                    return f"No call {where} this record changes {sought.what}."
                return f"No call {where} this record changes {sought.what}, and none names it."
            return f"{sought.what} does not change {where} this record."
        self.head = self.head.seek(item, now)
        place, stop = _place(timeline, item), sought.seeking.answer
        if isinstance(stop, Condition):
            self.said = (f"■ {stop.source}{place}", "accent")
        elif sought.watched is not None and not sought.watched.is_file:
            before, after = (_spelled(value_at(timeline, sought.what, at)) for at in (item - 1, item))
            self.said = (f"{sought.what} {before} → {after}{place}", "accent")
        else:
            self.said = (f"{sought.what}{_OF_FILE[stop]}{place}", "accent")
        return ""


def playing_words(player: Player, timeline: Timeline, item: int | None, room: int) -> Line:
    """Say how a run is played, in at most so many columns: the most telling wording that fits.

    Args:
        player: What plays it.
        timeline: The run.
        item: The record under the cursor; what was said of another one is not said any more.
        room: The columns there are.
    """
    if not player.touched:
        return ()
    said = player.said if item == player.head.item else None
    loop, whole = _loop(player, timeline), _reason(player, said, _LONG)
    forms = (
        (_state(player, timeline), _pace(player, timeline), loop, whole),
        (_state(player, timeline), loop, whole),
        *((_sign(player), loop, _reason(player, said, limit)) for limit in _LIMITS),
        *((_sign(player), _reason(player, said, limit)) for limit in _LIMITS),
    )
    for form in forms:
        line = tuple(one for part in form for one in part)
        if span(line) <= room:
            return line
    return fit(line, room) if room >= _LEAST else ()


def _state(player: Player, timeline: Timeline) -> Line:
    word = "▮ paused"
    if player.playing:
        word = "▶ following" if player.is_over(timeline) else "▶ playing"
    return (Cell(Safe(word), _role(player)), Cell(Safe(f" {player.head.speed:g}×  "), "dim"))


def _sign(player: Player) -> Line:
    return (Cell(Safe(f"{'▶' if player.playing else '▮'} {player.head.speed:g}×  "), _role(player)),)


def _role(player: Player) -> Role:
    return "good" if player.playing else "warn"


def _pace(player: Player, timeline: Timeline) -> Line:
    recorded = player.pace.recorded and timeline.first_seconds is not None
    return (Cell(Safe("recorded  " if recorded else "fixed pace  "), "dim"),)


def _loop(player: Player, timeline: Timeline) -> Line:
    if player.loop is None:
        return ()
    first, last = player.loop
    ends = f"{_seq(timeline, first)}–{'' if last is None else _seq(timeline, last)}"
    return (Cell(Safe("loop "), "dim"), cell(f"{ends}  ", "accent"))


def _reason(player: Player, said: tuple[str, Role] | None, limit: int) -> Line:
    sought = player.sought
    if sought is not None:
        return (
            Cell(Safe("looking for "), "accent"),
            cell(sought.what, "accent", limit),
            Cell(Safe(f" {sought.seeking.progress:.0%}  "), "accent"),
        )
    if said is None:
        return ()
    # Where it stopped is never cut off: what stands before it is.
    text, role = said
    head, mark, place = text.rpartition(" at ")
    cut = (cell(head, role, limit), cell(f"{mark}{place}", role)) if mark else (cell(text, role, limit),)
    return (*cut, Cell(Safe("  ")))


def _place(timeline: Timeline, item: int) -> str:
    return f" at {_seq(timeline, item)}"


def _seq(timeline: Timeline, item: int) -> str:
    if not 0 <= item < timeline.items:
        return "?"
    seq = timeline.seq(item)
    return f"#{timeline.span(item).line}" if seq is None else str(seq)


def _spelled(value: str | int) -> str:
    return value if isinstance(value, str) else units.short(value)
