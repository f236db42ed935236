"""What a fork of a run directory takes along: every point of every example, and made-up conversations."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.rivumi_cases import BASE, CASES, DATA

from refold.core.fork import NoForkHere
from refold.core.records import Json
from refold.core.rivumi.events_state import differences
from refold.core.rivumi.fork import SessionForkPlan, plan_session_fork
from refold.core.rivumi.items import message, observation
from refold.core.rivumi.original import replay_of_original, resume_of_original
from refold.core.rivumi.reading import read_snapshot
from refold.core.rivumi.snapshot import Part, Snapshot, Workspace
from refold.core.rivumi.verdict import verdict
from refold.core.store.session_files import read_run

NOW = datetime(2026, 3, 1, tzinfo=UTC)
CALL = {"tool_call_id": "a", "name": "read_file", "arguments": {"path": "x"}}
OTHER = {"tool_call_id": "b", "name": "read_file", "arguments": {"path": "y"}}


def part(name: str, data: bytes) -> Part:
    return Part(name, "read", data, len(data))


def made(plan: SessionForkPlan) -> Snapshot:
    """Give what would be read of the new run."""
    return Snapshot(
        plan.child,
        manifest=part("session.json", plan.manifest.stamped(NOW).encode()),
        request=part("request.json", plan.request),
        events=part("events.jsonl", plan.event(NOW)),
        workspace=Workspace("git", plan.base_sha),
    )


def plan_at(snapshot: Snapshot, at: int, **more: Any) -> SessionForkPlan:
    return plan_session_fork(snapshot, at, path="/r/parent", child="child", mark="0" * 8, **more)


@pytest.mark.parametrize("name", CASES)
def test_every_fork_of_every_example_can_go_on(name: str) -> None:
    parent = read_run(DATA / name)
    legal = 0
    for at in range(66):
        try:
            plan = plan_at(parent, at)
        except NoForkHere:
            continue
        legal += 1
        child = made(plan)
        assert resume_of_original(child).ok, (at, resume_of_original(child))
        assert replay_of_original(child).ok
        assert verdict(child).outcome == ("accept" if len(plan.pending) < 2 else "ask")
        assert len(plan.manifest.messages) == plan.messages
        reading = read_snapshot(child)
        assert reading.manifest is not None
        told = {found.field for found in differences(reading.state, reading.manifest)}
        assert told <= {"pending_action"}
    # A fork of the original names no provider that could go on.
    nothing = {
        "02-manifest-only-no-events",
        "30-request-base-sha-mismatch",
        "34-forked-run",
        "37-external-cli-run",
    }
    assert (legal == 0) == (name in nothing)


class Made:
    """A run that exists in memory only."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.messages: list[Json] = [message("system", "s"), message("user", "Go.")]

    def event(self, kind: str, **data: Any) -> int:
        at = len(self.lines)
        row = {"event_type": kind, "run_id": "parent", "task_id": "t", "sequence": at, "data": data}
        self.lines.append(json.dumps(row).encode() + b"\n")
        return at

    def turn(self, *calls: dict[str, Any]) -> int:
        self.event("model.requested", step=1)
        names = [call["name"] for call in calls]
        at = self.event(
            "model.completed", step=1, tool_calls=names, usage={"input_tokens": 5, "output_tokens": 2}
        )
        self.messages.append(message("assistant", "t", calls))
        return at

    def end(self, call: dict[str, Any]) -> int:
        at = self.event("tool.completed", tool_call_id=call["tool_call_id"], name=call["name"], ok=True)
        self.messages.append(observation(call["tool_call_id"], call["name"], "r"))
        return at

    def snapshot(self, **more: Any) -> Snapshot:
        case = DATA / "03-running-clean"
        manifest = json.loads((case / "session.json").read_bytes())
        manifest.update(run_id="parent", task_id="t", messages=self.messages, **more)
        request = json.loads((case / "request.json").read_bytes())
        request.update(task_id="t", base_sha=BASE)
        return Snapshot(
            "parent",
            manifest=part("session.json", json.dumps(manifest).encode()),
            request=part("request.json", json.dumps(request).encode()),
            events=part("events.jsonl", b"".join(self.lines)),
        )


def roles(plan: SessionForkPlan) -> list[str]:
    items = [item for item in plan.manifest.messages if isinstance(item, dict)]
    return [str(item.get("role") or item.get("tool_call_id")) for item in items]


def test_a_batch_is_cut_where_the_point_lies() -> None:
    run = Made()
    started = run.turn(CALL, OTHER)
    one = run.end(OTHER)
    two = run.end(CALL)
    snapshot = run.snapshot()
    assert [roles(plan_at(snapshot, at))[2:] for at in (started - 1, started, one, two)] == [
        [],
        ["assistant"],
        ["assistant", "b"],
        ["assistant", "b", "a"],
    ]
    plan = plan_at(snapshot, started)
    assert [call.id for call in plan.pending] == ["a", "b"]
    assert any("2 calls have no result" in note for note in plan.notes)
    assert plan_at(snapshot, one).manifest["pending_action"] is not None
    assert plan_at(snapshot, two).manifest["pending_action"] is None
    assert plan_at(snapshot, two).manifest["usage"] == {
        "input_tokens": 5, "output_tokens": 2, "cached_input_tokens": 0, "reasoning_tokens": 0,
        "provider_total_tokens": 7,
    }  # fmt: skip


def test_what_was_said_between_turns_comes_along_once_it_was_sent() -> None:
    run = Made()
    run.turn(CALL)
    run.end(CALL)
    run.messages.append(message("user", "A reminder."))
    before = len(run.lines) - 1
    run.event("model.requested", step=2)
    snapshot = run.snapshot()
    assert roles(plan_at(snapshot, before))[-1] == "a"
    assert roles(plan_at(snapshot, before + 1))[-1] == "user"


def test_nothing_comes_along_of_a_conversation_that_was_compacted() -> None:
    run = Made()
    at = run.turn()
    run.event("context_pressure.summary_fallback_applied", retained_messages=1)
    plan = plan_at(run.snapshot(), at)
    assert plan.messages == 0
    assert any("compacted" in note for note in plan.notes)


def test_a_conversation_of_other_events_is_left_out_from_there_on() -> None:
    run = Made()
    run.turn()
    run.turn(CALL)
    run.messages[3] = message("assistant", None, [{"tool_call_id": "a", "name": "other", "arguments": {}}])
    plan = plan_at(run.snapshot(), len(run.lines) - 1)
    assert roles(plan) == ["system", "user", "assistant"]
    assert any("from model turn 2 on" in note for note in plan.notes)


def test_turns_that_the_manifest_lacks_are_said() -> None:
    run = Made()
    run.turn()
    run.turn()
    run.messages.pop()
    plan = plan_at(run.snapshot(), len(run.lines) - 1)
    assert any("1 turns up to here are not in the manifest" in note for note in plan.notes)


def test_what_later_generations_added_is_left_out_and_said() -> None:
    run = Made()
    run.messages.append({"item_type": "injected_context", "source": "git", "content": "log"})
    run.turn(CALL)
    turn = run.messages[-1]
    assert isinstance(turn, dict)
    turn["provider_metadata"] = {"signature": "x"}
    plan = plan_at(run.snapshot(), len(run.lines) - 1)
    assert b"injected_context" not in plan.manifest.encode()
    assert b"signature" not in plan.manifest.encode()
    assert sum("earlier programs refuse" in note for note in plan.notes) == 2


@pytest.mark.parametrize("what", ["out of order", "two runs", "bad line"])
def test_what_stands_before_the_point_counts(what: str) -> None:
    run = Made()
    run.turn()
    run.turn()
    lines = run.lines
    if what == "out of order":
        lines[0], lines[1] = lines[1], lines[0]
        plan = plan_at(run.snapshot(), 3)
        assert any("out of order" in note for note in plan.notes)
        return
    lines[1] = lines[1].replace(b"parent", b"other") if what == "two runs" else b"{\n"
    with pytest.raises(NoForkHere):
        plan_at(run.snapshot(), 3)


def test_a_log_behind_a_link_that_leads_away_is_no_log(tmp_path: Path) -> None:
    run = Made()
    run.turn()
    snapshot = msgspec.structs.replace(
        run.snapshot(), events=Part("events.jsonl", "link", detail="a symbolic link", target="outside")
    )
    with pytest.raises(NoForkHere, match="symbolic link"):
        plan_at(snapshot, 0)


def test_a_check_that_was_under_way_is_said() -> None:
    plan = plan_at(read_run(DATA / "05-tail-verification-started"), 20)
    assert any("the check check-1 was started" in note for note in plan.notes)
