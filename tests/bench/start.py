"""What a command costs from its start to its end, in CPU time of the process, against a bare Python."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.bench.data import Data
from tests.bench.figures import Figure, figure, interleaved, ratio
from tests.bench.list import warm_list
from tests.terminal.program import ROOT, environment, refold


def _cpu(command: Sequence[str | bytes], home: Path) -> float:
    """Give the milliseconds of CPU that a command takes."""
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=environment(home), cwd=ROOT
    )  # fmt: skip
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return (used.ru_utime + used.ru_stime) * 1000


def measure(data: Data, rounds: int) -> list[Figure]:
    """The version, a list of a few runs, and a list of all of them."""
    home = data.home("start")
    few = data.directory / "few"
    few.mkdir(mode=0o700)
    for path in sorted(data.runs.iterdir())[:20]:
        os.link(path, few / path.name)
    version, bare = refold("--version"), [sys.executable, "-c", "pass"]
    ls, all_of_them = (refold("ls", "--only", "--root", where, "--json") for where in (few, data.runs))
    for command in (version, ls, all_of_them):
        _cpu(command, home)
    taken = interleaved(
        {
            "bare": lambda: _cpu(bare, home),
            "version": lambda: _cpu(version, home),
            "ls": lambda: _cpu(ls, home),
            "all": lambda: _cpu(all_of_them, home),
            "list": lambda: warm_list(data),
        },
        max(rounds, 9),
    )
    listed = [6 * one + two for one, two in zip(taken["bare"], taken["list"], strict=True)]
    group = "start"
    return [
        ratio(group, "refold --version / bare Python", taken["version"], taken["bare"], 3, of="G16"),
        ratio(group, "refold ls, 20 runs / bare Python", taken["ls"], taken["bare"], 6, of="G16"),
        ratio(group, "refold ls, all runs / 6 bare Python + warm list", taken["all"], listed, 1, of="G16"),
        figure(group, "bare Python", taken["bare"], "ms"),
        figure(group, "refold ls, all runs", taken["all"], "ms"),
    ]
