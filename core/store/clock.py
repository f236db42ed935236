"""The time as records have it."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def utc_now() -> datetime:
    """Give the time of the system's clock."""
    return datetime.now(UTC)


def stamp_of(moment: datetime) -> str:
    """Write a time as our records have it: RFC 3339, UTC, microseconds."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class SystemStamps:
    """The system's clock as such texts; what stays the same for a second is made once a second."""

    def __init__(self) -> None:
        self._second = (-1, "")

    def __call__(self) -> str:
        """Give the time."""
        seconds, rest = divmod(time.time_ns(), 1_000_000_000)
        known, text = self._second
        if seconds != known:
            text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
            self._second = (seconds, text)
        return f"{text}.{rest // 1000:06}Z"
