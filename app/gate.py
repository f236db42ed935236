"""The last thing before the terminal: whatever a widget was given, no command and no link leaves."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

from refold.app.forbidden import FORBIDDEN
from refold.app.glyphs import to_ascii


class LastGate(LineFilter):
    """Deletes forbidden characters and drops links from every segment."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments as they may be written."""
        return [segment if _may_pass(segment) else _washed(segment) for segment in segments]


class OnlyAscii(LineFilter):
    """Draws in ASCII, cell for cell, for a terminal that is not UTF-8."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments with what stands for their glyphs."""
        return [
            segment
            if segment.control or segment.text.isascii()
            else Segment(to_ascii(segment.text), segment.style)
            for segment in segments
        ]


class Colourless(LineFilter):
    """Leaves bold, dim, reverse and underline, and not one colour code."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments without colours."""
        return [
            Segment(text, None if style is None else style.without_color, control)
            for text, style, control in segments
        ]


def _may_pass(segment: Segment) -> bool:
    """Nothing to delete, nothing to drop."""
    text, style, control = segment
    if control:
        return True
    if style is not None and style.link is not None:
        return False
    return (text.isascii() and text.isprintable()) or FORBIDDEN.search(text) is None


def _washed(segment: Segment) -> Segment:
    """The segment without what must not pass."""
    style: Style | None = segment.style
    return Segment(FORBIDDEN.sub("", segment.text), None if style is None else style.update_link(None))
