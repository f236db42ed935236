"""A home with runs in it, and the program on it in a pty."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests import generate
from tests.terminal.forks import Forks
from tests.terminal.program import environment, refold
from tests.terminal.terminal import Terminal

SECRET = "zebra-quartz-7731"
"""What stands in every record, and may be in no traceback and no log."""


def store(directory: Path) -> Path:
    """Make a home with three runs in it; gives the directory of the runs."""
    shutil.rmtree(directory, ignore_errors=True)
    runs = directory / "runs"
    runs.mkdir(parents=True, mode=0o700)
    for number in range(3):
        how = {"records": 8, "ending": "suspended", "prompt": SECRET}
        lines = generate.journal(run_id=f"run-{number}", **how)  # type: ignore[arg-type]
        generate.write(runs / f"run-{number}.json", lines)
        os.utime(runs / f"run-{number}.json", (1_700_000_000 - number, 1_700_000_000 - number))
    (directory / "home").mkdir()
    return runs


def screen(directory: Path, *wrapped: str) -> Terminal:
    """Start the program in that home."""
    command = refold("--only", "--root", directory / "runs")
    return Terminal(["env", "-C", str(directory), *wrapped, *command], env=environment(directory / "home"))


def forked(forks: Forks, directory: Path, fail: tuple[str, int, str, str] | None = None) -> Terminal:
    """Start it as a fork, which may fail at one of its own calls."""
    env = environment(directory / "home")
    return Terminal(
        lambda pty: forks.start(
            ["--only", "--root", directory / "runs"], env, (pty, pty, pty), directory=directory,
            terminal=True, fail=fail,
        )
    )  # fmt: skip
