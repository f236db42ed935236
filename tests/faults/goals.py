"""What a goal of the fault tests came to: how often it was tried, from which seed, and what failed."""

from __future__ import annotations

import math
import random
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar

import msgspec

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
    asked: int = 0
    """How many tries the design asks for (design/safety.md 5); 0 where it names no number."""
    earlier: tuple[int, ...] = ()
    """The seeds of earlier tries whose figures were added."""
    seconds: float = 0.0
    until: float = math.inf
    """When there is no time left for it, by the clock that only goes on."""
    failures: list[str] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)
    """Further counts: what the tries consisted of."""

    @property
    def over(self) -> bool:
        """True once the time that it was given is used up; what is begun is ended."""
        return time.monotonic() >= self.until

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of all that is counted in it."""
        return tuple(sorted({*self.earlier, self.seed}))

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


T = TypeVar("T")
Work: TypeAlias = tuple[Goal, Callable[[Goal], None]]
"""A goal, and what tries it."""


def carry_out(work: Sequence[Work], seconds: float) -> Iterator[Goal]:
    """Try one goal after the other; what is left of the time is shared out evenly among those to come."""
    end = time.monotonic() + seconds
    for number, (goal, act) in enumerate(work):
        started = time.monotonic()
        goal.until = started + (end - started) / (len(work) - number)
        act(goal)
        goal.seconds = time.monotonic() - started
        yield goal


def shuffled(those: Iterable[T], seed: int) -> list[T]:
    """Give all of them in the order of a seed, so that what fits into a time is a fair share of them."""
    found = list(those)
    random.Random(seed).shuffle(found)
    return found


def shared_out(those: Sequence[T], until: float) -> Iterator[tuple[T, float]]:
    """Give each with the moment at which its share of the time until then is used up."""
    for number, each in enumerate(those):
        now = time.monotonic()
        yield each, now + (until - now) / (len(those) - number)


def added(earlier: Sequence[Goal], later: Sequence[Goal]) -> list[Goal]:
    """Give the goals of earlier and of later tries, each once, with what both of them came to."""
    found = {(goal.name, goal.what): goal for goal in earlier}
    for goal in later:
        other = found.get((goal.name, goal.what))
        if other is not None and goal.seed in other.seeds:
            # The same seed tries the same: what was tried twice counts once.
            more = other if other.tries >= goal.tries or len(other.seeds) > 1 else goal
            more.failures = list(dict.fromkeys([*other.failures, *goal.failures]))
            goal = more
        elif other is not None:
            goal.tries += other.tries
            goal.asked = max(goal.asked, other.asked)
            goal.earlier = other.seeds
            goal.seconds += other.seconds
            goal.failures = [*other.failures, *goal.failures]
            for name, number in other.notes.items():
                # Of a time or a size the greatest counts, anything else was counted.
                goal.notes[name] = (
                    max(goal.notes.get(name, 0), number)
                    if name.startswith(("ms ", "MB ", "KB "))
                    else (goal.notes.get(name, 0) + number)
                )
        found[goal.name, goal.what] = goal
    return list(found.values())


def require(goals: Sequence[Goal], *, tries: int) -> None:
    """Check in a test that nothing failed and that enough was tried."""
    failures = [failure for goal in goals for failure in goal.failures]
    assert failures == [], "\n".join(failures[:20])
    assert sum(goal.tries for goal in goals) >= tries


def table(goals: Sequence[Goal]) -> str:
    """Give the goals as lines of text."""
    rows = [("goal", "what", "tries", "asked", "failures", "seed", "seconds")]
    for goal in goals:
        told = "".join(f"; {number:,} {name}" for name, number in goal.notes.items())
        rows.append(
            (
                goal.name, goal.what + told, f"{goal.tries:,}", _asked(goal), f"{len(goal.failures):,}",
                _told(goal.seeds), f"{goal.seconds:.1f}",
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
    lines = [
        "| goal | what | tries | asked | failures | seed |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for goal in goals:
        told = "".join(f"; {number:,} {name}" for name, number in goal.notes.items())
        tries, failures = f"{goal.tries:,}", f"{len(goal.failures):,}"
        cells = (goal.name, goal.what + told, tries, _asked(goal), failures, _told(goal.seeds))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _asked(goal: Goal) -> str:
    return f"{goal.asked:,}" if goal.asked else ""


def _told(seeds: Sequence[int]) -> str:
    """Give seeds as a reader wants them: those in a row as the first and the last."""
    parts: list[str] = []
    first = last = seeds[0]
    for seed in [*seeds[1:], math.inf]:
        if seed == last + 1:
            last += 1
            continue
        parts.append(str(first) if first == last else f"{first}-{last}")
        first = last = int(seed) if seed != math.inf else 0
    return ", ".join(parts)


def as_json(goals: Sequence[Goal]) -> list[dict[str, object]]:
    """Give the goals for a file."""
    return [
        {
            "goal": goal.name, "what": goal.what, "tries": goal.tries, "asked": goal.asked,
            "failures": len(goal.failures), "failed": goal.failures, "seeds": list(goal.seeds),
            "seconds": round(goal.seconds, 1), "notes": goal.notes,
        }
        for goal in goals
    ]  # fmt: skip


def from_json(rows: Sequence[Mapping[str, object]]) -> list[Goal]:
    """Give the goals that were written to a file."""
    return [msgspec.convert(row, Row).goal() for row in rows]


class Row(msgspec.Struct):
    """A goal as it lies in a file."""

    goal_name: str = msgspec.field(name="goal")
    what: str
    tries: int
    failed: list[str]
    seeds: list[int]
    seconds: float
    notes: dict[str, int]
    asked: int = 0

    def goal(self) -> Goal:
        """Give it as it was."""
        return Goal(
            self.goal_name, self.what, self.tries, self.seeds[-1], self.asked, tuple(self.seeds),
            self.seconds, failures=self.failed, notes=self.notes,
        )  # fmt: skip
