"""What a step of the cursor costs, and how long background work keeps the screen waiting."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from tests.bench.data import Data
from tests.bench.figures import Figure, percentile
from tests.bench.open import at_rest, cpu_seconds, rows_shown
from tests.terminal.program import environment, refold
from tests.terminal.terminal import Terminal

from refold.app.cli_screen import collect_seldom
from refold.app.main import RefoldApp
from refold.app.screens.run import RunScreen
from refold.app.settings import Options, load
from refold.app.widgets.line_list import LineList

STEPS = 200
BATCHES = 4
"""Of 20 keys on a real terminal."""


def _steps(data: Data, *, key: str, pause: float) -> list[float]:
    """Give CPU milliseconds of the whole program a key, terminal output included."""
    taken: list[float] = []
    with Terminal(refold("open", data.big), env=environment(data.home("scrub"))) as terminal:
        terminal.wait(rows_shown, limit=60)
        at_rest(terminal)
        terminal.press("home")
        at_rest(terminal)
        for _ in range(BATCHES):
            before = cpu_seconds(terminal.pid)
            for _ in range(20):
                terminal.send(key)
                until = time.monotonic() + pause
                while (left := until - time.monotonic()) > 0:
                    terminal.pump(left)
            taken.append((cpu_seconds(terminal.pid) - before) * 1000 / 20)
    return taken


def _latency(data: Data, *, indexing: bool) -> list[float]:
    """Give milliseconds from a key to the first byte of its answer, at rest or while the index grows."""
    taken: list[float] = []
    with Terminal(refold("open", data.big), env=environment(data.home("latency"))) as terminal:
        terminal.wait(rows_shown, limit=60)
        if not indexing:
            at_rest(terminal)
        terminal.press("home", settle=0.02)
        end = time.monotonic() + 1.2
        while len(taken) < 100 and (not indexing or time.monotonic() < end):
            terminal.settle(0.01, limit=0.05)
            length = len(terminal.sent)
            started = time.perf_counter()
            terminal.send("down")
            while len(terminal.sent) == length and time.perf_counter() - started < 5:
                terminal.pump(0.5)
            taken.append((time.perf_counter() - started) * 1000)
    return taken


async def _inside(path: Path, home: Path) -> tuple[list[float], list[float], list[float]]:
    """Run the screen without a terminal.

    Returns:
        CPU milliseconds of a cursor step at 50 a second, without what waiting costs; the same with time for
        the panes to follow; and the CPU milliseconds between two turns of the event loop while it is indexed.
    """
    settings = load(Options(only=True), environment(home))
    screen = RunScreen(path, settings=settings)
    app = RefoldApp(settings, lambda: screen)
    collect_seldom()
    gaps: list[float] = []
    async with app.run_test(size=(120, 40)):
        while screen.reader is None or not screen.reader.complete:
            # Of its own thread alone, so that a busy machine is not taken for a busy loop.
            started = time.thread_time()
            await asyncio.sleep(0.001)
            gaps.append((time.thread_time() - started) * 1000)
        rows = screen.query_one("#timeline", LineList)
        rows.go(0)
        await asyncio.sleep(1.0)
        held = await _cpu_of_moves(rows, 1, STEPS // 20, 0.02)
        slow = await _cpu_of_moves(rows, 1, 2, 0.25)
        idle = percentile(await _cpu_of_moves(rows, 0, 5, 0.02), 0.5)
        held = [taken - idle for taken in held]
    return held, slow, gaps


async def _cpu_of_moves(rows: LineList, delta: int, batches: int, pause: float) -> list[float]:
    """Give the CPU milliseconds a move; of the waiting alone where nothing moves."""
    taken = []
    for _ in range(batches):
        started = time.process_time()
        for _ in range(20):
            if delta:
                rows.move(delta)
            await asyncio.sleep(pause)
        taken.append((time.process_time() - started) * 1000 / 20)
    return taken


def measure(data: Data, rounds: int) -> list[Figure]:
    """CPU of a cursor step with and without the panes, key latency at rest and while indexing."""
    del rounds
    fast, slow = _steps(data, key="down", pause=0.02), _steps(data, key="down", pause=0.25)
    held, panes, gaps = asyncio.run(_inside(data.big, data.home("inside")))
    _, _, huge = asyncio.run(_inside(data.huge_record, data.home("inside")))
    rest, busy = _latency(data, indexing=False), _latency(data, indexing=True)
    group, loop, keys = "cursor step, large run", "event loop while indexing", "key to first byte"
    return [
        Figure(loop, "held, p99", percentile(gaps, 0.99), "ms", 4.0, len(gaps), of="G11"),
        Figure(loop, "held, longest", max(gaps), "ms", 16.0, len(gaps), of="G11"),
        Figure(loop, "held by a 50 MB record, longest", max(huge), "ms", 16.0, len(huge), of="G11"),
        Figure(group, "list and ruler, 50 a second, CPU", percentile(held, 0.5), "ms", 2.0, STEPS, of="G8"),
        Figure(group, "with panes following each step, CPU", percentile(panes, 0.5), "ms", None, 40),
        Figure(group, "key held down, CPU of everything", percentile(fast, 0.5), "ms", None, 20 * BATCHES),
        Figure(group, "key by key with panes, CPU of all", percentile(slow, 0.5), "ms", None, 20 * BATCHES),
        Figure(keys, "at rest, median", percentile(rest, 0.5), "ms", None, len(rest)),
        Figure(keys, "at rest, p99", percentile(rest, 0.99), "ms", 50.0, len(rest)),
        Figure(keys, "while indexing, median", percentile(busy, 0.5), "ms", None, len(busy)),
        Figure(keys, "while indexing, p99", percentile(busy, 0.99), "ms", 50.0, len(busy)),
    ]
