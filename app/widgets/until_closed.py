"""What a screen was about to do when it was taken down is not done any more."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual.screen import Screen, ScreenResultType

if TYPE_CHECKING:
    from textual.message_pump import Callback


class UntilClosed(Screen[ScreenResultType]):
    """A screen whose timers and next steps end with it.

    Textual (8.2.8) does what a timer asked for even behind the removal of the last widget, where whatever it
    wants to draw on is gone: a fault while a reader leaves.
    """

    def call_next(self, callback: Callback, *args: object, **kwargs: object) -> None:
        """Do it behind the message at hand, if the screen is still there."""
        super().call_next(self._unless_closed, partial(callback, *args, **kwargs))

    def _unless_closed(self, callback: Callback) -> object:
        return callback() if self.display else None  # Nothing is displayed any more once it is closing.
