"""The dialog before a fork: it shows what a fork at a point would be, and makes it when told to."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from refold.app import keys
from refold.app.failure import words
from refold.app.forking import plan_fork, proposed_point
from refold.app.lines import Cell, FixedRows, Line
from refold.app.loading import SLICE, STILL_READING, aside, others_first
from refold.app.present import fork_plan as present
from refold.app.present import landing
from refold.app.present.fork_plan import ForkDraft
from refold.app.present.landing import Landing
from refold.app.present.layout import cell
from refold.app.safe import Safe, wrap
from refold.app.screens.notice import NoticeScreen
from refold.app.widgets.dialog import Dialog
from refold.app.widgets.key_bar import KeyBar
from refold.app.widgets.line_pager import LinePager
from refold.app.widgets.prompt_bar import PromptBar
from refold.app.widgets.words import Words
from refold.core.errors import RefoldError
from refold.core.fork import NoForkHere, next_legal
from refold.core.fork_point import LAST, ForkPoint
from refold.core.store.fork import Forked
from refold.core.store.reader import RunReader
from refold.core.store.run_id import new_run_id

if TYPE_CHECKING:
    from refold.app.forking import AnyForkPlan

T = TypeVar("T")

_SOON: Final = 0.1
"""Seconds after which it is said that a plan is being made."""
_WRITING: Final = "The fork is being written."
_LABELS: Final = {"name": "name", "prompt": "prompt", "reason": "because"}


class ForkScreen(Dialog[Forked | None]):
    """Shows the plan of a fork, lets its point and its words be changed, and makes it."""

    CSS_PATH = "../../styles/dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("fork")]

    def __init__(
        self,
        run_id: str,
        open_reader: Callable[[], RunReader],
        carry_out: Callable[[AnyForkPlan], Forked],
        at: Landing | None = None,
        *,
        new_id: Callable[[], str] = new_run_id,
    ) -> None:
        """Ask about a fork.

        Args:
            run_id: The parent, for the title while it is read.
            open_reader: Opens the parent.
            carry_out: Makes the fork; called on a thread of its own.
            at: The record after which to fork; the proposed one if left out.
            new_id: Gives the id of the new run.
        """
        super().__init__()
        self._run_id = run_id
        self._open_reader = open_reader
        self._carry_out = carry_out
        self._at = at
        self._reader: RunReader | None = None
        self._item = -1
        self._proposed: ForkPoint | None = None
        self._child = new_id()
        self._prompt = ""
        self._reason = ""
        self._draft: ForkDraft | None = None
        self._failed: RefoldError | None = None
        self._writing = False
        self._planning = False
        self._lending = threading.Lock()
        self._plans = 0
        """Threads that read from the parent."""
        self._left = False
        """The last of them closes it."""

    def compose(self) -> ComposeResult:
        """Title, plan, verdict, what is typed, keys."""
        with Vertical(id="fork", classes="dialog"):
            yield Words((Cell(Safe("ψ Fork "), "fork"), cell(self._run_id, "strong", 60)), id="fork-title")
            yield LinePager(id="fork-plan")
            yield Words((Cell(Safe("reading the run"), "dim"),), id="fork-verdict")
            yield PromptBar(id="fork-prompt")
            yield KeyBar(id="fork-keys")

    def on_mount(self) -> None:
        """Begin to read."""
        self._pager.focus()
        self._read()

    def on_unmount(self) -> None:
        """Let go of the file; a thread that still reads from it does so when it is done."""
        with self._lending:
            self._left = True
            if self._reader is not None and not self._plans:
                self._reader.close()

    def on_resize(self) -> None:
        """Draw for another width."""
        self.call_after_refresh(self._draw)

    @property
    def draft(self) -> ForkDraft | None:
        """What is shown; None while the run is read."""
        return self._draft

    @property
    def is_planned(self) -> bool:
        """Whether what is shown is what was asked for last."""
        return self._draft is not None and not self._planning

    @property
    def is_let_go(self) -> bool:
        """Whether the screen is left, and nothing reads from the parent any more."""
        return self._left and not self._plans

    @property
    def _pager(self) -> LinePager:
        return self.query_one("#fork-plan", LinePager)

    @property
    def _verdict(self) -> Words:
        return self.query_one("#fork-verdict", Words)

    @work(group="parent", exclusive=True)
    async def _read(self) -> None:
        try:
            reader = self._reader = self._open_reader()
            while not reader.step(SLICE):
                self._verdict.show((Cell(Safe(f"reading the run {reader.progress:.0%}"), "dim"),))
                await others_first()
            self._proposed = await self._lend(reader, lambda: proposed_point(reader))
        except RefoldError as error:
            self._failed = error
            self._draw()
            return
        self._item = self._first_item(reader)
        self._plan()

    def _first_item(self, reader: RunReader) -> int:
        """Give the item that was asked for, else the proposed one, else the last one."""
        timeline = reader.timeline
        row = None if self._at is None else landing.row_of(self._at, timeline, complete=True)
        if row is not None:
            return timeline.row(row).item
        return timeline.items - 1 if self._proposed is None else self._proposed.item

    def _plan(self) -> None:
        """Plan the fork as it is asked for now, and draw it."""
        reader, item = self._reader, self._item
        if reader is None or item < 0:
            self._draft = None if reader is None else self._without_plan("the run has no record", "")
            self._draw()
            return
        # At once: what was planned before must not be carried out any more.
        self._planning = True
        self._plan_aside(reader, item)

    @work(group="plan", exclusive=True)
    async def _plan_aside(self, reader: RunReader, item: int) -> None:
        """Plan on a thread: of a long run that takes a moment."""
        child, prompt, reason = self._child, self._prompt, self._reason
        word = self.set_timer(_SOON, self._say_planning)
        try:
            plan = await self._lend(
                reader, lambda: plan_fork(reader, item, child=child, prompt=prompt, reason=reason)
            )
        except NoForkHere as error:
            bare = None
            if error.code in ("prompt_pending", "prompt_version"):
                with contextlib.suppress(RefoldError):
                    bare = await self._lend(reader, lambda: plan_fork(reader, item, child=child))
            self._draft = self._without_plan(str(error), error.remedy)._replace(bare=bare)
        except RefoldError as error:
            self._draft = self._without_plan(str(error), error.remedy)
        else:
            self._draft = self._without_plan("", "")._replace(plan=plan)
        finally:
            word.stop()
        self._planning = False
        self._draw()
        self.refresh_bindings()

    def _say_planning(self) -> None:
        self._verdict.show((Cell(Safe("planning the fork"), "dim"),))
        self.refresh_bindings()

    async def _lend(self, reader: RunReader, work: Callable[[], T]) -> T:
        """Let a thread read from the parent, which is closed by whoever is the last to need it."""
        with self._lending:
            self._plans += 1

        def lent() -> T:
            try:
                return work()
            finally:
                with self._lending:
                    self._plans -= 1
                    if self._left and not self._plans:
                        reader.close()

        return await aside(lent)

    def _without_plan(self, refusal: str, remedy: str) -> ForkDraft:
        reader, item = self._reader, self._item
        timeline = reader.timeline if reader is not None else None
        there = timeline is not None and item >= 0
        return ForkDraft(
            parent=self._run_id,
            seq=timeline.seq(item) if timeline is not None and there else None,
            line=timeline.span(item).line if timeline is not None and there else 0,
            child=self._child,
            refusal=refusal,
            remedy=remedy,
            directory=str(reader.path.parent) if reader is not None else "",
            proposed=self._said_of_proposed(),
            prompt=self._prompt,
            reason=self._reason,
        )

    def _said_of_proposed(self) -> str:
        """Say why the point is proposed, or which one would be and why."""
        proposed, reader = self._proposed, self._reader
        if proposed is None or reader is None or proposed.why == LAST or self._item < proposed.item:
            return ""
        if proposed.item == self._item:
            return f"proposed: {proposed.phrase}"
        return f"proposed is seq {reader.timeline.seq(proposed.item)}, {proposed.phrase}"

    def _draw(self) -> None:
        width = self._pager.width
        if width < 4:
            return
        if self._draft is not None:
            lines = present.fork_lines(self._draft, width)
            self.query_one("#fork-title", Words).show(present.title(self._draft))
            self._verdict.show(present.verdict(self._draft))
        elif self._failed is not None:
            lines = _told(self._failed, width)
            self._verdict.show((Cell(Safe("✗ cannot be forked"), "problem"),))
        else:
            return
        self.fit(self._pager, len(lines))
        self._pager.show(FixedRows(lines), top=self._pager.top)

    @on(LinePager.Resized)
    def _resized(self) -> None:
        self._draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey out what cannot be done here and now."""
        if action == "close":
            return True
        if self._draft is None or self._writing:
            return None
        if action == "go":
            return True if self._draft.plan is not None and not self._planning else None
        return True

    def why_not(self, action: str) -> str:
        """Say why an action is refused now; empty where it is not."""
        draft = self._draft
        if action not in ("go", "point", "ask") or (draft is not None and draft.plan and not self._planning):
            return _WRITING if action == "go" and self._writing else ""
        if draft is None:
            return words(self._failed)[0] if self._failed is not None else STILL_READING
        if action != "go":
            return ""
        if self._planning:
            return "The fork is still being planned."
        return f"No fork here: {draft.refusal}. {draft.remedy}".strip()

    def action_close(self) -> None:
        """Leave without a fork; one that is being written is waited for."""
        if self._writing:
            self.notify(_WRITING)
        else:
            self.dismiss(None)

    def action_point(self, step: int) -> None:
        """Take another legal point."""
        if self._reader is None:
            return
        item = next_legal(self._reader.timeline, self._item, step)
        if item is None:
            self.notify(f"No legal point {'after' if step > 0 else 'before'} this one.")
        else:
            self._item = item
            self._plan()

    def action_ask(self, what: str) -> None:
        """Ask for the id, the prompt or the reason."""
        text = {"name": self._child, "prompt": self._prompt, "reason": self._reason}[what]
        self.query_one("#fork-prompt", PromptBar).open(Safe(_LABELS[what]), text, purpose=what)

    @on(PromptBar.Submitted, "#fork-prompt")
    def _typed(self, event: PromptBar.Submitted) -> None:
        text = event.text.strip()
        match event.bar.purpose:
            case "name":
                self._child = text
            case "prompt":
                self._prompt = text
            case _:
                self._reason = text
        self._plan()

    @work(group="write", exclusive=True)
    async def action_go(self) -> None:
        """Make the fork."""
        plan = self._draft.plan if self._draft is not None else None
        if plan is None or self._writing or self._planning:
            return
        self._writing = True
        self._verdict.show((Cell(Safe("writing the fork"), "dim"),))
        self.refresh_bindings()
        try:
            forked = await asyncio.to_thread(self._carry_out, plan)
        except RefoldError as error:
            self._writing = False
            self.app.push_screen(NoticeScreen.of(Safe("The fork was not made"), error))
            self._plan()
            return
        self.dismiss(forked)


def _told(error: RefoldError, width: int) -> list[Line]:
    said, remedy = words(error)
    lines: list[Line] = [(Cell(row, "problem"),) for row in wrap(said, width)]
    return [*lines, *((Cell(row, "dim"),) for row in wrap(remedy, width))]
