"""A dialog: one frame over another screen, around a title, a text, what is typed and the keys."""

from __future__ import annotations

import time
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

    _astray = ""
    """What was typed last that means nothing here."""
    _warned_at = 0.0
    """When it was said last that Enter was not taken."""

    def on_mount(self) -> None:
        """Take away what was told to the screen below: it would stand under the frame.

        Those that stand on a screen already have no public name in Textual (8.2.8).
        """
        self.app.clear_notifications()
        for screen in self.app.screen_stack[:-1]:
            screen.query(Toast).remove()

    def on_key(self, event: events.Key) -> None:
        """Take no Enter that writes and was typed blind: the first one behind a word that means nothing here.

        One key is no word: it slipped, or it opened the dialog and was held too long. Those are not taken
        either that were pressed before it could be read that this one was not.
        """
        bound = self.active_bindings.get(event.key)
        if bound is None:
            self._astray += (event.character or "") if event.is_printable else ""
        elif event.key != "enter" or bound.binding.action != "go":
            self._astray = ""
        elif self._typed_blind or event.time < self._warned_at:
            event.stop()
            event.prevent_default()
            if self._typed_blind:
                said = f"{self._astray[-20:]!r} means nothing here, so Enter behind it was not taken."
                self.notify(f"{said} Press it again if you mean it.", severity="warning")
                self._astray = ""
                # None is taken until it was drawn, and none that was pressed before.
                self._warned_at = float("inf")
                self.call_after_refresh(self._warned)

    @property
    def _typed_blind(self) -> bool:
        return len(set(self._astray)) > 1

    def _warned(self) -> None:
        self._warned_at = time.monotonic()

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
