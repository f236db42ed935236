"""An agent that is stopped anywhere: what its scenes begin with, and what must be true afterwards."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from pathlib import Path

from tests.faults import agent_child as scenes

from refold.core.formats.journal import NATIVE
from refold.core.records import AssistantRecord, Decision, MetaRecord, Record, ToolResultRecord
from refold.core.resume import ResumePlan, ResumeRequest, plan_resume
from refold.core.runner import Runner
from refold.core.store.journal import JournalStore
from refold.core.store.resume import open_to_resume, read_facts


def prepare(scene: str, directory: Path) -> None:
    """Make what a scene begins with."""
    directory.mkdir(parents=True, exist_ok=True)
    store = JournalStore(directory / "runs")
    agent = scenes.make(scene, directory, scenes.Deaths("", 0))
    if scene == "turn":
        store.create(scenes.RUN_ID, agent.opening("go")).close()
    if scene == "resume":
        with store.create(scenes.RUN_ID, agent.opening("go")) as journal:
            asyncio.run(Runner(agent, journal).run("go"))
        keep(directory, 3)
    if scene == "decision":
        with store.create(scenes.RUN_ID, agent.opening("go")) as journal:
            asyncio.run(Runner(agent, journal).run("go"))
        keep(directory, 2)
    (directory / "world").unlink(missing_ok=True)


def keep(directory: Path, records: int) -> None:
    """Leave so many records of a run."""
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
