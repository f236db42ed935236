"""How soon two large forks are known to part, and what their whole comparison takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.bench.data import Data
from tests.bench.figures import Figure, figure

_CHILD = """
import json, sys, time
from pathlib import Path
from refold.core.store.compare import compare, parting
from refold.core.store.reader import RunReader

def memory():
    # Not ru_maxrss: that begins with what the parent process had.
    return next(int(row.split()[1]) for row in open("/proc/self/status") if row.startswith("VmHWM"))

a, b = map(Path, sys.argv[1:])
started = time.perf_counter()
with RunReader.open(a) as mine, RunReader.open(b) as theirs:
    *_, found = parting(mine, theirs)
    parted = time.perf_counter() - started
    until = memory()
    *_, whole = compare(mine, theirs)
taken = time.perf_counter() - started
print(json.dumps([parted * 1000, until / 1024, taken * 1000, memory() / 1024, whole.same]))
"""
"""Measured in a process of its own: its memory is that of the comparison."""


def measure(data: Data, rounds: int) -> list[Figure]:
    """Compare a tenth of the large run (100 MB) with a fork that leaves it near its end, and at its start."""
    late, early = (_fork(data.middle, data.directory / f"fork-{part}.json", part) for part in (99, 1))
    taken = [_compared(data.middle, late) for _ in range(rounds)]
    soon = [_compared(data.middle, early) for _ in range(max(1, rounds // 3))]
    group = "compare"
    return [
        figure(group, "forks part near the end", [one[0] for one in taken], "ms", 1000),
        figure(group, "memory until then", [one[1] for one in taken], "MB", 100),
        figure(group, "aligned as well", [one[2] for one in taken], "ms"),
        figure(group, "memory for all of it", [one[3] for one in taken], "MB", 100),
        figure(group, "forks part at the start, aligned", [one[2] for one in soon], "ms"),
        figure(group, "memory for that", [one[3] for one in soon], "MB"),
    ]


def _fork(parent: Path, path: Path, part: int) -> Path:
    """Write what a fork leaves alike: so many hundredths of the lines; behind them every text is another."""
    lines = parent.read_bytes().split(b"\n")
    kept = len(lines) * part // 100
    first = lines[0].replace(b'"run_id":"', b'"run_id":"fork-of-', 1)
    rest = [line.replace(b'"text":"', b'"text":"Otherwise: ') for line in lines[kept:]]
    path.write_bytes(b"\n".join([first, *lines[1:kept], *rest]))
    return path


def _compared(a: Path, b: Path) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, a, b], check=True, capture_output=True, text=True
    )  # fmt: skip
    *figures, same = json.loads(done.stdout)
    assert not same, "the fork is no other run"
    return [float(one) for one in figures]
