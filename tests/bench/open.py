"""How soon the first rows of a run stand on a real terminal, and what memory the program then holds."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.bench.data import Data
from tests.bench.figures import Figure, figure, interleaved, ratio
from tests.terminal.program import environment, refold
from tests.terminal.terminal import Terminal

HELLO = (
    "from textual.app import App\nfrom textual.widgets import Static\n"
    "class Hello(App[None]):\n"
    "    def compose(self):\n        yield Static('hello world')\n"
    "Hello().run()\n"
)
SHOWN = ("├→", "no text, 1 call")
"""A piece of the first and of the last record of a generated run: either proves that rows are there."""
WHOLE = (" refold ",)
"""What stands at the top of the whole screen, which takes keys; the first rows are painted before it."""


def rows_shown(screen: str) -> bool:
    """Say whether rows of a generated run stand on the screen."""
    return any(text in screen for text in SHOWN)


def hello_command() -> list[str | bytes]:
    """Give the command of a program that shows two words with the same toolkit."""
    return [sys.executable, "-c", HELLO]


def anonymous_kib(pid: int) -> int:
    """Give the memory of a process that is its own, not mapped from files."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").split("\n"):
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    raise LookupError(f"no RssAnon for {pid}")


def cpu_seconds(pid: int) -> float:
    """Give the CPU time of every thread of a process so far."""
    return sum(int(p.read_bytes().split()[0]) for p in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def at_rest(terminal: Terminal, *, quiet: float = 0.6, limit: float = 120.0) -> None:
    """Read until the process has used next to no CPU for a while."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        before = cpu_seconds(terminal.pid)
        until = time.monotonic() + quiet
        while (left := until - time.monotonic()) > 0:
            terminal.pump(left)
        if cpu_seconds(terminal.pid) - before < quiet * 0.05:
            return


def _start(data: Data, path: Path | None, cpu: list[float], shown: tuple[str, ...] = SHOWN) -> float:
    """Give milliseconds until the first rows stand on the screen, and add the CPU milliseconds to `cpu`."""
    home = data.home("open")
    command = hello_command() if path is None else refold("open", path)
    with Terminal(command, env=environment(home)) as terminal:
        # The emulator is left out: it takes longer to draw than the program to start.
        arrived = terminal.arrival(*(("hello world",) if path is None else shown), limit=60)
        taken = (arrived - terminal.started) * 1000
        cpu.append(cpu_seconds(terminal.pid) * 1000)
        return taken


def _memory(data: Data, path: Path | None) -> float:
    home = data.home("memory")
    command = hello_command() if path is None else refold("open", path)
    with Terminal(command, env=environment(home)) as terminal:
        terminal.wait((lambda s: "hello world" in s) if path is None else rows_shown, limit=60)
        at_rest(terminal)
        if path is not None:
            terminal.press("end", "pageup", "home", "pagedown", "end")
            at_rest(terminal)
        return anonymous_kib(terminal.pid) / 1024


def _records(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


def measure(data: Data, rounds: int) -> list[Figure]:
    """First rows and memory, against a program that only says hello."""
    cpu: dict[str, list[float]] = {"hello": [], "small": [], "big": [], "huge": [], "whole": []}
    taken = interleaved(
        {
            "hello": lambda: _start(data, None, cpu["hello"]),
            "small": lambda: _start(data, data.small, cpu["small"]),
            "big": lambda: _start(data, data.big, cpu["big"]),
            "huge": lambda: _start(data, data.huge_record, cpu["huge"]),
            "whole": lambda: _start(data, data.big, cpu["whole"], WHOLE),
        },
        max(rounds, 7),
    )
    group = "first rows"
    figures = [
        ratio(group, "large run / hello world", taken["big"], taken["hello"], 1.15, of="G1"),
        ratio(group, "the same, CPU", cpu["big"], cpu["hello"], of="G1"),
        ratio(group, "large run / 1 MB run", taken["big"], taken["small"], 1.05, of="G1"),
        ratio(group, "the same, CPU", cpu["big"], cpu["small"], of="G1"),
        ratio(group, "50 MB record / 1 MB run", taken["huge"], taken["small"], 1.1, of="G17"),
        ratio(group, "whole screen of the large run / hello world", taken["whole"], taken["hello"]),
        figure(group, "hello world", taken["hello"], "ms"),
        figure(group, "1 MB run", taken["small"], "ms"),
        figure(group, "large run", taken["big"], "ms"),
        figure(group, "one 50 MB record", taken["huge"], "ms"),
    ]
    held = interleaved(
        {
            "hello": lambda: _memory(data, None),
            "small": lambda: _memory(data, data.small),
            "big": lambda: _memory(data, data.big),
            "huge": lambda: _memory(data, data.huge_record),
        },
        min(rounds, 2),
    )
    hello = min(held["hello"])
    bar = 16 + 40 * _records(data.big) / (1 << 20)
    return [
        *figures,
        figure(
            "memory", "large run, over hello world", [one - hello for one in held["big"]], "MB", bar, of="G12"
        ),
        figure("memory", "large run", held["big"], "MB", 64.0, of="G12"),
        figure(
            "memory",
            "50 MB record, over hello world",
            [one - hello for one in held["huge"]],
            "MB",
            16,
            of="G12",
        ),
        figure("memory", "1 MB run, over hello world", [one - hello for one in held["small"]], "MB"),
        figure("memory", "hello world", held["hello"], "MB"),
    ]
