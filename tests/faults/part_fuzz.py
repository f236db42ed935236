"""The readers of untrusted bytes, fuzzed one after the other (design/safety.md 5, G10 and G17)."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tests.faults.goals import Goal, Share, shared_out
from tests.fuzz.run import by_chance, fuzz
from tests.fuzz.targets import TARGETS

SECONDS: dict[Share, int] = {"ci": 1, "quick": 4, "long": 240}
"""For each target."""
OF_IDS = {"id", "template"}


ASKED = {
    "scan": 100_000_000, "decode": 100_000_000, "fold": 20_000_000, "manifest": 20_000_000,
    "visible": 20_000_000, "id": 20_000_000, "template": 20_000_000,
}  # fmt: skip


def measure(share: Share, seed: int, seconds: float) -> Iterator[Goal]:
    """Fuzz every target for some time: half of it guided, where that can be, and half by chance."""
    for name, until in shared_out(list(TARGETS), time.monotonic() + seconds):
        started = time.monotonic()
        half = min(SECONDS[share], until - started) / 2
        count, faults, how = fuzz(name, half, seed)
        more, others = by_chance(name, seed, seconds=half)
        goal = Goal("G17" if name in OF_IDS else "G10", f"fuzzing: {name}", count + more, seed)
        goal.asked = ASKED.get(name, 0)
        goal.failures += [*faults, *others]
        goal.count(how, count)
        goal.seconds = time.monotonic() - started
        yield goal
