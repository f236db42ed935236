"""Every state that a power failure may leave of what Refold writes, opened again (design/safety.md 5, G2).

What a child does is seen by strace; each state is laid out and checked as after a kill: what is made is
absent or complete, what was acknowledged is there, and it goes on.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from tests.faults.disk import Disk, State
from tests.faults.goals import Goal, Share, carry_out, shared_out, shuffled
from tests.faults.scenes import SCENES, Prepared
from tests.faults.trace import OPTIONS, Replay
from tests.faults.victims import Victims, scratch, traces

NAMES = (
    "journal new", "journal torn", "journal unended", "fork", "salvage", "repair", "undo", "session create",
    "session commit", "session turn", "session decide", "session finish", "conversation fork",
    "session repair", "session undo", "trash", "restore", "delete", "notes",
    "list cache", "index cache", "export new", "export over another", "bundle",
)  # fmt: skip
CUTS: dict[Share, int] = {"ci": 3, "quick": 5, "long": 128}
MOST: dict[Share, int] = {"ci": 8, "quick": 60, "long": 4000}
"""States of one scene that are opened; of more, some drawn by the seed."""


def measure(share: Share, seed: int, seconds: float) -> Iterator[Goal]:
    """Lay out and open the states of every scene."""
    if not traces():
        return
    with scratch() as directory, Victims() as victims:

        def states(goal: Goal) -> None:
            # Where the time does not reach, each scene gets its share of it.
            for name, until in shared_out(shuffled(NAMES, seed), goal.until):
                _scene(goal, victims, directory, name, share, seed, until)

        goal = Goal("G2", "states after a power failure, each opened", seed=seed, asked=20_000)
        yield from carry_out([(goal, states)], seconds)


def _scene(
    goal: Goal, victims: Victims, directory: Path, name: str, share: Share, seed: int, until: float
) -> None:
    place = directory / "disk"
    prepared = SCENES[name].prepare(place)
    before, times = picture(place), moments_of(place)
    ended = victims.watched(name, place, *OPTIONS)
    assert ended.status == 0, ended.said
    rng = random.Random(f"{seed} {name}")
    states = _states(str(place), before, ended.trace, rng, CUTS[share])
    goal.count("states in all", len(states))
    chosen = sorted(states)
    rng.shuffle(chosen)
    for key in chosen[: MOST[share]]:
        if time.monotonic() >= until:
            break
        said, state = states[key]
        with goal.attempt(f"{name}: state {key[:12]}"):
            lay_out(place, state, times)
            _check(prepared, said)
    shutil.rmtree(place)


def _check(prepared: Prepared, said: str) -> None:
    prepared.check(said)


def _states(
    root: str, before: State, trace: str, rng: random.Random, cuts: int
) -> dict[str, tuple[str, State]]:
    """Give each state once for each thing that may have been said by then."""
    disk = Disk(before)
    found: dict[str, tuple[str, State]] = {}
    for moment in Replay(root, disk, trace).moments():
        for state in disk.after_power_loss(rng, cuts=cuts):
            key = _key(state, moment.said)
            found.setdefault(key, (moment.said, state))
    return found


def _key(state: State, said: str) -> str:
    digest = hashlib.sha256(said.encode())
    for path, data in sorted(state.items()):
        content = hashlib.sha256(data).digest() if isinstance(data, bytes) else repr(data).encode()
        digest.update(path.encode("utf-8", "surrogateescape") + b"\0" + content)
    return digest.hexdigest()


def picture(place: Path) -> State:
    """Give all that lies below a directory."""
    found: State = {}
    for path in sorted(place.rglob("*")):
        found[str(path.relative_to(place))] = None if path.is_dir() else path.read_bytes()
    return found


def moments_of(place: Path) -> dict[str, tuple[bytes, int]]:
    """Give the bytes and the time of each file, for those that a state leaves as they were."""
    files = [path for path in place.rglob("*") if path.is_file()]
    return {str(path.relative_to(place)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def lay_out(place: Path, state: State, times: dict[str, tuple[bytes, int]]) -> None:
    """Put a state where the child had its files."""
    shutil.rmtree(place)
    place.mkdir()
    for path, data in sorted(state.items()):
        target = place / path
        if data is None:
            target.mkdir(exist_ok=True)
        elif isinstance(data, str):
            target.hardlink_to(place / data)
        else:
            target.write_bytes(data)
            # A file that was only given another name has kept its time.
            kept = next((moment for content, moment in times.values() if content == data), None)
            if kept is not None:
                os.utime(target, ns=(kept, kept))
