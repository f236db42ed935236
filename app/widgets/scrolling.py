"""The size of what is scrolled, set without a layout of the whole screen where none is needed."""

from __future__ import annotations

from textual.geometry import Size
from textual.scroll_view import ScrollView


def set_virtual_size(view: ScrollView, size: Size) -> None:
    """Tell a view with a lasting vertical scrollbar (`overflow-y: scroll`) how much there is to scroll.

    Textual (8.2.8) lays out the screen for every new size, which costs more than drawing the view.
    """
    if not view.show_vertical_scrollbar or size.width != view.virtual_size.width:
        view.virtual_size = size
        return
    view.set_reactive(ScrollView.virtual_size, size)
    view.vertical_scrollbar.window_virtual_size = size.height
