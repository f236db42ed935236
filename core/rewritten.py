"""History that is no longer what was seen of it: where that begins, and the finding that says so."""

from __future__ import annotations

from typing import NamedTuple

from refold.core.findings import CODES, Allowed, Finding
from refold.core.timeline import Timeline


class Rewritten(NamedTuple):
    """The first bytes that are no longer what they were."""

    start: int
    end: int
    line: int
    """The line on which they begin."""
    last_line: int
    """The line on which they end."""
    was: int
    """So many bytes had been seen."""
    size: int
    """So many there are now."""

    @property
    def reason(self) -> str:
        """Say what is no longer as it was."""
        if self.start >= self.size:
            return f"{self.was:,} bytes were seen before, {self.size:,} are left"
        if self.last_line == self.line:
            return f"line {self.line:,} is not what was seen before"
        return f"lines {self.line:,} to {self.last_line:,} are not what was seen before"


def rewritten_finding(timeline: Timeline, found: Rewritten) -> Finding:
    """Give the finding for a run that is no longer what was seen before; its index is complete."""
    entry = CODES["E_REWRITTEN"]
    last = timeline.legal_fork(timeline.items - 1) if timeline.items else None
    allowed = Allowed(view=True, fork_to=last, resume=last is not None and timeline.strict_error is None)
    message = f"{entry.meaning}: {found.reason}"
    return Finding(
        "E_REWRITTEN",
        entry.severity,
        None,
        found.line,
        found.start,
        found.end,
        message,
        entry.remedy,
        allowed,
    )
