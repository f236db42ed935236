"""How soon an appended record stands on the screen of a program that watches."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

from tests import generate
from tests.bench.data import Data
from tests.bench.figures import Figure, percentile
from tests.bench.open import at_rest, cpu_seconds, rows_shown
from tests.terminal.program import environment, refold
from tests.terminal.terminal import Terminal

from refold.app.screens import run_file
from refold.core.store.reader import RunReader

TRIES = 25


def _record(number: int) -> bytes:
    words = generate.Wording.of("native")
    block = words.text_block(generate.go_string(f"appended number {number:05d} here"))
    payload = b'{"iteration":%d,"message":%b,"stop_reason":"end_turn","in_tokens":1,"out_tokens":1}' % (
        number, words.message(b"assistant", [block]),
    )  # fmt: skip
    return words.line(number, b"assistant", payload, number / 10)


def _appended(path: Path, home: Path, first: int) -> tuple[list[float], float]:
    """Append records one by one; give milliseconds until each is shown, and idle CPU a second in ms."""
    taken = []
    with Terminal(refold("open", path), env=environment(home)) as terminal:
        terminal.wait(rows_shown, limit=60)
        at_rest(terminal)
        terminal.press("end")
        at_rest(terminal)
        before = cpu_seconds(terminal.pid)
        terminal.settle(3.0, limit=3.0)
        idle = (cpu_seconds(terminal.pid) - before) / 3 * 1000
        for number in range(first, first + TRIES):
            with path.open("ab", buffering=0) as file:
                started = time.perf_counter()
                file.write(_record(number))
                taken.append((terminal.arrival(f"appended number {number:05d}", limit=10) - started) * 1000)
            terminal.settle(0.08)
    return taken, idle


def _listed(data: Data) -> list[float]:
    """Append turns to a run while the list is open; give milliseconds until its row counts each."""
    directory = data.directory / "listed"
    generate.runs(directory, 20, size=20_000, seed=data.seed)
    path = directory / "watched.json"
    generate.write(path, generate.journal(records=4, run_id="watched"))
    turns = 1
    taken = []

    def counts(screen: str) -> bool:
        return any("watched" in row and f" {turns} " in row for row in screen.split("\n"))

    with Terminal(refold("--only", "--root", directory), env=environment(data.home("listed"))) as terminal:
        terminal.wait(counts, limit=60)
        at_rest(terminal)
        for number in range(5_000, 5_000 + TRIES):
            turns += 1
            with path.open("ab", buffering=0) as file:
                started = time.perf_counter()
                file.write(_record(number))
            # The number comes alone in its column; whether it was this row's is seen afterwards.
            length = len(terminal.sent)
            while not re.search(rb"(?<![0-9])%d(?![0-9])" % turns, terminal.sent[length:]):
                terminal.pump(1.0)
            taken.append((time.perf_counter() - started) * 1000)
            terminal.wait(counts, limit=10)
            terminal.settle(0.1)
    return taken


async def _told(path: Path, first: int, tries: int) -> list[float]:
    """Append records to a run that is followed; give milliseconds until each is indexed, nothing drawn."""
    taken: list[float] = []
    rng = random.Random(3)
    read = asyncio.Event()
    reader: list[RunReader] = []

    async def follow() -> None:
        async for event in run_file.follow(lambda: RunReader.open(path)):
            if isinstance(event, run_file.Opened):
                reader.append(event.reader)
            elif isinstance(event, run_file.Read) and event.finished:
                read.set()

    following = asyncio.create_task(follow())
    await read.wait()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        for number in range(first, first + tries):
            await asyncio.sleep(0.02 + 0.08 * rng.random())
            items = reader[-1].timeline.items
            read.clear()
            started = time.perf_counter()
            os.write(descriptor, _record(number))
            while reader[-1].timeline.items == items:
                await asyncio.wait_for(read.wait(), 5)
                read.clear()
            taken.append((time.perf_counter() - started) * 1000)
    finally:
        os.close(descriptor)
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
    return taken


@contextlib.contextmanager
def _as_it_was(path: Path) -> Iterator[None]:
    """Take off a file again what was appended to it: other parts read it too."""
    size = path.stat().st_size
    try:
        yield
    finally:
        os.truncate(path, size)


def measure(data: Data, rounds: int) -> list[Figure]:
    """Append to visible: in an open small run, in an open large run, in the list."""
    del rounds
    with _as_it_was(data.small):
        small_told = asyncio.run(_told(data.small, 900_000, 60))
    with _as_it_was(data.big):
        told = asyncio.run(_told(data.big, 900_000, 60))
    with _as_it_was(data.small):
        small, idle = _appended(data.small, data.home("tail"), 1_000_000)
    with _as_it_was(data.big):
        big, _ = _appended(data.big, data.home("tail"), 1_000_000)
    rows = _listed(data)
    group = "append to visible"
    growth = percentile(told, 0.5) / percentile(small_told, 0.5)
    return [
        Figure(
            group, "before anything is drawn, p99", percentile(told, 0.99), "ms", 5.0, len(told), of="G10"
        ),
        Figure(group, "the same, median", percentile(told, 0.5), "ms", None, len(told), of="G10"),
        Figure(group, "large run / 1 MB run", growth, "x", 1.5, len(told), of="G10"),
        Figure(group, "on the screen, 1 MB run, p99", percentile(small, 0.99), "ms", 100.0, len(small)),
        Figure(group, "on the screen, large run, median", percentile(big, 0.5), "ms", None, len(big)),
        Figure(group, "on the screen, large run, p99", percentile(big, 0.99), "ms", 100.0, len(big)),
        Figure(group, "row of the list, median", percentile(rows, 0.5), "ms", None, len(rows)),
        Figure(group, "row of the list, p99", percentile(rows, 0.99), "ms", 100.0, len(rows)),
        Figure("idle", "CPU a second with an open run", idle, "ms", None, 1),
    ]
