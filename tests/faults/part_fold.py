"""The fold of every prefix: step by step, at once, as the screen does it, and in other processes (G9)."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from hypothesis import HealthCheck, given, seed, settings
from hypothesis.strategies import SearchStrategy
from tests.faults.goals import Goal, Share, Work, carry_out
from tests.faults.victims import ROOT, scratch
from tests.test_core_fold import check_every_prefix, histories
from tests.test_core_timeline import check_every_prefix as check_timeline
from tests.test_core_timeline import lines

from refold.core.records import Record

T = TypeVar("T")
CHUNK = 100
"""Histories that are made from one seed; between two of them it is looked whether there is time left."""
PREFIXES: dict[Share, int] = {"ci": 300, "quick": 20_000, "long": 1_000_000}
SHOWN: dict[Share, int] = {"ci": 100, "quick": 2_000, "long": 100_000}
PROCESSES: dict[Share, int] = {"ci": 1, "quick": 2, "long": 12}
KINDS: dict[Share, int] = {"ci": 20, "quick": 1, "long": 1}
"""One kind of damage of so many is in a heap."""
"""Heaps of runs that are folded in processes whose hashes differ."""
HASH_SEEDS = ("0", "1", "4242")

FOLDS = """
import hashlib, json, sys
from tests import generate
from refold.core.errors import FoldError
from refold.core.journal_text import fold_bytes
from refold.core.state_json import state_json
from tests.damage import KINDS, damage
digest, count = hashlib.sha256(), 0
for style in generate.STYLES:
    good = b"".join(generate.journal(records=12, style=style, seed=int(sys.argv[1]), run_id="run"))
    kinds = [kind for kind in list(KINDS)[:: int(sys.argv[2])] if "deep" not in kind]
    for data in (good, *(damage(kind, int(sys.argv[1]), good) for kind in kinds)):
        for end in (at for at in range(len(data)) if data[at : at + 1] == b"\\n"):
            try:
                told = json.dumps(state_json(fold_bytes(data[:end], hint="fisk-ai")), sort_keys=False)
            except FoldError as error:
                told = f"{type(error).__name__} {error}"
            digest.update(told.encode() + b"\\0")
            count += 1
print(count, digest.hexdigest())
"""


def measure(share: Share, seed: int, seconds: float) -> Iterator[Goal]:
    """Fold prefixes in every way."""
    step = Goal("G9", "prefixes folded step by step and at once", 0, seed, 1_000_000)
    shown = Goal("G9", "prefixes as the screen folds them and from their bytes", 0, seed, 1_000_000)
    apart = Goal("G9", "prefixes folded in three processes of different hashes", seed=seed)
    with scratch() as directory:
        path = directory / "run.json"
        work: list[Work] = [
            (
                step,
                functools.partial(try_made, most=PREFIXES[share], strategy=histories(), check=_step_by_step),
            ),
            (
                shown,
                functools.partial(
                    try_made, most=SHOWN[share], strategy=lines(), check=functools.partial(_as_shown, path)
                ),
            ),
            (apart, functools.partial(_apart, heaps=PROCESSES[share], step=KINDS[share])),
        ]
        yield from carry_out(work, seconds)


def try_made(goal: Goal, most: int, strategy: SearchStrategy[T], check: Callable[[T], int]) -> None:
    """Check what Hypothesis makes until so many prefixes were tried."""
    chunk = 0
    while goal.tries < most and not goal.over:
        number = goal.seed * 1_000_003 + chunk
        chunk += 1

        @settings(max_examples=CHUNK, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @seed(number)
        @given(strategy)
        def each(made: T) -> None:
            goal.tries += check(made)

        before = goal.tries
        with goal.attempt(f"chunk {number}"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            each()
        goal.tries -= goal.tries > before + 1


def _step_by_step(records: list[Record]) -> int:
    check_every_prefix(records, 3)
    return len(records)


def _as_shown(path: Path, made: list[bytes]) -> int:
    path.write_bytes(b"\n".join(made) + b"\n")
    check_timeline(path)
    return len(made)


def _apart(goal: Goal, heaps: int, step: int) -> None:
    for number in range(heaps):
        if goal.over:
            break
        with goal.attempt(f"heap {number}"):
            command = [sys.executable, "-c", FOLDS, str(goal.seed * 1000 + number), str(step)]
            told = [
                subprocess.run(
                    command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, cwd=ROOT, check=True,
                    capture_output=True, text=True, timeout=600,
                ).stdout
                for hash_seed in HASH_SEEDS
            ]  # fmt: skip
            assert len(set(told)) == 1, told
            goal.tries += int(told[0].split()[0]) - 1
