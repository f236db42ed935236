"""What an open run offers while an agent goes on with it beside the screen, and what is said afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from textual import events, on, work
from textual.widget import Widget

from refold.app.inner_runs import inner_runs
from refold.app.lines import Role
from refold.app.loading import slices
from refold.app.present import units
from refold.app.present.reading import Reading
from refold.app.present.rows import TimelineRows
from refold.app.safe import Safe, line
from refold.app.screens.run_banner import Banner
from refold.app.screens.run_keeping import RunKeepingScreen
from refold.app.widgets.line_list import LineList
from refold.app.widgets.prompt_bar import PromptBar
from refold.core.timeline import Timeline

if TYPE_CHECKING:
    from refold.app.inner_run import InnerRun
    from refold.core.store.forks import Fork

_REPLY: Final = "reply"
_PATIENCE: Final = 0.4
"""Seconds in which the last records are read after the agent has ended."""
_LINES: Final = 8
_TEXT: Final = 600


class RunGoingOnScreen(RunKeepingScreen):
    """A screen of one run that an agent may go on with."""

    path: Path
    timeline: LineList
    _reading: Reading | None
    _held = False
    """Whether a process holds the run."""

    def __init__(self) -> None:
        super().__init__()
        self._going = Banner(self._row_below, id="going")
        self._inner: InnerRun | None = None
        self._since: int | None = None
        """The last sequence before the run went on under our eyes."""
        self._outcome = ""
        """How that ended; empty while it has not."""
        self._well = True
        self._waits = False
        self._forks: tuple[Fork, ...] = ()
        self._offered = -1
        """How many records there were when the line to answer on was opened by itself."""
        self._leads = False
        """Whether the cursor is still to be put on what was added."""

    def on_mount(self) -> None:
        """Take up the agent that goes on with this run already."""
        inner = inner_runs(self.app).get(self.path)
        if inner is not None and inner.stage != "ended":
            self.goes_on(inner)
        self._say()

    def _row_below(self) -> Widget | None:
        """The ruler; None while the screen is not composed: it is told what goes on before it is shown."""
        return next(iter(self.query("#ruler")), None)

    def on_unmount(self) -> None:
        """Let the agent go on alone."""
        if self._inner is not None:
            self._inner.forget(self._stage_changed)

    @property
    def added_after(self) -> int | None:
        """The sequence after which all records are new; None where nothing went on."""
        return self._since

    @property
    def inner(self) -> InnerRun | None:
        """The agent that goes on with the run, or did last."""
        return self._inner

    def goes_on(self, inner: InnerRun) -> None:
        """Show what an agent does with the run from now on."""
        if self._inner is not None:
            self._inner.forget(self._stage_changed)
        self._inner, self._since, self._outcome = inner, inner.since, ""
        self._mark_rows()
        inner.watch(self._stage_changed)
        self._stage_changed()

    def came_back(self, since: int, outcome: str, *, well: bool) -> None:
        """Show what was added while the terminal was somebody else's, and how that ended."""
        self._since, self._outcome, self._well, self._leads = since, outcome, well, True
        self._mark_rows()
        self._say()

    @property
    def forks(self) -> tuple[Fork, ...]:
        """The forks of this run that are known."""
        return self._forks

    @property
    def forked_at(self) -> Mapping[int, str]:
        """The sequences after which forks left, and what is said of them."""
        said: dict[int, str] = {}
        for fork in self._forks:
            said[fork.seq] = f"{said[fork.seq]}, {fork.run_id}" if fork.seq in said else fork.run_id
        return said

    @on(events.ScreenResume)
    def _in_sight(self) -> None:
        # The first rows come first.
        self.call_after_refresh(self._look_for_forks)

    @work(group="forks", exclusive=True)
    async def _look_for_forks(self) -> None:
        """See which forks left this run: some may have been made meanwhile."""
        chosen = self.chosen()
        from refold.app.forking import notes_of
        from refold.core.store.forks import forks_of

        notes = None if chosen is None else notes_of(chosen.settings)
        found: list[Fork] = []
        async with aclosing(slices(forks_of(self.path, notes))) as steps:
            async for produced in steps:
                found += [fork for fork in produced if fork is not None]
        forks = tuple(sorted(found, key=lambda fork: (fork.seq, fork.run_id)))
        if forks != self._forks:
            self._forks = forks
            self._mark_rows()
            self._forks_found()

    def _forks_found(self) -> None:
        """Draw what else speaks of forks."""

    def _mark_rows(self) -> None:
        """Let the rows that are there already mark what is new, and where forks left."""
        rows = self.timeline.rows
        if isinstance(rows, TimelineRows):
            rows.added_after, rows.forked_at = self._since, self.forked_at
            self.timeline.refresh_rows()

    def _stage_changed(self) -> None:
        inner = self._inner
        if inner is not None and inner.ended is not None:
            self._outcome, self._well = f"the agent {inner.ended.sentence}", inner.ended.fine
        self._look_where_it_stands()
        self.refresh_bindings()
        if inner is not None and inner.ended is not None and not self._well:
            self.set_timer(_PATIENCE, partial(self._tell_why, inner))

    def _tell_why(self, inner: InnerRun) -> None:
        """Show what the agent said last where the run itself does not tell why it ended."""
        said = inner.said[-_LINES:]
        timeline = self._reading.timeline if self._reading is not None else None
        told = timeline is not None and timeline.items and timeline.kind(timeline.items - 1) == "terminal"
        killed = inner.ended is not None and inner.ended.signal is not None
        if said and not told and not killed and self.app.screen is self:
            from refold.app.screens.notice import NoticeScreen

            rows: list[tuple[Safe, Role]] = [(line(row, _TEXT), "text") for row in said]
            self.app.push_screen(NoticeScreen(Safe(f"It did not go on: {self._outcome}"), rows))

    def _look_where_it_stands(self) -> None:
        """Say what goes on; offer the line to answer on where the run waits for one."""
        inner, reading = self._inner, self._reading
        waited = self._waits
        self._waits = (
            inner is not None
            and inner.stage == "running"
            and reading is not None
            and not reading.is_window
            and reading.reader.complete
            and _at_boundary(reading)
        )
        self._say()
        if self._leads and reading is not None and reading.reader.complete:
            self._leads = False
            self._lead(reading.timeline)
        if self._waits != waited:
            self.refresh_bindings()
        if self._waits and reading is not None and reading.timeline.items != self._offered:
            self._offered = reading.timeline.items
            if self.app.screen is self:
                self.action_reply()
        elif waited and not self._waits:
            prompt = self.query_one(PromptBar)
            if prompt.is_open and prompt.purpose == _REPLY:
                prompt.close()

    def _lead(self, timeline: Timeline) -> None:
        """Put the cursor on the first record that was added."""
        added = _items_after(timeline, self._since or 0)
        if added:
            self.timeline.go(timeline.first_row(timeline.items - added))

    def _say(self) -> None:
        if self._since is None:
            return
        stage = self._inner.stage if self._inner is not None else "ended"
        if self._outcome:
            said = " · ".join(filter(None, (self._added(), self._outcome, self._stands())))
            self._going.say(said, "warn" if self._well else "problem")
        elif self._waits:
            self._going.say("● it waits for you: what you type is recorded before the model sees it", "good")
        elif stage == "running":
            self._going.say(f"● goes on here · {self._added()} · leaving Refold suspends it", "good")
        elif stage == "suspending":
            self._going.say(f"▮ it suspends once what it does now is done · {self._added()}")
        else:
            self._going.say("■ it stops at once", "problem")

    def _stands(self) -> str:
        """Say how the run stands now that its agent has ended: an exit code of 0 does not tell."""
        reading = self._reading
        if reading is None or reading.is_window or not reading.reader.complete:
            return ""
        return f"the run is {reading.status(held=False).name}"

    def _added(self) -> str:
        """Say how much was added."""
        reading, since = self._reading, self._since or 0
        count = 0 if reading is None else _items_after(reading.timeline, since)
        return f"{units.plural(count, 'record')} added after seq {since}" if count else "nothing added yet"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide what only an agent that goes on here can be told."""
        stage = self._inner.stage if self._inner is not None else "ended"
        if action == "suspend":
            return stage == "running"
        if action == "abort":
            return stage == "suspending"
        if action == "reply":
            return self._waits
        if action == "resume" and stage != "ended":
            return None
        return super().check_action(action, parameters)

    def why_not(self, action: str) -> str:
        """Say why an action is refused now; empty where it is not."""
        if action == "resume" and self._inner is not None and self._inner.stage != "ended":
            return "The run goes on here already; s suspends it."
        if action in ("suspend", "abort") and not self.check_action(action, ()):
            if self._inner is not None and self._inner.stage == "running":
                return "First suspend it; what does not end then is stopped."
            if self._held:
                return "Another process holds the run: only there it can be suspended or stopped."
            return "Nothing goes on with this run that could be suspended or stopped."
        return super().why_not(action)

    def action_suspend(self) -> None:
        """Ask the agent to stop at the next boundary."""
        if self._inner is not None:
            self._inner.suspend()

    def action_abort(self) -> None:
        """Tell the agent to stop at once."""
        if self._inner is not None:
            self._inner.abort()

    def action_reply(self) -> None:
        """Open the line that the run waits for."""
        prompt = self.query_one(PromptBar)
        if self._waits and not prompt.is_open:
            prompt.open(Safe("you"), purpose=_REPLY)

    @on(PromptBar.Submitted, "#prompt")
    def _replied(self, event: PromptBar.Submitted) -> None:
        if event.bar.purpose != _REPLY:
            return
        text = event.text.strip()
        if text and self._inner is not None and not self._inner.say(text):
            self.notify("Nobody hears it any more.", severity="warning")


def _at_boundary(reading: Reading) -> bool:
    """Say whether the model spoke last in a conversation, and asked for nothing."""
    timeline, meta = reading.timeline, reading.reader.meta
    last = timeline.items - 1
    return (
        meta is not None
        and meta.interactive
        and last >= 0
        and timeline.kind(last) == "assistant"
        and not timeline.open_calls(last)
        and timeline.stop_reason(last) != "pause_turn"
    )


def _items_after(timeline: Timeline, seq: int) -> int:
    """Count the records whose sequence is larger."""
    item = timeline.items - 1
    while item >= 0 and (timeline.seq(item) or seq + 1) > seq:
        item -= 1
    return timeline.items - 1 - item
