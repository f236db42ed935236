"""An agent is killed before each write, fsync and open of its run, and in the middle of each call.

Whatever was acknowledged is on disk afterwards, nothing with a result runs again, and what is open goes on
to the same end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults import agent_child as scenes
from tests.faults.scene_agent import check, keep, prepare
from tests.terminal.program import HANGS

CHILD = Path(scenes.__file__)
CALLS = ("write", "fsync", "open", "tool", "model")


class Children:
    """Plays scenes in children, each a fork of one process."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def play(self, scene: str, directory: Path, call: str, number: int) -> tuple[int, list[str]]:
        """Give the exit status of a child and what it said."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps([scene, str(directory), call, number]) + "\n")
        self._server.stdin.flush()
        answer = json.loads(self._server.stdout.readline())
        return answer["status"], answer["said"].splitlines()

    def end(self) -> None:
        self._server.communicate(timeout=HANGS)


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    serving = Children()
    yield serving
    serving.end()


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A directory where an fsync costs nothing: a kill leaves the same there as on a disk."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        yield Path(directory)


@pytest.mark.parametrize("scene", scenes.BATCHES)
def test_a_kill_anywhere_loses_and_repeats_nothing(scene: str, scratch: Path, children: Children) -> None:
    tries = 0
    for call in CALLS:
        whole = scratch / f"{call}-whole"
        prepare(scene, whole)
        status, said = children.play(scene, whole, call, 0)
        assert status == 0, said
        check(scene, whole, said)
        for number in range(1, int(said[-1].split()[1]) + 1):
            directory = scratch / f"{call}-{number}"
            prepare(scene, directory)
            status, said = children.play(scene, directory, call, number)
            assert status == -signal.SIGKILL, (call, number, said)
            check(scene, directory, said)
            tries += 1
    assert tries >= 8


def test_the_harness_sees_what_is_lost_or_repeated(scratch: Path, children: Children) -> None:
    prepare("new", scratch / "lost")
    _, said = children.play("new", scratch / "lost", "tool", 1)
    keep(scratch / "lost", 1)
    with pytest.raises(AssertionError):
        check("new", scratch / "lost", said)
    prepare("new", scratch / "twice")
    _, said = children.play("new", scratch / "twice", "", 0)
    path = scratch / "twice" / "runs" / "run.json"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2]) + lines[2].replace(b'"seq":3', b'"seq":4'))
    with pytest.raises(AssertionError):
        check("new", scratch / "twice", said)
