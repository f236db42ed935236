"""A run directory that stopped, explained from both its files: log and manifest. Pure.

The verdict on a resume is that of `core.rivumi.verdict`, the legal points are those of the index: no second
opinion. What is said in words stands in `core.rivumi.postmortem_words`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from refold.core.fork_point import left_behind
from refold.core.postmortem import (
    DAMAGED,
    PEEK,
    Action,
    Damage,
    InFlight,
    Let,
    Position,
    Postmortem,
    as_it_is,
    damage_of,
    last_rows,
    now_first,
)
from refold.core.records import Json
from refold.core.repair import RepairPlan
from refold.core.resume import Effect, Reason, ResumePlan
from refold.core.rivumi.calls import CallLife
from refold.core.rivumi.claim import OpenCall, Standing, open_calls_of
from refold.core.rivumi.findings import findings
from refold.core.rivumi.fork import SessionForkPlan
from refold.core.rivumi.inherited import inherited_of
from refold.core.rivumi.manifest import Manifest, calls_of
from refold.core.rivumi.plan import IN_FLIGHT, OF_CALLS, SessionFacts
from refold.core.rivumi.postmortem_words import claims, verdict_on_session
from refold.core.rivumi.snapshot import Part, Snapshot
from refold.core.rivumi.timeline import EventTimeline
from refold.core.state import ToolCall
from refold.core.status import Status

_TOLD: Final = frozenset(
    {"E_MANIFEST_AHEAD", "E_MANIFEST_BEHIND", "E_DANGLING", "E_UNCERTAIN_EFFECT", "E_LOCKED", "E_EMPTY"}
)
"""What stands elsewhere on the screen: with the calls in flight, or beside the lock."""
_END: Final = frozenset({"original:invalid_event", "torn_tail", "no_final_newline"})
"""Reasons that a mended end takes away."""
_SAID: Final[Mapping[Standing, str]] = {
    "uncertain": "",
    "read": "",
    "not_started": "not run: the model asked for it, and it never began",
    "unseen": "it ended, and the model would not see its result",
}


class KnownSession(msgspec.Struct, frozen=True):
    """What was read of a run directory."""

    timeline: EventTimeline
    status: Status
    snapshot: Snapshot
    facts: SessionFacts
    plan: ResumePlan
    """Of a resume with what was decided before."""
    lock_known: bool
    """False where the system cannot say who holds a run."""
    repair: RepairPlan | None
    fork: SessionForkPlan | None
    """Before the trouble; None where there is no such point."""
    fork_problem: str
    directory: str
    """Where new runs would go, as it is shown."""
    now: float
    """Seconds since 1970."""


def explain_session(
    known: KnownSession, peek: Callable[[int, int], bytes], let: Let = as_it_is
) -> Postmortem:
    """Explain a run directory.

    Args:
        known: What was read of it; its index is complete.
        peek: Gives bytes of its log: from a place, so many.
        let: What the arguments of calls go through before they are cut to their length.
    """
    flying = tuple(each.through(let) for each in in_flight(known))
    beside = _beside(known)
    damage, more, remarks = damage_of(known.timeline, peek)
    kept = damage[: max(1, DAMAGED - len(beside))]
    actions = _actions(known)
    reading = known.facts.reading
    lock_file = ".writer.lock" if known.snapshot.lock != "missing" else ""
    return Postmortem(
        run_id=known.facts.found.run_id,
        status=known.status,
        verdict=verdict_on_session(known, flying, actions),
        in_flight=flying,
        last_rows=last_rows(known.timeline),
        damage=(*beside, *kept),
        more_damage=more + len(damage) - len(kept),
        remarks=remarks,
        position=Position(
            known.snapshot.holder, known.lock_known, lock_file, claims(reading, known.snapshot, known.now)
        ),
        actions=actions,
        against=tuple(reason.message for reason in known.plan.reasons),
        notes=known.plan.notes,
        plan=known.plan,
    )


def in_flight(known: KnownSession) -> tuple[InFlight, ...]:
    """Give what began and has no end, what did not begin, and what ended unseen; in that order."""
    reading, found = known.facts.reading, known.facts.found
    lives = {life.id: life for life in reading.state.calls}
    manifest = reading.manifest
    if manifest is None or manifest.terminal:
        return tuple(
            _flying(known, life.id, life.name, life.effect, life.arguments, life)
            for life in reading.state.open_calls
        )
    flying = [
        _flying(known, call.id, call.name, call.effect, call.arguments, lives.get(call.id), _said(call))
        for call in open_calls_of(found, reading, manifest)
    ]
    pending = manifest.pending
    if pending is not None and pending.action_id not in {each.call.id for each in flying}:
        life = lives.get(pending.action_id)
        given = _asked(manifest, pending.action_id) if life is None else life.arguments
        waits = _flying(known, pending.action_id, pending.name, pending.effect, given, life)
        approved = life is not None and life.decision.startswith("allow")
        said = "it was allowed, and had not begun" if approved else "it waits for an approval"
        origin = inherited_of(reading.log.events) if life is None else None
        told = f"not run: {said}" if origin is None else origin.said(pending.action_id)
        flying.append(
            msgspec.structs.replace(
                waits,
                withheld=said if origin is None else told,
                said=told,
                elsewhere="" if origin is None else told,
            )
        )
    return tuple(flying)


def _said(call: OpenCall) -> str:
    """Say how a call stands of which nobody saw the end."""
    return call.said or _SAID[call.standing]


def _asked(manifest: Manifest, call_id: str) -> Json:
    """Give the arguments of a call as the conversation has them."""
    return next((call.arguments for call in calls_of(manifest) if call.id == call_id), None)


def _flying(
    known: KnownSession,
    call_id: str,
    name: str,
    effect: str,
    given: Json,
    life: CallLife | None,
    said: str = "",
) -> InFlight:
    seq = None if life is None else _first(life.started, life.asked, life.requested)
    item = None if seq is None else known.timeline.item_at(seq)
    does: Effect = "read" if effect == "read" else "write" if effect else "unknown"
    return InFlight(
        call=ToolCall(call_id, name or call_id, given),
        effect=does,
        item=0 if item is None else item,
        seq=seq,
        ordinal=0,
        withheld=said.removeprefix("not run: "),
        said=said,
    )


def _first(*moments: int | None) -> int | None:
    return next((moment for moment in moments if moment is not None), None)


def _beside(known: KnownSession) -> tuple[Damage, ...]:
    """What is wrong with the files beside the log, with the end of one that is torn."""
    snapshot = known.snapshot
    parts = {part.name: part for part in (snapshot.manifest, snapshot.request)}
    found: list[Damage] = []
    for finding in findings(snapshot, found=known.facts.found, reading=known.facts.reading):
        if (
            (finding.line and finding.file == "events.jsonl")
            or finding.severity == "info"
            or finding.code in _TOLD
        ):
            continue
        part = parts.get(finding.file)
        torn = finding.code in {"E_BAD_MANIFEST", "E_REQUEST"} and part is not None and _unread(known, part)
        data = part.data if torn and part is not None else b""
        start = max(0, len(data) - PEEK)
        found.append(Damage(finding, -1, data[start:], start))
    return tuple(found)


def _unread(known: KnownSession, part: Part) -> bool:
    reading = known.facts.reading
    return bool(reading.manifest_problem if part.name == "session.json" else reading.request_problem)


def _actions(known: KnownSession) -> tuple[Action, ...]:
    why = "a run directory is forked instead: its conversation stands in session.json, not in its log"
    blocked = bool(known.facts.problem) or refused_for_good(known)
    return (
        *now_first(_resume(known), _fork(known), blocked=blocked),
        Action("salvage", possible=False, why_not=why),
        _repair(known),
        Action("nothing", possible=True, writes="nothing: the run stays as it is, byte for byte"),
    )


def _resume(known: KnownSession) -> Action:
    plan, reasons = known.plan, known.plan.reasons
    if only_the_end(known):
        return Action("resume", possible=False, why_not="its end has to be repaired first")
    hard = hard_reason(known)
    if hard is not None:
        return Action("resume", possible=False, why_not=hard.message)
    if refused_for_good(known):
        return Action(
            "resume",
            possible=True,
            writes="it beside the run; its own program refuses to resume, whatever is decided",
            instead="note a decision, for an agent of yours",
        )
    first: list[str] = []
    waiting = sum(call.verdict in {"unknown", "withheld"} for call in plan.calls)
    if waiting:
        calls = "a call waits" if waiting == 1 else f"{waiting:,} calls wait"
        first.append(f"{calls} for a decision")
    if any(reason.code == "wall_time" for reason in reasons):
        first.append("its time is used up, which has to be forced with a reason")
    first += [reason.message for reason in reasons if reason.code == "no_agent"]
    writes = f"hands the run to its own program, which appends after seq {plan.last_seq}"
    return Action("resume", possible=True, first=", and ".join(first), writes=writes)


def only_the_end(known: KnownSession) -> bool:
    """Say whether a mended end is all that a resume still needs from a person."""
    reading = known.facts.reading
    if known.repair is None or reading.log.bad:
        return False
    codes = {reason.code for reason in known.plan.reasons}
    return codes <= _END | OF_CALLS | {"wall_time", "no_agent"} and bool(codes & _END)


def hard_reason(known: KnownSession) -> Reason | None:
    """Give the first reason against a resume that no answer goes past; None where there is none."""
    soft = OF_CALLS | {"wall_time", "no_agent"}
    if refused_for_good(known):
        soft |= {f"original:{IN_FLIGHT}"}
    return next((reason for reason in known.plan.reasons if reason.code not in soft), None)


def refused_for_good(known: KnownSession) -> bool:
    """Say whether its own program refuses it whatever is decided, for a started effect alone."""
    return known.facts.found.original.code == IN_FLIGHT and known.plan.refused_for_good


def _fork(known: KnownSession) -> Action:
    plan = known.fork
    if plan is None:
        return Action("fork", possible=False, why_not=known.fork_problem or "no event can be forked after")
    taken = "event" if plan.at == 0 else f"{plan.at + 1:,} events"
    writes = f"a new run from the first {taken}, with a clone at {plan.base_sha[:12]}, in {known.directory}"
    left = _left_behind(known, plan.at)
    keeps = known.timeline.legal_fork(known.timeline.items - 1) if left else None
    if left:
        writes = f"{writes}; {left_behind(left, keeps)}"
    return Action("fork", possible=True, writes=writes, at=plan.at, left=left, keeps=keeps)


def _left_behind(known: KnownSession, at: int) -> int:
    """Count the calls that the model made behind a point and that have an end, where others have none."""
    lives = known.facts.reading.state.calls
    asked = [(_first(life.requested, life.asked, life.started), life) for life in lives]
    return sum(moment is not None and moment > at and life.ended is not None for moment, life in asked)


def _repair(known: KnownSession) -> Action:
    if known.snapshot.holder:
        return Action("repair", possible=False, why_not=f"held by {known.snapshot.holder}")
    if known.repair is not None:
        return Action("repair", possible=True, writes=known.repair.sentence)
    deeper = bool(known.facts.reading.log.bad)
    return Action(
        "repair", possible=False, why_not="the damage is not at its end" if deeper else "the end is clean"
    )
