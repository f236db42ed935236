"""The single rows around a list: what is open, what the columns are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from refold.app.lines import Cell, Column, Line, cells
from refold.app.safe import Safe, fit
from refold.app.widgets.line_list import GUTTER
from refold.app.widgets.painting import Painter, rows_in


class LineBar(Widget):
    """One row of cells; what draws more of them comes from this."""

    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        self._strips: list[Strip] = []
        super().__init__(id=id, classes=classes)
        self._painter = Painter(self)

    def line(self, width: int) -> Line:
        """The row for this width."""
        return ()

    def lines(self, width: int) -> tuple[Line, ...]:
        """All rows, where there are more than one."""
        return (self.line(width),)

    def refresh(
        self,
        *regions: Region,
        repaint: bool = True,
        layout: bool = False,
        recompose: bool = False,
    ) -> Self:
        """Draw anew: what is shown has changed."""
        self._strips = []
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows, as they were drawn before where nothing changed."""
        width, height = self.size
        if not self._strips or self._strips[0].cell_length != width or len(self._strips) != height:
            lines = self.lines(width)
            self._strips = [
                self._painter.strip(lines[y] if y < len(lines) else (), width) for y in range(height)
            ]
        return rows_in(self._strips, crop, width)

    def notify_style_update(self) -> None:
        """Draw in the new theme."""
        super().notify_style_update()
        self._painter.forget()
        self._strips = []


class TopBar(LineBar):
    """The first row: the name of the program, what is open at the left, where we are in it at the right."""

    BRAND: ClassVar[Line] = (Cell(Safe(" refold "), "brand"), Cell(Safe("  ")))

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._left: Line = ()
        self._right: Line = ()

    def show(self, left: Line, right: Line = ()) -> None:
        """Show these cells; where both do not fit, the left one is cut."""
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self.refresh()

    async def on_click(self, event: events.Click) -> None:
        """Open the palette where the name of the program is clicked: not all keys fit into the footer."""
        if event.x < cells(self.BRAND):
            await self.app.run_action("command_palette")

    def line(self, width: int) -> Line:
        """Name, left part, space, right part."""
        right = (Cell(Safe("  ")), *self._right, Cell(Safe(" "))) if self._right else ()
        room = width - cells(right)
        if room < cells(self.BRAND):
            right, room = (), width
        return (*clipped((*self.BRAND, *self._left), room), *right)


class ColumnHeader(LineBar):
    """The names of the columns; a click on one sorts by it."""

    class SortPicked(Message):
        """The list is to be sorted by this column."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._columns: Sequence[Column] = ()
        self._sort_key = ""
        self._descending = False

    def show(self, columns: Sequence[Column], sort_key: str, descending: bool) -> None:  # noqa: FBT001
        """Name the columns, an arrow beside the one that the rows are sorted by."""
        self._columns, self._sort_key, self._descending = tuple(columns), sort_key, descending
        self.refresh()

    def line(self, width: int) -> Line:
        """The names, each as wide as its column."""
        named: list[Cell] = [Cell(Safe(" " * GUTTER))]
        for column in self._columns:
            sorted_by = column.key == self._sort_key and bool(column.key)
            arrow = ("▼" if self._descending else "▲") if sorted_by else ""
            text = (
                Safe(fit(column.label, max(0, column.width - 1)).rstrip() + arrow) if arrow else column.label
            )
            named.append(Cell(fit(text, column.width, column.align), "accent" if sorted_by else "dim"))
            named.append(Cell(Safe(" " * column.gap)))
        return tuple(named)

    def on_click(self, event: events.Click) -> None:
        """Sort by the column under the mouse."""
        start = GUTTER
        for column in self._columns:
            if start <= event.x < start + column.width + column.gap and column.key:
                self.post_message(self.SortPicked(column.key))
                return
            start += column.width + column.gap


def clipped(line: Line, width: int) -> Line:
    """The line in exactly so many cells: cut with an ellipsis, or padded."""
    taken = cells(line)
    if taken <= width:
        return (*line, Cell(Safe(" " * (width - taken))))
    kept: list[Cell] = []
    for cell in line:
        taken = cells((cell,))
        if taken >= width:
            kept.append(Cell(fit(Safe(cell.text + "…"), width), cell.role))
            break
        kept.append(cell)
        width -= taken
    return tuple(kept)
