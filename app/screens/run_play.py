"""The keys that play a run: play and pause, speed, pace, loop, breakpoints, what is watched for a change."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from textual import events, on, work

from refold.app.lines import Line, cells
from refold.app.loading import STILL_READING, others_first
from refold.app.present.reading import Reading
from refold.app.present.rows import TimelineRows
from refold.app.safe import Safe, line
from refold.app.screens.run_file import SLICE
from refold.app.screens.run_moves import RunMovesScreen
from refold.app.screens.run_pane import RunPane
from refold.app.widgets.prompt_bar import PromptBar

if TYPE_CHECKING:
    from refold.app.present.playing import Player, Sought
    from refold.app.settings import Settings
    from refold.core.breakpoints import Condition
    from refold.core.filter_terms import FilterError

_BREAKPOINTS: Final = "breakpoints"
_WATCHED: Final = "watched"
_OF_FILE: Final = "where a call changes this file: , before, . after"
_FRAME: Final = 1 / 30
"""Seconds between two looks at the clock at the shortest."""
_LOOK: Final = 0.1
"""The same at the longest: the file may have grown."""
_STALLED: Final = 5.0
"""Who kept the program from running for longer did not watch: that time does not count."""
_REDRAW: Final = 0.1
_NAME: Final = 24
"""Columns of the first row that the name of the run has in any case."""


class RunPlayScreen(RunMovesScreen):
    """A screen of one run that can be played: its cursor goes along with the time. Nothing is executed."""

    pane: RunPane
    _clock: Callable[[], float]
    _settings: Settings | None
    _held: bool
    """A process is seen holding the lock of the run: more will come, and is played as it comes."""

    def __init__(self) -> None:
        super().__init__()
        self._player: Player | None = None
        self._covered = False
        """Whether it plays on once nothing lies over the screen any more."""

    @property
    def player(self) -> Player:
        """What plays the run; made when it is first asked for."""
        if self._player is None:
            from refold.app.present.playing import Player

            self._player = Player()
        return self._player

    def play_words(self, beside: Line) -> Line:
        """Say how the run is played, in the room that what stands beside it leaves in the first row."""
        if self._player is None or self._reading is None:
            return ()
        from refold.app.present.playing import playing_words

        room = min(self.size.width // 2, self.size.width - _NAME - cells(beside))
        return playing_words(self._player, self._reading.timeline, self.item, room)

    def forget_playing(self) -> None:
        """Begin anew: the file is another one."""
        while self.stop_playing():
            pass
        if self._player is not None:
            self._player.loop = self._player.said = None

    def stop_playing(self) -> bool:
        """End what goes on, a search first; say whether anything did."""
        player = self._player
        if player is None:
            return False
        if player.sought is not None:
            self.workers.cancel_group(self, "seek")
            player.sought = None
        elif player.playing:
            self._pause()
        else:
            return False
        self._draw_top()
        return True

    def _draw_top(self) -> None:
        """Draw the first row."""

    def _ready(self) -> tuple[Reading, int] | None:
        """The run and the item under the cursor; says so where they are not there yet."""
        reading, item = self._reading, self.item
        if reading is None or item is None or reading.is_window:
            self.notify(STILL_READING, severity="warning")
            return None
        return reading, item

    def action_play(self) -> None:
        """Play the run from the cursor on, or pause."""
        if self.player.playing:
            self._pause()
            self._draw_top()
        elif (ready := self._ready()) is not None:
            self.player.play(ready[0].timeline, ready[1], self._clock())
            self._show_head()
            self._play()
            self._draw_top()
            self.refresh_bindings()

    def key_words(self) -> Mapping[str, str]:
        """Name what the key that plays does now, and that Esc ends it first."""
        words = super().key_words()
        if self._player is not None and self._player.playing:
            return {**words, "run.play": "pause", "run.back": "pause"}
        return words

    def _pause(self) -> None:
        self.player.pause(self._clock())
        self.pane.keeps_up = False
        self.workers.cancel_group(self, "play")
        self.refresh_bindings()

    def action_speed(self, step: int) -> None:
        """Play faster or slower."""
        self.player.faster(step, self._clock())
        self._draw_top()

    def action_pace(self) -> None:
        """Play by the recorded times, or at one pace."""
        rows = self.timeline.rows
        if not (isinstance(rows, TimelineRows) and rows.has_times()):
            self.notify("The records of this run carry no times: it is played at one pace.")
            return
        player, now = self.player, self._clock()
        if self.item is not None:
            player.head = player.head.seek(self.item, now)
        player.touched = True
        from refold.core.playback import Pace

        player.pace = Pace(recorded=not player.pace.recorded)
        self._draw_top()

    def action_loop(self) -> None:
        """Mark the beginning of a loop, then its end, then none."""
        ready = self._ready()
        if ready is not None:
            self.player.mark(ready[1])
            self._draw_top()

    @work(group="play", exclusive=True)
    async def _play(self) -> None:
        self.pane.keeps_up = True
        looked = self._clock()
        while self.player.playing and (reading := self._reading) is not None:
            now = self._clock()
            if now - looked > _STALLED:
                self.player.pause(looked)
                self.player.head = self.player.head.play(now)
            looked = now
            await self._tick(reading, now)
            over = reading.reader.complete and self.player.is_over(reading.timeline)
            if over and not self._held:
                self._arrive(reading)
            elif self.player.playing:
                ahead = self.player.due(reading.timeline) - self._clock()
                await asyncio.sleep(min(max(ahead, _FRAME), _LOOK))
        self.pane.keeps_up = False
        self._draw_top()
        self.refresh_bindings()

    async def _tick(self, reading: Reading, now: float) -> None:
        """Show what has become due, the last of it on the screen; slowly where that has to be read."""
        player, deadline = self.player, time.perf_counter() + SLICE
        if self.item is not None:
            player.follow_cursor(self.item, now)
        for _ in player.steps(reading, now):
            if time.perf_counter() < deadline:
                continue
            self._show_head()
            await others_first()
            if self._reading is not reading:
                return
            if self.item is not None:
                player.follow_cursor(self.item, self._clock())
            deadline = time.perf_counter() + SLICE
        self._show_head()

    def _show_head(self) -> None:
        """Put the cursor on what is played."""
        reading, item = self._reading, self.player.head.item
        if reading is not None and item != self.item and item < reading.timeline.items:
            self.timeline.cursor = reading.timeline.first_row(item)

    def _arrive(self, reading: Reading) -> None:
        """Stand still at the end, and go along with it: more may come."""
        self.player.pause(self._clock())
        self.timeline.go(reading.timeline.rows - 1)

    @on(events.ScreenSuspend)
    def _covered_up(self) -> None:
        # Nobody sees what is played behind a dialog.
        if self._player is not None and self._player.playing:
            self._covered = True
            self._pause()

    @on(events.ScreenResume)
    def _uncovered(self) -> None:
        if self._covered:
            self._covered = False
            if self._player is not None and self.item == self._player.head.item:
                self._player.head = self._player.head.play(self._clock())
                self._play()
                self._draw_top()
                self.refresh_bindings()

    def action_breakpoints(self) -> None:
        """Ask where to stop."""
        self.query_one(PromptBar).open_to_add(Safe("breakpoints"), self.player.typed, purpose=_BREAKPOINTS)
        self._remark("tool:bash error:yes; tokens>100k; pending>0; file:auth.py")

    def action_watch(self) -> None:
        """Ask what is watched for a change."""
        watched = self.player.watched
        name = watched.name if watched is not None else ""
        self.query_one(PromptBar).open(Safe("watch"), name, purpose=_WATCHED)
        self._remark_watched(name)

    def _remark(self, text: str, *, wrong: bool = False) -> None:
        self.query_one(PromptBar).remark(line(text), "problem" if wrong else "dim")

    def _remark_watched(self, name: str) -> None:
        from refold.core.fields import WATCHED

        known = [each for each in WATCHED if each.startswith(name.lower())]
        if name in WATCHED:
            self._remark("where it changes: , before, . after")
        else:
            self._remark(f"{' '.join(known)} or a file" if known else _OF_FILE)

    @on(PromptBar.Changed)
    def _typed(self, event: PromptBar.Changed) -> None:
        if event.bar.purpose == _WATCHED:
            self._remark_watched(event.text.strip())
        elif event.bar.purpose == _BREAKPOINTS:
            fault = self._understood(event.text)[1]
            self._remark(f"{fault}; {fault.remedy}" if fault is not None else "", wrong=True)

    @on(PromptBar.Submitted)
    def _asked(self, event: PromptBar.Submitted) -> None:
        if event.bar.purpose == _WATCHED:
            self._watch(event.text.strip())
        elif event.bar.purpose == _BREAKPOINTS:
            conditions, fault = self._understood(event.text)
            if fault is not None:
                event.bar.open_to_add(Safe("breakpoints"), event.text, purpose=_BREAKPOINTS)
                self._remark(f"{fault}; {fault.remedy}", wrong=True)
                return
            self.player.conditions, self.player.said = conditions, None
            self.notify(
                "Breakpoints stop it while it plays; B goes to the next one."
                if conditions
                else "No breakpoints."
            )
            self._draw_top()

    def _understood(self, text: str) -> tuple[tuple[Condition, ...], FilterError | None]:
        from datetime import UTC

        from refold.core.breakpoints import parse_breakpoints
        from refold.core.filter_terms import FilterError

        zone = UTC if self._settings is not None and self._settings.utc else None
        try:
            return parse_breakpoints(text, time.time(), zone=zone), None
        except FilterError as fault:
            return (), fault

    def _watch(self, name: str) -> None:
        from refold.core.fields import WATCHED
        from refold.core.seek import Watched

        known = name.lower()
        self.player.watched = Watched(known if known in WATCHED else name) if name else None
        if not name:
            self.notify("Nothing is watched.")
        self._draw_top()

    def action_change(self, step: int) -> None:
        """Go to the last (step -1) or the next (step 1) change of what is watched."""
        watched = self.player.watched
        if watched is None:
            self.notify("Nothing is watched: w chooses what.")
        elif (ready := self._ready()) is not None:
            self._seek(self.player.seek_change(ready[0], watched, ready[1], step))

    def action_next_stop(self) -> None:
        """Go to the next record that a breakpoint stops at."""
        if not self.player.conditions:
            self.notify("There are no breakpoints: b sets some.")
        elif (ready := self._ready()) is not None:
            self._seek(self.player.seek_stop(*ready, 1))

    @work(group="seek", exclusive=True)
    async def _seek(self, sought: Sought) -> None:
        """Look along the run in small slices; Esc ends it, and the cursor stays where it is."""
        player, reading = self.player, self._reading
        if reading is None:
            return
        if player.playing:
            self._pause()
        now = drawn = time.perf_counter()
        deadline = now + SLICE
        for _ in sought.seeking.steps():
            now = time.perf_counter()
            if now < deadline:
                continue
            if now - drawn > _REDRAW:
                drawn = now
                self._draw_top()
            await others_first()
            if player.sought is not sought or self._reading is not reading:
                return
            deadline = time.perf_counter() + SLICE
        missing = player.found(sought, sought.seeking.timeline, self._clock())
        if missing and not reading.reader.complete:
            missing = f"{missing[:-1]}, as far as it is read."
        if missing:
            self.notify(line(missing))
        self._show_head()
        self._draw_top()
