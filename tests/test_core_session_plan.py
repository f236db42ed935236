"""Claims of made-up runs: whatever was going on when the writer died, a decided claim ends in a clean run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rivumi_cases import BASE

from refold.core.records import Decision, Json
from refold.core.rivumi.claim import ClaimPlan, OpenCall, SessionUndecided, Step, plan_claim
from refold.core.rivumi.draft import SessionManifest
from refold.core.rivumi.items import approval_request, message, observation
from refold.core.rivumi.snapshot import Part, Snapshot, Workspace
from refold.core.rivumi.task import Check, Task
from refold.core.rivumi.verdict import verdict
from refold.core.store.session_run import Session

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TASK = Task(repository="/r", instruction="do", base_sha=BASE, checks=(Check("t", ("true",)),), task_id="t")
CREATED = SessionManifest.new(
    run_id="run", task_id="t", provider="p", model="m", protocol="scripted", base_sha=BASE
).claimed("a" * 32, NOW)

Action: TypeAlias = tuple[str, str, str]
"""What the agent does next, to which call, with which effect."""

DOING = ("ask", "ask", "start", "start", "end", "end", "unseen", "wait", "allow", "deny", "hook", "check")
_AFTER: Mapping[str, frozenset[str]] = {
    "ask": frozenset({"over"}),
    "start": frozenset({"asked", "allowed"}),
    "end": frozenset({"started"}),
    "unseen": frozenset({"started"}),
    "wait": frozenset({"asked"}),
    "allow": frozenset({"waits"}),
    "deny": frozenset({"waits"}),
}
_LEADS_TO = {
    "ask": "asked", "start": "started", "end": "over", "unseen": "over", "wait": "waits", "allow": "allowed",
    "deny": "over",
}  # fmt: skip
ACTIONS = st.lists(
    st.tuples(st.sampled_from(DOING), st.sampled_from(["a", "b"]), st.sampled_from(["read", "modify"])),
    max_size=14,
)
CHOICES = st.sampled_from([Decision("rerun"), Decision("failed"), Decision("done", "it is done")])


class World:
    """A run that exists in memory only, written in the order of the writer."""

    def __init__(self) -> None:
        self.manifest = CREATED
        self.lines: list[bytes] = []
        self.calls: dict[str, str] = {}
        """How far the call of each id is."""
        self.emit(Step("run.created", {"base_sha": BASE}, state={"phase": "running"}))

    def emit(self, step: Step, then: Mapping[str, Json] | None = None) -> None:
        plan = ClaimPlan((step,), (), len(self.lines) - 1, 0)
        ((self.manifest, line),) = Session.prepared(self.manifest, plan, NOW)
        self.lines.append(line)
        self.manifest = self.manifest.changed(then or {})

    def act(self, action: Action) -> None:
        """Do one thing of an agent, where it makes sense now."""
        doing, call, effect = action
        if doing in _AFTER and self.calls.get(call, "over") not in _AFTER[doing]:
            return
        if doing == "wait" and self.manifest["pending_action"] is not None:
            return
        self.calls[call] = _LEADS_TO.get(doing, self.calls.get(call, "over"))
        what: dict[str, Json] = {"tool_call_id": call, "name": "tool", "effect": effect}
        made: dict[str, Json] = {"tool_call_id": call, "name": "tool", "arguments": {}}
        match doing:
            case "ask":
                self.emit(Step("model.completed", {}, (message("assistant", None, [made]),)))
                self.emit(Step("tool.requested", what))
            case "start":
                self.start(call, what)
            case "end":
                told = (observation(call, "tool", "x"),)
                self.emit(Step("tool.completed", {**what, "ok": True, "preview": "x"}, told))
            case "unseen":
                self.emit(Step("tool.completed", {**what, "ok": False, "error": "no"}))
            case "wait":
                request = approval_request("run", "modify", call=made)
                said = {name: request[name] for name in ("request_id", "action_id", "effect", "reason")}
                asking: dict[str, Json] = {"phase": "waiting_approval", "pending_action": request}
                self.emit(Step("approval.requested", said, state=asking))
            case "allow":
                said = {"action_id": call, "effect": effect, "decision": "allow_once"}
                self.emit(Step("approval.resolved", said, state={"phase": "running"}))
            case "deny":
                said = {"action_id": call, "effect": effect, "decision": "deny"}
                over: dict[str, Json] = {"phase": "running", "pending_action": None}
                self.emit(Step("approval.resolved", said, (observation(call, "tool", error="no"),), over))
            case "check":
                self.emit(Step("verification.started", {"name": "t", "argv": ["true"]}))
                if effect == "read":
                    self.check_ended()
            case _:
                self.emit(Step("hook.completed", {}))

    def start(self, call: str, what: dict[str, Json]) -> None:
        pending = self.manifest["pending_action"]
        cleared = isinstance(pending, dict) and pending["action_id"] == call
        self.emit(Step("tool.started", what), {"pending_action": None} if cleared else None)

    def check_ended(self) -> None:
        self.emit(Step("verification.completed", {"name": "t", "argv": ["true"], "ok": True}))

    def snapshot(self, lost: int = 0) -> Snapshot:
        """What a reader finds; of the last lines so many were not written."""
        log = b"".join(self.lines[: len(self.lines) - lost])
        manifest, request = self.manifest.encode(), TASK.request()
        return Snapshot(
            "run",
            Part("session.json", "read", manifest, len(manifest)),
            Part("request.json", "read", request, len(request)),
            Part("events.jsonl", "read", log, len(log)),
            workspace=Workspace("git", BASE),
            lock="file",
        )


def _planned(snapshot: Snapshot, choices: Sequence[Decision]) -> ClaimPlan:
    """Plan a claim, with whatever has to be decided decided in turn."""
    try:
        return plan_claim(snapshot, {})
    except SessionUndecided as undecided:
        decided = {call.id: choices[at % len(choices)] for at, call in enumerate(undecided.calls)}
    return plan_claim(snapshot, decided)


def _run_again(world: World, calls: Sequence[OpenCall]) -> None:
    """Do what an agent does with the calls that it is told to run again."""
    for call in calls:
        if call.id.startswith("verification:"):
            world.emit(Step("verification.started", {"name": "t", "argv": ["true"]}))
            world.check_ended()
        else:
            world.calls[call.id] = "asked"
            world.act(("start", call.id, "modify"))
            world.act(("end", call.id, "modify"))


def _claimed(world: World, lost: int, plan: ClaimPlan) -> World:
    del world.lines[len(world.lines) - lost :]
    for manifest, line in Session.prepared(world.manifest, plan, NOW):
        world.manifest = manifest
        world.lines.append(line)
    return world


def _unanswered(manifest: SessionManifest) -> Counter[str]:
    """Calls minus results, by id."""
    count: Counter[str] = Counter()
    for item in manifest.messages:
        if isinstance(item, dict):
            calls = item.get("tool_calls")
            for call in calls if isinstance(calls, list) else ():
                assert isinstance(call, dict)
                count[str(call["tool_call_id"])] += 1
            if "ok" in item:
                count[str(item["tool_call_id"])] -= 1
    return count


@given(ACTIONS, st.lists(CHOICES, min_size=1, max_size=3), st.booleans())
@settings(max_examples=150, deadline=None)
def test_a_decided_claim_ends_in_a_clean_run(
    actions: list[Action], choices: list[Decision], cut: bool
) -> None:
    world = World()
    for action in actions:
        world.act(action)
    lost = int(cut)
    snapshot = world.snapshot(lost)
    found = verdict(snapshot)
    assert found.outcome in {"accept", "ask"}
    assert found.original.code in {"ok", "in_flight_side_effect"}
    plan = _planned(snapshot, choices)
    assert bool(plan.repaired) == cut
    world = _claimed(world, lost, plan)
    _run_again(world, plan.rerun)
    after = verdict(world.snapshot())
    assert (after.outcome, after.ours.reasons) == ("accept", ())
    assert plan_claim(world.snapshot(), {}).rerun == ()


@given(ACTIONS, st.lists(CHOICES, min_size=1, max_size=3), st.booleans(), st.integers(0, 5))
@settings(max_examples=150, deadline=None)
def test_a_claim_that_dies_between_manifest_and_line_is_made_again(
    actions: list[Action], choices: list[Decision], cut: bool, dies_at: int
) -> None:
    world = World()
    for action in actions:
        world.act(action)
    lost = int(cut)
    plan = _planned(world.snapshot(lost), choices)
    whole = len(plan.steps)
    plan = msgspec.structs.replace(plan, steps=plan.steps[: dies_at % whole + 1])
    world = _claimed(world, lost, plan)
    # The manifest of the last step is there, its line is not.
    snapshot = world.snapshot(1)
    assert verdict(snapshot).outcome in {"accept", "ask"}
    again = _planned(snapshot, choices)
    world = _claimed(world, 1, again)
    _run_again(world, again.rerun)
    assert verdict(world.snapshot()).outcome == "accept"
    # No result is told twice: providers refuse a conversation with a result that answers no call.
    assert min(_unanswered(world.manifest).values(), default=0) >= 0
