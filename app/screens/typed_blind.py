"""Opens where a key that asks for words elsewhere has no meaning: it takes the words, and does nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

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

if TYPE_CHECKING:
    from textual import events
    from textual.screen import Screen

_ELSEWHERE: Final = {
    "slash": "/ filters the list of runs, and searches in a run that is open.",
    "colon": ": goes to a sequence number in a run that is open.",
}
"""What keys that ask for words do where they do something."""


def asks_elsewhere(event: events.Key, screen: Screen[object]) -> bool:
    """Say whether a key would ask for words on another screen, and means nothing on this one."""
    return event.key in _ELSEWHERE and event.key not in screen.active_bindings


class TypedBlindScreen(Dialog[None]):
    """Lets nothing that is typed act as a key: no letter, and no Enter, until it is left."""

    CSS_PATH = "../../styles/dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("blind")]
    ROWS: ClassVar[int] = 6

    def __init__(self, key: str) -> None:
        """Say what a key does elsewhere.

        Args:
            key: Its name, as Textual gives it.
        """
        super().__init__()
        self._key = key

    def compose(self) -> ComposeResult:
        """Title, text, the key that closes."""
        with Vertical(classes="dialog"):
            yield Words((Cell(Safe(f"{keys.shown(self._key)} means nothing here"), "accent"),))
            yield LinePager(id="blind-text")
            yield KeyBar(id="blind-keys")

    def on_mount(self) -> None:
        """Take the keys."""
        self.query_one(LinePager).focus()

    def on_line_pager_resized(self) -> None:
        """Write the text for the width there is."""
        pager = self.query_one(LinePager)
        said: tuple[tuple[str, Role], ...] = (
            (_ELSEWHERE[self._key], "text"),
            ("What is typed now does nothing: it is not taken for keys.", "dim"),
        )
        width = max(20, pager.width)
        lines: list[Line] = [(Cell(row, role),) for text, role in said for row in wrap(Safe(text), width)]
        self.fit(pager, len(lines))
        pager.show(FixedRows(lines))

    def action_close(self) -> None:
        """Go back."""
        self.dismiss()
