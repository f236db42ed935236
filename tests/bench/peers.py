"""What a user would open a run with instead: when the first line is shown, and what all of it costs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.bench.data import Data
from tests.bench.figures import Figure, figure, interleaved, not_run
from tests.bench.open import SHOWN
from tests.terminal.program import environment, refold
from tests.terminal.terminal import Terminal

_FIRST = "protocol"
"""A word of the first line, which colours do not cut."""
_LIMIT = 20.0
"""Seconds after which a program that has shown nothing is left."""


def _command(name: str, path: Path) -> list[str | bytes] | None:
    """Give the command line of a program; None where it is not installed."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        return None
    return [found, *(["-S"] if name == "less" else []), str(path)]


def _first(command: list[str | bytes], data: Data, *texts: str) -> float:
    """Give milliseconds until the text stands on the screen; the limit where it does not come."""
    with Terminal(command, env=environment(data.home("peer"))) as terminal:
        try:
            return (terminal.arrival(*texts, limit=_LIMIT) - terminal.started) * 1000
        except AssertionError:
            return _LIMIT * 1000


def _cpu(command: list[str], path: Path) -> float:
    with path.open("rb") as file:
        process = subprocess.Popen(command, stdin=file, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return (used.ru_utime + used.ru_stime) * 1000


def measure(data: Data, rounds: int) -> list[Figure]:
    """First rows of a tenth of the large run, ours beside theirs; jq over the same bytes."""
    path, rounds = data.middle, min(rounds, 3)
    group = "beside others, a tenth of the large run"
    cases = {"refold": lambda: _first(refold("open", path), data, *SHOWN)}
    missing = []
    for name, label in (("less", "less -S"), ("lnav", "lnav"), ("tl", "toolong")):
        command = _command(name, path)
        if command is None:
            missing.append(label)
        else:
            cases[label] = lambda command=command: _first(command, data, _FIRST)  # type: ignore[misc]
    taken = interleaved(cases, rounds)
    figures = [
        figure(group, f"{name}, first rows", values, "ms")
        if max(values) < _LIMIT * 1000
        else not_run(group, f"{name}, first rows", "ms", f"nothing within {_LIMIT:g} s")
        for name, values in taken.items()
    ]
    figures += [not_run(group, f"{label}, first rows", "ms", "not installed") for label in missing]
    for name, options in (("jq", ["-c", ".seq"]), ("wc", ["-l"])):
        label = " ".join([name, *options])
        found = shutil.which(name)
        figures.append(
            figure(group, f"{label}, CPU", [_cpu([found, *options], path) for _ in range(rounds)], "ms")
            if found is not None
            else not_run(group, f"{label}, CPU", "ms", "not installed")
        )
    return figures
