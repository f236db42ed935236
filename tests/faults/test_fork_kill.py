"""Whoever forks, salvages, repairs or takes a repair back is killed before each system call, or fails at it.

A run that is made is there whole or not at all, with its lineage; the run it is made of never changes; no
byte of a repaired run is lost (design/safety.md 2.4, rows 2, 3, 4 and 37).
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tests import generate

from refold.core.errors import RunExists
from refold.core.journal_text import fold_bytes
from refold.core.store import fork, repair, salvage
from refold.core.store.catalog import Catalog, Root
from refold.core.store.notes import NotesStore
from refold.core.store.reader import RunReader
from refold.core.summary import RunSummary

FORKER = Path(__file__).with_name("forker.py")
STRACE = shutil.which("strace")
SCENARIOS = ("fork", "salvage", "repair", "undo")
CALLS = (
    "mkdir", "openat", "fchmod", "fcntl", "flock", "write", "copy_file_range", "fsync", "ftruncate", "rename",
    "link", "unlink",
)  # fmt: skip
AS_FOR_A_FORK = {"openat", "fcntl", "flock"}
"""Calls at which nothing is different for a salvage, which is written by the same function."""
TORN = b'{"seq":15,"protocol":"io.chor'


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("refold_test_forker", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


forker = _load(FORKER)


def _traces() -> bool:
    """Say whether strace can watch a child here; in some containers it is there and may not."""
    if STRACE is None:
        return False
    done = subprocess.run([STRACE, "-qq", "-e", "trace=none", "true"], capture_output=True, check=False)
    return done.returncode == 0 and not done.stderr


needs_strace = pytest.mark.skipif(not _traces(), reason="strace cannot watch a child here")


class Scene:
    """A run before the child begins, and what must be true however the child ended."""

    def __init__(self, directory: Path, scenario: str) -> None:
        self.directory = directory
        self.scenario = scenario
        self.runs = directory / "runs"
        self.runs.mkdir(parents=True, mode=0o700)
        self.parent = self.runs / "parent.json"
        self.child = self.runs / "child.json"
        self.notes = NotesStore(directory / "notes")
        lines = list(generate.journal(records=14, style="fisk-ai-v3", run_id="parent", ending="suspended"))
        if scenario == "salvage":
            lines.insert(9, b"\0\0 damage\n")
        self.whole = b"".join(lines)
        self.torn = self.whole + TORN if scenario in {"repair", "undo"} else self.whole
        self.parent.write_bytes(self.torn)
        self.side_file = self.runs / f"parent.{len(self.whole)}.torn"
        if scenario == "undo":
            with RunReader.open(self.parent) as reader:
                plan = repair.plan_for(reader)
            assert plan is not None
            assert repair.repair(plan, "fisk-ai", notes=self.notes)
        self.mtime = self.parent.stat().st_mtime_ns
        self.before = self.parent.read_bytes()

    def command(self) -> list[str]:
        return [sys.executable, str(FORKER), self.scenario, str(self.directory)]

    def traced(self, *options: str) -> list[str]:
        assert STRACE is not None
        watched = [word for path in self._paths() for word in ("-P", str(path))]
        return [STRACE, "-f", "-qq", *options, *watched, *self.command()]

    def _paths(self) -> Iterator[Path]:
        """Give every path that the child changes, locks or makes durable."""
        temporary = self.runs / f".child.{forker.HEX}.fork"
        notes = [self.notes.path_of(path) for path in (temporary, self.child, self.parent)]
        yield from (self.directory, self.runs, self.runs / "parent.lock", self.child, temporary)
        yield from (self.notes.directory, self.side_file, *notes)
        yield from (path.with_name(f".{path.name}.{forker.HEX}.tmp") for path in notes)
        if self.scenario in {"repair", "undo"}:
            yield self.parent

    def check(self, output: str) -> None:
        """Check what is there, and that the next try brings about what this one was to."""
        if self.scenario in {"repair", "undo"}:
            self._check_repair(output)
        else:
            self._check_new_run(output)

    def _check_new_run(self, output: str) -> None:
        assert (self.parent.read_bytes(), self.parent.stat().st_mtime_ns) == (self.before, self.mtime)
        assert listed(self.runs) <= {"parent", "child"}
        assert succeeded(output) <= self.child.exists()
        for file in self.runs.iterdir():
            assert file in {self.parent, self.child} or file.name == f".child.{forker.HEX}.fork"
            # The lock of a killed maker is gone with it, and nobody has to wait for its file to be old.
            moment = time.time() - 60
            if file != self.parent:
                os.utime(file, (moment, moment))
        noted = "made True False" not in output
        if self.child.exists():
            self._check_child(noted=noted)
        with RunReader.open(self.parent) as reader:
            reader.index_all()
            again: RunExists | None = None
            try:
                if self.scenario == "fork":
                    fork.carry_out(fork.plan_at(reader, forker.AT, child="child"), notes=self.notes)
                else:
                    salvage.carry_out(salvage.salvage_of(reader, child="child"), notes=self.notes)
            except RunExists as error:
                again = error
            if again is not None:
                other = fork.carry_out(fork.plan_at(reader, 2, child="other"), notes=self.notes)
                other.path.unlink()
        self._check_child(noted=noted or again is None)
        assert {file.name for file in self.runs.iterdir()} == {"parent.json", "child.json"}

    def _check_child(self, *, noted: bool) -> None:
        data = self.child.read_bytes()
        records = data.split(b"\n")
        good = [line for line in self.whole.split(b"\n") if b"damage" not in line]
        count = forker.AT + 1 if self.scenario == "fork" else 14
        assert records[1:] == [*good[1:count], b""]
        assert fold_bytes(data).run_id == "child"
        if not noted:
            return
        notes = self.notes.read(self.child)
        assert notes.forked_from is not None
        assert (notes.forked_from.run_id, notes.forked_from.seq) == ("parent", count)
        taken = self.whole[: self.whole.index(good[count - 1]) + len(good[count - 1]) + 1]
        assert notes.forked_from.prefix_sha256 == hashlib.sha256(taken).hexdigest()
        assert bool(notes.left_out) == (self.scenario == "salvage")

    def _check_repair(self, output: str) -> None:
        now = self.parent.read_bytes()
        assert now in (self.whole, self.torn)
        if succeeded(output):
            assert now == (self.whole if self.scenario == "repair" else self.torn)
        if now == self.whole:
            assert TORN in self._side_files()
        with RunReader.open(self.parent) as reader:
            plan = repair.plan_for(reader)
        assert (plan is None) == (now == self.whole)
        if plan is not None:
            repair.repair(plan, "fisk-ai", notes=self.notes)
        assert self.parent.read_bytes() == self.whole
        assert TORN in self._side_files()
        assert repair.undo(self.parent, notes=self.notes).torn_bytes == len(TORN)
        assert self.parent.read_bytes() == self.torn
        # A part of the torn bytes may lie in the file of a repair that was killed while it kept them.
        assert all(TORN.startswith(left) and left != TORN for left in self._side_files())

    def _side_files(self) -> list[bytes]:
        names = {file.name for file in self.runs.iterdir()} - {"parent.json", "parent.lock"}
        assert all(name.startswith(f"parent.{len(self.whole)}.") for name in names)
        return [(self.runs / name).read_bytes() for name in names]


def succeeded(output: str) -> bool:
    return re.search("^made ", output, re.MULTILINE) is not None


def listed(directory: Path) -> set[str]:
    catalog = Catalog([Root(directory, "refold", "test")], cache=None)
    found = {row.id for row in catalog.scan() if isinstance(row, RunSummary)}
    catalog.close()
    return found


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


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
