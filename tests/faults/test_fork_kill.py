"""Whoever forks, salvages, repairs or takes a repair back is killed before each system call, or fails at it.

A run that is made is there whole or not at all, with its lineage; the run it is made of never changes; no
byte of a repaired run is lost (design/safety.md 2.4, rows 2, 3, 4 and 37).
"""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest
from tests.faults import forker
from tests.faults.scene_fork import SCENARIOS, Scene, succeeded
from tests.faults.victims import traces
from tests.terminal.program import HANGS

CALLS = (
    "mkdir", "openat", "fchmod", "fcntl", "flock", "write", "copy_file_range", "fsync", "ftruncate", "rename",
    "link", "unlink",
)  # fmt: skip
AS_FOR_A_FORK = {"openat", "fcntl", "flock"}
"""Calls at which nothing is different for a salvage, which is written by the same function."""


needs_strace = pytest.mark.skipif(not traces(), reason="strace cannot watch a child here")


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False)


def _trace(scene: Scene, log: Path) -> list[str]:
    """Give the watched calls that the child makes, in order."""
    done = _run(scene.traced("-y", "-o", str(log), "-e", f"trace={','.join(CALLS)}"))
    assert done.returncode == 0, done.stderr
    assert succeeded(done.stdout), done
    scene.check(done.stdout)
    return re.findall(rf"^\d+ +((?:{'|'.join(CALLS)})\(.*)$", log.read_text(), re.MULTILINE)


def _names(calls: list[str]) -> list[str]:
    return [call.partition("(")[0] for call in calls]


@needs_strace
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_kill_before_any_call(tmp_path: Path, scenario: str) -> None:
    calls = _names(_trace(Scene(tmp_path / "count", scenario), tmp_path / "log"))
    assert {"openat", "flock", "write", "fsync"} <= set(calls)
    tries = 0
    wanted = [call for call in CALLS if scenario != "salvage" or call not in AS_FOR_A_FORK]
    for call in wanted:
        for number in range(1, calls.count(call) + 1):
            scene = Scene(tmp_path / f"{call}-{number}", scenario)
            inject = ["-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}"]
            done = _run(scene.traced("-o", "/dev/null", *inject))
            assert done.returncode in {-signal.SIGKILL, 128 + signal.SIGKILL}, (call, number, done)
            scene.check(done.stdout)
            tries += 1
    assert tries == sum(call in wanted for call in calls) >= 15


@needs_strace
def test_what_is_written_is_synced_before_it_gets_its_name(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "scene", "fork")
    temporary = f".child.{forker.HEX}.fork"
    calls = [call for call in _trace(scene, tmp_path / "log") if "/notes" not in call]
    kinds = [
        (call.partition("(")[0], "new" if temporary in call else "directory")
        for call in calls
        if call.partition("(")[0] in {"write", "copy_file_range", "fsync", "link", "unlink"}
    ]
    link = kinds.index(("link", "new"))
    last_write = max(at for at, kind in enumerate(kinds[:link]) if kind[0] in {"write", "copy_file_range"})
    assert ("fsync", "new") in kinds[last_write:link]
    assert ("fsync", "directory") in kinds[link:]
    assert not any(kind[0] in {"write", "copy_file_range"} for kind in kinds[link:])


FAILURES = [
    ("fork", "write", "ENOSPC"),
    ("fork", "copy_file_range", "EIO"),
    ("fork", "fsync", "EIO"),
    ("fork", "link", "EPERM"),
    ("salvage", "write", "EDQUOT"),
    ("repair", "write", "ENOSPC"),
    ("repair", "ftruncate", "EIO"),
    ("undo", "fsync", "EIO"),
]


@needs_strace
@pytest.mark.parametrize(("scenario", "call", "code"), FAILURES)
def test_a_failure_of_any_call_is_said(tmp_path: Path, scenario: str, call: str, code: str) -> None:
    count = _names(_trace(Scene(tmp_path / "count", scenario), tmp_path / "log")).count(call)
    assert count
    said = 0
    for number in range(1, count + 1):
        scene = Scene(tmp_path / f"{call}-{number}", scenario)
        inject = ["-e", f"trace={call}", "-e", f"inject={call}:error={code}:when={number}"]
        done = _run(scene.traced("-o", "/dev/null", *inject))
        assert done.returncode == 0, (number, done)
        assert "Traceback" not in done.stderr
        failed = not succeeded(done.stdout)
        said += failed
        if failed:
            assert code in done.stdout
            assert str(scene.runs) in done.stdout
            assert not scene.child.exists()
            assert not [*scene.runs.glob(".*")]
        else:
            # What fails beside the run itself is said with the run that was made.
            assert re.search(r"^made (?:False|True False|True True|parent)", done.stdout, re.MULTILINE)
        scene.check(done.stdout)
    assert said >= 1
