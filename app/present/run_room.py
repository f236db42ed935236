"""How the screen of a run is divided: by its size alone, as `styles/run.tcss` says it."""

from __future__ import annotations

from typing import Final, NamedTuple

_WIDE: Final = 100
_LOW: Final = 22
_TALL: Final = 32
_FOOT: Final = 1
_SHARE: Final = (11, 20)
"""Of so many parts, so many are the timeline's, where it shares the room with the pane."""


class Room(NamedTuple):
    """What of the screen is whose."""

    wide: bool
    """The timeline and the pane stand side by side; else one above the other."""
    low: bool
    """Only one of them is seen at a time."""
    tall: bool
    """The ruler has its numbers below it."""
    top: int
    """The row of the screen at which the timeline begins."""
    width: int
    """The columns of the timeline, with that of its scroll bar."""
    height: int
    """The rows of the timeline."""


def room_of(width: int, height: int, *, lanes: bool = False) -> Room:
    """Divide a screen of so many columns and rows; `lanes` is a row of the ruler for other agents."""
    wide = width >= _WIDE
    low = not wide and height < _LOW
    tall = height >= _TALL
    top = 2 + tall + lanes
    left = max(0, height - top - _FOOT)
    own, of = _SHARE
    return Room(
        wide,
        low,
        tall,
        top,
        width * own // of if wide else width,
        left if wide or low else left * own // of,
    )
