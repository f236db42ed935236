"""What holds other widgets and shows nothing but its background: one blank row, made once, drawn often."""

from __future__ import annotations

from textual import events
from textual.containers import Vertical
from textual.geometry import Region
from textual.strip import Strip

from refold.app.widgets.in_front import InFront
from refold.app.widgets.painting import Painter, cropped
from refold.app.widgets.until_closed import UntilClosed


class Ground(Vertical):
    """A container without border and padding."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._painter = Painter(self)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Blank rows."""
        return blank_rows(self._painter, crop, self.size.width)

    def notify_style_update(self) -> None:
        """Draw in the new theme."""
        super().notify_style_update()
        self._painter.forget()


class GroundScreen(UntilClosed[None]):
    """A screen that its widgets cover."""

    def __init__(self) -> None:
        super().__init__()
        self._compositor = InFront()
        self._painter = Painter(self)

    def _on_screen_resume(self, event: events.ScreenResume) -> None:
        """Leave the styles as they are the first time: each widget has just been given its own.

        Textual (8.2.8, no public way) works all of them out again before the first row is painted.
        """
        event.refresh_styles = event.refresh_styles and self.stack_updates > 0
        super()._on_screen_resume(event)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Blank rows, wherever no widget stands."""
        return blank_rows(self._painter, crop, self.size.width)

    def notify_style_update(self) -> None:
        """Draw in the new theme."""
        super().notify_style_update()
        self._painter.forget()


def blank_rows(painter: Painter, crop: Region, width: int) -> list[Strip]:
    """The same row, so often: Textual cuts each strip once for every column that a widget begins at."""
    return cropped([painter.blank(width)] * crop.height, crop, width)
