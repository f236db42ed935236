"""A run that stopped, explained on one screen: lines lead to records, keys to what can be done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType

from refold.app import keys
from refold.app.explaining import explained, facts_from, look_back, patterns_in, remembered, told
from refold.app.failure import words
from refold.app.lines import Cell, FixedRows, Line
from refold.app.loading import SLICE, STILL_READING, aside, others_first, slices
from refold.app.present import postmortem as present
from refold.app.present.landing import Landing
from refold.app.present.postmortem import Drawn
from refold.app.present.reading import Reading, reading_of
from refold.app.safe import Safe, wrap
from refold.app.screens.going_on import Chosen, GoingOnScreen
from refold.app.widgets.bars import TopBar
from refold.app.widgets.key_bar import KeyBar
from refold.app.widgets.line_list import GUTTER, LineList
from refold.core.errors import RefoldError, StoreError
from refold.core.patterns import Patterns
from refold.core.postmortem import ActionName, Postmortem
from refold.core.store.reader import RunReader

if TYPE_CHECKING:
    from refold.app.settings import Settings
    from refold.core.store.session_reader import SessionReader

T = TypeVar("T")


class PostmortemScreen(GoingOnScreen):
    """Explains one run; it is read again whenever the screen comes back into sight."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("postmortem")]

    def __init__(
        self, path: Path, hint: str, settings: Settings, *, clock: Callable[[], float] = time.time
    ) -> None:
        """Explain a run.

        Args:
            path: The run.
            hint: The format to assume where the bytes do not tell.
            settings: Where notes and caches lie; the configured agents.
            clock: The time in seconds since 1970.
        """
        super().__init__()
        self.path = path
        self._hint = hint
        self._settings = settings
        self._clock = clock
        self._progress = 0.0
        self._reading: Reading | None = None
        self._post: Postmortem | None = None
        self._patterns: Patterns | None = None
        self._failed: RefoldError | None = None
        self._drawn = Drawn((), ())
        self._lending = threading.Lock()
        self._lent: set[Reading] = set()
        """Open runs that a thread reads from."""
        self._left: set[Reading] = set()
        """Those of them that the thread is to close."""
        self._finished = False

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield TopBar(id="top")
        yield LineList(id="postmortem")
        yield KeyBar(id="keys")

    @property
    def listing(self) -> LineList:
        """The lines."""
        return self.query_one("#postmortem", LineList)

    @property
    def postmortem(self) -> Postmortem | None:
        """What was found; None while the run is read."""
        return self._post

    @property
    def is_read(self) -> bool:
        """Whether all that will be said is said."""
        return self._finished

    def on_mount(self) -> None:
        """Take the keys."""
        self.listing.focus()
        self._draw()

    def on_unmount(self) -> None:
        """Close the run."""
        if self._reading is not None:
            self._leave(self._reading)
            self._reading = None

    def on_resize(self) -> None:
        """Draw for another width."""
        self.call_after_refresh(self._draw)

    @on(events.ScreenResume)
    def _in_sight(self) -> None:
        self._read()

    @work(group="postmortem", exclusive=True)
    async def _read(self) -> None:
        self._finished, self._failed = False, None
        try:
            await self._explain()
        except RefoldError as error:
            self._failed = error
        self._finished = True
        self._draw()
        self.refresh_bindings()

    async def _explain(self) -> None:
        """Read the run in slices; then its patterns; then what its agent says of its tools.

        Raises:
            StoreError: it cannot be read.
        """
        reading = reading_of(RunReader.open(self.path, hint=self._hint, cache=self._settings.cache_dir))
        try:
            await self._explain_open(reading)
        finally:
            if self._reading is not reading:
                self._leave(reading)

    async def _explain_open(self, reading: Reading) -> None:
        reader = reading.reader
        while not reader.step(SLICE):
            self._progress = reader.progress
            self._draw_top()
            await others_first()
        self._progress = 1.0
        self._draw_top()
        if reader.session is not None:
            await self._explain_session(reading, reader.session)
        else:
            await self._explain_journal(reading)

    async def _explain_journal(self, reading: Reading) -> None:
        reader = reading.reader
        rewritten = await self._lend(reading, lambda: look_back(reader, self._settings))
        agent, facts = await self._lend(reading, lambda: facts_from(reader, self._settings))
        await self._show(reading, lambda: remembered(explained(reader, agent, facts), rewritten, reader))
        await self._look_for(patterns_in(reader, facts))
        all_facts = await aside(lambda: told(agent, facts, self._settings))
        await self._show(reading, lambda: remembered(explained(reader, agent, all_facts), rewritten, reader))

    async def _explain_session(self, reading: Reading, session: SessionReader) -> None:
        from refold.app.session_postmortem import patterns_of_run, session_postmortem

        now = self._clock()
        rewritten = await self._lend(reading, lambda: look_back(session, self._settings))
        await self._show(
            reading,
            lambda: remembered(session_postmortem(session, self._settings, now), rewritten, session),
        )
        await self._look_for(patterns_of_run(session, now))

    async def _look_for(self, looking: Iterator[Patterns | None]) -> None:
        async with aclosing(slices(looking)) as steps:
            async for produced in steps:
                self._patterns = next((each for each in produced if each is not None), self._patterns)
        self._draw()

    async def _lend(self, reading: Reading, work: Callable[[], T]) -> T:
        """Let a thread read from the open run; it is closed by whoever is the last to need it."""
        self._lent.add(reading)

        def lent() -> T:
            try:
                return work()
            finally:
                with self._lending:
                    self._lent.discard(reading)
                    if reading in self._left:
                        reading.reader.close()

        return await aside(lent)

    def _leave(self, reading: Reading) -> None:
        """Close a run, or let the thread do it that reads from it."""
        with self._lending:
            if reading in self._lent:
                self._left.add(reading)
            else:
                reading.reader.close()

    async def _show(self, reading: Reading, explain: Callable[[], Postmortem]) -> None:
        """Explain the run aside, for there may be very much damage, and draw it."""
        post = await self._lend(reading, explain)
        if self._reading is not reading:
            before, self._reading, self._patterns = self._reading, reading, None
            if before is not None:
                self._leave(before)
        self._post = post
        self._draw()
        self.refresh_bindings()

    def _draw(self) -> None:
        self._draw_top()
        listing = self.listing
        width = listing.scrollable_content_region.width - GUTTER
        if width < 4:
            return
        if self._failed is not None:
            said, remedy = words(self._failed)
            lines: list[Line] = [(Cell(row, "problem"),) for row in wrap(said, width)]
            lines += [(Cell(row, "dim"),) for row in wrap(remedy, width)]
            self._drawn = Drawn(tuple(lines), (None,) * len(lines))
        elif self._post is not None and self._reading is not None:
            rows = self._reading.rows()
            self._drawn = present.postmortem_lines(self._post, rows, width, self._keys(), self._patterns)
        else:
            return
        listing.show(FixedRows(self._drawn.lines), max(0, listing.cursor), keep=True)

    def _draw_top(self) -> None:
        left, right = present.top(self._post, self.path.stem, self._progress)
        self.query_one(TopBar).show(left, () if self._failed else right)

    def _keys(self) -> dict[str, str]:
        return {each: keys.shown_of(each, self._settings.keymap) for each in present.KEY_IDS}

    def chosen(self) -> Chosen | None:
        """The run, and the record after which a fork stands before the trouble."""
        at = None if self._post is None else self._at("fork")
        return Chosen(self.path, self._hint, self._settings, None if at is None else Landing(at))

    def _at(self, name: ActionName) -> int | None:
        actions = () if self._post is None else self._post.actions
        return next((action.at for action in actions if action.name == name), None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey out what cannot be done."""
        if action in ("resume", "fork", "salvage", "repair"):
            if self._post is None:
                return None
            possible = any(each.name == action and each.possible for each in self._post.actions)
            return True if possible else None
        return super().check_action(action, parameters)

    def key_words(self) -> Mapping[str, str]:
        """Leave out of the footer what the screen says cannot be done: its keys still say why."""
        actions = () if self._post is None else self._post.actions
        return {f"postmortem.{action.name}": "" for action in actions if action.aside or not action.possible}

    def why_not(self, action: str) -> str:
        """Say why an action is refused now; empty where it is not."""
        if action not in ("resume", "fork", "salvage", "repair"):
            return super().why_not(action)
        if self._post is None:
            return STILL_READING if self._failed is None else words(self._failed)[0]
        return next((each.why_not for each in self._post.actions if each.name == action), "")

    def action_open(self) -> None:
        """Go where the line under the cursor leads: to its record, or to what it offers."""
        from refold.app.screens.run import RunScreen

        cursor = self.listing.cursor
        target = self._drawn.targets[cursor] if 0 <= cursor < len(self._drawn.targets) else None
        if target is None and self._post is not None:
            self.notify("This line leads nowhere. Lines of records do, and what is offered at the end.")
        elif isinstance(target, str):
            self._do(target)
        elif target is not None and self.app.screen is self:
            below = self.app.screen_stack[-2] if len(self.app.screen_stack) > 1 else None
            if isinstance(below, RunScreen) and below.path == self.path:
                self.dismiss()
                below.land(target)
            else:
                run = RunScreen(
                    self.path, target.seq, line=target.line, settings=self._settings, hint=self._hint
                )
                self.app.push_screen(run)

    @on(LineList.Chosen, "#postmortem")
    def _picked(self) -> None:
        self.action_open()

    def _do(self, name: ActionName) -> None:
        if name == "nothing":
            self.action_back()
        else:
            # Like a key: where it is refused, that says why.
            self.call_later(self.app.run_action, name, self)

    def action_salvage(self) -> None:
        """Show what a salvage would keep and leave out."""
        self._mend("salvage")

    def action_repair(self) -> None:
        """Show what a repair of the end would do."""
        self._mend("repair")

    def _mend(self, what: ActionName) -> None:
        if not self._asking and self.app.screen is self:
            self._asking = True
            self._ask_to_mend(what)

    @work(group="mending")
    async def _ask_to_mend(self, what: ActionName) -> None:
        from refold.app.screens import mending
        from refold.app.screens.notice import NoticeScreen

        chosen = Chosen(self.path, self._hint, self._settings)
        try:
            await (mending.repair_end if what == "repair" else mending.salvage_run)(self, chosen)
            # What was read meanwhile may be from before it was done.
            self._read()
        except (RefoldError, StoreError, OSError) as error:
            self.app.push_screen(NoticeScreen.of(Safe("Nothing was written"), error))
        finally:
            self._asking = False

    def action_back(self) -> None:
        """Go back."""
        if len(self.app.screen_stack) > 1:
            self.dismiss()
