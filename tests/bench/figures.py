"""Figures of one run: interleaved rounds, medians, ratios and the goal beside each."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One measured figure and what it should be at most."""

    group: str
    name: str
    value: float
    unit: str
    goal: float | None = None
    """The most it may be; None where it is only shown."""
    tries: int = 1
    spread: float = 0.0
    """Between the quartiles, in the same unit."""

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached; None where there is none."""
        return None if self.goal is None else self.value <= self.goal


def interleaved(cases: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Run every case once a round, in turn, so that a slow minute falls on all alike."""
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds):
        names = list(cases)[:: 1 if number % 2 == 0 else -1]
        for name in names:
            gc.collect()
            taken[name].append(cases[name]())
    return taken


def figure(group: str, name: str, values: list[float], unit: str, goal: float | None = None) -> Figure:
    """Give the median of several tries."""
    spread = 0.0
    if len(values) >= 4:
        quarters = statistics.quantiles(values, n=4)
        spread = quarters[2] - quarters[0]
    return Figure(group, name, statistics.median(values), unit, goal, len(values), spread)


def ratio(group: str, name: str, values: list[float], base: list[float], goal: float | None = None) -> Figure:
    """Give the ratio of two medians of the same rounds."""
    return Figure(group, name, statistics.median(values) / statistics.median(base), "x", goal, len(values))


def percentile(values: list[float], part: float) -> float:
    """Give the value under which so large a part of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def table(figures: list[Figure]) -> str:
    """Give the figures as one aligned table."""
    rows = [("what", "measured", "goal", "tries", "")]
    for item in figures:
        shown = f"{item.value:,.2f} {item.unit}"
        if item.spread:
            shown += f" ±{item.spread / 2:,.2f}"
        goal = "" if item.goal is None else f"≤ {item.goal:g} {item.unit}"
        verdict = {True: "met", False: "MISSED", None: ""}[item.met]
        rows.append((f"{item.group}: {item.name}", shown, goal, str(item.tries), verdict))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(row[n].rjust(widths[n]) for n in (1, 2, 3)), row[4]]
        lines.append("  ".join(cells).rstrip())
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def as_json(figures: list[Figure]) -> list[dict[str, Any]]:
    """Give the figures for a file."""
    return [asdict(item) | {"met": item.met} for item in figures]
