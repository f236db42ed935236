"""Try the program against its fault goals and print one table.

    python -m tests.faults.run                      a first look, a quarter of an hour
    python -m tests.faults.run --long               everything, some hours on two processors
    python -m tests.faults.run --long --budget 300  of that so much as goes into 300 seconds for each part
    python -m tests.faults.run --long --minutes 60  of that so much as goes into an hour for all of them
    python -m tests.faults.run --at-once 2          from two seeds at the same time, on as many processors
    python -m tests.faults.run kill crash           some of it
    python -m tests.faults.run --into FILE          the figures go to those in a file; the table shows both
    python -m tests.faults.run --told --into FILE   what lies there, and nothing is tried
    python -m tests.faults.run --readme             and the table of README.md

Each row says how often it was tried, how many tries the design asks for, and from which seed; the same seed
tries the same, and with a budget it begins with the same. A row is in the file as soon as it is done, so that
whatever ends the command loses one at most. Another seed with the same `--into` tries other cases, so that
all may be tried in parts; the same one again counts once. What failed is named below the table. Without
strace some of it is tried by the children themselves, or not at all.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.faults.goals import Goal, Share, added, as_json, from_json, markdown, shared_out, table

README = Path(__file__).parent.parent.parent / "README.md"
BEGIN, END = "<!-- faults -->", "<!-- /faults -->"
PARTS = (
    "tail", "damage", "errors", "commands", "looks", "crash", "race", "fold", "scale", "watch", "kill",
    "resume", "export", "screen", "terminal", "fuzz",
)  # fmt: skip
"""Those that come to an end first: what they leave of a time is for those that could go on for ever."""


def measure(name: str, share: Share, seed: int, seconds: float = math.inf) -> Iterator[Goal]:
    """Try one part for so long at most; gives each goal as it is done."""
    part = importlib.import_module(f"tests.faults.part_{name}")
    found: Iterator[Goal] = part.measure(share, seed, seconds)
    return found


def write_readme(goals: list[Goal], share: str) -> None:
    """Put the table in the place of the last one."""
    before, _, rest = README.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    day = time.strftime("%Y-%m-%d", time.gmtime())
    told = f"{day}, `{'--long' if share == 'long' else 'as it is'}`, {os.cpu_count()} processors"
    minutes = sum(goal.seconds for goal in goals) / 60
    told += f", {minutes:.0f} minutes, what took its time beside whatever else the machine did:"
    README.write_text(f"{before}{BEGIN}\n{told}\n\n{markdown(goals)}\n{END}{after}", "utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Try the parts that were asked for; 1 when anything failed."""
    parser = argparse.ArgumentParser(description="Try Refold against its fault goals.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}")
    parser.add_argument("--share", choices=("ci", "quick", "long"), default="quick", help="how much is tried")
    parser.add_argument("--long", action="store_const", const="long", dest="share", help="all of it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=float, default=math.inf, metavar="SECONDS", help="for each part")
    parser.add_argument("--minutes", type=float, default=math.inf, metavar="N", help="for all parts")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="seeds, from this one on")
    parser.add_argument("--into", type=Path, metavar="FILE", help="add the figures to those in a file")
    parser.add_argument(
        "--told", action="store_true", help="try nothing, show what lies in the file of --into"
    )
    parser.add_argument("--readme", action="store_true", help="write the table into README.md")
    given = parser.parse_args(arguments)
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    if given.at_once > 1:
        return _at_once(given, sys.argv[1:] if arguments is None else arguments)
    goals: list[Goal] = []
    failed = False
    if given.told and given.into:
        goals = from_json(json.loads(given.into.read_bytes()))
    parts = () if given.told else given.parts or PARTS
    for name, until in shared_out(parts, time.monotonic() + 60 * given.minutes):
        started = time.monotonic()
        for goal in measure(name, given.share, given.seed, min(given.budget, until - started)):
            failed = failed or bool(goal.failures)
            goals = _kept(goals, [goal], given.into)
        sys.stderr.write(f"{name}: {time.monotonic() - started:.0f} s\n")
    sys.stdout.write(table(goals) + "\n")
    if given.readme:
        write_readme(goals, given.share)
    return 1 if failed else 0


def _at_once(given: argparse.Namespace, arguments: list[str]) -> int:
    """Do what is asked in a process for each of some seeds, and show what all of them came to."""
    with tempfile.TemporaryDirectory() as directory:
        into = given.into or Path(directory) / "figures"
        command = [sys.executable, "-m", __spec__.name, *arguments, "--at-once", "1", "--into", str(into)]
        children = [
            subprocess.Popen([*command, "--seed", str(seed)], stdout=subprocess.DEVNULL)
            for seed in range(given.seed, given.seed + given.at_once)
        ]
        failed = sum(child.wait() != 0 for child in children)
        goals = from_json(json.loads(into.read_bytes()))
    sys.stdout.write(table(goals) + "\n")
    if given.readme:
        write_readme(goals, given.share)
    return 1 if failed else 0


def _kept(before: list[Goal], done: list[Goal], file: Path | None) -> list[Goal]:
    """Add what a goal came to; with a file to what lies there, which another process may have added to."""
    if file is None:
        return [*before, *done]
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        goals = added(from_json(json.loads(file.read_bytes())) if file.exists() else [], done)
        new = file.with_suffix(".new")
        new.write_text(json.dumps(as_json(goals), indent=1) + "\n", encoding="utf-8")
        new.replace(file)
    return goals


if __name__ == "__main__":
    sys.exit(main())
