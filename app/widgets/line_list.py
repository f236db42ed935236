"""The one list of Refold: it draws what is in sight and asks for nothing else."""

from __future__ import annotations

from typing import ClassVar, Final

from textual import events
from textual.binding import BindingType
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import var
from textual.strip import Strip

from refold.app import keys
from refold.app.lines import GUTTER as GUTTER
from refold.app.lines import NO_ROWS, Cell, Line, Rows
from refold.app.safe import Safe
from refold.app.widgets.painting import Painter, cropped, scroll_margin
from refold.app.widgets.scroll_bar import QuickScrolled

_REMEMBERED: Final = 1024


class LineList(QuickScrolled, can_focus=True, inherit_bindings=False):
    """Rows of one line each, with a cursor; a million rows cost what a screenful costs.

    Rows are asked for the width that is left beside the gutter. The cursor is -1 while there are no rows.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("list")]
    ALLOW_SELECT = False
    DEFAULT_CSS = """
    LineList {
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size-vertical: 1;
    }
    """

    cursor: var[int] = var(-1, init=False)
    """The row that the keys act on."""
    follow: var[bool] = var(default=False, init=False, toggle_class="-following")
    """Whether the cursor goes along with the end; it ceases when the cursor leaves the end."""

    class Moved(Message):
        """The cursor stands on another row."""

        def __init__(self, source: LineList, index: int) -> None:
            super().__init__()
            self.source = source
            self.index = index

        @property
        def control(self) -> LineList:
            """The list, for `@on(LineList.Moved, "#timeline")`."""
            return self.source

        def can_replace(self, message: Message) -> bool:
            """Only the last of several moves matters."""
            return isinstance(message, LineList.Moved) and message.source is self.source

    class Chosen(Message):
        """The row was picked: by Enter or a second click."""

        def __init__(self, source: LineList, index: int) -> None:
            super().__init__()
            self.source = source
            self.index = index

        @property
        def control(self) -> LineList:
            """The list, for `@on(LineList.Chosen, "#runs")`."""
            return self.source

    class FollowChanged(Message):
        """The list began or ceased to go along with its end."""

        def __init__(self, source: LineList, *, following: bool) -> None:
            super().__init__()
            self.source = source
            self.following = following

        @property
        def control(self) -> LineList:
            """The list, for `@on(LineList.FollowChanged, "#timeline")`."""
            return self.source

    class Resized(Message):
        """The list was laid out, or has another width."""

        def __init__(self, source: LineList) -> None:
            super().__init__()
            self.source = source

        @property
        def control(self) -> LineList:
            """The list, for `@on(LineList.Resized, "#runs")`."""
            return self.source

    def __init__(
        self,
        *,
        can_follow: bool = False,
        id: str | None = None,  # noqa: A002
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._rows: Rows = NO_ROWS
        self._painter = Painter(self)
        self._lines: LRUCache[int, Line] = LRUCache(_REMEMBERED)
        self._strips: LRUCache[tuple[int, str], Strip] = LRUCache(_REMEMBERED)
        self._width = 0
        self.can_follow = can_follow
        """Whether the reader may make the list follow by going to its end."""
        self._clicked = -1
        self._clicked = -1

    @property
    def rows(self) -> Rows:
        """What is shown."""
        return self._rows

    def show(self, rows: Rows, cursor: int = 0, *, keep: bool = False) -> None:
        """Show other rows with the cursor on one of them; `Moved` is posted in any case.

        With `keep` the cursor's row stays at the height on the screen where it stands now, so that a list
        that fills or is sorted anew does not move under the reader's eyes.
        """
        height = self.cursor - self.scroll_offset.y
        self._rows = rows
        self._forget_rows()
        self.scroll_over(Size(0, len(rows)))
        self.set_reactive(LineList.cursor, self.validate_cursor(cursor))
        if keep and self.cursor >= 0:
            self._scroll(self.cursor - height)
        self._reveal()
        self.refresh()
        self.post_message(self.Moved(self, self.cursor))

    def rows_changed(self) -> None:
        """The same rows grew or shrank at the end; call it some ten times a second at most."""
        before, count = self.virtual_size.height, len(self._rows)
        if count < before:
            self._forget_rows()
        self.scroll_over(Size(0, count))
        if self.follow or self.cursor < 0 or self.cursor >= count:
            self.cursor = count - 1 if self.follow or self.cursor >= count else 0
        if before < self.scroll_offset.y + self.size.height or count < before:
            self.refresh()

    def refresh_rows(self, first: int | None = None, last: int | None = None) -> None:
        """Draw rows `first` to `last`, both included, anew; all rows without arguments."""
        if first is None:
            self._forget_rows()
            self.refresh()
            return
        for index in range(max(first, 0), min(first if last is None else last, len(self._rows) - 1) + 1):
            self._lines.discard(index)
            for state in ("", "here", "here-blurred"):
                self._strips.discard((index, state))
            self._refresh_row(index)

    def move(self, delta: int) -> None:
        """Move the cursor by so many rows, as far as there are rows."""
        self.go(self.cursor + delta)

    def go(self, index: int) -> None:
        """Put the cursor on a row as the reader does: at the end a list that can follow begins to."""
        self.cursor = index
        if self.can_follow and self.cursor == len(self._rows) - 1:
            self.follow = True

    def choose(self) -> None:
        """Pick the row under the cursor."""
        if self.cursor >= 0:
            self.post_message(self.Chosen(self, self.cursor))

    def validate_cursor(self, cursor: int) -> int:
        """The nearest row there is; -1 without rows."""
        return min(max(cursor, 0), len(self._rows) - 1)

    def watch_cursor(self, old: int, new: int) -> None:
        """Draw the two rows, bring the new one into sight and tell."""
        self._clicked = -1
        top = self.scroll_offset.y
        self._reveal()
        if self.scroll_offset.y == top:
            # Else all rows are drawn.
            self._refresh_row(old)
            self._refresh_row(new)
        if self.follow and new != len(self._rows) - 1:
            self.follow = False
        self.post_message(self.Moved(self, new))

    def watch_follow(self, following: bool) -> None:  # noqa: FBT001
        """Go to the end, and tell."""
        if following:
            self.cursor = len(self._rows) - 1
        self.post_message(self.FollowChanged(self, following=following))

    def action_cursor_up(self) -> None:
        """One row up."""
        self.move(-1)

    def action_cursor_down(self) -> None:
        """One row down."""
        self.move(1)

    def action_page_up(self) -> None:
        """One page up."""
        self.move(-max(1, self.size.height - 1))

    def action_page_down(self) -> None:
        """One page down."""
        self.move(max(1, self.size.height - 1))

    def action_first(self) -> None:
        """To the first row."""
        self.go(0)

    def action_last(self) -> None:
        """To the last row."""
        self.go(len(self._rows) - 1)

    def key_enter(self, event: events.Key) -> None:
        """Pick the row; the key ends here, or a screen opened by it would get it as well."""
        event.stop()
        self.choose()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where the mouse is; a second click there picks the row."""
        index = event.y + self.scroll_offset.y
        if not 0 <= index < len(self._rows):
            return
        again = event.chain > 1 or index == self._clicked
        self.go(index)
        self._clicked = index
        if again:
            self.choose()

    def on_mouse_scroll_up(self) -> None:
        """Looking back is leaving the end."""
        self.follow = False

    def _size_updated(
        self,
        size: Size,
        virtual_size: Size,
        container_size: Size,
        layout: bool = True,  # noqa: FBT001, FBT002 - as Textual calls it
    ) -> bool:
        """Keep the cursor in sight from the first drawing: Textual (8.2.8, no public way) tells after it."""
        changed = super()._size_updated(size, virtual_size, container_size, layout)
        if changed:
            self._reveal()
        return changed

    def on_resize(self) -> None:
        """Tell of the room."""
        self.post_message(self.Resized(self))

    def notify_style_update(self) -> None:
        """Draw in the new theme."""
        super().notify_style_update()
        self._painter.forget()
        self._strips.clear()

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows in sight, as they were drawn before where nothing changed."""
        top, width, count = self.scroll_offset.y, self.size.width, len(self._rows)
        if width != self._width:
            self._width = width
            self._forget_rows()
        cursor, here = self.cursor, "here" if self.has_focus else "here-blurred"
        drawn: list[Strip] = []
        for index in range(top + crop.y, top + crop.bottom):
            if not 0 <= index < count:
                drawn.append(self._painter.blank(width))
                continue
            state = here if index == cursor else ""
            drawn.append(self._strips.get((index, state)) or self._strip(index, state))
        return cropped(drawn, crop, width)

    def watch_scroll_y(self, old: float, new: float) -> None:
        """Move the thumb of the scroll bar only where it can be seen to move."""
        fine = 8 * self.size.height / max(1, len(self._rows))
        if self.show_vertical_scrollbar and int(old * fine) != int(new * fine):
            self.vertical_scrollbar.position = new
        if round(old) != round(new):
            self.refresh(self.size.region)

    def _strip(self, index: int, state: str) -> Strip:
        """One row, drawn."""
        margin = scroll_margin(self)
        width = self._width - margin
        mark = Cell(Safe("▌" if state else " "), "cursor")
        strip = self._painter.strip((mark, *self._line(index, width - GUTTER)), width, state, margin)
        self._strips[index, state] = strip
        return strip

    def _line(self, index: int, width: int) -> Line:
        """The row, made once while it stays in sight."""
        line = self._lines.get(index)
        if line is None:
            line = self._lines[index] = self._rows.line(index, max(0, width))
        return line

    def _refresh_row(self, index: int) -> None:
        """Draw a row if it is in sight: Textual would draw what lies there instead."""
        if 0 <= index - self.scroll_offset.y < self.size.height:
            self.refresh_line(index)

    def _forget_rows(self) -> None:
        self._lines.clear()
        self._strips.clear()

    def _reveal(self) -> None:
        """Scroll as little as shows the cursor; a leap puts it in the middle."""
        top, height = self.scroll_offset.y, self.size.height
        if self.cursor < 0 or height <= 0 or top <= self.cursor < top + height:
            return
        if self.cursor < top:
            near = top - self.cursor <= height
            self._scroll(self.cursor if near else self.cursor - height // 2)
        else:
            near = self.cursor - top < 2 * height
            self._scroll(self.cursor - height + 1 if near else self.cursor - height // 2)

    def _scroll(self, top: int) -> None:
        """Put a row at the top of the list."""
        self.scroll_to(
            y=min(max(top, 0), max(0, len(self._rows) - self.size.height)), animate=False, force=True
        )
