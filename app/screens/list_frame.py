"""What the screens that list things have in common: their parts from top to bottom, and the room of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from textual.app import ComposeResult
from textual.containers import Container
from textual.screen import Screen

from refold.app.lines import Cell, Line
from refold.app.safe import Safe
from refold.app.widgets.bars import ColumnHeader, TopBar
from refold.app.widgets.key_bar import KeyBar
from refold.app.widgets.line_list import GUTTER, LineList
from refold.app.widgets.line_pager import LinePager
from refold.app.widgets.prompt_bar import PromptBar
from refold.app.widgets.words import Words

_LOW: Final = 24
_TALL: Final = 36


def parts(listing: str) -> ComposeResult:
    """Give the parts of a list with a preview below it.

    Args:
        listing: The id of the list.
    """
    yield TopBar(id="top")
    yield ColumnHeader(id="header")
    yield LineList(id=listing)
    with Container(id="empty"):
        yield LinePager(id="nothing")
    with Container(id="panel"):
        yield LinePager(id="preview")
    yield PromptBar(id="prompt")
    yield KeyBar(id="keys")


def headed_parts(listing: str, *, prompt: bool = False) -> ComposeResult:
    """Give the parts of a list below a line of names, with a preview below it.

    Args:
        listing: The id of the list.
        prompt: Whether something is asked at its foot.
    """
    yield TopBar(id="top")
    yield Words(id="heading")
    yield LineList(id=listing)
    with Container(id="panel"):
        yield LinePager(id="preview")
    if prompt:
        yield PromptBar(id="prompt")
    yield KeyBar(id="keys")


def draw_heading(screen: Screen[None], listing: LineList, heading: Callable[[int], Line]) -> None:
    """Name what stands in the rows, once there is a width for it."""
    width = listing.scrollable_content_region.width - GUTTER
    if width > 0:
        screen.query_one("#heading", Words).show((Cell(Safe(" ")), *heading(width)))


def divide(screen: Screen[None], height: int) -> None:
    """Give the preview what the list can spare."""
    screen.set_class(height < _LOW, "-low")
    screen.set_class(height >= _TALL, "-tall")
