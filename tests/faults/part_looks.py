"""Looks at damaged runs, held against what lay there before (design/safety.md 5, G7)."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests import generate
from tests.damage import KINDS, damage
from tests.faults.goals import Goal, Share, carry_out
from tests.faults.screen_reads import unchanged
from tests.faults.victims import scratch
from tests.rivumi_cases import CASES, make

from refold.app.exporting import text_of
from refold.core.errors import RefoldError
from refold.core.redact import Redactor
from refold.core.store.catalog import Catalog, Root
from refold.core.store.examining import examine
from refold.core.store.export import Source
from refold.core.store.reader import RunReader

ACTIONS: dict[Share, int] = {"ci": 400, "quick": 5_000, "long": 100_000}


def measure(share: Share, seed: int, seconds: float) -> Iterator[Goal]:
    """List, open, fold, examine and export."""
    with scratch() as directory:
        goal = Goal("G7", "looks at damaged runs, held against hashed trees", 0, seed, 100_000)
        yield from carry_out([(goal, lambda goal: actions(goal, directory, share))], seconds)


def actions(goal: Goal, directory: Path, share: Share) -> None:
    """Look at runs again and again within this process; nothing about any of them may change."""
    rng = random.Random(goal.seed)
    while goal.tries < ACTIONS[share] and not goal.over:
        place = directory / "actions"
        shutil.rmtree(place, ignore_errors=True)
        runs = place / "runs"
        runs.mkdir(parents=True)
        for number, kind in enumerate(rng.sample(list(KINDS), 12)):
            style = generate.STYLES[number % 3]
            good = b"".join(generate.journal(records=9, run_id=f"run-{number}", style=style))
            (runs / f"run-{number}.json").write_bytes(damage(kind, rng.randrange(1000), good))
        for case in rng.sample(CASES, 3):
            make(case, runs)
        paths = [path for path in runs.iterdir() if path.suffix != ".lock"]
        with unchanged([runs]):
            catalog = Catalog([Root(runs, "fisk-ai", "test")], cache=place / "cache")
            for _ in range(2):
                with goal.attempt("list"):
                    list(catalog.scan())
            catalog.close()
            for path in paths:
                _look(goal, path, rng, place / "cache")


def _undrawn(source: Source) -> str:
    raise AssertionError(f"no picture of {source.reader.run_id} is asked for")


def _look(goal: Goal, path: Path, rng: random.Random, cache: Path) -> None:
    """Open, index, fold, examine and export one run."""
    with goal.attempt(f"open {path.name}"), RunReader.open(path, hint="fisk-ai", cache=cache) as reader:
        timeline = reader.index_all()
        for item in rng.sample(range(timeline.items), min(8, timeline.items)):
            with goal.attempt(f"state {item} of {path.name}"):
                try:
                    reader.state_at(item)
                    reader.record(item)
                except RefoldError:
                    goal.count("said why not")
        with goal.attempt(f"examine {path.name}"):
            if reader.session is None:
                list(examine(reader))
        for name in ("md", "json", "html"):
            with goal.attempt(f"export {path.name} as {name}"):
                for _ in text_of(name, Source(reader, Redactor()), _undrawn, ascii_text=False):
                    pass
