"""Whoever moves a run to the trash, puts it back or deletes it is killed before each call, or fails at it.

However it ended, the run is where it was or can be put back exactly, and a deletion can be gone on with.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests import generate
from tests.faults.scene_fork import listed
from tests.faults.victims import STRACE, traces
from tests.rivumi_cases import make
from tests.terminal.program import HANGS
from tests.test_readonly import picture

from refold.core.keeping import TRASH
from refold.core.store.trash import carry_out, plan_for
from refold.core.store.trash_list import delete, entries, restore
from refold.core.trash import MANIFEST

TRASHER = Path(__file__).with_name("trasher.py")
SCENARIOS = ("trash", "trash-directory", "restore", "restore-directory", "delete")
CALLS = (
    "mkdir",
    "openat",
    "flock",
    "write",
    "fsync",
    "rename",
    "linkat",
    "unlink",
    "unlinkat",
    "rmdir",
    "utimensat",
)
FAILING = ("mkdir", "write", "fsync", "rename", "linkat")
NAME = "01234567"
needs_strace = pytest.mark.skipif(not traces(), reason="strace cannot watch a child here")


class Scene:
    """Runs before the child begins, and what must be true however the child ended."""

    def __init__(self, directory: Path, scenario: str) -> None:
        self.directory, self.scenario = directory, scenario
        self.runs = directory / "runs"
        self.runs.mkdir(parents=True, mode=0o700)
        self.of_directory = scenario.endswith("directory")
        if self.of_directory:
            made = make("04-tail-tool-started", directory / "made").rename(self.runs / "session")
            shutil.rmtree(made / "workspace", ignore_errors=True)
        else:
            generate.write(self.runs / "a.json", generate.journal(records=4, run_id="a"))
            (self.runs / "a.lock").touch(mode=0o600)
            (self.runs / "a.120.torn").write_bytes(b"{")
        self.id = "session" if self.of_directory else "a"
        for path in [*self.runs.rglob("*")][::-1]:
            os.utime(path, ns=(10**18, 10**18 + 7))
        self.before = self._picture()
        if not scenario.startswith("trash"):
            carry_out(plan_for(self.run, suffix=NAME))

    @property
    def run(self) -> Path:
        return self.runs / ("session" if self.of_directory else "a.json")

    def _picture(self) -> dict[str, object]:
        """Give everything about the run; a lock that was made for it and left behind is none of it."""
        return {
            name: (each.mode, each.inode, each.links, each.size, each.content,
                   0 if name == "session" else each.modified_ns)
            for name, each in picture(self.runs).items()
            if name != "." and not name.startswith(TRASH) and not name.endswith(".writer.lock")
        }  # fmt: skip

    def command(self, *options: str) -> list[str]:
        assert STRACE is not None
        entry = self.runs / TRASH / f"{self.id}.{NAME}"
        gone = entry.with_name(f".deleting.{entry.name}")
        names = ("a.json", "a.lock", "a.120.torn", "session", "session/.writer.lock", MANIFEST)
        places = [
            self.runs, self.runs / TRASH, entry, gone,
            *(place / name for place in (self.runs, entry, gone) for name in names),
        ]  # fmt: skip
        watched = [word for path in places for word in ("-P", str(path))]
        child = [sys.executable, str(TRASHER), self.scenario, str(self.directory)]
        return [STRACE, "-f", "-qq", *options, *watched, *child]

    def check(self, output: str) -> None:
        """Check what is there, and that it can be brought to where it was, or to its end."""
        done = "made" in output.split()
        here = self.id in listed(self.runs)
        if self.scenario == "delete":
            assert not here
            self._finish_deletion(done=done)
            return
        if done:
            assert here != self.scenario.startswith("trash")
        for entry in list(entries([self.runs])):
            assert entry.state in {"whole", "part", "left"} or not here
            if entry.state == "left" or not entry.parts:
                delete(entry)
            else:
                restore(entry)
        assert self.id in listed(self.runs)
        assert self._picture() == self.before
        assert not list(entries([self.runs]))
        carry_out(plan_for(self.run))
        assert self.id not in listed(self.runs)

    def _finish_deletion(self, *, done: bool) -> None:
        left = list(entries([self.runs]))
        assert not (done and left)
        for entry in left:
            if entry.state == "whole":
                restore(entry)
                assert self._picture() == self.before
                return
            delete(entry)
        assert not list(entries([self.runs]))


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False)


def _calls(tmp_path: Path, scenario: str) -> list[str]:
    scene, log = Scene(tmp_path / "count", scenario), tmp_path / "log"
    done = _run(scene.command("-o", str(log), "-e", f"trace={','.join(CALLS)}"))
    assert done.stdout.split() == ["begin", "made"], done
    scene.check(done.stdout)
    return re.findall(rf"^\d+ +({'|'.join(CALLS)})\(", log.read_text(), re.MULTILINE)


@needs_strace
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_kill_before_any_call(tmp_path: Path, scenario: str) -> None:
    calls = _calls(tmp_path, scenario)
    assert "rename" in calls or "linkat" in calls
    for call in CALLS:
        for number in range(1, calls.count(call) + 1):
            scene = Scene(tmp_path / f"{call}-{number}", scenario)
            inject = ["-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}"]
            done = _run(scene.command("-o", "/dev/null", *inject))
            assert done.returncode in {-signal.SIGKILL, 128 + signal.SIGKILL}, (call, number, done)
            scene.check(done.stdout)


@needs_strace
@pytest.mark.parametrize("error", ["ENOSPC", "EXDEV"])
@pytest.mark.parametrize("scenario", ["trash", "restore"])
def test_a_call_that_fails_leaves_the_run_where_it_was(tmp_path: Path, scenario: str, error: str) -> None:
    calls = _calls(tmp_path, scenario)
    for call in FAILING:
        for number in range(1, calls.count(call) + 1):
            scene = Scene(tmp_path / f"{call}-{number}", scenario)
            inject = ["-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={number}"]
            done = _run(scene.command("-o", "/dev/null", *inject))
            assert done.returncode == 0, (call, number, done)
            assert "made" in done.stdout or re.search(r"^failed .+", done.stdout, re.MULTILINE), done
            if scenario == "trash" and "failed" in done.stdout:
                assert "a" in listed(scene.runs)
            scene.check(done.stdout)
