"""Cells with roles become strips with styles: the one place where a role gets its look."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from refold.app.lines import Line, Role, filled


@runtime_checkable
class Styled(Protocol):
    """An application that knows what each role looks like."""

    def role_style(self, role: str) -> Style:
        """Give the style of a role, or of the state of a row."""
        ...


class Painter:
    """Draws lines in the styles of one widget, through the gates of the application.

    Strips are made once and drawn many times: a step of the cursor would else cost all filters for all lines
    in sight. Whoever keeps strips drops them when the theme changes.
    """

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._styles: dict[str, Style] = {}
        self._base: Style | None = None
        self._blank = Strip([])

    def forget(self) -> None:
        """Read the styles again before the next line."""
        self._styles.clear()
        self._blank = Strip([])
        self._base = None

    @property
    def base(self) -> Style:
        """The widget's own style."""
        if self._base is None:
            self._base = self._widget.rich_style
        return self._base

    def style(self, role: Role | str) -> Style:
        """What a role or state adds to the style below it."""
        style = self._styles.get(role)
        if style is None:
            style = self._styles[role] = self._style_of(role)
        return style

    def _style_of(self, role: str) -> Style:
        if role == "text":
            # Nothing is added, whatever the application.
            return Style.null()
        app = self._widget.app
        if not isinstance(app, Styled):
            raise TypeError(f"{type(app).__name__} does not know what roles look like")
        return app.role_style(role)

    def blank(self, cells: int) -> Strip:
        """A row without anything."""
        if self._blank.cell_length != cells:
            self._blank = self.strip((), cells)
        return self._blank

    def strip(self, line: Line, cells: int, state: str = "", margin: int = 0) -> Strip:
        """The line, cut or padded to so many cells, in the style of a state, and a blank margin."""
        over = self.style(state) if state else Style.null()
        base = self.base
        segments = [Segment(text, base + self.style(role) + over) for text, role in filled(line, cells)]
        if margin > 0:
            segments.append(Segment(" " * margin, base))
        for gate in self._widget.app.get_line_filters():
            segments = gate.apply(segments, self._widget.styles.background)
        return Strip(segments, max(0, cells) + max(0, margin))


def scroll_margin(widget: Widget) -> int:
    """The column that is kept for the scroll bar, whether it is shown or not."""
    return max(0, widget.size.width - widget.scrollable_content_region.width)


def rows_in(strips: list[Strip], crop: Region, width: int) -> list[Strip]:
    """The rows that are asked for: while a screen is arranged anew that may be more than were drawn."""
    blank = Strip.blank(width)
    return cropped([strips[y] if 0 <= y < len(strips) else blank for y in crop.line_range], crop, width)


def cropped(strips: list[Strip], crop: Region, width: int) -> list[Strip]:
    """Whole rows as `Widget.render_lines` returns them."""
    start, end = crop.column_span
    return strips if (start, end) == (0, width) else [strip.crop(start, end) for strip in strips]
