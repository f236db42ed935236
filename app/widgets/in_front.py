"""Drawing a part of the screen: of the widgets that are seen there, and of nothing behind or beside them."""

from __future__ import annotations

from collections.abc import Iterable

from textual._compositor import Compositor
from textual.geometry import Region
from textual.strip import Strip


class InFront(Compositor):
    """Leaves out what cannot be seen.

    Textual (8.2.8, no public way) draws every widget of the screen when a part is drawn anew, and cuts each
    of its rows at every column that some widget begins at.
    """

    def _get_renders(self, crop: Region | None = None) -> Iterable[tuple[Region, Region, list[Strip]]]:
        """The widgets from front to back as region, clip and rows, up to one that fills the part."""
        if crop is None:
            yield from super()._get_renders()
            return
        for widget, (region, clip) in self.visible_widgets.items():
            shown = region.intersection(clip)
            if not shown.overlaps(crop):
                continue
            # Whole in width, where the cuts are; only the rows of the part.
            drawn = shown.intersection(Region(shown.x, crop.y, shown.width, crop.height))
            yield drawn, drawn, widget.render_lines(drawn.translate(-region.offset))
            if shown.contains_region(crop):
                return
