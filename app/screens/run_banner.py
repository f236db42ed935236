"""What is said about the file of an open run: that it is gone, cut short, replaced."""

from __future__ import annotations

from refold.app.lines import Line, Role
from refold.app.present.layout import cell
from refold.app.widgets.bars import LineBar


class Banner(LineBar):
    """One sentence about the file, while there is something to say."""

    _line: Line = ()

    def say(self, text: str, role: Role = "warn") -> None:
        """Show a sentence; an empty one hides the row."""
        self._line = (cell(f" {text} ", role),) if text else ()
        self.set_class(bool(text), "-shown")
        self.refresh()

    def line(self, width: int) -> Line:
        """The sentence."""
        return self._line
