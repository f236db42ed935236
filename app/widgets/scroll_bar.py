"""A scroll bar that is drawn without the machinery for any renderable: it is on every screen, twice."""

from __future__ import annotations

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip

from refold.app.widgets.painting import rows_in

_NO_COLOUR = Color.default()


class QuickScrollBar(ScrollBar):
    """Looks and acts as Textual's (8.2.8), and is drawn anew only where it has changed."""

    _drawn: tuple[object, list[Strip]] = ((), [])

    def render_lines(self, crop: Region) -> list[Strip]:
        """One cell a row, through the gates of the application."""
        bar = self.render()
        if not isinstance(bar, ScrollBarRender) or not isinstance(bar.style, Style):
            return super().render_lines(crop)
        look = (self.size, bar.virtual_size, bar.window_size, bar.position, bar.style)
        if look != self._drawn[0]:
            self._drawn = (look, self._strips(bar, bar.style))
        return rows_in(self._drawn[1], crop, self.size.width)

    def _strips(self, bar: ScrollBarRender, style: Style) -> list[Strip]:
        width, height = self.size
        drawn = bar.render_bar(
            size=height,
            virtual_size=bar.virtual_size,
            window_size=bar.window_size,
            position=bar.position,
            thickness=width,
            vertical=True,
            back_color=style.bgcolor or _NO_COLOUR,
            bar_color=style.color or _NO_COLOUR,
        )
        segments: list[Segment] = list(Segment.apply_style(drawn.segments, self.rich_style))
        for gate in self.app.get_line_filters():
            segments = gate.apply(segments, self.background_colors[1])
        return [Strip([segment], width) for segment in segments]


class QuickScrolled(ScrollView):
    """A view with such a bar, which is always there (`overflow-y: scroll`)."""

    def scroll_over(self, size: Size) -> None:
        """Tell how much there is to scroll.

        Textual (8.2.8) lays out the screen for every new size, which costs more than drawing the view.
        """
        if not self.show_vertical_scrollbar or size.width != self.virtual_size.width:
            self.virtual_size = size
            return
        self.set_reactive(ScrollView.virtual_size, size)
        self.vertical_scrollbar.window_virtual_size = size.height

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        """The bar, made when first asked for, as Textual (8.2.8) makes it."""
        if self._vertical_scrollbar is None:
            bar = QuickScrollBar(vertical=True, name="vertical", thickness=self.scrollbar_size_vertical)
            bar.display = False
            self._vertical_scrollbar = bar
            self.app._start_widget(self, bar)  # noqa: SLF001 - the only way to give a view its bar
        return self._vertical_scrollbar
