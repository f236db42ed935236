"""The size of what is scrolled, set without a layout of the whole screen where none is needed."""

from __future__ import annotations

from textual.geometry import Size
from textual.scroll_view import ScrollView


def set_virtual_size(view: ScrollView, size: Size) -> None:
    """Tell a view how much there is to scroll.

    Textual (8.2.8) lays out the screen for every new size, which costs more than drawing the view. That is
    needed only where a scrollbar comes or goes.
    """
    shown, needed = view.show_vertical_scrollbar, size.height > view.size.height
    if shown is not needed or size.width != view.virtual_size.width:
        view.virtual_size = size
        return
    view.set_reactive(ScrollView.virtual_size, size)
    if shown:
        view.vertical_scrollbar.window_virtual_size = size.height
