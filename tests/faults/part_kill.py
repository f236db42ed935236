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

from tests.faults.goals import Goal, Share
from tests.faults.scenes import SCENES
from tests.faults.victims import Ended, Fault, Victims, scratch, traces

CALLS = (
    "openat", "mkdir", "fchmod", "chmod", "flock", "write", "copy_file_range", "fsync", "ftruncate", "rename",
    "link", "unlink", "rmdir", "unlinkat",
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


def measure(share: Share, seed: int) -> Iterator[Goal]:
    """Kill children of every scene, from outside where strace may and by their own hand."""
    with scratch() as directory, Victims() as victims:
        if traces():
            goal = Goal("G1", "writers killed before a system call, by strace", seed=seed)
            yield _timed(goal, lambda: _by_strace(goal, victims, directory, share, seed))
        goal = Goal("G1", "writers killed by their own hand, some half way through a write", seed=seed)
        yield _timed(goal, lambda: _by_failpoint(goal, victims, directory, share, seed))


def _timed(goal: Goal, work: object) -> Goal:
    started = time.perf_counter()
    assert callable(work)
    work()
    goal.seconds = time.perf_counter() - started
    return goal


def _by_strace(goal: Goal, victims: Victims, directory: Path, share: Share, seed: int) -> None:
    rng = random.Random(seed)
    for name in SCENES:
        counted = calls(victims, name, directory / "count")
        for _ in range(ROUNDS[share]):
            for call in CALLS:
                for number in range(1, counted[call] + 1):
                    if rng.random() * STRIDE[share] < 1:
                        fault = Fault(call, number, "kill")
                        _kill(goal, name, directory / "try", fault, victims.injected)
        goal.count("calls of the scenes", sum(counted.values()))


def counts(victims: Victims, name: str, directory: Path) -> dict[str, int]:
    """Play a scene once and let it count its own calls."""
    SCENES[name].prepare(directory)
    ended = victims.play(name, directory, Fault("", 0, "kill"))
    assert ended.status == 0, (name, ended)
    shutil.rmtree(directory)
    counted: dict[str, int] = json.loads(ended.said.rpartition("counts ")[2])
    return counted


def _by_failpoint(goal: Goal, victims: Victims, directory: Path, share: Share, seed: int) -> None:
    rng = random.Random(seed)
    stride = STRIDE[share] * (3 if traces() else 1)
    # Where strace does the most, what it cannot do is tried with some of them.
    step = 6 if share == "ci" and traces() else 1
    for name in list(SCENES)[seed % step :: step]:
        for call, count in counts(victims, name, directory / "count").items():
            for number in range(1, count + 1):
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
