"""What is told at the edge of the screen: the newest of each kind, and few at once."""

from __future__ import annotations

from typing import Final, Self

from textual.notifications import Notification, Notifications

MOST: Final = 3
"""How many are shown at once."""


class FewNotices(Notifications):
    """The newest takes the place of the one under the same title; of too many the oldest goes."""

    def add(self, notification: Notification) -> Self:
        """Take another one up."""
        kind = notification.title, notification.severity
        others = [one for one in self if (one.title, one.severity) != kind]
        kept = others[-(MOST - 1) :]
        for one in list(self):
            if one not in kept:
                del self[one]
        return super().add(notification)
