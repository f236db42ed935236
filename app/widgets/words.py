"""One row of words that a screen sets: the title of a dialog, its verdict."""

from __future__ import annotations

from refold.app.lines import Line
from refold.app.widgets.bars import LineBar, clipped


class Words(LineBar):
    """Shows one line, cut with an ellipsis where it does not fit."""

    def __init__(self, line: Line = (), *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._line = line

    def show(self, line: Line) -> None:
        """Show another line."""
        if line != self._line:
            self._line = line
            self.refresh()

    def line(self, width: int) -> Line:
        """The line, in this width."""
        return clipped(self._line, width)
