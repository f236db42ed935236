"""How well a played run keeps the clock; what it costs to look along a large run for a stop or a change."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.data import Data
from tests.bench.figures import Figure, percentile
from tests.terminal.program import environment

from refold.app.cli_screen import collect_seldom
from refold.app.main import RefoldApp
from refold.app.present.reading import Reading, reading_of
from refold.app.screens.run import RunScreen
from refold.app.settings import Options, load
from refold.core.breakpoints import Condition, parse_breakpoints
from refold.core.playback import AS_RECORDED
from refold.core.seek import Changes, Seeking, Watched, next_change, next_stop
from refold.core.store.reader import RunReader

SPEED = 16
SECONDS = 12.0
NEVER = {
    "columns": "errors>999999999",
    "every record": '"no such text anywhere"',
    "calls of a file": "file:no-such-file.py",
}


async def _played(path: Path, home: Path, *, stop: str = "") -> tuple[list[float], float]:
    """Play a run at sixteen times by the real clock.

    Returns:
        By how much what is shown differs from what the clock says, as a part of what has passed, looked at
        four times a second after the first second; and the CPU milliseconds a record shown.
    """
    settings = load(Options(only=True), environment(home))
    screen = RunScreen(path, 1, settings=settings)
    app = RefoldApp(settings, lambda: screen)
    collect_seldom()
    wrong: list[float] = []
    async with app.run_test(size=(120, 40)):
        while screen.reader is None or not screen.reader.complete:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        timeline = screen.reader.timeline
        due = list(AS_RECORDED.moments(timeline, min(timeline.items, 50_000)))
        screen.player.conditions = parse_breakpoints(stop, 0.0)
        while screen.player.head.speed < SPEED:
            screen.action_speed(1)
        began, cpu = time.monotonic(), time.process_time()
        screen.action_play()
        while (passed := time.monotonic() - began) < SECONDS:
            await asyncio.sleep(0.25)
            passed = time.monotonic() - began
            item, wanted = screen.item or 0, passed * SPEED
            # A record that is not due yet is no error: what is shown covers the time up to the next one.
            off = max(0.0, due[item] - wanted, wanted - due[item + 1])
            if passed > 1:
                wrong.append(off / wanted)
        cost = (time.process_time() - cpu) * 1000 / max(1, screen.item or 0)
    return wrong, cost


def _looked(seeking: Seeking[Condition | None] | Changes) -> tuple[float, list[float]]:
    """Give the seconds of a whole look, and the milliseconds of each of its steps."""
    steps: list[float] = []
    began = before = time.thread_time()
    for _ in seeking.steps():
        now = time.thread_time()
        steps.append((now - before) * 1000)
        before = now
    assert seeking.found is None
    return time.thread_time() - began, steps or [0.0]


def _looks(reading: Reading) -> dict[str, tuple[float, list[float]]]:
    timeline, found = reading.timeline, {}
    for name, text in NEVER.items():
        found[name] = _looked(next_stop(parse_breakpoints(text, 0.0), timeline, reading, 0, 1))
    last = timeline.items - 1
    found["back over a file never named"] = _looked(
        next_change(Watched("no-such-file.py"), timeline, reading, reading.changing.index, last, -1)
    )
    return found


def measure(data: Data, rounds: int) -> list[Figure]:
    """The clock at sixteen times, without and with a breakpoint that reads; looks along all of a run."""
    del rounds
    plain, cost = asyncio.run(_played(data.middle, data.home("play")))
    read, _ = asyncio.run(_played(data.middle, data.home("play"), stop='"no such text anywhere"'))
    with RunReader.open(data.big) as reader:
        reader.index_all()
        looks = _looks(reading_of(reader))
    clock, look = "played at 16x", "look along the large run"
    figures = [
        Figure(clock, "off the clock, worst", max(plain) * 100, "%", 5.0, len(plain)),
        Figure(clock, "the same, every record read for a breakpoint", max(read) * 100, "%", 5.0, len(read)),
        Figure(clock, "CPU a record shown, panes and top row with it", cost, "ms"),
    ]
    for name, (seconds, steps) in looks.items():
        figures.append(Figure(look, f"{name}, CPU", seconds, "s"))
        figures.append(Figure(look, f"{name}, a step, p99", _p99(steps), "ms", 4.0, len(steps)))
    return figures


def _p99(steps: Sequence[float]) -> float:
    return percentile(steps, 0.99)
