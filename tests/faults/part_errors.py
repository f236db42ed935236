"""Each call of each writer answered with an error, or done half (design/safety.md 2.4, row 3)."""

from __future__ import annotations

import errno
import os
import random
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.faults.goals import Goal, Share, Work, carry_out, shared_out, shuffled
from tests.faults.part_kill import counts
from tests.faults.scenes import SCENES
from tests.faults.victims import Ended, Fault, Victims, scratch, traces

CODES = {
    "openat": ("EMFILE", "EACCES", "EINTR"),
    "directory": ("EMFILE", "EACCES"),
    "create": ("EMFILE", "EROFS", "ENOSPC"),
    "mkdir": ("ENOSPC", "EROFS"),
    "fchmod": ("EPERM",),
    "flock": ("ENOLCK", "EINTR"),
    "pread64": ("EIO",),
    "write": ("ENOSPC", "EIO", "EDQUOT", "EINTR"),
    "pwrite64": ("ENOSPC", "EIO"),
    "copy_file_range": ("EIO", "ENOSPC", "EXDEV"),
    "fsync": ("EIO", "EINVAL", "EINTR"),
    "fdatasync": ("EIO",),
    "ftruncate": ("EIO", "EINTR"),
    "rename": ("EIO", "EXDEV", "ENOSPC"),
    "link": ("EPERM", "EMLINK", "ENOSPC"),
    "unlink": ("EPERM",),
}
"""What each call may answer."""
TRACED = sorted(set(CODES) - {"create", "directory"})
FAILPOINTS = {"open": "openat", "replace": "rename"}
"""Names of the calls in the interpreter, where they differ from the system's."""
STRIDE: dict[Share, int] = {"ci": 14, "quick": 8, "long": 1}
SCENES_OF: dict[Share, int] = {"ci": 7, "quick": 1, "long": 1}
"""One scene of so many is played."""
_LINE = re.compile(r"^(?:\d+ +)?(\w+)\((.*)$", re.MULTILINE)
_FAULT_OF_OURS = "failed 70"


class Call(NamedTuple):
    """One call of a scene on a file of its directory."""

    name: str
    number: int
    """Among all calls of that name, from 1."""
    kind: str
    """What it may answer, in `CODES`: one that makes a file is not as one that opens it."""


def calls_of(victims: Victims, name: str, directory: Path) -> list[Call]:
    """Play a scene once under strace and give its calls on files of its directory."""
    SCENES[name].prepare(directory)
    ended = victims.watched(
        name, directory, "-y", "-e", f"trace={','.join(set(CODES) - {'create', 'directory'})}"
    )
    assert ended.status == 0, ended
    shutil.rmtree(directory)
    numbers: Counter[str] = Counter()
    found = []
    for call, rest in _LINE.findall(ended.trace):
        numbers[call] += 1
        if str(directory) in rest:
            found.append(Call(call, numbers[call], _kind(call, rest)))
    return found


def _kind(call: str, words: str) -> str:
    if "O_CREAT" in words:
        return "create"
    return "directory" if call == "openat" and "O_DIRECTORY" in words else call


def measure(share: Share, seed: int, seconds: float) -> Iterator[Goal]:
    """Let the calls of every scene fail."""
    with scratch() as directory, Victims() as victims:
        errors = Goal("row 3", "calls that answer with an error", seed=seed)
        halves = Goal("row 3", "writes that go half way: short, or into a full disk", seed=seed)
        work: list[Work] = [
            (errors, lambda goal: _errors(goal, victims, directory, share)),
            (halves, lambda goal: _halves(goal, victims, directory, share)),
        ]
        yield from carry_out(work, seconds)


def _scenes(goal: Goal, share: Share) -> Iterator[tuple[str, float]]:
    """Give the scenes that are played, each with the time until which."""
    step = SCENES_OF[share]
    return shared_out(shuffled(list(SCENES)[goal.seed % step :: step], goal.seed), goal.until)


def _errors(goal: Goal, victims: Victims, directory: Path, share: Share) -> None:
    rng = random.Random(goal.seed)
    for name, until in _scenes(goal, share):
        if traces():
            calls = calls_of(victims, name, directory / "count")
        else:
            counted = counts(victims, name, directory / "count")
            calls = [
                Call(call, number + 1, FAILPOINTS.get(call, call))
                for call, count in counted.items()
                for number in range(count)
            ]
        faults = [Fault(call, number, how) for call, number, kind in calls for how in CODES[kind]]
        for fault in shuffled(faults, goal.seed):
            if time.monotonic() >= until:
                break
            if rng.random() * STRIDE[share] < 1 and (traces() or fault.how != "EINTR"):
                _fail(goal, victims, directory / "try", name, fault)


def _halves(goal: Goal, victims: Victims, directory: Path, share: Share) -> None:
    rng = random.Random(goal.seed)
    for name, until in _scenes(goal, share):
        count = counts(victims, name, directory / "count").get("write", 0)
        faults = [Fault("write", number, how) for number in range(1, count + 1) for how in ("short", "full")]
        for fault in shuffled(faults, goal.seed):
            if time.monotonic() >= until:
                break
            if rng.random() * STRIDE[share] < 4:
                _fail(goal, victims, directory / "try", name, fault)


def _fail(goal: Goal, victims: Victims, place: Path, name: str, fault: Fault) -> None:
    label = f"{name}: {fault.how} at {fault.call} {fault.number}"
    with goal.attempt(label):
        prepared = SCENES[name].prepare(place)
        if traces() and fault.how not in {"short", "full"}:
            how = f"inject={fault.call}:error={fault.how}:when={fault.number}"
            # With it what is made: a new file under the name of one that failed is another file.
            ended = victims.watched(name, place, "-y", "-e", f"trace=openat,{fault.call}", "-e", how)
        else:
            ended = victims.play(name, place, fault)
        check_ended(ended, fault, place)
        said = [line for line in ended.said.split("\n") if line.startswith("failed ")]
        goal.count("said", bool(said))
        prepared.check(ended.said)
    shutil.rmtree(place, ignore_errors=True)


def check_ended(ended: Ended, fault: Fault, place: Path) -> None:
    """Check how a child ended and what it said of the fault."""
    assert ended.status == 0, ended
    assert "raised " not in ended.said, ended.said
    assert _FAULT_OF_OURS not in ended.said, ended.said
    said = [line for line in ended.said.split("\n") if line.startswith("failed ")]
    if fault.how in {"short", "EINTR"}:
        assert not said, said
    for line in said:
        code = "ENOSPC" if fault.how == "full" else fault.how
        words = {code, os.strerror(int(getattr(errno, code))), "not permitted" if code == "EACCES" else code}
        assert any(word in line for word in words), line
        assert str(place) in line or ".json" in line, line
    if fault.call == "fsync" and fault.how == "EIO":
        assert not _synced_again(ended.trace), ended.trace


def _synced_again(trace: str) -> bool:
    """Say whether a file was synced once more after that had failed: it would be a lie."""
    failed = re.search(r"fsync\(\d+<([^>]+)>\).*INJECTED", trace)
    if failed is None or Path(failed.group(1)).is_dir():
        return False
    later = trace[failed.end() :]
    made = re.search(rf'"{re.escape(failed.group(1))}", [A-Z_|]*O_CREAT', later)
    return (
        re.search(rf"fsync\(\d+<{re.escape(failed.group(1))}>", later[: made.start() if made else None])
        is not None
    )
