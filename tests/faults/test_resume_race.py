"""Two at once on one run, a thousand times for each kind of race."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.races import ALL, Racers, suspended, two_racers

RACES = int(os.environ.get("REFOLD_RACES", "1000"))
"""How many races of each kind are run."""


@pytest.fixture(scope="module")
def racers() -> Iterator[Racers]:
    with two_racers() as both:
        yield both


@pytest.mark.parametrize("name", ALL)
def test_race(name: str, racers: Racers, tmp_path: Path) -> None:
    ALL[name](racers, suspended(tmp_path / "runs"), RACES)
