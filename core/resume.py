"""What a resume would do, decided from what was read: nothing here touches a disk.

The plan is a value. The dialog and `refold resume --plan` print it; only a plan whose outcome is accept is
ever carried out (design/contracts.md "JSON of the command line", "Effects and verdicts of calls").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from refold.core.barred import WITHHOLDS, barred_by, ends_on_reply
from refold.core.decisions import CHOICES, by_id
from refold.core.errors import EmptyJournal, FoldError, Refused, UnsupportedVersion
from refold.core.fingerprint import differences, provider_refuses
from refold.core.in_parent import InParent
from refold.core.keeping import NOTHING, Kept
from refold.core.prices import Price, Spent, amount, bill
from refold.core.records import Decision, Fingerprint, Json
from refold.core.repair import RepairPlan
from refold.core.state import RunState

Effect: TypeAlias = Literal["read", "idempotent", "write", "unknown"]
"""What a tool does to the world; unknown is treated as write."""

Verdict: TypeAlias = Literal["reused", "will_run", "unknown", "withheld"]
"""What a resume does with a call of the open turn."""

Answer: TypeAlias = Literal["accept", "ask", "refuse"]
"""Whether a plan can be carried out as it is, needs an answer first, or cannot be."""

_FIELDS: Final = (
    ("model", "model"),
    ("system_hash", "system prompt"),
    ("tools_hash", "tool set"),
    ("thinking_mode", "thinking"),
    ("max_tokens", "max_tokens"),
    ("max_iterations", "max_iterations"),
    ("provider", "provider"),
)
_STOPS: Final = {
    "budget": "the token budget was used up",
    "max_iterations": "the limit of turns was reached",
}
_BEGIN_IT: Final = "begin it, if it is ours: refold run AGENT PROMPT --name ID"


UNNAMED: Final = "which agent it runs is not known: name it with --agent package.module:factory"
"""Why a native run has no agent, where nobody has said yet which it is."""


class FingerprintRow(msgspec.Struct, frozen=True):
    """One field of the fingerprint, then and now."""

    field: str
    saved: str
    now: str | None
    """None where nobody here can say."""
    same: bool | None
    forceable: bool
    """False for the provider: a change of it is never crossed."""


class TwoAnswers(msgspec.Struct, frozen=True):
    """Of a run directory: what its own program answers, and what we do; the stricter decides."""

    ok: bool | None
    """What its own program answers; None where that cannot be foretold."""
    code: str
    """The rule (formats/rivumi.md 10)."""
    ours: Answer


class PlannedCall(msgspec.Struct, frozen=True):
    """One call of the open turn and what becomes of it."""

    id: str
    name: str
    effect: Effect
    verdict: Verdict
    input: Json = None
    decision: Decision | None = None
    why: str = ""
    """What the verdict rests on, where that is not the journal."""
    not_here: bool = False
    """It did not run in this run, a fork that nobody has gone on with."""


class Reason(msgspec.Struct, frozen=True):
    """Why a plan is not accepted, or what was decided to accept it."""

    code: str
    message: str


class ResumeRefused(Refused):
    """A plan that is not accepted was to be carried out; nothing was written."""

    def __init__(self, plan: ResumePlan) -> None:
        super().__init__(
            f"{plan.run_id}: not resumed: {'; '.join(reason.message for reason in plan.reasons)}",
            remedy="see the whole plan with --plan" if plan.outcome == "refuse" else "answer what is asked",
        )
        self.plan = plan


class ResumeFacts(msgspec.Struct, frozen=True):
    """What was read of a run, and what its agent says today."""

    run_id: str
    path: str
    native: bool
    """It is in our own format: records of ours can stand in it, and no other program resumes it."""
    state: RunState | None
    """None where the run does not fold; then `error` says why. Of its messages the last one is enough."""
    error: FoldError | None = None
    saved: Fingerprint = Fingerprint()
    """The one to compare with: of the last resume where one is recorded, else of the meta record."""
    now: Fingerprint | None = None
    """None where nothing here can tell: then the agent checks for itself."""
    effects: Mapping[str, Effect] = {}
    """Tool names to what they do; a name that is missing is unknown."""
    holder: str = ""
    """Who holds the run, as a phrase; empty where no holder is seen."""
    lock_known: bool = True
    """False where the file system cannot say who holds a run."""
    repair: RepairPlan | None = None
    """What must be done to the end of the file first."""
    stopped: str = ""
    """The reason of the last terminal record, if nothing follows it."""
    problem: str = ""
    """Why the agent that would go on cannot be started; empty where it can."""
    left_out: tuple[str, ...] = ()
    """What the salvage that made the run could not take, a line each."""
    kept: Kept = NOTHING
    """What is noted about it: of whom it is a fork, where its format has no place for that."""
    in_parent: InParent | None = None
    """Of a fork that nobody has gone on with: its open calls did not run in it."""
    context: int = 0
    """Tokens of the last turn, read and written: what the next call sends at least; 0 before the first."""
    prices: Mapping[str, Price] | None = None
    """What the user says that tokens cost; None where nobody asks."""


class ResumeRequest(msgspec.Struct, frozen=True):
    """What the person who resumes asks for."""

    force: bool = False
    reason: str = ""
    """Why the fingerprint is to be crossed; recorded."""
    decisions: Mapping[str, Decision] = {}
    """What was decided about calls, by their ids; `#2` stands for the second one of the open turn."""
    repair: bool = False
    """Agreed to the repair of the end of the file."""


class ResumePlan(msgspec.Struct, frozen=True):
    """What a resume would do."""

    run_id: str
    path: str
    native: bool
    outcome: Answer
    reasons: tuple[Reason, ...]
    """What stands in the way, most severe first; empty for accept."""
    fingerprint: tuple[FingerprintRow, ...]
    now: Fingerprint | None
    """What would run; None where nobody here can say."""
    calls: tuple[PlannedCall, ...]
    """The calls of the open turn in the order the model asked for them."""
    next_iteration: int
    tokens_left: int | None
    """Of the budget; None where there is none."""
    iterations_left: int | None
    last_seq: int
    """The run must still end here when the plan is carried out."""
    interactive: bool
    """The run is a conversation: it reopens where the user speaks."""
    request: ResumeRequest
    forced: bool
    """The fingerprint differs and force goes past it."""
    repair: RepairPlan | None
    command: tuple[str, ...] | None = None
    """The argument list that does it; None where there is none."""
    notes: tuple[str, ...] = ()
    """What the reader should know although it stands in nobody's way."""
    answers: TwoAnswers | None = None
    """Of a run directory only."""

    @property
    def refused_for_good(self) -> bool:
        """True where the program of a run directory refuses it whatever is decided here."""
        return self.answers is not None and self.answers.ok is False and self.answers.ours == "ask"

    @property
    def missing(self) -> str:
        """Why what goes on with it cannot be started here; empty where it can, or has only to be named."""
        found = (reason.message for reason in self.reasons if reason.code == "no_agent")
        return next((message for message in found if message != UNNAMED), "")

    @property
    def may_be_tried(self) -> bool:
        """True where it is accepted, or only the lock can tell, which is taken before anything is done."""
        return all(reason.code == "lock_unsure" for reason in self.reasons)


def plan_resume(
    facts: ResumeFacts, request: ResumeRequest | None = None, command: Sequence[str] | None = None
) -> ResumePlan:
    """Decide whether and how a run can go on.

    Args:
        facts: what was read.
        request: what is asked for; nothing special if left out.
        command: the argument list that would carry the plan out.
    """
    state = facts.state
    request = request or ResumeRequest()
    pending = () if state is None or state.pending is None else state.pending.calls
    request = msgspec.structs.replace(
        request, decisions=by_id(request.decisions, [call.id for call in pending])
    )
    rows = fingerprint_rows(facts.saved, facts.now)
    changed = facts.now is not None and bool(differences(facts.saved, facts.now))
    calls = () if state is None else _calls(facts, state, request)
    refused = [*_refusals(facts, request, changed=changed), *_bad_decisions(state, request)]
    asked = _questions(facts, request, calls)
    outcome: Answer = "refuse" if refused else "ask" if asked else "accept"
    limits = facts.now or facts.saved
    return ResumePlan(
        run_id=facts.run_id,
        path=facts.path,
        native=facts.native,
        outcome=outcome,
        reasons=(*refused, *asked),
        fingerprint=rows,
        now=facts.now,
        calls=calls,
        next_iteration=0 if state is None else state.next_iteration,
        tokens_left=_left(limits.max_tokens, 0 if state is None else state.counters.tokens),
        iterations_left=_left(limits.max_iterations, _iterations_used(state)),
        last_seq=0 if state is None else state.last_seq,
        interactive=state is not None and state.interactive,
        request=request,
        forced=request.force and bool(request.reason.strip()) and (changed or facts.now is None),
        repair=facts.repair,
        command=None if command is None or refused else tuple(command),
        notes=_notes(facts, state),
    )


def fingerprint_rows(saved: Fingerprint, now: Fingerprint | None) -> tuple[FingerprintRow, ...]:
    """Lay two fingerprints side by side, field by field, the provider last."""
    rows: list[FingerprintRow] = []
    for name, label in _FIELDS:
        before = getattr(saved, name)
        if before is None:
            continue
        after = None if now is None else getattr(now, name)
        if name == "provider" and now is not None:
            after = now.provider or ""
        same = None if now is None else before == after
        rows.append(
            FingerprintRow(
                label, str(before), None if after is None else str(after), same, name != "provider"
            )
        )
    return tuple(rows)


def _left(limit: int, used: int) -> int | None:
    return max(0, limit - used) if limit > 0 else None


def _iterations_used(state: RunState | None) -> int:
    """Give what counts against the limit: in a conversation each follow-up allows as many again."""
    return 0 if state is None or state.interactive else state.next_iteration


def _calls(facts: ResumeFacts, state: RunState, request: ResumeRequest) -> tuple[PlannedCall, ...]:
    pending = state.pending
    if pending is None:
        return ()
    stop = withheld_because(facts)
    waiting = {call.id: call for call in pending.unanswered}
    planned: list[PlannedCall] = []
    for call in pending.calls:
        effect = facts.effects.get(call.name, "unknown")
        decision = request.decisions.get(call.id) if call.id in waiting else None
        verdict: Verdict = "reused"
        if call.id in waiting:
            verdict = _verdict(effect, decision, withheld=bool(stop))
        why = "" if decision is not None else not_run_here(facts, call.id, verdict)
        planned.append(
            PlannedCall(call.id, call.name, effect, verdict, call.input, decision, why, not_here=bool(why))
        )
    return tuple(planned)


def not_run_here(facts: ResumeFacts, call_id: str, verdict: Verdict) -> str:
    """Say of an open call of a fresh fork that it did not run in it; empty of any other."""
    open_ = verdict in ("unknown", "will_run")
    return facts.in_parent.said(call_id) if open_ and facts.in_parent is not None else ""


def withheld_because(facts: ResumeFacts) -> str:
    """Say why the run stopped before its open calls were allowed to run; empty where they were."""
    if facts.state is None or facts.state.pending is None:
        return ""
    return withheld_by(facts.state.pending.stop_reason, facts.stopped)


def withheld_by(stop_reason: str, stopped: str) -> str:
    """Say why the calls of a reply were not allowed to run; empty where they were.

    Args:
        stop_reason: That of the reply.
        stopped: The reason of the terminal record after which nothing follows; empty where there is none.
    """
    return WITHHOLDS.get(stop_reason) or _STOPS.get(stopped, "")


def _verdict(effect: Effect, decision: Decision | None, *, withheld: bool) -> Verdict:
    if decision is not None:
        return "will_run" if decision.choice == "rerun" else "reused"
    if withheld:
        return "withheld"
    return "will_run" if effect in {"read", "idempotent"} else "unknown"


def _refusals(facts: ResumeFacts, request: ResumeRequest, *, changed: bool) -> list[Reason]:
    reasons: list[Reason] = []
    if facts.error is not None:
        reasons.append(_does_not_fold(facts.error))
    elif facts.state is not None:
        reasons += _no_way_on(facts, facts.state)
    if facts.holder:
        reasons.append(Reason("locked", f"held by {facts.holder}: look at it read-only, or fork it"))
    if facts.now is not None and provider_refuses(facts.saved, facts.now):
        saved, now = facts.saved.provider or "none", facts.now.provider or "none"
        reasons.append(Reason("provider", f"provider: {saved} -> {now}; this cannot be forced"))
    if changed and facts.now is not None and not request.force:
        reasons += [Reason("fingerprint", line) for line in differences(facts.saved, facts.now)]
    if facts.problem:
        reasons.append(Reason("no_agent", facts.problem))
    if request.force and not request.reason.strip():
        reasons.append(Reason("no_reason", "force needs a reason, which is recorded"))
    return reasons


def _no_way_on(facts: ResumeFacts, state: RunState) -> list[Reason]:
    """Say why the records lead nowhere: nothing is left to do, or nothing that could be sent."""
    barred = barred_by(state, facts.run_id, native=facts.native)
    if barred is not None:
        return [Reason(barred.code, barred.message)]
    if state.pending is not None:
        return []
    limits = facts.now
    if limits is None or (ends_on_reply(state) and not state.interactive):
        return []
    if _left(limits.max_tokens, state.counters.tokens) == 0:
        used = f"{state.counters.tokens} of {limits.max_tokens} tokens are used"
        return [Reason("budget", f"{used}: give the agent more, then force with a reason")]
    if _left(limits.max_iterations, _iterations_used(state)) == 0:
        used = f"{state.next_iteration} of {limits.max_iterations} turns are used"
        return [Reason("max_iterations", f"{used}: give the agent more, then force with a reason")]
    return []


def _does_not_fold(error: FoldError) -> Reason:
    if isinstance(error, UnsupportedVersion):
        return Reason("newer", str(error))
    if isinstance(error, EmptyJournal):
        return Reason("empty", f"the run has no record to go on from: {_BEGIN_IT}")
    return Reason("corrupt", f"{error}: fork before the damage instead")


def _bad_decisions(state: RunState | None, request: ResumeRequest) -> list[Reason]:
    reasons: list[Reason] = []
    pending = None if state is None else state.pending
    known = set() if pending is None else {call.id for call in pending.calls}
    numbers = () if pending is None else [f"#{n}" for n in range(1, len(pending.calls) + 1)]
    waiting = set() if pending is None else {call.id for call in pending.unanswered}
    for call_id, decision in request.decisions.items():
        if call_id not in known and call_id in numbers:
            reasons.append(Reason("bad_decision", f"call {call_id} is decided twice, and not alike"))
        elif call_id not in known:
            reasons.append(Reason("bad_decision", f"no call {call_id!a} in the open turn"))
        elif call_id not in waiting:
            reasons.append(Reason("bad_decision", f"{call_id!a}: has its result already"))
        elif decision.choice not in CHOICES:
            reasons.append(Reason("bad_decision", f"{call_id!a}: choose one of {', '.join(CHOICES)}"))
        elif decision.choice == "done" and not decision.text:
            reasons.append(Reason("bad_decision", f"{call_id!a}: done needs the result as text"))
    return reasons


def _questions(facts: ResumeFacts, request: ResumeRequest, calls: Sequence[PlannedCall]) -> list[Reason]:
    reasons: list[Reason] = []
    if facts.repair is not None and not request.repair:
        reasons.append(Reason("torn_tail", facts.repair.sentence))
    if not facts.lock_known:
        reasons.append(Reason("lock_unsure", "nobody can say from here whether an agent is running on it"))
    stop = withheld_because(facts)
    for call in calls:
        if call.verdict == "unknown":
            said = call.why or "outcome unknown, it may have run without a result"
            reasons.append(
                Reason(
                    "unknown_call",
                    f"{call.name} ({call.id}): {said}",
                )
            )
        elif call.verdict == "withheld":
            reasons.append(Reason("withheld", f"{call.name} ({call.id}): not run, {stop}"))
    return reasons


def _notes(facts: ResumeFacts, state: RunState | None) -> tuple[str, ...]:
    notes: list[str] = list(_price_of_another_model(facts))
    if facts.now is None and not facts.problem:
        notes.append("what would run now is not known here: the agent compares the fingerprint itself")
    if state is not None and state.pending is None and state.last_stop_reason == "pause_turn":
        notes.append("the last turn was paused by the provider: what it kept may have expired")
    if state is not None and state.pending is None and facts.now is None and facts.stopped in _STOPS:
        notes.append(f"{_STOPS[facts.stopped]}: unchanged limits stop it again")
    if state is not None and ends_on_reply(state) and not state.completed:
        notes.append(_after_reply(facts, state))
    if state is not None and facts.native and state.run_id != facts.run_id:
        notes.append(f"the run calls itself {state.run_id!a}: its file was renamed")
    return tuple(notes)


def _price_of_another_model(facts: ResumeFacts) -> Iterator[str]:
    """Say what it takes that another model reads the run: nothing of it can come from a cache."""
    now = facts.now
    if now is None or now.model == facts.saved.model or not facts.context or facts.prices is None:
        return
    found = bill(facts.prices, ((now.model, Spent(input=facts.context)),))
    cost = f"about {amount(found)}"
    if found.amount is None:
        lacks = "".join(f": no [{key}] configured" for key in found.missing[:1])
        cost = f"what that costs is not known{lacks or ': no model is named'}"
    yield (
        f"{now.model or 'the model'} reads all of it anew: its next call sends at least "
        f"{facts.context:,} tokens, none of them cached; {cost}"
    )


def _after_reply(facts: ResumeFacts, state: RunState) -> str:
    if state.interactive:
        return "the model spoke last: the run reopens where you speak"
    if facts.native:
        return "the last reply ended the task: only the record of its end is missing, and will be added"
    return "the last reply ended the task, only the record of its end is missing: the agent may ask once more"


def plan_json(plan: ResumePlan) -> dict[str, Json]:
    """Give a plan as `refold resume --plan --json` prints it (design/contracts.md)."""
    answers = plan.answers
    both: dict[str, Json] = {}
    if answers is not None:
        decided: dict[str, Json] = {
            key: {"choice": one.choice, "text": one.text} for key, one in plan.request.decisions.items()
        }
        both = {
            "original": {"ok": answers.ok, "code": answers.code},
            "ours": answers.ours,
            "decisions": decided,
        }
    return {
        "run": plan.run_id,
        "path": plan.path,
        "outcome": plan.outcome,
        "reasons": [{"code": reason.code, "message": reason.message} for reason in plan.reasons],
        "fingerprint": [
            {
                "field": row.field,
                "saved": row.saved,
                "now": row.now,
                "same": row.same,
                "forceable": row.forceable,
            }
            for row in plan.fingerprint
        ],
        "calls": [
            {"id": call.id, "name": call.name, "effect": call.effect, "verdict": call.verdict}
            for call in plan.calls
        ],
        "next_iteration": plan.next_iteration,
        "tokens_left": plan.tokens_left,
        "iterations_left": plan.iterations_left,
        "forced": plan.forced,
        "notes": list(plan.notes),
        "command": None if plan.command is None else list(plan.command),
        **both,
    }
