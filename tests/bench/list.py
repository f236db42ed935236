"""The list of many runs: first rows, the warm complete list, and a key in the filter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.data import Data
from tests.bench.figures import Figure, figure, interleaved, percentile, ratio
from tests.bench.open import at_rest, cpu_seconds
from tests.terminal.program import ROOT, environment, refold
from tests.terminal.terminal import Terminal

from refold.core.store.catalog import Catalog, Root
from refold.core.summary import RunSummary

SCREENFUL = 50


def _floor(directory: Path) -> float:
    """Name and stat every run, newest first: what a checked list cannot do without."""
    started = time.perf_counter()
    rows = []
    with os.scandir(directory) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            rows.append((status.st_mtime_ns, status.st_size, status.st_ino, entry.name))
    rows.sort(reverse=True)
    return (time.perf_counter() - started) * 1000


def _first_rows(directory: Path, cache: Path) -> float:
    catalog = Catalog((Root(directory, "refold", "bench"),), cache=cache)
    started = time.perf_counter()
    seen: set[str] = set()
    for row in catalog.scan():
        if isinstance(row, RunSummary):
            seen.add(row.id)
        if len(seen) >= SCREENFUL:
            break
    return (time.perf_counter() - started) * 1000


def _complete(directory: Path, cache: Path | None, count: int) -> float:
    catalog = Catalog((Root(directory, "refold", "bench"),), cache=cache)
    started = time.perf_counter()
    rows = {row.id: row for row in catalog.scan() if isinstance(row, RunSummary)}
    taken = (time.perf_counter() - started) * 1000
    assert len(rows) == count, f"{len(rows)} of {count} runs"
    assert all(row.complete for row in rows.values())
    return taken


def _listing(directory: Path, home: Path) -> float:
    started = time.perf_counter()
    subprocess.run(
        refold("ls", "--only", "--root", directory, "--json"), check=True, stdout=subprocess.DEVNULL,
        env=environment(home), cwd=ROOT,
    )  # fmt: skip
    return (time.perf_counter() - started) * 1000


def _python() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return (time.perf_counter() - started) * 1000


def _filter_keys(data: Data) -> tuple[list[float], list[float]]:
    """Type a filter over all runs; give CPU and wall milliseconds a key."""
    home = data.home("filter")
    cpu, wall = [], []
    with Terminal(refold("--only", "--root", data.runs), env=environment(home)) as terminal:
        terminal.wait("run-0", limit=60)
        at_rest(terminal)
        terminal.press("/", settle=0.3)
        for key in "status:completed ledger":
            before, length = cpu_seconds(terminal.pid), len(terminal.sent)
            started = time.perf_counter()
            terminal.send(key)
            while len(terminal.sent) == length:
                terminal.pump(1.0)
            wall.append((time.perf_counter() - started) * 1000)
            terminal.settle(0.25)
            cpu.append((cpu_seconds(terminal.pid) - before) * 1000)
    return cpu, wall


def measure(data: Data, rounds: int) -> list[Figure]:
    """First rows and warm complete list against scandir and stat; `ls`; a key in the filter."""
    cold, warm = data.home("cold"), data.home("warm")
    cold_full = [_complete(data.runs, warm, data.run_count)]
    _floor(data.runs)

    def first_cold() -> float:
        shutil.rmtree(cold, ignore_errors=True)
        return _first_rows(data.runs, cold)

    taken = interleaved(
        {
            "floor": lambda: _floor(data.runs),
            "first cold": first_cold,
            "first warm": lambda: _first_rows(data.runs, warm),
            "complete warm": lambda: _complete(data.runs, warm, data.run_count),
        },
        max(rounds, 7),
    )
    home = data.home("ls")
    _listing(data.runs, home)
    processes = interleaved({"ls": lambda: _listing(data.runs, home), "python": _python}, rounds)
    cpu, wall = _filter_keys(data)
    group = "list"
    return [
        figure(group, "scandir + stat", taken["floor"], "ms"),
        ratio(group, "first 50 rows, no cache / scandir + stat", taken["first cold"], taken["floor"], 1.5),
        ratio(group, "first 50 rows, cache / scandir + stat", taken["first warm"], taken["floor"], 1.5),
        ratio(group, "complete, cache / scandir + stat", taken["complete warm"], taken["floor"], 1.5),
        figure(group, "complete, no cache, once", cold_full, "ms"),
        figure(group, "refold ls --json, cache", processes["ls"], "ms"),
        ratio(group, "refold ls --json / bare python", processes["ls"], processes["python"]),
        Figure("filter", "CPU a key, median", percentile(cpu, 0.5), "ms", 50.0, len(cpu)),
        Figure("filter", "CPU a key, most", max(cpu), "ms", 50.0, len(cpu)),
        Figure("filter", "key to first paint, most", max(wall), "ms", 50.0, len(wall)),
    ]
