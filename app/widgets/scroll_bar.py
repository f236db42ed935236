"""A scroll bar that is drawn without the machinery for any renderable: it is on every screen, twice."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip

from refold.app.widgets.painting import cropped


class QuickScrollBar(ScrollBar):
    """Looks and acts as Textual's (8.2.8), and takes a tenth of the time to draw."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """One cell a row, through the gates of the application."""
        width, height = self.size
        bar = self.render()
        if not isinstance(bar, ScrollBarRender) or not isinstance(bar.style, Style):
            return super().render_lines(crop)
        back, thumb = bar.style.bgcolor, bar.style.color
        if back is None or thumb is None:
            return super().render_lines(crop)
        drawn = bar.render_bar(
            size=height,
            virtual_size=bar.virtual_size,
            window_size=bar.window_size,
            position=bar.position,
            thickness=width,
            vertical=True,
            back_color=back,
            bar_color=thumb,
        )
        segments: list[Segment] = list(Segment.apply_style(drawn.segments, self.rich_style))
        for gate in self.app.get_line_filters():
            segments = gate.apply(segments, self.background_colors[1])
        return cropped([Strip([segments[y]], width) for y in crop.line_range], crop, width)


class QuickScrolled(ScrollView):
    """A view with such a bar."""

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        """The bar, made when first asked for, as Textual (8.2.8) makes it."""
        if self._vertical_scrollbar is None:
            bar = QuickScrollBar(vertical=True, name="vertical", thickness=self.scrollbar_size_vertical)
            bar.display = False
            self._vertical_scrollbar = bar
            self.app._start_widget(self, bar)  # noqa: SLF001 - the only way to give a view its bar
        return self._vertical_scrollbar
