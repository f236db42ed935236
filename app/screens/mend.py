"""The dialog before a repair or a salvage: what would be written, and nothing of it before Enter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from refold.app import keys
from refold.app.lines import Cell, FixedRows, Line, Role
from refold.app.safe import Safe, wrap
from refold.app.widgets.dialog import Dialog
from refold.app.widgets.key_bar import KeyBar
from refold.app.widgets.line_pager import LinePager
from refold.app.widgets.words import Words


class MendScreen(Dialog[bool]):
    """A plan in sentences; dismissed with True where it is agreed to."""

    CSS_PATH = "../../styles/dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("mend")]
    ROWS: ClassVar[int] = 6

    def __init__(self, title: Safe, paragraphs: Sequence[tuple[Safe, Role]]) -> None:
        """Show a plan.

        Args:
            title: What is to be done, and with what.
            paragraphs: What it would write.
        """
        super().__init__()
        self._title_text = title
        self._paragraphs = paragraphs

    def compose(self) -> ComposeResult:
        """Title, plan, keys."""
        with Vertical(classes="dialog"):
            yield Words((Cell(self._title_text, "accent"),), id="mend-title")
            yield LinePager(id="mend-plan")
            yield KeyBar(id="mend-keys")

    def on_mount(self) -> None:
        """Take the keys."""
        self.query_one(LinePager).focus()
        self._write()

    @on(LinePager.Resized, "#mend-plan")
    def _write(self) -> None:
        pager = self.query_one("#mend-plan", LinePager)
        lines: list[Line] = []
        for text, role in self._paragraphs:
            lines += [(Cell(row, role),) for row in wrap(text, max(20, pager.width))]
        self.fit(pager, len(lines))
        pager.show(FixedRows(lines))

    def action_go(self) -> None:
        """Agree."""
        self.dismiss(True)  # noqa: FBT003

    def action_close(self) -> None:
        """Back; nothing is written."""
        self.dismiss(False)  # noqa: FBT003
