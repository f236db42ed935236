"""The plan of a resume: what is compared, what becomes of each call, and why a run does not go on."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from refold.core.errors import CorruptJournal, EmptyJournal, FoldError, NoMeta, UnsupportedVersion
from refold.core.prices import Price
from refold.core.records import Decision, Fingerprint, Message
from refold.core.repair import JournalFile, RepairPlan
from refold.core.resume import (
    Effect,
    FingerprintRow,
    ResumeFacts,
    ResumePlan,
    ResumeRefused,
    ResumeRequest,
    plan_json,
    plan_resume,
)
from refold.core.state import Counters, PendingTurn, RunState, Terminal, ToolCall

SAVED = Fingerprint("opus", "5" * 64, "7" * 64, "off", 1000, 10, "anthropic")
CHANGED: dict[str, object] = {
    "model": "haiku",
    "system_hash": "6" * 64,
    "tools_hash": "8" * 64,
    "thinking_mode": "summarized",
    "max_tokens": 2000,
    "max_iterations": 20,
    "provider": "openai",
}
LABELS = {
    "model": "model",
    "system_hash": "system prompt",
    "tools_hash": "tool set",
    "thinking_mode": "thinking",
    "max_tokens": "max_tokens",
    "max_iterations": "max_iterations",
    "provider": "provider",
}
EFFECTS: dict[str, Effect] = {"read": "read", "again": "idempotent", "write": "write"}
REPAIR = RepairPlan(
    "complete", JournalFile("/r/run.json", 1, 2, 3), 3, 7, "", "the last record has no newline"
)


def state(**changes: Any) -> RunState:
    """Give a run that waits for its next model call."""
    plain = RunState(
        version=2,
        run_id="run",
        created="",
        fingerprint=SAVED,
        prompt="go",
        interactive=False,
        messages=(Message("user", ()),),
        counters=Counters(llm_calls=2, in_tokens=100),
        next_iteration=2,
        last_stop_reason="tool_use",
        pending=None,
        terminal=Terminal("suspended"),
        last_seq=7,
    )
    return msgspec.structs.replace(plain, **changes)


def pending(stop: str = "tool_use", *, answered: tuple[str, ...] = ("a",)) -> PendingTurn:
    names = zip("abcd", ("read", "again", "write", "odd"), strict=True)
    calls = tuple(ToolCall(call, name, {"n": call}) for call, name in names)
    return PendingTurn(Message("assistant", ()), 1, stop, (), answered, calls)


def facts(**changes: Any) -> ResumeFacts:
    plain = ResumeFacts(
        run_id="run",
        path="/r/run.json",
        native=True,
        state=state(),
        saved=SAVED,
        now=SAVED,
        effects=EFFECTS,
    )
    return msgspec.structs.replace(plain, **changes)


def codes(plan: ResumePlan) -> list[str]:
    return [reason.code for reason in plan.reasons]


def verdicts(plan: ResumePlan) -> dict[str, str]:
    return {call.id: call.verdict for call in plan.calls}


def test_what_is_coherent_is_accepted() -> None:
    plan = plan_resume(facts(), command=["refold", "resume", "run"])
    assert (plan.outcome, plan.reasons, plan.calls) == ("accept", (), ())
    assert (plan.next_iteration, plan.tokens_left, plan.iterations_left, plan.last_seq) == (2, 900, 8, 7)
    assert plan.command == ("refold", "resume", "run")
    assert plan.may_be_tried
    assert not plan.forced
    assert plan.now == SAVED


@pytest.mark.parametrize(
    ("prices", "said"),
    [
        ({"other": Price(5.0, 25.0, currency="EUR")}, "; about 0.1000 EUR"),
        ({}, '; what that costs is not known: no [prices."other"] configured'),
        (None, None),
    ],
)
def test_another_model_reads_all_of_it_anew_and_that_has_a_price(
    prices: dict[str, Price] | None, said: str | None
) -> None:
    changed = msgspec.structs.replace(SAVED, model="other")
    known = facts(now=changed, context=20_000, prices=prices)
    for request in (ResumeRequest(), ResumeRequest(force=True, reason="it is cheaper")):
        told = [note for note in plan_resume(known, request).notes if "anew" in note]
        sent = "other reads all of it anew: its next call sends at least 20,000 tokens, none of them cached"
        assert told == ([] if said is None else [f"{sent}{said}"])
    same = msgspec.structs.replace(known, now=msgspec.structs.replace(SAVED, system_hash="9" * 64))
    assert not any("anew" in note for note in plan_resume(same).notes), "the model is the same"
    first = msgspec.structs.replace(known, context=0)
    assert not any("anew" in note for note in plan_resume(first).notes), "nothing was read yet"


# the guard


@pytest.mark.parametrize("count", range(8))
def test_every_change_is_named_and_refused_and_forced_only_with_a_reason(count: int) -> None:
    for fields in itertools.combinations(CHANGED, count):
        now = msgspec.structs.replace(SAVED, **{field: CHANGED[field] for field in fields})
        plain = plan_resume(facts(now=now))
        rows = {row.field: row for row in plain.fingerprint}
        assert [row.field for row in plain.fingerprint] == list(LABELS.values())
        assert {field for field, row in rows.items() if not row.same} == {LABELS[field] for field in fields}
        assert {field for field, row in rows.items() if not row.forceable} == {"provider"}
        crossed = [LABELS[field] for field in fields if field != "provider"]
        named = [reason for reason in plain.reasons if reason.code == "fingerprint"]
        assert [reason.message.partition(":")[0] for reason in named] == crossed
        assert ("provider" in codes(plain)) == ("provider" in fields)
        assert plain.outcome == ("refuse" if fields else "accept")
        forced = plan_resume(facts(now=now), ResumeRequest(force=True, reason="known"))
        assert codes(forced) == (["provider"] if "provider" in fields else [])
        assert forced.forced == bool(crossed)
        for nothing in ("", "  \n"):
            mute = plan_resume(facts(now=now), ResumeRequest(force=True, reason=nothing))
            assert mute.outcome == "refuse"
            assert "no_reason" in codes(mute)
            assert not mute.forced


def test_values_are_shown_as_they_are_compared() -> None:
    now = msgspec.structs.replace(SAVED, model="haiku", provider="openai", max_tokens=0)
    plan = plan_resume(facts(now=now))
    rows = {row.field: row for row in plan.fingerprint}
    assert rows["model"] == FingerprintRow("model", "opus", "haiku", False, True)
    assert rows["provider"] == FingerprintRow("provider", "anthropic", "openai", False, False)
    assert [reason.message for reason in plan.reasons] == [
        "provider: anthropic -> openai; this cannot be forced",
        "model: opus -> haiku",
        "max_tokens: 1000 -> 0",
    ]


def test_where_nobody_knows_the_agent_decides() -> None:
    plan = plan_resume(facts(now=None))
    assert plan.outcome == "accept"
    assert {row.same for row in plan.fingerprint} == {None}
    assert {row.now for row in plan.fingerprint} == {None}
    assert "compares the fingerprint itself" in plan.notes[0]
    forced = plan_resume(facts(now=None), ResumeRequest(force=True, reason="so"))
    assert (forced.outcome, forced.forced) == ("accept", True)


def test_a_version_without_a_provider_compares_none() -> None:
    saved = msgspec.structs.replace(SAVED, provider=None)
    plan = plan_resume(facts(saved=saved))
    assert plan.outcome == "accept"
    assert "provider" not in [row.field for row in plan.fingerprint]
    nameless = plan_resume(facts(now=saved))
    assert codes(nameless) == ["provider"]
    assert nameless.reasons[0].message.startswith("provider: anthropic -> none")


def test_what_is_not_there_to_force_is_not_recorded_as_forced() -> None:
    plan = plan_resume(facts(), ResumeRequest(force=True, reason="to be sure"))
    assert (plan.outcome, plan.forced) == ("accept", False)


# calls


def test_each_call_by_what_its_tool_does() -> None:
    plan = plan_resume(facts(state=state(pending=pending())))
    assert verdicts(plan) == {"a": "reused", "b": "will_run", "c": "unknown", "d": "unknown"}
    assert [call.effect for call in plan.calls] == ["read", "idempotent", "write", "unknown"]
    assert (plan.outcome, codes(plan)) == ("ask", ["unknown_call", "unknown_call"])
    assert plan.reasons[0].message == "write (c): outcome unknown, it may have run without a result"
    assert not plan.may_be_tried


@pytest.mark.parametrize(
    ("decisions", "outcome", "verdict"),
    [
        ({"c": Decision("rerun"), "d": Decision("failed")}, "accept", {"c": "will_run", "d": "reused"}),
        ({"c": Decision("done", "sent"), "d": Decision("rerun")}, "accept", {"c": "reused", "d": "will_run"}),
        ({"c": Decision("failed", "gone")}, "ask", {"c": "reused", "d": "unknown"}),
        ({"b": Decision("failed")}, "ask", {"b": "reused", "c": "unknown"}),
    ],
)
def test_a_decision_settles_a_call(
    decisions: dict[str, Decision], outcome: str, verdict: dict[str, str]
) -> None:
    plan = plan_resume(facts(state=state(pending=pending())), ResumeRequest(decisions=decisions))
    assert plan.outcome == outcome
    assert verdict.items() <= verdicts(plan).items()
    assert {call.id: call.decision for call in plan.calls if call.decision} == decisions


@pytest.mark.parametrize(
    ("call", "decision", "said"),
    [
        ("x", Decision("rerun"), "no call 'x' in the open turn"),
        ("a", Decision("rerun"), "'a': has its result already"),
        ("c", Decision("maybe"), "'c': choose one of rerun, failed, done"),
        ("c", Decision("done"), "'c': done needs the result as text"),
    ],
)
def test_a_decision_that_cannot_be_is_refused(call: str, decision: Decision, said: str) -> None:
    plan = plan_resume(facts(state=state(pending=pending())), ResumeRequest(decisions={call: decision}))
    assert plan.outcome == "refuse"
    assert ("bad_decision", said) in [(reason.code, reason.message) for reason in plan.reasons]


def test_a_call_can_be_decided_by_its_number() -> None:
    done = Decision("done", "sent")
    request = ResumeRequest(decisions={"#3": done, "d": Decision("failed")})
    plan = plan_resume(facts(state=state(pending=pending())), request)
    assert plan.outcome == "accept"
    assert plan.request.decisions == {"d": Decision("failed"), "c": done}
    alike = ResumeRequest(decisions={"#3": done, "c": done})
    assert plan_resume(facts(state=state(pending=pending())), alike).request.decisions == {"c": done}


@pytest.mark.parametrize(
    ("decisions", "said"),
    [
        ({"#3": Decision("rerun"), "c": Decision("failed")}, "call #3 is decided twice, and not alike"),
        ({"#5": Decision("rerun")}, "no call '#5' in the open turn"),
        ({"#0": Decision("rerun")}, "no call '#0' in the open turn"),
        ({"#1": Decision("rerun")}, "'a': has its result already"),
    ],
)
def test_a_number_that_names_no_open_call_is_refused(decisions: dict[str, Decision], said: str) -> None:
    plan = plan_resume(facts(state=state(pending=pending())), ResumeRequest(decisions=decisions))
    assert plan.outcome == "refuse"
    assert ("bad_decision", said) in [(reason.code, reason.message) for reason in plan.reasons]


def test_an_id_that_looks_like_a_number_is_an_id() -> None:
    calls = tuple(ToolCall(call, "write", {}) for call in ("#2", "b"))
    turn = PendingTurn(Message("assistant", ()), 1, "tool_use", (), (), calls)
    request = ResumeRequest(decisions={"#2": Decision("rerun")})
    plan = plan_resume(facts(state=state(pending=turn)), request)
    assert [call.decision for call in plan.calls] == [Decision("rerun"), None]


def test_a_decision_without_an_open_turn_is_refused() -> None:
    plan = plan_resume(facts(), ResumeRequest(decisions={"c": Decision("rerun")}))
    assert codes(plan) == ["bad_decision"]


@pytest.mark.parametrize(
    ("stop", "stopped", "said"),
    [
        ("max_tokens", "error", "the reply was cut off"),
        ("refusal", "error", "the model refused"),
        ("max_tokens", "", "the reply was cut off"),
        ("tool_use", "budget", "the token budget was used up"),
        ("tool_use", "max_iterations", "the limit of turns was reached"),
    ],
)
def test_what_a_stop_withheld_waits_to_be_told(stop: str, stopped: str, said: str) -> None:
    open_turn = state(pending=pending(stop))
    plan = plan_resume(facts(state=open_turn, stopped=stopped))
    assert verdicts(plan) == {"a": "reused", "b": "withheld", "c": "withheld", "d": "withheld"}
    assert codes(plan) == ["withheld"] * 3
    assert said in plan.reasons[0].message
    told = ResumeRequest(decisions={call: Decision("rerun") for call in "bcd"})
    assert plan_resume(facts(state=open_turn, stopped=stopped), told).outcome == "accept"


@pytest.mark.parametrize("stopped", ["suspended", "error", "cancelled", ""])
def test_other_stops_withhold_nothing(stopped: str) -> None:
    plan = plan_resume(facts(state=state(pending=pending()), stopped=stopped))
    assert verdicts(plan)["b"] == "will_run"


# what leads nowhere


def test_a_completed_run_is_not_resumed() -> None:
    plan = plan_resume(facts(state=state(terminal=Terminal("completed"))), command=["x"])
    assert (codes(plan), plan.command) == (["completed"], None)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnsupportedVersion(9, 2), "newer"),
        (EmptyJournal(), "empty"),
        (NoMeta(), "corrupt"),
        (CorruptJournal("line 3: x", line=3), "corrupt"),
    ],
)
def test_what_does_not_fold_is_not_resumed(error: FoldError, code: str) -> None:
    plan = plan_resume(facts(state=None, error=error))
    assert codes(plan) == [code]
    assert (plan.next_iteration, plan.last_seq, plan.calls) == (0, 0, ())


def reply(stop: str, **changes: Any) -> RunState:
    said = (Message("user", ()), Message("assistant", ()))
    return state(messages=said, last_stop_reason=stop, **changes)


@pytest.mark.parametrize("stop", ["refusal", "max_tokens"])
def test_a_conversation_that_ends_on_a_reply_is_not_sent(stop: str) -> None:
    plan = plan_resume(facts(state=reply(stop), stopped="error"))
    assert codes(plan) == ["ended"]
    assert "fork it with a new prompt" in plan.reasons[0].message
    assert plan_resume(facts(state=reply(stop, interactive=True))).outcome == "accept"


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"state": reply("end_turn")}, "only the record of its end is missing, and will be added"),
        ({"state": reply("end_turn"), "native": False}, "the agent may ask once more"),
        ({"state": reply("end_turn", interactive=True)}, "the run reopens where you speak"),
        ({"state": reply("pause_turn")}, "paused by the provider"),
        ({"state": state(run_id="other")}, "its file was renamed"),
        ({"stopped": "budget", "now": None}, "unchanged limits stop it again"),
    ],
)
def test_what_the_reader_should_know(changes: Mapping[str, Any], note: str) -> None:
    plan = plan_resume(facts(**changes))
    assert plan.outcome == "accept"
    assert any(note in said for said in plan.notes)


def test_used_up_limits_need_new_ones() -> None:
    spent = state(counters=Counters(in_tokens=1000), next_iteration=10)
    assert codes(plan_resume(facts(state=spent))) == ["budget"]
    worn = state(next_iteration=10)
    assert codes(plan_resume(facts(state=worn))) == ["max_iterations"]
    assert plan_resume(facts(state=msgspec.structs.replace(worn, interactive=True))).outcome == "accept"
    more = msgspec.structs.replace(SAVED, max_tokens=0, max_iterations=20)
    forced = plan_resume(facts(state=spent, now=more), ResumeRequest(force=True, reason="more"))
    assert (forced.outcome, forced.tokens_left, forced.iterations_left) == ("accept", None, 10)
    # What only lacks the record of its end, or has calls to answer, needs no model call.
    done = msgspec.structs.replace(spent, messages=(Message("assistant", ()),), last_stop_reason="end_turn")
    assert plan_resume(facts(state=done)).outcome == "accept"
    assert codes(plan_resume(facts(state=msgspec.structs.replace(done, interactive=True)))) == ["budget"]
    open_turn = msgspec.structs.replace(spent, pending=pending())
    assert codes(plan_resume(facts(state=open_turn))) == ["unknown_call", "unknown_call"]


def test_another_tool_is_not_started_with_the_id_of_a_renamed_run() -> None:
    plan = plan_resume(facts(native=False, state=state(run_id="other")))
    assert codes(plan) == ["renamed"]


def test_what_holds_or_cannot_be_started_is_said() -> None:
    plan = plan_resume(facts(holder="process 7 (fisk-ai run)", problem="fisk-ai is not installed"))
    assert codes(plan) == ["locked", "no_agent"]
    assert not any("the agent compares" in note for note in plan.notes)
    assert plan.reasons[0].message == "held by process 7 (fisk-ai run): look at it read-only, or fork it"


def test_a_torn_end_and_an_unknown_lock_are_asked() -> None:
    plan = plan_resume(facts(repair=REPAIR, lock_known=False))
    assert (plan.outcome, codes(plan)) == ("ask", ["torn_tail", "lock_unsure"])
    agreed = plan_resume(facts(repair=REPAIR, lock_known=False), ResumeRequest(repair=True))
    assert (codes(agreed), agreed.may_be_tried) == (["lock_unsure"], True)
    assert agreed.repair == REPAIR


def test_a_refusal_carries_its_plan() -> None:
    plan = plan_resume(facts(state=state(terminal=Terminal("completed"))))
    error = ResumeRefused(plan)
    assert error.plan is plan
    assert str(error) == "run: not resumed: the run is completed: fork it to go on from some point"
    assert "--plan" in error.remedy
    asked = ResumeRefused(plan_resume(facts(repair=REPAIR)))
    assert asked.remedy == "answer what is asked"


def test_the_plan_as_json() -> None:
    plan = plan_resume(facts(state=state(pending=pending()), repair=REPAIR), command=("refold", "resume"))
    said = json.loads(json.dumps(plan_json(plan)))
    assert list(said) == [
        *("run", "path", "outcome", "reasons", "fingerprint", "calls", "next_iteration", "tokens_left"),
        *("iterations_left", "forced", "notes", "command"),
    ]
    assert said["outcome"] == "ask"
    assert said["command"] == ["refold", "resume"]
    assert said["calls"][2] == {"id": "c", "name": "write", "effect": "write", "verdict": "unknown"}
    assert said["fingerprint"][0] == {
        "field": "model",
        "saved": "opus",
        "now": "opus",
        "same": True,
        "forceable": True,
    }
    assert set(said["reasons"][0]) == {"code", "message"}
