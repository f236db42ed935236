"""Very many runs, a very long run, and one record more at the end of it (design/safety.md 5, G14).

How long it takes is told beside what was asked for, not judged; `.ci/refold-bench` measures it where nothing
else runs. How many bytes are read is judged.
"""

from __future__ import annotations

import functools
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests import generate
from tests.faults.goals import Goal, Share, Work, carry_out
from tests.faults.victims import scratch
from tests.terminal.program import environment, refold
from tests.terminal.terminal import Terminal

from refold.core.store.growing import Change
from refold.core.store.reader import RunReader

RUNS: dict[Share, int] = {"ci": 300, "quick": 5_000, "long": 50_000}
LENGTH: dict[Share, int] = {"ci": 4_000_000, "quick": 100_000_000, "long": 2_000_000_000}
"""Bytes of the run that is opened."""
GROWS: dict[Share, int] = {"ci": 4_000_000, "quick": 70_000_000, "long": 700_000_000}
"""Bytes of the run that is read on."""
STARTS: dict[Share, int] = {"ci": 1, "quick": 2, "long": 5}
APPENDS: dict[Share, int] = {"ci": 20, "quick": 200, "long": 1_000}
COLD, WARM = "ms to all, cold (asked: 5,000)", "ms to all, warm (asked: 1,000)"
MOST_READ = 64 << 10
"""Bytes that are read for one record more, beside twice its own."""


def measure(share: Share, seed: int, seconds: float) -> Iterator[Goal]:
    """List, open, append."""
    whats: tuple[tuple[str, Callable[..., None]], ...] = (
        (f"starts on {RUNS[share]:,} runs, without a cache and with one", _lists),
        (f"a run of {LENGTH[share] // 1_000_000:,} MB opened", _opens),
        (
            f"records appended to a run of {GROWS[share] // 1_000_000:,} MB",
            _grows,
        ),
    )
    with scratch() as directory:
        work: list[Work] = [
            (Goal("G14", what, seed=seed), functools.partial(act, directory=directory, share=share))
            for what, act in whats
        ]
        yield from carry_out(work, seconds)


def _most(goal: Goal, name: str, value: float) -> None:
    """Note the greatest of some values."""
    goal.notes[name] = max(goal.notes.get(name, 0), round(value))


def _lists(goal: Goal, directory: Path, share: Share) -> None:
    runs, count = directory / "runs", RUNS[share]
    generate.small_runs(runs, count, seed=goal.seed)
    for number in range(STARTS[share]):
        if goal.over and number:
            break
        home = directory / f"home-{number}"
        home.mkdir()
        for known, name in (
            ("without", "ms to all, cold (asked: 5,000)"),
            ("with", "ms to all, warm (asked: 1,000)"),
        ):
            with (
                goal.attempt(f"{number}: {known} a cache"),
                Terminal(refold("--only", "--root", runs), env=environment(home)) as terminal,
            ):
                started = terminal.arrival("small-0") - terminal.started
                if known == "without":
                    _most(goal, "ms to the first rows (asked: 500)", 1000 * started)
                terminal.wait(f"{count:,} runs")
                _most(goal, name, 1000 * (time.perf_counter() - terminal.started))
                assert terminal.quit() == 0
    shutil.rmtree(runs)


def _opens(goal: Goal, directory: Path, share: Share) -> None:
    path = directory / "large.json"
    generate.write(path, generate.journal(size=LENGTH[share], run_id="large", seed=goal.seed))
    for number in range(STARTS[share]):
        if goal.over and number:
            break
        home = directory / f"home-of-large-{number}"
        home.mkdir()
        with (
            goal.attempt(f"{number}"),
            Terminal(refold("open", path, "--only", "--root", directory), env=environment(home)) as terminal,
        ):
            terminal.arrival("reconcile the invoices")
            _most(
                goal, "ms to the first screen (asked: 1,000)", 1000 * (time.perf_counter() - terminal.started)
            )
            # That were rows which no key acts on yet.
            terminal.wait("reconcile the invoices")
            _most(goal, "ms until it takes keys", 1000 * (time.perf_counter() - terminal.started))
            status = Path(f"/proc/{terminal.pid}/status")
            if status.exists():
                held = status.read_text().partition("VmRSS:")[2].split()[0]
                _most(goal, "MB held then (asked: 150)", int(held) / 1024)
            assert terminal.quit() == 0
    path.unlink()


def _grows(goal: Goal, directory: Path, share: Share) -> None:
    """Read on, as the screen does, and count what the system was asked for."""
    path = directory / "grows.json"
    generate.write(
        path, generate.journal(size=GROWS[share], run_id="grows", ending="crashed", seed=goal.seed)
    )
    with RunReader.open(path) as reader:
        timeline = reader.index_all()
        seq = timeline.seq(timeline.items - 1) or 0
        for number in range(APPENDS[share]):
            if goal.over and number:
                break
            seq += 1
            text = "more " * (1 + number % 500)
            line = (
                f'{{"seq":{seq},"protocol":"refold.v1.session.user","user":{{"message":{{"role":"user",'
                f'"content":[{{"text":{{"text":"{text}"}}}}]}}}}}}\n'
            ).encode()
            with path.open("ab") as file:
                file.write(line)
            with goal.attempt(f"{number}: {len(line)} bytes"):
                before = _bytes_read()
                assert reader.poll() is Change.GREW
                items = reader.index_all().items
                read = _bytes_read() - before
                assert reader.timeline.seq(items - 1) == seq
                _most(goal, "KB read at most (asked: 64)", read / 1024)
                assert read <= MOST_READ + 2 * len(line), f"{read} bytes were read"
    path.unlink()


def _bytes_read() -> int:
    """Give how many bytes this process has read by now; 0 where the system does not tell."""
    told = Path("/proc/self/io")
    return int(told.read_text().split()[1]) if told.exists() else 0
