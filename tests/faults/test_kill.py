"""A writing child is killed before each system call it makes on a run, and made to fail at each of them.

Whatever was acknowledged is there afterwards, the next open says how the run ends, and two more appends lose
nothing (design/safety.md 2.4, rows 1 to 3).
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from tests.faults.scene_journal import Scene
from tests.faults.victims import traces
from tests.terminal.program import HANGS

CALLS = ("mkdir", "openat", "fchmod", "flock", "write", "fsync", "ftruncate", "unlink")
FAILPOINTS = ("mkdir", "open", "write", "fsync", "ftruncate")


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False)


def _killed(done: subprocess.CompletedProcess[str]) -> bool:
    return done.returncode in {-signal.SIGKILL, 128 + signal.SIGKILL}


def _count_calls(scene: Scene, log: Path) -> Counter[str]:
    done = _run(scene.traced("-o", str(log), "-e", f"trace={','.join(CALLS)}"))
    assert done.returncode == 0, done.stderr
    return Counter(re.findall(r"^\d+ +(\w+)\(", log.read_text(), re.MULTILINE))


needs_strace = pytest.mark.skipif(not traces(), reason="strace cannot watch a child here")


@needs_strace
@pytest.mark.parametrize(("scenario", "end"), [("create", "clean"), ("resume", "torn")])
def test_a_kill_before_any_call_loses_nothing(tmp_path: Path, scenario: str, end: str) -> None:
    counts = _count_calls(Scene(tmp_path / "count", scenario, end), tmp_path / "log")
    assert counts["write"] >= 3
    assert counts["fsync"] >= 4
    assert counts["ftruncate"] == (1 if end == "torn" else 0)
    tries = 0
    for call in CALLS:
        for number in range(1, counts[call] + 1):
            scene = Scene(tmp_path / f"{call}-{number}", scenario, end)
            inject = ["-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}"]
            done = _run(scene.traced("-o", "/dev/null", *inject))
            assert _killed(done), (call, number, done)
            scene.check(done.stdout)
            tries += 1
    assert tries >= 15


@pytest.mark.parametrize(("scenario", "end"), [("resume", "unended"), ("create", "clean")])
def test_a_kill_by_its_own_hand_loses_nothing(tmp_path: Path, scenario: str, end: str) -> None:
    if scenario == "create" and traces():
        pytest.skip("strace kills this one more finely")
    tries = 0
    for call in FAILPOINTS:
        counted = _run(Scene(tmp_path / call, scenario, end).command(call, "0"))
        assert counted.returncode == 0, counted.stderr
        for number in range(1, int(counted.stdout.split()[-1]) + 1):
            scene = Scene(tmp_path / f"{call}-{number}", scenario, end)
            done = _run(scene.command(call, str(number)))
            assert _killed(done), (call, number, done)
            scene.check(done.stdout)
            tries += 1
    assert tries >= 10


@needs_strace
@pytest.mark.parametrize(("call", "code"), [("write", "ENOSPC"), ("fsync", "EIO")])
def test_a_failure_of_any_call_is_said_and_loses_nothing(tmp_path: Path, call: str, code: str) -> None:
    counts = _count_calls(Scene(tmp_path / "count", "stubborn", "torn"), tmp_path / "log")
    assert counts[call] >= 5
    for number in range(1, counts[call] + 1):
        scene = Scene(tmp_path / f"{call}-{number}", "stubborn", "torn")
        fail = ["--seccomp-bpf", "-e", f"trace={call}", "-e", f"inject={call}:error={code}:when={number}"]
        done = _run(scene.traced("-o", "/dev/null", *fail))
        assert done.returncode == 0, (number, done)
        failures = [line for line in done.stdout.splitlines() if line.startswith("failed ")]
        assert len(failures) == 1, (number, done)
        assert code in failures[0]
        assert str(scene.directory / "run") in failures[0]
        scene.check(done.stdout)
