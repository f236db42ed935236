"""What events prove: calls folded by their id, checks, approvals, tokens, and what the manifest says else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rivumi_cases import CASES, DATA, canonical

from refold.core.rivumi.calls import CallLife
from refold.core.rivumi.events import Event, read_log
from refold.core.rivumi.events_state import EventsState, differences, events_state
from refold.core.rivumi.kinds import KNOWN
from refold.core.rivumi.manifest import Tokens, read_manifest
from refold.core.rivumi.state_json import calls_json, run_json
from refold.core.rivumi.told import told

DIFFER = {
    "02-manifest-only-no-events": ["last_sequence"],
    "06-manifest-ahead-one": ["last_sequence"],
    "08-tail-tool-completed-dangling": ["calls"],
    "09-manifest-behind-one": ["last_sequence"],
    "11-manifest-ahead-two": ["last_sequence"],
    "15-terminal-flag-no-run-event": ["phase"],
    "22-torn-tail": ["last_sequence", "step"],
    "24-invalid-json-interior": ["tokens"],
    "36-event-catalog": ["provider", "model", "phase", "step", "pending_action"],
}
"""The rest of the cases: events and manifest agree in every field."""


def case_state(case: str) -> EventsState:
    path = DATA / case / "events.jsonl"
    return events_state(read_log(path.read_bytes() if path.exists() else b"").events)


def fold(*events: tuple[str, dict[str, Any]]) -> EventsState:
    return events_state(
        Event(at, kind, at + 1, 0, 0, run_id="r", data=data) for at, (kind, data) in enumerate(events)
    )


def call(name: str, **data: object) -> dict[str, Any]:
    return {"tool_call_id": name, "name": "replace_text", "effect": "modify", **data}


def states(state: EventsState) -> list[tuple[str, str]]:
    return [(one.id, one.state) for one in state.calls]


@pytest.mark.parametrize("case", [case for case in CASES if case != "37-external-cli-run"])
def test_events_and_manifest_agree_but_where_a_fixture_was_damaged(case: str) -> None:
    manifest = read_manifest((DATA / case / "session.json").read_bytes())
    found = differences(case_state(case), manifest)
    assert [one.field for one in found] == DIFFER.get(case, [])
    assert all(one.text for one in found)


def test_the_life_of_a_call() -> None:
    state = case_state("12-terminal-completed")
    assert states(state) == [
        ("call_read_1", "completed"),
        ("call_edit_1", "completed"),
        ("verification:check-1", "completed"),
    ]
    edit = state.calls[1]
    assert edit == CallLife(
        "call_edit_1",
        "replace_text",
        "modify",
        {"new_text": "a + b", "old_text": "a - b", "path": "calc.py"},
        requested=11,
        asked=12,
        decided=13,
        decision="allow_once",
        started=14,
        ended=15,
        ok=True,
    )
    assert (state.checks[0].ok, state.checks[0].exit_code) == (True, 0)
    assert (state.phase, state.terminal_reason, state.step) == ("completed", "verified", 3)
    assert state.tokens == Tokens(3006, 120, 300, 15, 3126)


def test_an_open_call_is_not_hidden_by_what_follows() -> None:
    state = fold(
        ("tool.requested", call("a")),
        ("tool.requested", call("b", effect="read")),
        ("tool.batch_started", {"tool_call_ids": ["a", "b"]}),
        ("tool.started", call("a")),
        ("tool.started", call("b", effect="read")),
        ("hook.completed", {"hook_event": "x"}),
        ("tool.completed", call("b", ok=True)),
        ("model.requested", {"step": 2}),
    )
    assert states(state) == [("a", "started"), ("b", "completed")]
    assert [one.id for one in state.open_calls] == ["a"]
    assert state.open_calls[0].uncertain


def test_an_id_that_comes_again_is_another_life() -> None:
    state = fold(
        ("tool.requested", call("a")),
        ("tool.started", call("a")),
        ("session.resumed", {}),
        ("tool.requested", call("a")),
        ("tool.started", call("a")),
        ("tool.completed", call("a", ok=False, error="no")),
        ("tool.completed", call("a", ok=True)),
        ("tool.started", call("a")),
    )
    assert [one.state for one in state.calls] == ["started", "failed", "completed", "started"]
    assert state.calls[1].error == "no"
    assert state.resumes == 1


@pytest.mark.parametrize(
    ("decision", "state"),
    [("deny", "denied"), ("cancel", "cancelled"), ("allow_once", "approved"), ("", "approved")],
)
def test_what_was_decided(decision: str, state: str) -> None:
    asked = {"request_id": "q", "action_id": "a", "effect": "modify"}
    made = fold(
        ("tool.requested", {"tool_call_id": "a", "name": "n"}),
        ("approval.requested", asked),
        ("approval.resolved", {**asked, "decision": decision}),
    )
    assert states(made) == [("a", state)]
    assert made.calls[0].effect == "modify"
    assert (made.waiting is not None) == (state == "approved")


def test_an_approval_that_is_abandoned_reused_or_out_of_nothing() -> None:
    asked: dict[str, Any] = {"request_id": "q", "action_id": "verification:c", "effect": "execute"}
    state = fold(
        ("approval.requested", asked),
        ("approval.abandoned", asked),
        ("approval.requested", {**asked, "request_id": "q2"}),
        ("approval.reused", {**asked, "request_id": "q3"}),
        ("verification.started", {"name": "c"}),
    )
    assert states(state) == [("verification:c", "abandoned"), ("verification:c", "started")]
    assert [(one.request_id, one.decision) for one in state.approvals] == [
        ("q", "abandoned"),
        ("q2", ""),
        ("q3", "reused"),
    ]
    assert state.calls[1].decision == "reused"
    assert states(fold(("approval.resolved", {**asked, "decision": "deny"}))) == [
        ("verification:c", "denied")
    ]


def test_checks_that_ran_were_reused_or_never_started() -> None:
    state = fold(
        ("verification.started", {"name": "one"}),
        ("verification.completed", {"name": "one", "ok": False, "exit_code": 1}),
        ("verification.completed", {"name": "two", "ok": False, "error": "denied"}),
        ("verification.reused", {"name": "three", "ok": True, "exit_code": 0}),
    )
    assert [(one.name, one.state, one.exit_code) for one in state.checks] == [
        ("one", "failed", 1),
        ("two", "failed", None),
        ("three", "completed", 0),
    ]


def test_a_nested_transaction_is_a_call_of_its_own_unless_the_call_is_open() -> None:
    began, done = {"id": "s", "tool_call_id": "t"}, {"id": "s", "tool_call_id": "t", "ok": True}
    alone = fold(("subagents.transaction_started", began))
    assert alone.open_calls[0].uncertain
    assert alone.open_calls[0].name == "tool_transaction"
    ended = fold(("subagents.transaction_started", began), ("subagents.transaction_completed", done))
    assert states(ended) == [("t", "completed")]
    inside = fold(
        ("tool.started", call("t")),
        ("subagents.transaction_started", began),
        ("subagents.transaction_completed", done),
    )
    assert states(inside) == [("t", "started")]
    assert states(fold(("subagents.transaction_completed", done))) == []


def test_phases() -> None:
    assert fold().phase == "created"
    assert fold(("run.created", {})).phase == "created"
    assert fold(("run.created", {}), ("workspace.prepared", {})).phase == "running"
    asked = {"request_id": "q", "action_id": "a"}
    assert fold(("approval.requested", asked)).phase == "waiting_approval"
    assert fold(("approval.requested", asked), ("approval.resolved", asked)).phase == "running"
    ended = fold(("run.failed", {"terminal_reason": "max_steps_exceeded"}), ("run.error", {}))
    assert (ended.phase, ended.terminal_reason) == ("failed", "max_steps_exceeded")
    again = fold(("run.completed", {"terminal_reason": "verified"}), ("session.continued", {"model": "m"}))
    assert (again.phase, again.terminal_reason, again.model) == ("running", "", "m")


def test_every_prefix_of_the_catalogue_folds_and_is_told() -> None:
    events = read_log((DATA / "36-event-catalog" / "events.jsonl").read_bytes()).events
    for at, event in enumerate(events):
        state = events_state(events[: at + 1])
        assert state.last_sequence == event.sequence
        assert state.tail == event.event_type
        text = told(event)
        assert text or event.event_type == "loop.wind_down_failed"
        json.dumps(run_json("r", state, None))


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        ("tool.completed", {"name": "n", "ok": False, "error": "no such file"}, "n · failed · no such file"),
        ("verification.completed", {"name": "c", "ok": True, "exit_code": 0}, "c · ok · exit 0"),
        ("verification.completed", {"name": "c", "duration_seconds": 0.44}, "c · 0.4s"),
        ("approval.resolved", {"action_id": "a", "decision": "deny", "policy_reason": "p"}, "deny · a · p"),
        ("run.failed", {"terminal_reason": "no", "changed_files": ["x"]}, "no · changed x"),
        ("zzz.new", {"deep": [1]}, '{"deep":[1]}'),
        ("zzz.new", {"reason": "why"}, "why"),
        ("zzz.new", {}, ""),
        ("model.completed", {"content": "hi"}, "hi"),
    ],
)
def test_told(kind: str, data: dict[str, Any], words: str) -> None:
    assert told(Event(0, kind, 1, 0, 0, data=data)) == words


def test_what_an_external_program_said_is_told() -> None:
    events = read_log((DATA / "37-external-cli-run" / "events.jsonl").read_bytes()).events
    assert told(events[1]) == "Edited calc.py"
    assert all(not event.extra and not event.odd for event in events)


def test_json_writes_every_key_out() -> None:
    state = case_state("16-pending-approval")
    manifest = read_manifest((DATA / "16-pending-approval" / "session.json").read_bytes())
    made = json.loads(json.dumps(run_json("16-pending-approval", state, manifest)))
    assert made["generation"] == "G3"
    assert made["events"]["approvals"][-1] == {
        "request_id": "0e9c8c80f39e41488e4d050c79bf7d6a",
        "action_id": "call_edit_1",
        "effect": "modify",
        "asked": 12,
        "decision": None,
        "decided": None,
    }
    assert made["events"]["tokens"] == {
        "input": 2003,
        "output": 80,
        "cached": 200,
        "reasoning": 10,
        "total": 2083,
    }
    assert made["differences"] == []
    assert run_json("n", fold(("run.created", {})), None)["run_id"] == "r"
    assert run_json("n", fold(), None)["run_id"] == "n"
    moved = read_manifest(canonical({**manifest.raw, "step": 9, "pending_action": None, "run_id": "o"}))
    fields = [one.field for one in differences(state, moved)]
    assert fields == ["run_id", "step", "pending_action"]
    assert run_json("n", state, moved, compare=False)["differences"] == []
    assert calls_json(state)[-1] == {
        "id": "call_edit_1",
        "name": "replace_text",
        "effect": "modify",
        "state": "asked",
        "requested": 11,
        "started": None,
        "arguments": {"new_text": "a + b", "old_text": "a - b", "path": "calc.py"},
        "asked": 12,
        "decision": None,
        "decided": None,
        "ended": None,
        "ok": None,
        "error": None,
    }


IDS = st.sampled_from(["a", "b", "verification:c"])
EVENTS = st.tuples(
    st.sampled_from([*(kind for kind in sorted(KNOWN) if kind.split(".")[0] in {"tool", "approval"}), "x"]),
    st.fixed_dictionaries(
        {},
        optional={
            "tool_call_id": IDS,
            "action_id": IDS,
            "request_id": IDS,
            "ok": st.booleans(),
            "effect": st.sampled_from(["read", "modify", ""]),
            "decision": st.sampled_from(["deny", "allow_once", "zzz"]),
            "name": st.none() | st.integers() | st.text(max_size=3),
        },
    ),
)


@given(st.lists(EVENTS, max_size=25))
def test_a_start_without_an_end_stays_open_whatever_follows(events: list[tuple[str, dict[str, Any]]]) -> None:
    started: dict[str, int] = {}
    for kind, data in events:
        name = data.get("tool_call_id", "")
        if kind == "tool.started":
            started[name] = started.get(name, 0) + 1
        elif kind == "tool.completed" and started.get(name):
            started[name] -= 1
    made = fold(*events)
    json.dumps(calls_json(made))
    open_ids = [one.id for one in made.open_calls]
    for name, count in started.items():
        # An end closes the latest start of its id, and nothing else does.
        assert open_ids.count(name) >= min(count, 1)


def test_who_wrote_a_run_without_a_manifest_and_how_it_ended() -> None:
    outside = events_state(read_log((DATA / "37-external-cli-run" / "events.jsonl").read_bytes()).events)
    assert outside.phase == "completed"
    assert run_json("r", outside, None)["generation"] == "external"
    inside = events_state(read_log((DATA / "03-running-clean" / "events.jsonl").read_bytes()).events)
    assert run_json("r", inside, None)["generation"] is None
    own = Event(1, "result", 2, 0, 0, run_id="r", data={"status": "failed"})
    assert events_state([own]).phase == "running"
    odd = Event(1, "result", 2, 0, 0, data={"status": "perhaps"})
    assert events_state([odd]).phase == "running"
