"""The full screen killed at a system call of what it was just told to do (design/safety.md 5, G1)."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.faults.goals import Goal, Share
from tests.faults.home import forked, screen, store
from tests.faults.victims import STRACE, traces
from tests.terminal.forks import Forks
from tests.terminal.program import run
from tests.terminal.terminal import Terminal

from refold.core.journal_text import fold_bytes
from refold.core.keeping import TRASH
from refold.core.store.notes import NotesStore

KILLS: dict[Share, int] = {"ci": 4, "quick": 60, "long": 2000}
OUTSIDE = 10
"""One of so many is killed by strace, which is started with the program as a person starts it."""
FAILPOINTS = {"rename": ("rename", "replace"), "rmdir": ("unlink",)}
"""Names of the calls in the interpreter, where they are others."""
_TORN = "run-0.json"


class Act(NamedTuple):
    """What a person does, as texts to wait for and keys to press then."""

    steps: tuple[tuple[str, tuple[str, ...]], ...]
    calls: str
    """What it does on the disk, at which it may die."""
    begin: Callable[[Path], None] = lambda _place: None


def _tear(place: Path) -> None:
    path = place / "runs" / _TORN
    path.write_bytes(path.read_bytes()[:-30])


def _trash(place: Path) -> None:
    done = run("trash", "run-0", "--only", "--root", place / "runs", home=place / "home")
    assert done.returncode == 0, done.stderr


def _damage(place: Path) -> None:
    path = place / "runs" / _TORN
    first, second, *rest = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([first, second[:-9], *rest]))


_FIRST = "run-2"
ACTS: dict[str, Act] = {
    "fork": Act(((_FIRST, ("f",)), ("legal", ("enter",))), "link fsync copy_file_range rename flock"),
    "star": Act(((_FIRST, ("*",)),), "rename fsync flock mkdir"),
    "name": Act(((_FIRST, ("E",)), ("enter accept", ("a", "b", "enter"))), "rename fsync flock"),
    "trash": Act(((_FIRST, ("x",)), ("enter do it", ("enter",))), "mkdir rename fsync flock"),
    "restore": Act(((_FIRST, ("X",)), ("put back", ("u",))), "link rename unlink rmdir fsync flock", _trash),
    "delete": Act(
        ((_FIRST, ("X",)), ("put back", ("D",)), ("type delete", (*"delete", "enter"))),
        "rename unlink rmdir fsync",
        _trash,
    ),
    "export": Act(((_FIRST, ("e",)), ("enter write", ("enter",))), "fsync rename"),
    "repair": Act(
        ((_FIRST, ("home", "d")), ("Patterns", ("m",)), ("enter do it", ("enter",))),
        "ftruncate fsync link rename flock",
        _tear,
    ),
    "salvage": Act(
        ((_FIRST, ("home", "d")), ("Patterns", ("s",)), ("enter do it", ("enter",))),
        "link fsync rename flock",
        _damage,
    ),
    "leave": Act(((_FIRST, ("enter",)), ("1 record", ("escape", "ctrl+q"))), "fsync rename mkdir"),
}
"""By name. The last one writes the caches."""


def kills(goal: Goal, directory: Path, share: Share) -> None:
    """Kill it again and again, each time in another act or at another call."""
    rng = random.Random(goal.seed)
    with Forks() as forks:
        for number in range(KILLS[share]):
            if goal.over and number:
                break
            name = list(ACTS)[(number + goal.seed) % len(ACTS)]
            call = rng.choice(ACTS[name].calls.split())
            outside = traces() and number % OUTSIDE == 0
            if not outside:
                call = rng.choice(FAILPOINTS.get(call, (call,)))
            at = rng.choice((1, 1, 1, 2, 2, 3))
            with goal.attempt(f"{number}: {name}, {call} {at}, {'strace' if outside else 'its own hand'}"):
                _kill(goal, directory / "kill", forks, name, call, at, outside=outside)


def _kill(goal: Goal, place: Path, forks: Forks, name: str, call: str, at: int, *, outside: bool) -> None:
    runs = store(place)
    ACTS[name].begin(place)
    before = contents(place)
    with _deadly(place, forks, call, at, outside=outside) as terminal:
        _act(terminal, name)
        if terminal.alive:
            # Who has not come to that call yet may do so on the way out.
            terminal.settle(0.1)
            terminal.press("escape", "escape", "ctrl+q", settle=0.05)
        goal.count("died", terminal.ended() in {-signal.SIGKILL, 128 + signal.SIGKILL})
    _check(place, runs, name, before, forks)


def _deadly(place: Path, forks: Forks, call: str, at: int, *, outside: bool) -> Terminal:
    """Start a program that dies at that call."""
    if outside:
        inject = ["-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={at}"]
        return screen(place, str(STRACE), "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", *inject)
    return forked(forks, place, (call, at, "kill", str(place)))


def _act(terminal: Terminal, name: str) -> None:
    """Do it by keys; the program may die on the way."""
    for text, keys in ACTS[name].steps:
        try:
            terminal.wait(text)
        except AssertionError:
            if terminal.alive:
                raise
            return
        for key in keys:
            if terminal.alive:
                terminal.press(key, settle=0.06)


def contents(place: Path) -> dict[str, bytes]:
    """Give every run there is by its name, wherever it lies."""
    found = {}
    for path in sorted((place / "runs").rglob("run-*.json")):
        found[path.name] = path.read_bytes()
    return found


def _check(place: Path, runs: Path, name: str, before: dict[str, bytes], forks: Forks) -> None:
    """Check that every run is there once and whole, and that what is made is whole or not there."""
    after = contents(place)
    for run_name, data in before.items():
        if name == "repair" and run_name == _TORN and after[run_name] != data:
            (cut,) = runs.glob("run-0.*.torn")
            assert after[run_name] + cut.read_bytes() == data
        elif not (name == "delete" and run_name == _TORN):
            assert after.get(run_name) == data, run_name
        copies = [path for path in runs.rglob(run_name) if TRASH in path.parts]
        both = (runs / run_name).exists() and bool(copies)
        assert not both or copies[0].samefile(runs / run_name), f"{run_name} is there twice"
    for path in runs.glob("[!.]*.json"):
        if path.name != _TORN or name not in {"repair", "salvage"}:
            fold_bytes(path.read_bytes(), hint="refold")
    where = ("--only", "--root", runs)
    listed = forks.run("ls", "--json", *where, home=place / "home")
    bare = forks.run("ls", "--json", "--no-cache", *where, home=place / "home")
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout == bare.stdout
    assert b"Traceback" not in listed.stderr
    assert list(NotesStore(place / "home" / "state" / "refold" / "notes").troubles()) == []
    said = forks.run("trash", "--list", *where, home=place / "home")
    assert said.returncode == 0, said.stderr
    for out in place.glob("run-*.md"):
        whole = forks.run("export", "run-0", "--format", "md", *where, home=place / "home").stdout
        assert out.read_bytes().split(b"\n")[-5:] == whole.split(b"\n")[-5:], "half an export"
