"""Leaving the program from wherever one is: `^q` at once, `^c` when it is meant."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

if TYPE_CHECKING:
    from textual.app import App


_MEANT: Final = 2.0
"""Seconds within which a second `^c` is taken for the wish to leave."""


@runtime_checkable
class Handing(Protocol):
    """A screen from which something may be handed to a caller."""

    @property
    def hands_over(self) -> bool:
        """Whether somebody waits for what is chosen: leaving it is an answer too."""


def leave_when_meant(app: App[None], asked: float) -> float:
    """Leave at once where a caller waits for a choice, else at the second `^c`: with text selected it copies.

    Args:
        app: The program.
        asked: When it was asked for last, in seconds of the monotonic clock.

    Returns:
        When it was asked for now.
    """
    now = time.monotonic()
    if now - asked < _MEANT or (isinstance(app.screen, Handing) and app.screen.hands_over):
        app.exit()
    else:
        said = "Press ^c once more to leave Refold; ^q leaves at any time."
        app.notify(said, markup=False, timeout=_MEANT)
    return now
