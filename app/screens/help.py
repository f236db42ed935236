"""The help page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen

from refold.app import keys
from refold.app.lines import Cell, FixedRows
from refold.app.present import help as page
from refold.app.safe import Safe
from refold.app.widgets.bars import TopBar
from refold.app.widgets.key_bar import KeyBar
from refold.app.widgets.line_pager import LinePager

_ANYWHERE: Final = frozenset({"list", "pager", "prompt", "dialog", "app"})
"""Places of the table that are no screen of their own."""


class HelpScreen(Screen[None]):
    """The whole map of keys, signs and words, over the screen that it explains."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("dialog")]

    def __init__(self, below: Screen[object], keymap: Mapping[str, str]) -> None:
        super().__init__()
        here = {one.binding.id for one in below.active_bindings.values()}
        places = (key.place for key in keys.TABLE if key.id in here)
        self._place = next((place for place in places if place not in _ANYWHERE), "app")
        self._keymap = keymap

    def compose(self) -> ComposeResult:
        """Name, text, keys."""
        yield TopBar()
        yield LinePager(id="help")
        yield KeyBar()

    def on_mount(self) -> None:
        """Say what this is."""
        self.query_one(TopBar).show((Cell(Safe("help"), "strong"),))
        self.query_one(LinePager).focus()

    def action_close(self) -> None:
        """Go back."""
        self.dismiss()

    @on(LinePager.Resized)
    def _write(self, event: LinePager.Resized) -> None:
        lines = page.lines(event.width, self._place, self._keymap)
        event.pager.show(FixedRows(lines), top=event.pager.top)
