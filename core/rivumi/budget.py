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


def seconds_of(text: str) -> float | None:
    """Give a recorded time as seconds since 1970; a time without a zone is UTC, None is no time."""
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
