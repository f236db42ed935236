"""What a resume of a run directory would do, as the plan that the dialog and `--plan` show. Pure.

The run is handed to the program that wrote it, so the stricter of its answer and ours decides. What was
decided about a call changes our answer, never that of its own program (formats/rivumi.md 5, and 9, 13).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from refold.core.decisions import CHOICES, by_id
from refold.core.records import Decision
from refold.core.resume import (
    Answer,
    Effect,
    PlannedCall,
    Reason,
    ResumePlan,
    ResumeRequest,
    TwoAnswers,
    Verdict,
)
from refold.core.rivumi.claim import OpenCall, Standing, open_calls_of
from refold.core.rivumi.reading import Reading, read_snapshot
from refold.core.rivumi.snapshot import Snapshot
from refold.core.rivumi.verdict import Verdict as Found
from refold.core.rivumi.verdict import verdict

IN_FLIGHT: Final = "in_flight_side_effect"
OF_CALLS: Final = frozenset({"lost_start", "uncertain_effect", "open_read", "dangling_call"})
"""Reasons that a decision about a call answers."""
_OVER: Final = "wall_time"
_ASKED: Final = OF_CALLS | {_OVER}
_WHY: Final[Mapping[Standing, str]] = {
    "uncertain": "no end of it is recorded: it may have run, and nobody can know",
    "read": "it was started and reads only; the model waits for its result",
    "not_started": "the model asked for it, and it never began",
    "unseen": "it ended, but its result is not in the conversation",
}


class SessionFacts(msgspec.Struct, frozen=True):
    """What a plan is made from."""

    path: str
    reading: Reading
    found: Found
    problem: str = ""
    """Why its program cannot be started; empty where it can."""
    program: str = ""
    """What a person should know about how the program was found."""


def session_facts(
    snapshot: Snapshot,
    path: str,
    *,
    now: float,
    problem: str = "",
    program: str = "",
    reading: Reading | None = None,
) -> SessionFacts:
    """Read and judge a run once, for every plan that is made of it.

    Args:
        snapshot: what was read.
        path: the directory.
        now: seconds since 1970: the time that a dead process is charged for ends here.
        problem: why its program cannot be started; empty where it can.
        program: what a person should know about how the program was found.
        reading: what the snapshot means, where that is known already.
    """
    reading = reading or read_snapshot(snapshot)
    return SessionFacts(path, reading, verdict(snapshot, now=now), problem, program)


def plan_session_resume(
    facts: SessionFacts, request: ResumeRequest, command: Sequence[str] | None = None
) -> ResumePlan:
    """Decide whether a run directory can be handed to its program.

    Args:
        facts: what was read.
        request: what is asked for, decisions that were noted before included.
        command: the argument list that would carry the plan out.
    """
    found, reading = facts.found, facts.reading
    calls = _calls(found, reading)
    decisions = by_id(request.decisions, [call.id for call in calls])
    request = msgspec.structs.replace(request, decisions=decisions)
    planned = tuple(_planned(call, request.decisions.get(call.id)) for call in calls)
    waiting = {call.id for call in calls if call.id not in request.decisions}
    refused, asked = _reasons(facts, found, reading, request, calls, waiting)
    outcome: Answer = "refuse" if refused else "ask" if asked else "accept"
    manifest, step = reading.manifest, 0
    steps_left = None
    if manifest is not None:
        step = manifest.step
        if reading.request is not None:
            steps_left = max(0, reading.request.max_steps - step)
    return ResumePlan(
        run_id=found.run_id,
        path=facts.path,
        native=False,
        outcome=outcome,
        reasons=(*refused, *asked),
        fingerprint=(),
        now=None,
        calls=planned,
        next_iteration=step,
        tokens_left=None,
        iterations_left=steps_left,
        last_seq=reading.state.last_sequence,
        interactive=False,
        request=request,
        forced=request.force and any(reason.code == _OVER for reason in found.ours.reasons),
        repair=None,
        command=None if command is None or outcome == "refuse" else tuple(command),
        notes=(*(note.message for note in found.ours.notes), *([facts.program] if facts.program else [])),
        answers=TwoAnswers(found.original.ok, found.original.code, found.ours.outcome),
    )


def fork_before(facts: SessionFacts) -> int | None:
    """Give the last event before the turn that made the first call of which nobody knows the end."""
    reading = facts.reading
    calls = {call.id for call in _calls(facts.found, reading)}
    began = [
        life.asked if life.requested is None else life.requested
        for life in reading.state.calls
        if life.id in calls
    ]
    moments = [moment for moment in began if moment is not None]
    if not moments:
        return None
    turns = [
        event.sequence
        for event in reading.log.events
        if event.event_type == "model.requested" and event.sequence < min(moments)
    ]
    before = (turns[-1] if turns else min(moments)) - 1
    return before if before >= 0 else None


def _calls(found: Found, reading: Reading) -> tuple[OpenCall, ...]:
    return () if reading.manifest is None else open_calls_of(found, reading, reading.manifest)


def _planned(call: OpenCall, decision: Decision | None) -> PlannedCall:
    effect: Effect = "read" if call.effect == "read" else "write" if call.effect else "unknown"
    stands: Verdict = "withheld" if call.standing == "not_started" else "unknown"
    if decision is not None:
        stands = "will_run" if decision.choice == "rerun" else "reused"
    why = call.said or _WHY[call.standing]
    return PlannedCall(call.id, call.name, effect, stands, call.arguments, decision, why)


def _reasons(
    facts: SessionFacts,
    found: Found,
    reading: Reading,
    request: ResumeRequest,
    calls: Sequence[OpenCall],
    waiting: set[str],
) -> tuple[list[Reason], list[Reason]]:
    """Give what refuses, and what is asked."""
    refused: list[Reason] = []
    asked: list[Reason] = []
    in_flight = found.original.code == IN_FLIGHT and found.ours.outcome == "ask"
    for reason in found.reasons:
        code = reason.code
        if in_flight and code.startswith("original:"):
            if waiting:
                asked.append(reason)
            else:
                refused.append(Reason(code, _still(facts, calls)))
        elif code not in _ASKED:
            refused.append(reason)
        elif code == _OVER:
            if not (request.force and request.reason.strip()):
                asked.append(reason)
        elif any(reason.message.startswith(f"{name} ") for name in waiting):
            asked.append(reason)
    known = {call.id for call in calls}
    for key, decision in request.decisions.items():
        if key not in known:
            refused.append(Reason("bad_decision", f"nothing is to be decided about {key!a}"))
        elif decision.choice not in CHOICES:
            refused.append(Reason("bad_decision", f"{key!a}: choose one of {', '.join(CHOICES)}"))
        elif decision.choice == "done" and not decision.text:
            refused.append(Reason("bad_decision", f"{key!a}: done needs the result as text"))
    if request.force and not request.reason.strip():
        refused.append(Reason("no_reason", "force needs a reason, which is noted"))
    if facts.problem:
        refused.append(Reason("no_agent", facts.problem))
    return refused, asked


def _still(facts: SessionFacts, calls: Sequence[OpenCall]) -> str:
    """Say what can be done where everything is decided, and its own program goes on refusing."""
    names = ", ".join(call.id for call in calls)
    at = fork_before(facts)
    fork = "" if at is None else f"fork before it (seq {at}), or "
    return (
        f"its own program refuses whatever is decided about {names}: "
        f"{fork}let an agent of yours take it over with claim_and_validate_resume, which takes the decision"
    )
