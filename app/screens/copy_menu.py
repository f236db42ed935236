"""What a run is called by, a key for each: it is sent to the clipboard of the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from refold.app import keys
from refold.app.lines import Cell, Line
from refold.app.present.copies import Copy
from refold.app.present.layout import cell, fit
from refold.app.safe import Safe
from refold.app.widgets.dialog import Dialog
from refold.app.widgets.key_bar import KeyBar
from refold.app.widgets.line_list import LineList
from refold.app.widgets.words import Words


class _Rows:
    def __init__(self, copies: Sequence[Copy]) -> None:
        self._copies = copies

    def __len__(self) -> int:
        return len(self._copies)

    def line(self, index: int, width: int) -> Line:
        """The key, what it copies, and that."""
        copy = self._copies[index]
        key = keys.shown(keys.ROWS[f"copymenu.{copy.name}"].keys.partition(",")[0])
        return fit(
            (Cell(Safe(f"{key}  "), "key"), cell(f"{copy.label:<16}", "dim"), cell(copy.text, "text", 1000)),
            width,
        )


class CopyMenuScreen(Dialog[None]):
    """Copies one thing and closes."""

    CSS_PATH = "../../styles/dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("copymenu")]
    ROWS: ClassVar[int] = 6

    def __init__(self, copies: Sequence[Copy]) -> None:
        super().__init__()
        self._copies = copies

    def compose(self) -> ComposeResult:
        """Title, what there is, keys."""
        with Vertical(classes="dialog"):
            yield Words((Cell(Safe("Copy"), "accent"),))
            yield LineList(id="copies")
            yield KeyBar()

    def on_mount(self) -> None:
        """List what can be copied."""
        listing = self.query_one(LineList)
        self.fit(listing, len(self._copies))
        listing.show(_Rows(self._copies))
        listing.focus()

    @on(LineList.Chosen)
    def _chosen(self) -> None:
        self.action_copy(self._copies[self.query_one(LineList).cursor].name)

    def action_copy(self, name: str) -> None:
        """Send one of them to the clipboard."""
        copy = next((each for each in self._copies if each.name == name), None)
        if copy is None:
            return
        self.app.copy_to_clipboard(copy.text)
        self.dismiss()
        self.app.notify(copy.text, title=f"The {copy.label} was sent to the terminal's clipboard")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave out the key of what this run has not: nothing goes on with a bundle."""
        if action == "copy":
            return any(copy.name == parameters[0] for copy in self._copies)
        return super().check_action(action, parameters)

    def action_close(self) -> None:
        """Copy nothing."""
        self.dismiss()
