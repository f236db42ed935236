"""A notice over the screen: what happened, where, and what can be done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from refold.app import keys
from refold.app.failure import words
from refold.app.lines import Cell, FixedRows, Line, Role
from refold.app.safe import EMPTY, Safe, wrap
from refold.app.widgets.bars import LineBar
from refold.app.widgets.dialog import Dialog
from refold.app.widgets.line_pager import LinePager

_WIDTH = 64
_HEIGHT = 16


class _Title(LineBar):
    """The first row of a notice."""

    def __init__(self, title: Safe) -> None:
        super().__init__()
        self._title = title

    def line(self, width: int) -> Line:
        """The title."""
        return (Cell(self._title, "accent"),)


class NoticeScreen(Dialog[None]):
    """Some sentences that ask for nothing but to be read."""

    CSS_PATH = "../../styles/dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("dialog")]
    ROWS: ClassVar[int] = 5

    def __init__(self, title: Safe, paragraphs: Sequence[tuple[Safe, Role]]) -> None:
        super().__init__()
        self._title_text = title
        self._paragraphs = paragraphs

    @classmethod
    def of(cls, title: Safe, error: BaseException) -> NoticeScreen:
        """A notice of an error: what it says, then its remedy."""
        said, remedy = words(error)
        paragraphs: list[tuple[Safe, Role]] = [(said, "text")]
        if remedy:
            paragraphs += [(EMPTY, "text"), (remedy, "dim")]
        return cls(title, paragraphs)

    def compose(self) -> ComposeResult:
        """Title, text, the key that closes."""
        with Vertical(id="notice"):
            yield _Title(self._title_text)
            yield LinePager(id="notice-text")

    def on_mount(self) -> None:
        """Write the text for the width there is."""
        self._write(min(_WIDTH, self.app.size.width - 6))

    def on_resize(self) -> None:
        """Write it again for another width."""
        self._write(min(_WIDTH, self.app.size.width - 6))

    def action_close(self) -> None:
        """Go back."""
        self.dismiss()

    def _write(self, width: int) -> None:
        lines: list[Line] = []
        for text, role in self._paragraphs:
            lines += [(Cell(row, role),) for row in wrap(text, width)]
        lines += [(), (Cell(Safe("esc"), "key"), Cell(Safe(" close"), "dim"))]
        pager = self.query_one(LinePager)
        self.fit(pager, min(len(lines), _HEIGHT))
        pager.show(FixedRows(lines))
