"""An agent is killed before each write, fsync and open of its run, and in the middle of each call.

Whatever was acknowledged is on disk afterwards, nothing with a result runs again, and what is open goes on
to the same end.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
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

from refold.core.formats.journal import NATIVE
from refold.core.records import AssistantRecord, Decision, MetaRecord, Record, ToolResultRecord
from refold.core.resume import ResumePlan, ResumeRequest, plan_resume
from refold.core.runner import Runner
from refold.core.store.journal import JournalStore
from refold.core.store.resume import open_to_resume, read_facts

CHILD = Path(__file__).with_name("agent_child.py")
CALLS = ("write", "fsync", "open", "tool", "model")


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("refold_test_agent_child", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


scenes = _load(CHILD)


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
        self._server.communicate(timeout=60)


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


def prepare(scene: str, directory: Path, children: Children) -> None:
    """Make what a scene begins with."""
    directory.mkdir()
    store = JournalStore(directory / "runs")
    agent = scenes.make(scene, directory, scenes.Deaths("", 0))
    if scene == "turn":
        store.create(scenes.RUN_ID, agent.opening("go")).close()
    if scene == "resume":
        with store.create(scenes.RUN_ID, agent.opening("go")) as journal:
            asyncio.run(Runner(agent, journal).run("go"))
        _keep(directory, 3)
    if scene == "decision":
        with store.create(scenes.RUN_ID, agent.opening("go")) as journal:
            asyncio.run(Runner(agent, journal).run("go"))
        _keep(directory, 2)
    (directory / "world").unlink(missing_ok=True)


def _keep(directory: Path, records: int) -> None:
    path = directory / "runs" / "run.json"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:records]))


def records(directory: Path) -> list[Record]:
    """Give what is on disk, a torn end left out."""
    path = directory / "runs" / "run.json"
    data = path.read_bytes() if path.exists() else b""
    decoder = NATIVE.decoder(data)
    return [decoder.record(line) for line in data.split(b"\n")[:-1]]


def world(directory: Path) -> Counter[str]:
    path = directory / "world"
    return Counter(path.read_text().splitlines() if path.exists() else [])


def go_on(directory: Path, scene: str) -> ResumePlan | None:
    """Resume what is left to its end, every unknown call once more; give the plan it began with."""
    store = JournalStore(directory / "runs")
    agent = scenes.make(scene, directory, scenes.Deaths("", 0))
    if not records(directory):
        shutil.rmtree(directory / "runs", ignore_errors=True)
        with store.create(scenes.RUN_ID, agent.opening("go")) as journal:
            asyncio.run(Runner(agent, journal).run("go"))
        return None
    facts = read_facts(store.path_of(scenes.RUN_ID), now=agent.fingerprint(), effects=agent.effects())
    plan = plan_resume(facts, ResumeRequest(repair=True))
    if facts.state is not None and facts.state.completed:
        return plan
    unknown = {call.id: Decision("rerun") for call in plan.calls if call.verdict == "unknown"}
    request = ResumeRequest(decisions=unknown, repair=True)
    with open_to_resume(store, scenes.RUN_ID, agent, request=request) as opened:
        runner = Runner(agent, opened.journal)
        outcome = asyncio.run(runner.go_on(opened.records(), opened.plan))
    assert outcome.reason == "completed"
    return plan


def check(scene: str, directory: Path, said: list[str]) -> None:
    acknowledged = [int(line.split()[1]) for line in said if line.startswith("ack ")]
    there = records(directory)
    assert [record.seq for record in there] == list(range(1, len(there) + 1))
    assert len(there) >= max(acknowledged, default=0)
    answered = {record.tool_use_id for record in there if isinstance(record, ToolResultRecord)}
    turns = sum(isinstance(record, AssistantRecord) for record in there)
    before = world(directory)
    plan = go_on(directory, scene)
    after = world(directory)
    for call in answered:
        assert after[f"ran {call}"] == before[f"ran {call}"], call
    for turn in range(turns):
        assert after[f"asked {turn}"] == before[f"asked {turn}"], turn
    if plan is not None:
        open_calls = [call for call in plan.calls if call.verdict != "reused"]
        assert {call.id for call in open_calls}.isdisjoint(answered)
        assert all(call.effect == "write" for call in open_calls if call.verdict == "unknown")
    final = records(directory)
    assert final[: len(there)] == there or isinstance(there[0], MetaRecord)
    results = [record.tool_use_id for record in final if isinstance(record, ToolResultRecord)]
    wanted = [f"{t}-{n}" for t, batch in enumerate(scenes.BATCHES[scene]) for n, _ in enumerate(batch)]
    assert sorted(results) == wanted
    assert JournalStore(directory / "runs").load(scenes.RUN_ID).completed
    # A call is in the world twice only where the kill came between what it did and its result.
    twice = [name for name, times in after.items() if times > 1]
    assert len([name for name in twice if name.startswith("asked")]) <= 1
    assert len([name for name in twice if name.startswith("ran")]) <= (3 if scene == "batch" else 1)


@pytest.mark.parametrize("scene", scenes.BATCHES)
def test_a_kill_anywhere_loses_and_repeats_nothing(scene: str, scratch: Path, children: Children) -> None:
    tries = 0
    for call in CALLS:
        whole = scratch / f"{call}-whole"
        prepare(scene, whole, children)
        status, said = children.play(scene, whole, call, 0)
        assert status == 0, said
        check(scene, whole, said)
        for number in range(1, int(said[-1].split()[1]) + 1):
            directory = scratch / f"{call}-{number}"
            prepare(scene, directory, children)
            status, said = children.play(scene, directory, call, number)
            assert status == -signal.SIGKILL, (call, number, said)
            check(scene, directory, said)
            tries += 1
    assert tries >= 8


def test_the_harness_sees_what_is_lost_or_repeated(scratch: Path, children: Children) -> None:
    prepare("new", scratch / "lost", children)
    _, said = children.play("new", scratch / "lost", "tool", 1)
    _keep(scratch / "lost", 1)
    with pytest.raises(AssertionError):
        check("new", scratch / "lost", said)
    prepare("new", scratch / "twice", children)
    _, said = children.play("new", scratch / "twice", "", 0)
    path = scratch / "twice" / "runs" / "run.json"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2]) + lines[2].replace(b'"seq":3', b'"seq":4'))
    with pytest.raises(AssertionError):
        check("new", scratch / "twice", said)
