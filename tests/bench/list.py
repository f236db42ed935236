"""The list of many runs: first rows, the complete list with and without a cache, and a key in the filter."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.data import Data
from tests.bench.figures import Figure, figure, interleaved, not_run, percentile, ratio
from tests.bench.index import naive
from tests.bench.open import at_rest, cpu_seconds
from tests.terminal.program import environment, refold
from tests.terminal.terminal import Terminal

from refold.core.store.catalog import Catalog, Root
from refold.core.summary import RunSummary

SCREENFUL = 50
_NO_PEER = "it cannot be built here"


def _cpu(work: Callable[[], object]) -> float:
    """Give the milliseconds of CPU that something takes, in all threads."""
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1000


def _wall(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def _both(work: Callable[[], object]) -> tuple[float, float]:
    """Give the milliseconds of wall and of CPU that something takes."""
    cpu: list[float] = []
    wall = _wall(lambda: cpu.append(_cpu(work)))
    return wall, cpu[0]


def _floor(directory: Path) -> None:
    """Name and stat every run, newest first: what a checked list cannot do without."""
    rows = []
    with os.scandir(directory) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            rows.append((status.st_mtime_ns, status.st_size, status.st_ino, entry.name))
    rows.sort(reverse=True)


def _catalog(directory: Path, cache: Path | None, hint: str = "refold") -> Catalog:
    return Catalog((Root(directory, hint, "bench"),), cache=cache)


def _first_rows(directory: Path, cache: Path | None) -> None:
    catalog = _catalog(directory, cache)
    seen: set[str] = set()
    for row in catalog.scan():
        if isinstance(row, RunSummary):
            seen.add(row.id)
        if len(seen) >= SCREENFUL:
            return


def _complete(directory: Path, cache: Path | None, count: int, hint: str = "refold") -> None:
    catalog = _catalog(directory, cache, hint)
    rows = {row.id: row for row in catalog.scan() if isinstance(row, RunSummary)}
    assert len(rows) == count, f"{len(rows)} of {count} runs"
    assert all(row.complete for row in rows.values())
    catalog.close()


def _naive(directory: Path) -> None:
    for path in directory.iterdir():
        naive(path)


_WARM: dict[Path, Path] = {}


def _warm(data: Data, directory: Path, count: int, hint: str = "refold") -> Path:
    """Give a cache that knows a directory."""
    if directory not in _WARM:
        _WARM[directory] = data.home("warm")
        _complete(directory, _WARM[directory], count, hint)
    return _WARM[directory]


def warm_list(data: Data) -> float:
    """Give the milliseconds of CPU that a complete list from the cache takes."""
    cache = _warm(data, data.runs, data.run_count)
    return _cpu(lambda: _complete(data.runs, cache, data.run_count))


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


def _many(data: Data, rounds: int) -> list[Figure]:
    """The list of 10,000 runs: its first rows, and all of it from the cache."""
    _floor(data.runs)
    cold = data.home("cold")
    cache = _warm(data, data.runs, data.run_count)

    def first_cold() -> float:
        shutil.rmtree(cold, ignore_errors=True)
        return _cpu(lambda: _first_rows(data.runs, cold))

    taken = interleaved(
        {
            "floor": lambda: _cpu(lambda: _floor(data.runs)),
            "first cold": first_cold,
            "first warm": lambda: _cpu(lambda: _first_rows(data.runs, cache)),
            "complete": lambda: warm_list(data),
        },
        max(rounds, 9),
    )
    group, floor = f"{data.run_count:,} runs of 70 KB", taken["floor"]
    return [
        ratio(group, "complete, cache / scandir + stat", taken["complete"], floor, 1.25, of="G5"),
        not_run(group, "List of fisk-ai / complete, cache", "x", _NO_PEER, of="G5"),
        ratio(group, "first 50, no cache / scandir + stat", taken["first cold"], floor, 1.2, of="G6"),
        ratio(group, "first 50, cache / scandir + stat", taken["first warm"], floor, 1.2),
        figure(group, "scandir + stat", floor, "ms"),
        figure(group, "complete, cache", taken["complete"], "ms"),
    ]


def _cold(data: Data, rounds: int) -> list[Figure]:
    """All counters of all runs without a cache, against naive reading."""
    figures = []
    for directory, count, size, bar in (
        (data.runs, data.run_count, "70 KB", 3),
        (data.large_runs, data.large_count, "2 MB", 4),
    ):
        taken = interleaved(
            {
                "ours": lambda d=directory, c=count: _cpu(lambda: _complete(d, None, c)),  # type: ignore[misc]
                "naive": lambda d=directory: _cpu(lambda: _naive(d)),  # type: ignore[misc]
            },
            1 if rounds < 5 else 2,
        )
        group = f"{count:,} runs of {size}"
        figures += [
            ratio(
                group, "naive json / complete, no cache", taken["naive"], taken["ours"], bar,
                of="G7", at_least=True,
            ),
            figure(group, "complete, no cache", taken["ours"], "ms"),
        ]  # fmt: skip
    return [*figures, not_run("all counters", "List of fisk-ai / complete, no cache", "x", _NO_PEER, of="G7")]


def _swarm(data: Data) -> list[Figure]:
    """Very many small runs: when the list can be used, when it is complete."""
    directory, count = data.small_runs, data.small_count
    _floor(directory)
    cold = [_both(lambda: _complete(directory, None, count)) for _ in range(3)]
    cache = _warm(data, directory, count)
    warm = [_both(lambda: _complete(directory, cache, count)) for _ in range(5)]
    usable = []
    for _ in range(3):
        with Terminal(refold("--only", "--root", directory), env=environment(data.home("swarm"))) as terminal:
            usable.append((terminal.arrival("small-0", limit=60) - terminal.started) * 1000)
    part = count / 50_000
    group = f"{count:,} small runs"
    return [
        figure(group, "first rows on the screen, no cache", usable, "ms", 500, of="50k"),
        figure(group, "complete, no cache", [wall for wall, _ in cold], "ms", 5_000 * part, of="50k"),
        figure(group, "complete, cache", [wall for wall, _ in warm], "ms", 1_000 * part, of="50k"),
        # Beside other work the wall tells of that: these tell of the program.
        figure(group, "CPU a run, no cache", [cpu * 1000 / count for _, cpu in cold], "µs"),
        figure(group, "CPU a run, cache", [cpu * 1000 / count for _, cpu in warm], "µs"),
    ]


def _directories(data: Data) -> list[Figure]:
    """Runs that are directories."""
    store, count = data.sessions, data.session_count
    cold = [_cpu(lambda: _complete(store, None, count, "rivumi")) for _ in range(2)]
    cache = _warm(data, store, count, "rivumi")
    warm = [_cpu(lambda: _complete(store, cache, count, "rivumi")) for _ in range(5)]
    floor = [_cpu(lambda: _floor(store)) for _ in range(5)]
    group = f"{count:,} run directories"
    return [
        figure(group, "complete, no cache", cold, "ms"),
        figure(group, "complete, cache", warm, "ms"),
        ratio(group, "complete, cache / scandir + stat", warm, floor),
    ]


def measure(data: Data, rounds: int) -> list[Figure]:
    """All of these; ratios are of CPU time."""
    figures = [*_many(data, rounds), *_cold(data, rounds), *_swarm(data), *_directories(data)]
    cpu, wall = _filter_keys(data)
    return [
        *figures,
        Figure("filter", "CPU a key, median", percentile(cpu, 0.5), "ms", 50.0, len(cpu)),
        Figure("filter", "key to first paint, most", max(wall), "ms", 50.0, len(wall)),
    ]
