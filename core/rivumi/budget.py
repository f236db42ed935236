"""How much of its time a run has left: the time since its process died counts (formats/rivumi.md 9.11)."""

from __future__ import annotations

from datetime import UTC, datetime

from refold.core.rivumi.manifest import Manifest, Request


def seconds_left(manifest: Manifest, request: Request | None, now: float) -> float | None:
    """Give the seconds of work that a resume at this time would find left.

    Args:
        manifest: What is recorded of the time used.
        request: Where the limit stands; without it the default counts.
        now: Seconds since 1970.

    Returns:
        None where the recorded start is no time, or lies in the future.
    """
    limit = request.wall_time_seconds if request is not None else Request({}).wall_time_seconds
    used = manifest.active_seconds
    if manifest.active_started_at:
        started = seconds_of(manifest.active_started_at)
        if started is None or started > now:
            return None
        used += now - started
    return limit - used


def length(seconds: float) -> str:
    """Give a length of time in the unit that a person would take: 45 s, 12 min, 3.0 h, 4 d."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} d"


def seconds_of(text: str) -> float | None:
    """Give a recorded time as seconds since 1970; a time without a zone is UTC, None is no time."""
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
