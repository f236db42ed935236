"""Figures of one run: interleaved rounds, medians, ratios and the bar beside each."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One measured figure and what it should be at most, or at least."""

    group: str
    name: str
    value: float | None
    """None where it was not measured: `note` says why."""
    unit: str
    goal: float | None = None
    """The most it may be, or the least; None where it is only shown."""
    tries: int = 1
    spread: float = 0.0
    """Between the quartiles, in the same unit."""
    of: str = ""
    """The goal it belongs to, G1 to G17, or the promise about many runs."""
    at_least: bool = False
    """Whether `goal` is the least it may be."""
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached; None where there is none, or nothing was measured."""
        if self.goal is None or self.value is None:
            return None
        return self.value >= self.goal if self.at_least else self.value <= self.goal

    @property
    def bar(self) -> str:
        """The goal in words."""
        sign = "≥" if self.at_least else "≤"
        if self.goal is None:
            return ""
        return f"{sign} {f'{self.goal:,.2f}'.rstrip('0').rstrip('.')} {self.unit}"

    @property
    def shown(self) -> str:
        """The value in words."""
        if self.value is None:
            return "not run"
        text = f"{self.value:,.2f}" if abs(self.value) < 1000 else f"{self.value:,.0f}"
        return f"{text} {self.unit}"

    @property
    def verdict(self) -> str:
        """Reached, or by what factor it is missed."""
        if self.value is None:
            return self.note
        if self.met is None or self.goal is None:
            return ""
        if self.met:
            return "reached"
        distance = self.goal / self.value if self.at_least and self.value else self.value / self.goal
        return f"missed by {distance:.2f}x"


def interleaved(cases: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Run every case once a round, in turn, so that a slow minute falls on all alike."""
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds):
        names = list(cases)[:: 1 if number % 2 == 0 else -1]
        for name in names:
            gc.collect()
            taken[name].append(cases[name]())
    return taken


def figure(
    group: str, name: str, values: Sequence[float], unit: str, goal: float | None = None, *, of: str = ""
) -> Figure:
    """Give the median of several tries."""
    spread = 0.0
    if len(values) >= 4:
        quarters = statistics.quantiles(values, n=4)
        spread = quarters[2] - quarters[0]
    return Figure(group, name, statistics.median(values), unit, goal, len(values), spread, of)


def ratio(
    group: str,
    name: str,
    values: Sequence[float],
    base: Sequence[float],
    goal: float | None = None,
    *,
    of: str = "",
    at_least: bool = False,
) -> Figure:
    """Give the ratio of two medians of the same rounds."""
    value = statistics.median(values) / statistics.median(base)
    return Figure(group, name, value, "x", goal, len(values), of=of, at_least=at_least)


def not_run(group: str, name: str, unit: str, why: str, *, of: str = "") -> Figure:
    """Give a figure that could not be measured here."""
    return Figure(group, name, None, unit, tries=0, of=of, note=why)


def percentile(values: Sequence[float], part: float) -> float:
    """Give the value under which so large a part of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def table(figures: list[Figure]) -> str:
    """Give the figures as one aligned table."""
    rows = [("", "what", "measured", "bar", "tries", "")]
    for item in figures:
        spread = f" ±{item.spread / 2:,.2f}" if item.spread else ""
        what = f"{item.group}: {item.name}"
        rows.append((item.of, what, item.shown + spread, item.bar, str(item.tries), item.verdict))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), row[1].ljust(widths[1])]
        cells += [row[column].rjust(widths[column]) for column in (2, 3, 4)]
        lines.append("  ".join([*cells, row[5]]).rstrip())
    reached = sum(item.met is True for item in figures)
    missed = sum(item.met is False for item in figures)
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:], "", f"{reached} reached, {missed} missed"])


def as_json(figures: list[Figure]) -> list[dict[str, Any]]:
    """Give the figures for a file."""
    return [asdict(item) | {"met": item.met} for item in figures]


def from_json(rows: list[dict[str, Any]]) -> list[Figure]:
    """Give the figures that were written to a file."""
    names = {field.name for field in fields(Figure)}
    return [Figure(**{name: value for name, value in row.items() if name in names}) for row in rows]
