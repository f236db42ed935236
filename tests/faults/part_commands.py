"""Each command, with one of its own calls answered by an error: reads and looks too (design/safety.md 2.4).

What is wrong with a disk shows wherever it is asked: in the middle of a list, of an export, of a search. A
command may then say so and end, or pass over what it cannot read; it never stops with a fault of its own, and
what it was not to change is as it was.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.faults.goals import Goal, Share, carry_out
from tests.faults.home import store
from tests.faults.victims import scratch
from tests.terminal.forks import Forks

TRIES: dict[Share, int] = {"ci": 60, "quick": 1_000, "long": 20_000}
CODES = {
    "open": ("EIO", "EMFILE", "EACCES", "ENOSPC", "ESTALE"),
    "write": ("ENOSPC", "EIO", "EDQUOT"),
    "fsync": ("EIO",),
    "rename": ("EIO", "ENOSPC"),
    "replace": ("EIO", "EROFS"),
    "link": ("EPERM", "ENOSPC"),
    "unlink": ("EPERM", "EIO"),
    "mkdir": ("ENOSPC", "EROFS"),
    "flock": ("ENOLCK",),
    "fchmod": ("EPERM",),
    "ftruncate": ("EIO",),
    "copy_file_range": ("EIO", "EXDEV"),
    "pread": ("EIO",),
    "read": ("EIO",),
    "scandir": ("EIO", "EACCES", "ENOENT"),
    "listdir": ("EIO", "EACCES"),
    "stat": ("EIO", "EACCES", "ESTALE"),
    "lstat": ("EIO", "EACCES", "ELOOP"),
    "fstat": ("EIO", "ESTALE"),
    "readlink": ("EIO",),
    "rmdir": ("EIO",),
    "utime": ("EPERM",),
    "chmod": ("EPERM",),
}
"""What each call may answer, by its name in the interpreter."""
FAULT = 70
ENDS = {0, 1, 2, 3, 4, 5, 6, 7, 73, 74}
"""Codes of the README: what was done, found, refused, not there, not readable or not written."""


class Command(NamedTuple):
    """Words of a command line, what is done to the runs before, and whether it may change them."""

    words: tuple[str, ...]
    begin: Callable[[Path], None] = lambda _place: None
    changes: bool = False


def _tear(place: Path) -> None:
    path = place / "runs" / "run-0.json"
    path.write_bytes(path.read_bytes()[:-30])


def _damage(place: Path) -> None:
    path = place / "runs" / "run-0.json"
    first, second, *rest = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([first, second[:-9], *rest]))


COMMANDS = (
    Command(("ls",)),
    Command(("ls", "text:ledger", "--json")),
    Command(("search", "ledger")),
    Command(("show", "run-0")),
    Command(("state", "run-0")),
    Command(("verify", "run-0", "run-1")),
    Command(("why", "run-0"), _tear),
    Command(("doctor",)),
    Command(("lineage", "run-0")),
    Command(("diff", "run-0", "run-1")),
    Command(("history",)),
    Command(("resume", "run-0", "--plan")),
    Command(("config",)),
    Command(("trash", "--list")),
    Command(("prune", "--older-than", "1d")),
    Command(("export", "run-0", "--format", "md", "-o", "made")),
    Command(("export", "run-0", "--format", "html", "-o", "made")),
    Command(("export", "run-0", "--format", "bundle", "-o", "made")),
    Command(("star", "run-0")),
    Command(("tag", "run-0", "+x")),
    Command(("note", "run-0", "a note")),
    Command(("name", "run-0", "july")),
    Command(("fork", "run-0"), changes=True),
    Command(("salvage", "run-0"), _damage, changes=True),
    Command(("repair", "run-0"), _tear, changes=True),
    Command(("trash", "run-0"), changes=True),
    Command(("prune", "--older-than", "1d", "--yes"), changes=True),
)


def measure(share: Share, seed: int, seconds: float) -> Iterator[Goal]:
    """Let calls of commands fail."""
    with scratch() as directory, Forks() as forks:
        goal = Goal("row 3", "commands of which one call answers with an error", seed=seed)

        def commands(goal: Goal) -> None:
            rng = random.Random(goal.seed)
            for number in range(TRIES[share]):
                if goal.over:
                    break
                command = COMMANDS[number % len(COMMANDS)]
                call = rng.choice(list(CODES))
                fail = (call, min(1 + int(rng.expovariate(0.2)), 40), rng.choice(CODES[call]))
                with goal.attempt(f"{' '.join(command.words)}: {fail[2]} at {call} {fail[1]}"):
                    _try(goal, directory / "place", forks, command, fail)

        yield from carry_out([(goal, commands)], seconds)


def _try(goal: Goal, place: Path, forks: Forks, command: Command, fail: tuple[str, int, str]) -> None:
    runs = store(place)
    command.begin(place)
    before = {path.name: path.read_bytes() for path in runs.iterdir()}
    words = [str(place / word) if word == "made" else word for word in command.words]
    done = forks.run(*words, "--only", "--root", runs, home=place / "home", fail=(*fail, str(place)))
    log = place / "home" / "state" / "refold" / "refold.log"
    assert not log.exists(), " < ".join(log.read_text().split("\n")[1:][-9:])
    assert done.returncode in ENDS, f"{done.returncode}: {done.stderr!r}"
    assert b"Traceback" not in done.stderr, done.stderr
    assert done.returncode in {0, 1} or done.stderr.strip(), "it failed without a word"
    goal.count("said why", done.returncode not in {0, 1})
    after = {path.name: path.read_bytes() for path in runs.rglob("*.json") if path.name in before}
    if not command.changes:
        assert {path.name: path.read_bytes() for path in runs.iterdir()} == before
    elif command.words[0] != "repair":
        # Where it lies now, it is whole.
        assert after == before
    made = place / "made"
    if done.returncode not in {0, 1}:
        assert not made.exists(), "half an export"
