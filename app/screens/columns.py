"""The chooser of columns, over the list that it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from refold.app import keys
from refold.app.lines import Cell, Line
from refold.app.present.runs import FIELDS
from refold.app.safe import Safe, fit
from refold.app.widgets.dialog import Dialog
from refold.app.widgets.key_bar import KeyBar
from refold.app.widgets.line_list import LineList
from refold.app.widgets.words import Words

_WORD = 12


class _FieldRows:
    """One row for each column that there is."""

    def __init__(self, chosen: Sequence[str], shown: Sequence[str]) -> None:
        self.chosen = tuple(chosen)
        self.shown = frozenset(shown)

    def __len__(self) -> int:
        return len(FIELDS)

    def line(self, index: int, width: int) -> Line:
        """A mark, the name, what the column says."""
        field = FIELDS[index]
        chosen = field.key in self.chosen
        if chosen and field.key not in self.shown:
            meaning = Cell(Safe("no room for it in this terminal"), "warn")
        else:
            meaning = Cell(Safe(field.meaning), "dim")
        return (
            Cell(Safe("✓ " if chosen else "  "), "good"),
            Cell(fit(field.label, _WORD), "strong" if chosen else "dim"),
            meaning,
        )


class ColumnsScreen(Dialog[None]):
    """Shows and hides columns; the list behind it changes at once."""

    CSS_PATH = "../../styles/dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("columns")]

    def __init__(self, chosen: Sequence[str], choose: Callable[[tuple[str, ...]], Iterable[str]]) -> None:
        """Show the chooser.

        Args:
            chosen: The keys of the columns, in order.
            choose: Takes another choice, and gives the keys that there is room for.
        """
        super().__init__()
        self._rows = _FieldRows(chosen, tuple(choose(tuple(chosen))))
        self._choose = choose

    def compose(self) -> ComposeResult:
        """Title, columns, keys."""
        with Vertical(id="columns"):
            yield Words((Cell(Safe("Columns"), "accent"),), id="columns-title")
            yield LineList(id="columns-list")
            yield KeyBar(id="columns-keys")

    def on_mount(self) -> None:
        """List the columns."""
        columns = self.query_one(LineList)
        columns.show(self._rows)
        columns.focus()

    @on(LineList.Chosen)
    def action_switch(self) -> None:
        """Show the column under the cursor, or hide it; the last one stays."""
        columns = self.query_one(LineList)
        key = FIELDS[columns.cursor].key
        chosen = self._rows.chosen
        if key in chosen:
            chosen = tuple(other for other in chosen if other != key) or chosen
        else:
            later = [field.key for field in FIELDS[columns.cursor :]]
            place = next((number for number, other in enumerate(chosen) if other in later), len(chosen))
            chosen = (*chosen[:place], key, *chosen[place:])
        self._rows.chosen = chosen
        self._rows.shown = frozenset(self._choose(chosen))
        columns.refresh_rows()

    def action_close(self) -> None:
        """Go back."""
        self.dismiss()
