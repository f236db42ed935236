"""What the state at any record costs: sums, the whole state, and what stands on a screen around it."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.data import Data
from tests.bench.figures import Figure, percentile, ratio

from refold.core.errors import BadRecord
from refold.core.journal_text import fold_bytes
from refold.core.store.reader import RunReader

TRIES = 2_000
STATED = 100 << 20
"""Bytes of the run for which the bars of a fold from the start are stated."""
ROWS = 40
HEAD = 700
"""Bytes of a record that a row can show at most."""


def _each(work: Callable[[int], object], items: list[int]) -> list[float]:
    """Give microseconds for each item."""
    gc.collect()
    gc.disable()
    taken = []
    try:
        for item in items:
            started = time.perf_counter_ns()
            work(item)
            taken.append((time.perf_counter_ns() - started) / 1000)
    finally:
        gc.enable()
    return taken


def _states(path: Path, tries: int = TRIES) -> dict[str, list[float]]:
    rng = random.Random(1)
    with RunReader.open(path) as reader:
        timeline = reader.index_all()
        items = [rng.randrange(timeline.items) for _ in range(tries)]

        def sums(item: int) -> None:
            timeline.counters(item)

        def rows(item: int) -> None:
            for place in range(item, min(item + ROWS, timeline.items)):
                reader.raw(place, HEAD)

        def payloads(item: int) -> None:
            for place in range(item, min(item + ROWS, timeline.items)):
                try:
                    reader.record(place)
                except BadRecord:
                    continue

        _each(reader.state_at, items[:50])
        return {
            "sums": _each(sums, items),
            "state": _each(reader.state_at, items),
            "rows": _each(rows, items[:400]),
            "payloads": _each(payloads, items[:100]),
        }


def _folded(path: Path, tries: int) -> list[float]:
    """Give microseconds to read the file from its start and to fold it up to a record."""
    rng = random.Random(2)
    with RunReader.open(path) as reader:
        timeline = reader.index_all()
        ends = [timeline.span(rng.randrange(timeline.items)).end for _ in range(tries)]

    def fold(end: int) -> None:
        with path.open("rb") as file:
            fold_bytes(file.read(end))

    return _each(fold, ends)


def measure(data: Data, rounds: int) -> list[Figure]:
    """The state at random records of the large run, against a small one and a fold from the start."""
    small, middle, big = _states(data.ten), _states(data.middle), _states(data.big)
    folded = _folded(data.middle, max(3, rounds))
    group = "state at any record"
    p99 = {name: percentile(values, 0.99) for name, values in big.items()}
    growth = p99["state"] / percentile(small["state"], 0.99)
    # A fold grows with the run and a state does not: the bars are those of a run of 100 MB.
    part = data.middle.stat().st_size / STATED
    both = [state + rows for state, rows in zip(middle["state"], middle["payloads"], strict=False)]
    return [
        Figure(group, "the sums, p99", p99["sums"], "µs", 5, TRIES, of="G8"),
        Figure(group, "with the open calls, p99", p99["state"], "µs", 100, TRIES, of="G8"),
        Figure(group, "p99, large run / a hundredth of it", growth, "x", 1.5, TRIES, of="G8"),
        Figure(group, "with the open calls, p50", percentile(big["state"], 0.5), "µs", None, TRIES),
        Figure(group, "beginnings of 40 records, p99", p99["rows"], "µs", None, 400),
        Figure(group, "40 whole records, p99", p99["payloads"], "µs", None, 100),
        ratio(
            group,
            "fold from the start / state",
            folded,
            middle["state"],
            10_000 * part,
            of="G9",
            at_least=True,
        ),
        ratio(group, "the same with 40 whole records", folded, both, 500 * part, of="G9", at_least=True),
    ]
