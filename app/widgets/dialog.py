"""A dialog: one frame over another screen, around a title, a text, what is typed and the keys."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.await_complete import AwaitComplete
from textual.content import Content
from textual.screen import ModalScreen, ScreenResultType
from textual.widget import Widget
from textual.widgets._toast import Toast

from refold.app.widgets.bars import LineBar
from refold.app.widgets.key_bar import KeyBar
from refold.app.widgets.until_closed import UntilClosed


class Dialog(ModalScreen[ScreenResultType], UntilClosed[ScreenResultType]):
    """A screen over another one, as high as its text is."""

    ROWS: ClassVar[int] = 8
    """Rows beside the text: frame, title, verdict, what is typed, keys, and blank ones."""

    def on_mount(self) -> None:
        """Take away what was told to the screen below: it would stand under the frame.

        Those that stand on a screen already have no public name in Textual (8.2.8).
        """
        self.app.clear_notifications()
        for screen in self.app.screen_stack[:-1]:
            screen.query(Toast).remove()

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Go, and take away what was told meanwhile: it speaks of what is decided now."""
        self.app.clear_notifications()
        return super().dismiss(result)

    async def on_click(self, event: events.Click) -> None:
        """Open the palette where the title is clicked: what the keys below have no room for is there."""
        if isinstance(event.widget, LineBar) and not isinstance(event.widget, KeyBar):
            await self.app.run_action("command_palette")

    def fit(self, text: Widget, lines: int) -> None:
        """Make the text as high as it is long, or as there is room; then the frame says that it goes on."""
        room = max(1, self.app.size.height - self.ROWS)
        text.styles.height = max(1, min(lines, room))
        if isinstance(text.parent, Widget):
            text.parent.border_subtitle = Content(f"{lines:,} lines, ↑ ↓" if lines > room else "")
