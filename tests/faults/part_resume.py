"""Runs that are suspended or killed and resumed, and races for one run (the bars for resume and fork)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hypothesis.strategies import SearchStrategy
from tests.faults.goals import Goal, Share, Work, carry_out
from tests.faults.part_fold import try_made
from tests.faults.races import ALL, Racers, suspended, two_racers
from tests.faults.victims import scratch
from tests.test_core_runner_once import check_a_kill, check_every_call_once, kills, suspends

SCRIPTS: dict[Share, int] = {"ci": 100, "quick": 1_000, "long": 10_000}
RACES: dict[Share, int] = {"ci": 20, "quick": 1_000, "long": 10_000}
"""Of each kind."""
STEP = 50
"""Races that are run between two looks at the time."""


def measure(share: Share, seed: int, seconds: float) -> Iterator[Goal]:
    """Resume scripts and race for runs."""
    scripted: tuple[tuple[str, SearchStrategy[dict[str, Any]], Callable[..., None]], ...] = (
        ("random scripts suspended and resumed: every call once", suspends, check_every_call_once),
        ("random scripts killed and resumed: nothing on disk repeated", kills, check_a_kill),
    )
    with scratch() as directory, two_racers() as racers:
        work: list[Work] = [
            (
                Goal("resume", what, seed=seed, asked=1_000),
                functools.partial(
                    try_made, most=SCRIPTS[share], strategy=strategy, check=functools.partial(_once, check)
                ),
            )
            for what, strategy, check in scripted
        ]
        work += [
            (
                Goal("resume", f"races: {name}", seed=seed, asked=1_000),
                functools.partial(_race, name=name, racers=racers, directory=directory, most=RACES[share]),
            )
            for name in ALL
        ]
        yield from carry_out(work, seconds)


def _once(check: Callable[..., None], given: dict[str, Any]) -> int:
    check(**given)
    return 1


def _race(goal: Goal, name: str, racers: Racers, directory: Path, most: int) -> None:
    while goal.tries < most and not goal.over and not goal.failures:
        races = min(STEP, most - goal.tries)
        with goal.attempt(f"after {goal.tries}"):
            ALL[name](racers, suspended(Path(mkdtemp(dir=directory))), races)
            goal.tries += races - 1
