"""What is said about the file of an open run: that it is gone, cut short, replaced."""

from __future__ import annotations

from collections.abc import Callable

from textual.widget import Widget

from refold.app.lines import Line, Role
from refold.app.present.layout import cell
from refold.app.widgets.bars import LineBar


class Banner(LineBar):
    """One sentence about the file, while there is something to say."""

    _line: Line = ()

    def __init__(self, above: Callable[[], Widget | None], *, id: str) -> None:  # noqa: A002
        """Prepare a row that is put above another one when there is first something to say.

        Args:
            above: Gives the row below it; None while that is not there.
            id: Its name.
        """
        super().__init__(id=id)
        self._above = above

    def say(self, text: str, role: Role = "warn") -> None:
        """Show a sentence, once there is a place for it; an empty one hides the row."""
        below = self._above() if text and self.parent is None else None
        if below is not None and isinstance(below.parent, Widget):
            below.parent.mount(self, before=below)
        self._line = (cell(f" {text} ", role),) if text else ()
        self.set_class(bool(text), "-shown")
        self.refresh()

    def line(self, width: int) -> Line:
        """The sentence."""
        return self._line
