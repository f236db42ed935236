"""The writer of a run directory is killed before each call it makes on it.

Whatever was acknowledged is in the log, the manifest is never more than one ahead, the verdict is one of the
table's, and the next claim works or says why not (formats/rivumi.md 2 and 5).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults import session_child as scenes
from tests.faults.scene_session import Scene
from tests.faults.victims import traces
from tests.terminal.program import HANGS

CHILD = Path(__file__).with_name("session_child.py")
STRACE = shutil.which("strace")
PAIR = ("write", "fsync", "replace")
CALLS = {
    "create": ("mkdir", "open", "ftruncate", *PAIR),
    "commit": ("open", "ftruncate", *PAIR),
    "turn": PAIR,
    "decide": PAIR,
    "finish": PAIR,
}
TRACED = ("openat", "flock", "write", "fsync", "ftruncate", "rename")


needs_strace = pytest.mark.skipif(not traces(), reason="strace cannot watch a child here")


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A directory where an fsync costs nothing: a kill leaves the same there as on a disk."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        yield Path(directory)


class Children:
    """Plays scenes in children, each a fork of one process."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def play(self, scene: str, directory: Path, call: str, number: int) -> tuple[int, str]:
        """Give the exit status of a child and what it said."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps([scene, str(directory), call, number]) + "\n")
        self._server.stdin.flush()
        answer = json.loads(self._server.stdout.readline())
        return answer["status"], answer["said"]

    def end(self) -> None:
        self._server.communicate(timeout=HANGS)


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    serving = Children()
    yield serving
    serving.end()


@pytest.mark.parametrize("scene", CALLS)
def test_a_kill_before_any_call_loses_nothing(scene: str, scratch: Path, children: Children) -> None:
    if scene == "commit" and traces():
        pytest.skip("strace kills this one from outside")
    tries, codes = 0, set()
    for call in CALLS[scene]:
        counting = Scene(scratch / f"{call}-0", scene)
        status, said = children.play(scene, counting.root, call, 0)
        assert status == 0, said
        for number in range(1, int(said.split()[-1]) + 1):
            playing = Scene(scratch / f"{call}-{number}", scene)
            status, said = children.play(scene, playing.root, call, number)
            assert status == -signal.SIGKILL, (call, number, said)
            found = playing.check(said)
            codes.add("" if found is None else found.original.code)
            playing.go_on()
            tries += 1
            shutil.rmtree(playing.root, ignore_errors=True)
    assert tries >= 20
    assert codes & {"ok", "in_flight_side_effect", "workspace"}


@needs_strace
def test_a_kill_in_the_commit_pair_from_outside_loses_nothing(scratch: Path) -> None:
    counting = Scene(scratch / "count", "commit")
    log = scratch / "log"
    done = _run([*_watching(counting, "-o", str(log), "-e", f"trace={','.join(TRACED)}")])
    assert done.returncode == 0, done.stderr
    counts = Counter(re.findall(r"^\d+ +(\w+)\(", log.read_text(), re.MULTILINE))
    assert counts["rename"] >= 2
    assert counts["write"] >= 4
    assert counts["fsync"] >= 6
    for call in ("write", "fsync", "rename"):
        for number in range(1, counts[call] + 1):
            scene = Scene(scratch / f"{call}-{number}", "commit")
            inject = ["-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}"]
            done = _run(_watching(scene, "-o", "/dev/null", *inject))
            assert done.returncode in {-signal.SIGKILL, 128 + signal.SIGKILL}, (call, number, done)
            scene.check(done.stdout)
            scene.go_on()


def _watching(scene: Scene, *options: str) -> list[str]:
    assert STRACE is not None
    names = ("session.json", "events.jsonl", ".writer.lock", f".session.json.{scenes.HEX}.tmp")
    watched = [
        word for path in (scene.run, *(scene.run / name for name in names)) for word in ("-P", str(path))
    ]
    return [STRACE, "-f", "-qq", *options, *watched, sys.executable, str(CHILD), scene.scene, str(scene.root)]


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False)
