"""One conversation: its turns, what was said in each, and a fork before a prompt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.screen import Screen

from refold.app import keys
from refold.app.lines import Cell, FixedRows
from refold.app.present import history as present
from refold.app.present.history import TurnRows
from refold.app.present.layout import cell
from refold.app.present.units import plural
from refold.app.safe import Safe, line
from refold.app.screens.notice import NoticeScreen
from refold.app.widgets.bars import TopBar
from refold.app.widgets.dialog import Dialog
from refold.app.widgets.key_bar import KeyBar
from refold.app.widgets.line_list import LineList
from refold.app.widgets.line_pager import LinePager
from refold.app.widgets.words import Words
from refold.core.errors import RefoldError
from refold.core.rivumi.conversation import Turn
from refold.core.rivumi.conversation_fork import ConversationFork
from refold.core.store.conversations import carry_out_fork, load_conversation, plan_fork_before

if TYPE_CHECKING:
    from refold.app.screens.history import HistoryScreen


class ChatScreen(Screen[None]):
    """Shows the turns of a conversation. By itself it reads, and nothing else."""

    CSS_PATH = "../../styles/history.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("chat")]

    def __init__(self, path: Path, history: HistoryScreen | None = None) -> None:
        """Show a conversation.

        Args:
            path: Its directory.
            history: The list that it was opened from; it shows a fork that is made here.
        """
        super().__init__()
        self._path = path
        self._history = history
        self.conversation = load_conversation(path)

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield TopBar(id="top")
        yield Words(id="chat-standing")
        yield LineList(id="turns")
        with Container(id="panel"):
            yield LinePager(id="turn")
        yield KeyBar(id="keys")

    @property
    def listing(self) -> LineList:
        """The turns."""
        return self.query_one("#turns", LineList)

    @property
    def turn(self) -> Turn | None:
        """The turn under the cursor."""
        turns, place = self.conversation.turns, self.listing.cursor
        return turns[place] if 0 <= place < len(turns) else None

    def on_mount(self) -> None:
        """Show the turns, with the cursor on the last one."""
        self._show()
        self.listing.focus()

    def _read_again(self) -> None:
        self.conversation = load_conversation(self._path)
        self._show()

    def _show(self) -> None:
        found = self.conversation
        left = (cell("conversation ", "dim"), cell(found.label, "strong"), cell(f"   {found.runtime}", "dim"))
        right = (Cell(Safe(plural(len(found.turns), "turn")), "dim"),)
        self.query_one("#top", TopBar).show(left, right)
        said = f"Its own program would not load it: {found.refusal}" if found.refusal else ""
        self.query_one("#chat-standing", Words).show((cell(said, "problem"),) if said else ())
        self.set_class(bool(said), "-refused")
        self.listing.show(TurnRows(found.turns), max(0, len(found.turns) - 1))

    @on(LineList.Moved, "#turns")
    @on(LinePager.Resized, "#turn")
    def _draw_turn(self) -> None:
        turn, pager = self.turn, self.query_one("#turn", LinePager)
        pager.show(FixedRows(() if turn is None else present.turn_lines(turn, pager.width)))

    @on(LineList.Chosen, "#turns")
    def _chosen(self) -> None:
        self.action_pane()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey out what needs a turn where there is none."""
        if action in ("fork", "pane"):
            return True if self.conversation.turns else None
        return super().check_action(action, parameters)

    def why_not(self, action: str) -> str:
        """Say why an action is refused now; empty where it is not."""
        wants_a_turn = action in ("fork", "pane")
        return "The conversation has no turn." if wants_a_turn and not self.conversation.turns else ""

    def action_pane(self) -> None:
        """Give the keys to the text, or back to the turns."""
        pager = self.query_one("#turn", LinePager)
        (self.listing if self.focused is pager else pager).focus()

    def action_back(self) -> None:
        """Back to the list."""
        if self.focused is not self.listing:
            self.listing.focus()
        elif self._history is None:
            self.app.exit()
        else:
            self.app.pop_screen()

    def action_copy(self) -> None:
        """Copy what is typed in its own program to go on with it."""
        text = present.goes_on(self.conversation)
        self.app.copy_to_clipboard(text)
        self.notify(text, title="Sent to the clipboard of the terminal")

    def action_resume(self) -> None:
        """Start its own program in the terminal, and say first what resumes the conversation there."""
        from refold.app.launch import in_terminal

        if self.app.screen is not self:
            return
        text = present.goes_on(self.conversation)
        self.app.copy_to_clipboard(text)
        name = present.program(self.conversation, str(self._path))
        advice = f"In {name}, type {text} (in the clipboard)"
        ended = in_terminal([name], cwd=str(Path.cwd()), suspend=self.app.suspend, advice=advice)
        self._read_again()
        said = (
            f"{name} {ended.sentence}. There, type {text}" if not ended.fine else f"{name} {ended.sentence}"
        )
        self.notify(said, severity="information" if ended.fine else "warning")

    def action_fork(self) -> None:
        """Show what a fork before this prompt would be."""
        turn = self.turn
        if turn is None or self.app.screen is not self:
            return
        try:
            plan = plan_fork_before(self._path, turn)
        except RefoldError as error:
            self.app.push_screen(NoticeScreen.of(Safe("No fork"), error))
            return
        self.app.push_screen(ChatForkScreen(plan, self._carry_out))

    def _carry_out(self, plan: ConversationFork) -> None:
        try:
            made = carry_out_fork(self._path, plan)
        except RefoldError as error:
            self.app.push_screen(NoticeScreen.of(Safe("No fork"), error))
            return
        self.notify(f"{made.name}, in {made.parent}", title="The fork is made")
        if self._history is not None:
            self._history.show_next(made)
            self.app.pop_screen()


class ChatForkScreen(Dialog[None]):
    """The plan of a fork; nothing is written before Enter."""

    CSS_PATH = "../../styles/dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("chatfork")]
    ROWS: ClassVar[int] = 6

    def __init__(self, plan: ConversationFork, carry_out: Callable[[ConversationFork], None]) -> None:
        super().__init__()
        self._plan = plan
        self._carry_out = carry_out

    def compose(self) -> ComposeResult:
        """Title, plan, keys."""
        with Vertical(classes="dialog"):
            yield Words(id="fork-title")
            yield LinePager(id="fork-plan")
            yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """Write the plan."""
        title = f"Fork {line(self._plan.source[:12])} before turn {self._plan.turn.number}"
        self.query_one("#fork-title", Words).show((Cell(Safe(title), "accent"),))
        self._write()

    @on(LinePager.Resized, "#fork-plan")
    def _write(self) -> None:
        pager = self.query_one("#fork-plan", LinePager)
        lines = present.fork_lines(self._plan, max(20, pager.width))
        self.fit(pager, len(lines))
        pager.show(FixedRows(lines))

    def action_go(self) -> None:
        """Make the fork."""
        self.dismiss()
        self._carry_out(self._plan)

    def action_close(self) -> None:
        """Back; nothing is written."""
        self.dismiss()
