"""Leaving the program from wherever one is: `^q` at once, `^c` when it is meant."""

from __future__ import annotations

import time
from typing import Final, Protocol, runtime_checkable

from textual.app import App

_MEANT: Final = 2.0
"""Seconds within which a second `^c` is taken for the wish to leave."""


@runtime_checkable
class Handing(Protocol):
    """A screen from which something may be handed to a caller."""

    @property
    def hands_over(self) -> bool:
        """Whether somebody waits for what is chosen: leaving it is an answer too."""


class Quitting(App[None]):
    """What an app does with `^c`, which copies where text is selected and is no key of a screen else."""

    _asked = float("-inf")

    def action_help_quit(self) -> None:
        """Leave at once where a caller waits for a choice, else at the second press."""
        now = time.monotonic()
        if now - self._asked < _MEANT or (isinstance(self.screen, Handing) and self.screen.hands_over):
            self.exit()
            return
        self._asked = now
        self.notify(
            "Press ^c once more to leave Refold; ^q leaves at any time.", markup=False, timeout=_MEANT
        )
