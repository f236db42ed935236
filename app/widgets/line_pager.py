"""A text of any length to scroll through: only the lines in sight are made."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.binding import BindingType
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from refold.app import keys
from refold.app.lines import NO_ROWS, Rows, cells
from refold.app.widgets.painting import Painter, cropped, scroll_margin
from refold.app.widgets.scroll_bar import QuickScrolled

_REMEMBERED: Final = 512
_STEP: Final = 8
_GROUNDS: Final = {"added": "added-line", "removed": "removed-line"}
"""What a line stands on that begins with a cell of this role."""


class LinePager(QuickScrolled, can_focus=True, inherit_bindings=False):
    """Lines without a cursor. Whoever makes them wraps them to `width`, which `Resized` tells anew."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("pager")]
    ALLOW_SELECT = False
    DEFAULT_CSS = """
    LinePager {
        overflow-x: auto;
        overflow-y: scroll;
        scrollbar-size: 0 1;
    }
    """

    class Resized(Message):
        """There is another width to wrap to."""

        def __init__(self, pager: LinePager, width: int) -> None:
            super().__init__()
            self.pager = pager
            self.width = width

        @property
        def control(self) -> LinePager:
            """The pager, for `@on(LinePager.Resized, "#record")`."""
            return self.pager

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._rows: Rows = NO_ROWS
        self._painter = Painter(self)
        self._strips: LRUCache[int, Strip] = LRUCache(_REMEMBERED)
        self._widest = 0
        self._width = 0

    @property
    def rows(self) -> Rows:
        """What is shown."""
        return self._rows

    @property
    def width(self) -> int:
        """Cells that a line may take without being scrolled sideways."""
        return self._width

    @property
    def top(self) -> int:
        """The line at the upper edge."""
        return self.scroll_offset.y

    @property
    def goes_on(self) -> bool:
        """Whether there is more than what is in sight."""
        return len(self._rows) > self.size.height

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to scroll where there is more than what is in sight."""
        if action in ("scroll_up", "scroll_down"):
            return self.goes_on
        return super().check_action(action, parameters)

    def show(self, rows: Rows, *, top: int = 0) -> None:
        """Show other lines, from line `top` on."""
        self._rows = rows
        self._widest = 0
        self._strips.clear()
        self.scroll_over(Size(0, len(rows)))
        self._scroll(0, top)
        self.refresh()

    def rows_changed(self) -> None:
        """The same lines grew or shrank at the end."""
        self._strips.clear()
        self.scroll_over(Size(self._widest, len(self._rows)))
        self.refresh()

    def reveal(self, index: int) -> None:
        """Bring a line into sight, in the middle where it was not."""
        if not self.top <= index < self.top + self.size.height:
            self._scroll(self.scroll_offset.x, index - self.size.height // 2)

    def action_scroll_up(self) -> None:
        """One line up."""
        self._scroll(self.scroll_offset.x, self.top - 1)

    def action_scroll_down(self) -> None:
        """One line down."""
        self._scroll(self.scroll_offset.x, self.top + 1)

    def action_page_up(self) -> None:
        """One page up."""
        self._scroll(self.scroll_offset.x, self.top - max(1, self.size.height - 1))

    def action_page_down(self) -> None:
        """One page down."""
        self._scroll(self.scroll_offset.x, self.top + max(1, self.size.height - 1))

    def action_scroll_home(self) -> None:
        """To the first line."""
        self._scroll(0, 0)

    def action_scroll_end(self) -> None:
        """To the last line."""
        self._scroll(0, len(self._rows))

    def action_scroll_left(self) -> None:
        """Some cells to the left."""
        self._scroll(self.scroll_offset.x - _STEP, self.top)

    def action_scroll_right(self) -> None:
        """Some cells to the right, where a line goes on there."""
        self._scroll(self.scroll_offset.x + _STEP, self.top)

    def on_resize(self) -> None:
        """Tell the new width."""
        width = self.scrollable_content_region.width
        if width != self._width:
            self._width = width
            self._strips.clear()
            self.post_message(self.Resized(self, self._width))

    def notify_style_update(self) -> None:
        """Draw in the new theme."""
        super().notify_style_update()
        self._painter.forget()
        self._strips.clear()

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines in sight, as they were drawn before where nothing changed."""
        (left, top), margin = self.scroll_offset, scroll_margin(self)
        width = self.size.width - margin
        if width != self._width:
            self._strips.clear()
        drawn = [self._strip(top + y, left, width, margin) for y in crop.line_range]
        return cropped(drawn, crop, width + margin)

    def _strip(self, index: int, left: int, width: int, margin: int) -> Strip:
        """One row of the screen."""
        if index >= len(self._rows):
            return self._painter.blank(width + margin)
        strip = self._strips.get(index)
        if strip is None:
            line = self._rows.line(index, width)
            taken = cells(line)
            ground = _GROUNDS.get(line[0].role, "") if line else ""
            strip = self._painter.strip(line, max(taken, width), ground, margin=margin)
            self._strips[index] = strip
            if taken > max(self._widest, width):
                self._widest = taken
                self.call_next(self._widen)
        if strip.cell_length == width + margin:
            return strip
        shown = strip.crop(left, left + width)
        return Strip.join([shown, self._painter.strip((), width + margin - shown.cell_length)])

    def _widen(self) -> None:
        """Let the widest line seen so far be scrolled to."""
        self.scroll_over(Size(self._widest, len(self._rows)))

    def _scroll(self, left: int, top: int) -> None:
        bottom = max(0, len(self._rows) - self.size.height)
        right = max(0, self._widest - self._width)
        self.scroll_to(min(max(left, 0), right), min(max(top, 0), bottom), animate=False, force=True)
