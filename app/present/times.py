"""Times in the zone that the reader wants: as they are recorded, local, or UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable


@runtime_checkable
class ShowsTimes(Protocol):
    """A screen on which times stand."""

    def show_times(self, *, utc: bool) -> None:
        """Write all times in UTC, or in local time."""
        ...


Times: TypeAlias = Literal["recorded", "local", "utc"]

_LONGEST: Final = 64
_FRACTION: Final = re.compile(r"\.(\d{1,6})\d*")


def zone_of(*, utc: bool) -> tzinfo | None:
    """Give the zone for `datetime.astimezone`; None is the local one."""
    return UTC if utc else None


def clock(recorded: str, times: Times) -> str:
    """Write a recorded time in another zone with its offset; as it is recorded where it is none.

    Args:
        recorded: RFC 3339, with up to nine digits of a second.
        times: The zone.
    """
    if times == "recorded" or len(recorded) > _LONGEST:
        return recorded
    fraction = _FRACTION.search(recorded)
    try:
        found = datetime.fromisoformat(_FRACTION.sub(r".\1", recorded))
        moved = found.astimezone(zone_of(utc=times == "utc"))
    except (ValueError, OverflowError, OSError):
        return recorded
    if found.tzinfo is None or moved.utcoffset() == found.utcoffset():
        return recorded
    parts = (moved.strftime("%Y-%m-%dT%H:%M:%S"), fraction[0] if fraction else "", _offset(moved))
    return "".join(parts)


def told(seconds: float, *, utc: bool) -> str:
    """Say in which zone times are, where local time is not UTC; else nothing.

    Args:
        seconds: The moment at which that is asked.
        utc: Times are shown in UTC.
    """
    offset = _offset(datetime.fromtimestamp(seconds, UTC).astimezone())
    if offset == "Z":
        return ""
    return "times in UTC" if utc else f"local time {offset}"


def _offset(moment: datetime) -> str:
    return "Z" if not moment.utcoffset() else moment.isoformat()[-6:]
