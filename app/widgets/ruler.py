"""The whole run in one row, and the scrubber of it."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message

from refold.app.lines import Cell, Line, RulerCell
from refold.app.safe import Safe
from refold.app.widgets.bars import LineBar


class Ruler(LineBar):
    """One glyph a column, a cursor over them, and a row of labels below where there is room.

    A fraction says how far a place is: column `n` of `width` lies at `(n + 0.5) / width`.
    """

    class Picked(Message):
        """The mouse was pressed or dragged at this place, from 0 to 1."""

        def __init__(self, fraction: float) -> None:
            super().__init__()
            self.fraction = fraction

        def can_replace(self, message: Message) -> bool:
            """Only the last place of a drag matters."""
            return isinstance(message, Ruler.Picked)

    class Resized(Message):
        """There are other columns to fill."""

        def __init__(self, width: int) -> None:
            super().__init__()
            self.width = width

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._cells: Sequence[RulerCell] = ()
        self._labels: Line = ()
        self._lane: Line = ()
        self._column = -1
        self._width = 0
        self._dragged = False

    def show(self, cells: Sequence[RulerCell], cursor: float, labels: Line = (), lane: Line = ()) -> None:
        """Show these columns with the cursor at a fraction; below 0 there is none."""
        self._cells, self._labels, self._lane = cells, labels, lane
        self._column = -1
        self.refresh()
        self.move(cursor)

    def move(self, cursor: float) -> None:
        """Put the cursor elsewhere on the same columns."""
        column = -1 if cursor < 0 else min(int(cursor * len(self._cells)), len(self._cells) - 1)
        if column != self._column:
            self._column = column
            self.refresh()

    def line(self, width: int) -> Line:
        """The columns, neighbours of one role joined."""
        joined: list[Cell] = []
        for number, (glyph, role) in enumerate(self._cells[:width]):
            if number == self._column:
                joined.append(Cell(Safe("┃"), "cursor"))
            elif joined and joined[-1].role == role:
                joined[-1] = Cell(Safe(joined[-1].text + glyph), role)
            else:
                joined.append(Cell(glyph, role))
        return tuple(joined)

    def lines(self, width: int) -> tuple[Line, ...]:
        """Columns, then what stands below them."""
        return (self.line(width), *((self._lane,) if self._lane else ()), self._labels)

    def on_resize(self) -> None:
        """Tell the new width."""
        if self.size.width != self._width:
            self._width = self.size.width
            self.post_message(self.Resized(self._width))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Go there, and along with the mouse until it is let go."""
        if event.button == 1:
            self._dragged = True
            self.capture_mouse()
            self._pick(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Go along."""
        if self._dragged:
            self._pick(event.x)

    def on_mouse_up(self) -> None:
        """Let go."""
        if self._dragged:
            self._dragged = False
            self.release_mouse()

    def _pick(self, x: int) -> None:
        width = self.size.width
        if width > 0:
            self.post_message(self.Picked((min(max(x, 0), width - 1) + 0.5) / width))
