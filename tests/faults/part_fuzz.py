"""The readers of untrusted bytes, fuzzed one after the other (design/safety.md 5, G10 and G17)."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tests.faults.goals import Goal, Share
from tests.fuzz.run import fuzz
from tests.fuzz.targets import TARGETS

SECONDS: dict[Share, int] = {"ci": 1, "quick": 4, "long": 240}
"""For each target."""
OF_IDS = {"id", "template"}


def measure(share: Share, seed: int, seconds: float) -> Iterator[Goal]:
    """Fuzz every target for some time."""
    for name in TARGETS:
        started = time.monotonic()
        count, faults, how = fuzz(name, min(SECONDS[share], seconds / len(TARGETS)), seed)
        goal = Goal("G17" if name in OF_IDS else "G10", f"fuzzing, {how}: {name}", count, seed)
        goal.failures += faults
        goal.seconds = time.monotonic() - started
        yield goal
