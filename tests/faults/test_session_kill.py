"""The writer of a run directory is killed before each call it makes on it.

Whatever was acknowledged is in the log, the manifest is never more than one ahead, the verdict is one of the
table's, and the next claim works or says why not (formats/rivumi.md 2 and 5).
"""

from __future__ import annotations

import importlib.util
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
from types import ModuleType

import pytest
from tests.rivumi_cases import workspace
from tests.session_story import events_of, manifest_of

from refold.core.errors import RunNotFound
from refold.core.rivumi.claim import SessionRefused, SessionUndecided
from refold.core.rivumi.verdict import Verdict, verdict
from refold.core.store.session import SessionStore
from refold.core.store.session_files import read_run

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
CODES = {"ok", "in_flight_side_effect", "terminal", "manifest_missing", "request_missing"}
"""The rows of the table that a kill of this writer can lead to."""


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("refold_test_session_child", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


scenes = _load(CHILD)


def _traces() -> bool:
    """Say whether strace can watch a child here; in some containers it is there and may not."""
    if STRACE is None:
        return False
    done = subprocess.run([STRACE, "-qq", "-e", "trace=none", "true"], capture_output=True, check=False)
    return done.returncode == 0 and not done.stderr


needs_strace = pytest.mark.skipif(not _traces(), reason="strace cannot watch a child here")


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A directory where an fsync costs nothing: a kill leaves the same there as on a disk."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        yield Path(directory)


class Scene:
    """A run before the child begins, and what must be true of it after the child ended, however it ended."""

    def __init__(self, directory: Path, scene: str) -> None:
        self.root = directory
        self.run = directory / scenes.RUN
        self.scene = scene
        self.before: list[dict[str, object]] = []
        if scene != "create":
            with scenes.begin(directory) as session:
                workspace(self.run)
                if scene == "decide":
                    scenes.started(session)
            self.before = events_of(self.run)

    def check(self, said: str) -> Verdict | None:
        """Check what is there; gives the verdict on it, or None where no run came to be."""
        acknowledged = [int(number) for number in re.findall(r"^ack (\d+)$", said, re.MULTILINE)]
        known = max([len(self.before) - 1, *acknowledged])
        try:
            found = verdict(read_run(self.run))
        except RunNotFound:
            assert known < 0
            return None
        assert found.original.code in CODES | ({"workspace"} if self.scene == "create" else set())
        if not (self.run / "session.json").exists():
            assert (known, found.outcome) == (-1, "refuse")
            with pytest.raises(SessionRefused):
                SessionStore(self.root).claim_and_validate_resume(scenes.RUN)
            return found
        events = events_of(self.run)
        assert events[: len(self.before)] == self.before
        assert [event["sequence"] for event in events] == list(range(len(events)))
        assert known <= len(events) - 1
        assert manifest_of(self.run)["last_event_sequence"] - (len(events) - 1) in {0, 1}
        return found

    def go_on(self) -> None:
        """Claim the run and write to it, unless it has ended."""
        if not (self.run / "session.json").exists():
            return
        if self.scene == "create":
            workspace(self.run)
        events, store = events_of(self.run), SessionStore(self.root)
        try:
            session = store.claim_and_validate_resume(scenes.RUN)
        except SessionUndecided:
            session = store.claim_and_validate_resume(scenes.RUN, decisions=scenes.DECISIONS)
        except SessionRefused as refused:
            if (self.scene, refused.code) == ("finish", "terminal"):
                return
            raise
        with session:
            last = session.emit("hook.completed")
        assert events_of(self.run)[: len(events)] == events
        assert manifest_of(self.run)["last_event_sequence"] == last == len(events_of(self.run)) - 1
        ids = [item["tool_call_id"] for item in manifest_of(self.run)["messages"] if "ok" in item]
        assert len(ids) == len(set(ids))
        found = verdict(read_run(self.run))
        assert (found.outcome, found.replay.code) == ("accept", "ok")


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
        self._server.communicate(timeout=60)


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    serving = Children()
    yield serving
    serving.end()


@pytest.mark.parametrize("scene", CALLS)
def test_a_kill_before_any_call_loses_nothing(scene: str, scratch: Path, children: Children) -> None:
    if scene == "commit" and _traces():
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
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
