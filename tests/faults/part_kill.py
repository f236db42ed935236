"""Children that are killed before every call by which they open or change a file (design/safety.md 5, G1)."""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.faults.goals import Goal, Share, Work, carry_out, shared_out, shuffled
from tests.faults.scenes import SCENES
from tests.faults.victims import Ended, Fault, Victims, scratch, traces

CALLS = (
    "openat", "mkdir", "fchmod", "chmod", "flock", "write", "pwrite64", "copy_file_range", "fsync",
    "fdatasync", "ftruncate", "rename", "link", "unlink", "rmdir", "unlinkat",
)  # fmt: skip
_CALL = re.compile(r"^(?:\d+ +)?(\w+)\(", re.MULTILINE)
STRIDE: dict[Share, int] = {"ci": 20, "quick": 3, "long": 1}
"""One call of so many is one at which the child dies, in turn by round."""
ROUNDS: dict[Share, int] = {"ci": 1, "quick": 1, "long": 4}


def killed(ended: Ended) -> bool:
    """Say whether a child was killed."""
    return ended.status in {-signal.SIGKILL, 128 + signal.SIGKILL}


def calls(victims: Victims, name: str, directory: Path) -> Counter[str]:
    """Play a scene once under strace and count its calls."""
    SCENES[name].prepare(directory)
    ended = victims.watched(name, directory, "-e", f"trace={','.join(CALLS)}")
    assert ended.status == 0, ended
    shutil.rmtree(directory)
    return Counter(_CALL.findall(ended.trace))


def measure(share: Share, seed: int, seconds: float) -> Iterator[Goal]:
    """Kill children of every scene, from outside where strace may and by their own hand."""
    with scratch() as directory, Victims() as victims:
        outside = Goal("G1", "writers killed before a system call, by strace", seed=seed, asked=5_000)
        inside = Goal("G1", "writers killed by their own hand, some half way through a write", seed=seed)
        work: list[Work] = [(inside, lambda goal: _by_failpoint(goal, victims, directory, share))]
        if traces():
            work.insert(0, (outside, lambda goal: _by_strace(goal, victims, directory, share)))
        yield from carry_out(work, seconds)


def _by_strace(goal: Goal, victims: Victims, directory: Path, share: Share) -> None:
    rng = random.Random(goal.seed)
    for name, until in shared_out(shuffled(SCENES, goal.seed), goal.until):
        counted = calls(victims, name, directory / "count")
        places = [(call, number) for call in CALLS for number in range(1, counted[call] + 1)] * ROUNDS[share]
        for call, number in shuffled(places, goal.seed):
            if time.monotonic() >= until:
                break
            if rng.random() * STRIDE[share] < 1:
                _kill(goal, name, directory / "try", Fault(call, number, "kill"), victims.injected)
        goal.count("calls of the scenes", sum(counted.values()))


def counts(victims: Victims, name: str, directory: Path) -> dict[str, int]:
    """Play a scene once and let it count its own calls."""
    SCENES[name].prepare(directory)
    ended = victims.play(name, directory, Fault("", 0, "kill"))
    assert ended.status == 0, (name, ended)
    shutil.rmtree(directory)
    counted: dict[str, int] = json.loads(ended.said.rpartition("counts ")[2])
    return counted


def _by_failpoint(goal: Goal, victims: Victims, directory: Path, share: Share) -> None:
    rng = random.Random(goal.seed)
    stride = STRIDE[share] * (3 if traces() else 1)
    # Where strace does the most, what it cannot do is tried with some of them.
    step = 6 if share == "ci" and traces() else 1
    for name, until in shared_out(shuffled(list(SCENES)[goal.seed % step :: step], goal.seed), goal.until):
        counted = counts(victims, name, directory / "count")
        places = [(call, number) for call, count in counted.items() for number in range(1, count + 1)]
        for call, number in shuffled(places, goal.seed):
            if time.monotonic() >= until:
                break
            if rng.random() * stride < 1:
                how = "half" if call == "write" else "kill"
                _kill(goal, name, directory / "try", Fault(call, number, how), victims.play)


def _kill(goal: Goal, name: str, place: Path, fault: Fault, play: object) -> None:
    assert callable(play)
    with goal.attempt(f"{name}: {fault.how} at {fault.call} {fault.number}"):
        prepared = SCENES[name].prepare(place)
        ended = play(name, place, fault)
        if not killed(ended):
            # How often a directory is read differs a little from one time to the next.
            assert ended.status == 0, ended
            goal.count("not reached")
        prepared.check(ended.said)
    shutil.rmtree(place, ignore_errors=True)
