"""What is told at the edge of the screen: each thing once, and few at once."""

from __future__ import annotations

from typing import Final, Self

from textual.notifications import Notification, Notifications

MOST: Final = 3
"""How many are shown at once."""


class FewNotices(Notifications):
    """What is told again takes the place of what it was told by before; of too many the oldest goes."""

    def add(self, notification: Notification) -> Self:
        """Take another one up."""
        told = _said_by(notification)
        others = [one for one in self if _said_by(one) != told]
        kept = others[-(MOST - 1) :]
        for one in list(self):
            if one not in kept:
                del self[one]
        return super().add(notification)

    def take_back(self, message: str) -> None:
        """Show no longer what does not hold any more."""
        for one in list(self):
            if one.message == message:
                del self[one]


def _said_by(notification: Notification) -> tuple[str, str, str]:
    """Give all that a reader sees of a notice: two with the same title may still say different things."""
    return notification.title, notification.message, notification.severity
