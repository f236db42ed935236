"""A writing child is killed before each system call it makes on a run, and made to fail at each of them.

Whatever was acknowledged is there afterwards, the next open says how the run ends, and two more appends lose
nothing (design/safety.md 2.4, rows 1 to 3).
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from refold.core.formats.journal import NATIVE
from refold.core.records import MetaRecord, Record
from refold.core.repair import TornTail
from refold.core.store.journal import JournalStore

WRITER = Path(__file__).with_name("writer.py")
CALLS = ("mkdir", "openat", "fchmod", "flock", "write", "fsync", "ftruncate", "unlink")
FAILPOINTS = ("mkdir", "open", "write", "fsync", "ftruncate")
TORN = 77
STRACE = shutil.which("strace")


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("refold_test_writer", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


writer = _load(WRITER)


def _traces() -> bool:
    """Say whether strace can watch a child here; in some containers it is there and may not."""
    if STRACE is None:
        return False
    done = subprocess.run([STRACE, "-qq", "-e", "trace=none", "true"], capture_output=True, check=False)
    return done.returncode == 0 and not done.stderr


class Scene:
    """A run before the child begins, and what must be true of it after the child ended, however it ended."""

    def __init__(self, directory: Path, scenario: str, end: str = "clean") -> None:
        self.directory = directory / "runs"
        self.scenario = scenario
        self.torn = b""
        self.before = 0
        if scenario != "create":
            store = JournalStore(self.directory)
            with store.create(writer.RUN_ID, MetaRecord(prompt=writer.TEXT)) as journal:
                writer.append(journal, 4)
            self.before = 5
            path = store.path_of(writer.RUN_ID)
            data = path.read_bytes()
            if end == "torn":
                start = data.rindex(b"\n", 0, -1) + 1
                self.torn, self.before = data[start : start + TORN], 4
                path.write_bytes(data[: start + TORN])
            elif end == "unended":
                path.write_bytes(data[:-1])

    def command(self, *failpoint: str) -> list[str]:
        return [sys.executable, str(WRITER), self.scenario, str(self.directory), *failpoint]

    def traced(self, *options: str) -> list[str]:
        assert STRACE is not None
        runs = self.directory
        side_file = runs / f"{writer.RUN_ID}.{self.torn_at}.torn"
        paths = (runs.parent, runs, runs / "run.json", runs / "run.lock", side_file)
        watched = [word for path in paths for word in ("-P", str(path))]
        return [STRACE, "-f", "-qq", *options, *watched, *self.command()]

    @property
    def torn_at(self) -> int:
        path = self.directory / "run.json"
        return path.stat().st_size - len(self.torn) if self.torn else 0

    def check(self, output: str) -> None:
        """Check that nothing is lost, and that the run can be opened and go on."""
        acknowledged = [int(seq) for seq in re.findall(r"^ack (\d+)$", output, re.MULTILINE)]
        known = max([self.before, *acknowledged])
        store = JournalStore(self.directory)
        path = self.directory / "run.json"
        if not path.exists():
            assert known == 0
            store.create(writer.RUN_ID, MetaRecord(prompt=writer.TEXT)).close()
        try:
            journal = store.open(writer.RUN_ID)
        except TornTail as torn:
            journal = store.open(writer.RUN_ID, repair=torn.plan)
        with journal:
            assert known <= journal.last_seq <= known + 1
            writer.append(journal, 2)
            last = journal.last_seq
        assert store.load(writer.RUN_ID).last_seq == last
        decoder = NATIVE.decoder(path.read_bytes())
        records = [decoder.record(line) for line in path.read_bytes()[:-1].split(b"\n")]
        assert [record.seq for record in records] == list(range(1, last + 1))
        for record in records[1:]:
            assert _content(record) == _content(writer.record_at(record.seq))
        side_files = list(self.directory.glob("*.torn"))
        if self.torn:
            assert self.torn in [side_file.read_bytes() for side_file in side_files]
        assert {entry.name for entry in self.directory.iterdir()} == {
            "run.json",
            "run.lock",
            *(side_file.name for side_file in side_files),
        }


def _content(record: Record) -> Record:
    return msgspec.structs.replace(record, seq=0, time=None)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def _killed(done: subprocess.CompletedProcess[str]) -> bool:
    return done.returncode in {-signal.SIGKILL, 128 + signal.SIGKILL}


def _count_calls(scene: Scene, log: Path) -> Counter[str]:
    done = _run(scene.traced("-o", str(log), "-e", f"trace={','.join(CALLS)}"))
    assert done.returncode == 0, done.stderr
    return Counter(re.findall(r"^\d+ +(\w+)\(", log.read_text(), re.MULTILINE))


needs_strace = pytest.mark.skipif(not _traces(), reason="strace cannot watch a child here")


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
    if scenario == "create" and _traces():
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
