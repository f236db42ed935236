"""What a goal of the fault tests came to: how often it was tried, from which seed, and what failed."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Share: TypeAlias = Literal["ci", "quick", "long"]
"""How much is tried: in the normal test run, by the command as it is, or with `--long`."""


@dataclass
class Goal:
    """One row of the table."""

    name: str
    """The goal of the design that it counts towards."""
    what: str
    tries: int = 0
    seed: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)
    """Further counts: what the tries consisted of."""

    @contextmanager
    def attempt(self, label: str) -> Iterator[None]:
        """Count a try; what is raised in it is a failure of that label, and not passed on."""
        self.tries += 1
        try:
            yield
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            said = f"{type(error).__name__}: {error}".split("\n")[0][:300]
            self.failures.append(f"{label}: {said} ({place.filename.rpartition('/')[2]}:{place.lineno})")

    def count(self, name: str, number: int = 1) -> None:
        """Add to one of the further counts."""
        self.notes[name] = self.notes.get(name, 0) + number


def require(goals: Sequence[Goal], *, tries: int) -> None:
    """Check in a test that nothing failed and that enough was tried."""
    failures = [failure for goal in goals for failure in goal.failures]
    assert failures == [], "\n".join(failures[:20])
    assert sum(goal.tries for goal in goals) >= tries


def table(goals: Sequence[Goal]) -> str:
    """Give the goals as lines of text."""
    rows = [("goal", "what", "tries", "failures", "seed", "seconds")]
    for goal in goals:
        told = "".join(f"; {number:,} {name}" for name, number in goal.notes.items())
        rows.append(
            (
                goal.name, goal.what + told, f"{goal.tries:,}", f"{len(goal.failures):,}", str(goal.seed),
                f"{goal.seconds:.1f}",
            )
        )  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        left = [cell.ljust(width) for cell, width in zip(row[:2], widths, strict=False)]
        right = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        lines.append("  ".join([*left, *right]).rstrip())
    failed = [f"FAILED {goal.name}: {failure}" for goal in goals for failure in goal.failures[:10]]
    return "\n".join([*lines, *failed])


def markdown(goals: Sequence[Goal]) -> str:
    """Give the goals as a table of Markdown."""
    lines = ["| goal | what | tries | failures | seed |", "| --- | --- | ---: | ---: | ---: |"]
    for goal in goals:
        told = "".join(f"; {number:,} {name}" for name, number in goal.notes.items())
        cells = (goal.name, goal.what + told, f"{goal.tries:,}", f"{len(goal.failures):,}", str(goal.seed))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def as_json(goals: Sequence[Goal]) -> list[dict[str, object]]:
    """Give the goals for a file."""
    return [
        {
            "goal": goal.name, "what": goal.what, "tries": goal.tries, "failures": len(goal.failures),
            "failed": goal.failures, "seed": goal.seed, "seconds": round(goal.seconds, 1), **goal.notes,
        }
        for goal in goals
    ]  # fmt: skip
