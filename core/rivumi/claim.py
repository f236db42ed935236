"""What a claim of a run would write, decided before a byte changes (formats/rivumi.md 5, and 9, weakness 4).

The stricter verdict decides. A call of which nobody can say whether it ran stops the claim until somebody
says so; what was said stands in the event that closes the call. A manifest that is one ahead is not taken
back, as the original does: the first new event stands at the sequence that was lost and carries the reason of
the repair, so the reason and its effect are one line, and there is no moment without either.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from refold.core.decisions import CHOICES
from refold.core.errors import Refused
from refold.core.records import Decision, Json
from refold.core.rivumi.calls import CHECK, CallLife
from refold.core.rivumi.canonical import preview
from refold.core.rivumi.events_state import differences
from refold.core.rivumi.inherited import inherited_of
from refold.core.rivumi.items import message, observation
from refold.core.rivumi.manifest import Manifest, calls_of, dangling
from refold.core.rivumi.members import Members
from refold.core.rivumi.reading import Reading, read_snapshot
from refold.core.rivumi.snapshot import Snapshot
from refold.core.rivumi.verdict import Verdict, ended_unrecorded, verdict

Standing: TypeAlias = Literal["uncertain", "read", "not_started", "unseen"]
"""uncertain: it may have run. read: it was started, and reads only. not_started: the model asked for it, and
it never began. unseen: it ended, and the conversation does not have its result."""

_NAMELESS: Final = "unknown"
_AGAIN: Final = "nobody can say how it ended; it runs again"
_FAILED: Final = "it was interrupted, and is taken for failed"
_ABANDONED: Final = "the process ended before this was decided; ask again"


class OpenCall(msgspec.Struct, frozen=True):
    """A call or check that a claim has to know about."""

    id: str
    """The call id; of a check `verification:` and its name."""
    name: str
    effect: str
    standing: Standing
    said: str = ""
    """How it stands, where the run is a fork that began with it."""
    arguments: Json = None
    suggested: Decision | None = None
    """What can be decided without knowing the world; None for an uncertain effect."""


class SessionRefused(Refused):
    """A run cannot be claimed; nothing was written."""

    def __init__(self, code: str, message: str, *, found: Verdict | None = None, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.code = code
        """The original's rule where it refuses (formats/rivumi.md 10), else ours."""
        self.verdict = found


class SessionUndecided(SessionRefused):
    """Somebody has to say first what became of some calls; nothing was written."""

    def __init__(self, message: str, calls: tuple[OpenCall, ...], found: Verdict) -> None:
        code = found.original.code if not found.original.ok else "undecided"
        super().__init__(
            code,
            message,
            found=found,
            remedy="give a decision for each: rerun, failed, or done with its result",
        )
        self.calls = calls

    @property
    def suggested(self) -> dict[str, Decision]:
        """Decisions that are safe to take without asking; none for a call whose effect is uncertain."""
        return {call.id: call.suggested for call in self.calls if call.suggested is not None}


class Step(msgspec.Struct, frozen=True):
    """One event to be written, and what the manifest that goes before it says."""

    event_type: str
    data: dict[str, Json]
    messages: tuple[Json, ...] = ()
    state: dict[str, Json] = {}


class ClaimPlan(msgspec.Struct, frozen=True):
    """What a claim writes, and what is left to do after it."""

    steps: tuple[Step, ...]
    rerun: tuple[OpenCall, ...]
    """Calls that the agent runs before it asks its model again."""
    last_sequence: int
    """The last event on disk."""
    size: int
    """Bytes of the log."""
    repaired: str = ""
    """Why the manifest did not agree with the log; empty where it did."""


def plan_claim(snapshot: Snapshot, decisions: Mapping[str, Decision]) -> ClaimPlan:
    """Decide a claim.

    Args:
        snapshot: What was read under the lock, its holder left out.
        decisions: What was decided about calls and checks, by id.

    Raises:
        SessionRefused: The run cannot go on.
        SessionUndecided: A decision is missing.
    """
    found = verdict(snapshot)
    if found.outcome == "refuse":
        raise _refused(found)
    reading = read_snapshot(snapshot)
    manifest = reading.manifest
    if manifest is None:
        raise _refused(found)
    open_calls = open_calls_of(found, reading, manifest)
    _require_decisions(found, open_calls, decisions)
    closing = [step for call in open_calls for step in _closed(call, decisions[call.id], reading, manifest)]
    ended = [*_ended(reading, manifest)]
    ended_ids = {str(step.data["tool_call_id"]) for step in ended}
    abandoned = _abandoned(manifest, ended_ids | {call.id for call in open_calls})
    resumed = _resumed(manifest, open_calls, decisions, ended_ids)
    last, repaired = reading.state.last_sequence, ""
    if manifest.last_event_sequence == last + 1:
        # What the manifest knows of an open call must not change before the reason is told.
        repaired = f"the manifest is one ahead: event {last + 1} was not written"
        steps = [*ended, resumed, *closing, *abandoned]
        repair = _repair(repaired, reading, manifest)
        steps[0] = msgspec.structs.replace(steps[0], data={**steps[0].data, "repair": repair})
    else:
        # A start that is the last event keeps the run from being resumed by those who only look there.
        steps = [*closing, resumed, *abandoned]
    rerun = tuple(call for call in open_calls if decisions[call.id].choice == "rerun")
    return ClaimPlan(tuple(steps), rerun, last, reading.log.size, repaired)


def _refused(found: Verdict) -> SessionRefused:
    reasons = found.reasons
    code = found.original.code if not found.original.ok else reasons[0].code
    text = "; ".join(reason.message for reason in reasons)
    return SessionRefused(
        code,
        f"{found.run_id}: not claimed: {text}",
        found=found,
        remedy="look at the run with refold verify; a fork goes on from any event",
    )


def _require_decisions(
    found: Verdict, open_calls: tuple[OpenCall, ...], decisions: Mapping[str, Decision]
) -> None:
    known = [call.id for call in open_calls]
    for call, decision in decisions.items():
        if call not in known:
            raise SessionRefused(
                "decision", f"{found.run_id}: nothing is to be decided about {call}", found=found
            )
        if decision.choice not in CHOICES:
            raise SessionRefused(
                "decision", f"{found.run_id}: {decision.choice}: not one of {', '.join(CHOICES)}", found=found
            )
    missing = tuple(call for call in open_calls if call.id not in decisions)
    if missing:
        texts = "; ".join(f"{call.id} ({call.name}) {_STANDS[call.standing]}" for call in missing)
        raise SessionUndecided(f"{found.run_id}: not claimed: {texts}", missing, found)


_STANDS: Final[Mapping[Standing, str]] = {
    "uncertain": "may have run: no end of it is recorded",
    "read": "was started, and reads only",
    "not_started": "was asked for and never started",
    "unseen": "ended, and the conversation does not have its result",
}


def open_calls_of(found: Verdict, reading: Reading, manifest: Manifest) -> tuple[OpenCall, ...]:
    """Give the calls and checks that somebody has to decide before a claim."""
    calls: dict[str, OpenCall] = {}
    arguments = {call.id: call.arguments for call in calls_of(manifest)}
    again = Decision("rerun")
    for life in found.ours.uncertain:
        given = _given(life, arguments, reading)
        calls[life.id] = OpenCall(life.id, life.name or _NAMELESS, life.effect, "uncertain", arguments=given)
    for life in reading.state.open_calls:
        if life.id not in calls and ended_unrecorded(life, reading.state, manifest) is None:
            given = _given(life, arguments, reading)
            calls[life.id] = OpenCall(
                life.id, life.name or _NAMELESS, life.effect, "read", arguments=given, suggested=again
            )
    lives = {life.id: life for life in reading.state.calls}
    pending = "" if manifest.pending is None else manifest.pending.action_id
    origin = inherited_of(reading.log.events)
    for lost in dangling(manifest):
        if lost.id in calls or lost.id == pending:
            continue
        known = lives.get(lost.id)
        if known is None or known.ended is None:
            effect = "" if known is None else known.effect
            said = "" if known is not None or origin is None else origin.said(lost.id)
            calls[lost.id] = OpenCall(
                lost.id, lost.name or _NAMELESS, effect, "not_started", said, lost.arguments, again
            )
        else:
            seen = _seen_end(known, reading)
            calls[lost.id] = OpenCall(
                lost.id, lost.name or _NAMELESS, known.effect, "unseen", "", lost.arguments, seen
            )
    return tuple(calls.values())


def _given(life: CallLife, arguments: Mapping[str, Json], reading: Reading) -> Json:
    """What a call was given; of a check the command that it runs."""
    if life.is_check:
        return {"command": shlex.join(str(word) for word in _argv(life.name, reading))}
    return arguments.get(life.id, life.arguments)


def _seen_end(life: CallLife, reading: Reading) -> Decision:
    """What the event of the end tells of the result: a preview, or the error."""
    if life.ok is False:
        return Decision("failed", life.error or _FAILED)
    event = next((event for event in reading.log.events if event.sequence == life.ended), None)
    return Decision("done", "" if event is None else Members(event.data).text("preview"))


def _ended(reading: Reading, manifest: Manifest) -> Iterable[Step]:
    """The end that a writer of ours had put into the manifest when it died before the line of it."""
    waiting = reading.state.waiting
    for life in (*reading.state.open_calls, *([] if waiting is None else [waiting])):
        seen = ended_unrecorded(life, reading.state, manifest)
        if seen is not None:
            own = Members(seen)
            data: dict[str, Json] = {"tool_call_id": life.id, "name": life.name, "ok": own.flag("ok") is True}
            error = own.text("error")
            yield Step("tool.completed", {**data, "error": preview(error) if error else None})


def _closed(call: OpenCall, decision: Decision, reading: Reading, manifest: Manifest) -> Iterable[Step]:
    """The event that closes a call as it was decided."""
    if call.standing == "unseen" or (call.standing == "not_started" and decision.choice == "rerun"):
        return
    done = decision.choice == "done"
    error = None if done else (decision.text or _FAILED) if decision.choice == "failed" else _AGAIN
    data: dict[str, Json] = {
        "name": call.name,
        "ok": done,
        "error": None if error is None else preview(error),
        "decision": {"choice": decision.choice, "text": preview(decision.text)},
    }
    state: dict[str, Json] = {}
    if manifest.pending is not None and manifest.pending.action_id == call.id:
        # It died between the line of the start and the next manifest, which would have cleared it.
        state = {"pending_action": None, **_running(manifest)}
    if call.id.startswith(CHECK):
        argv = _argv(call.name, reading)
        data |= {"argv": argv, "exit_code": None, "duration_seconds": 0.0}
        yield Step("verification.completed", data, state=state)
    else:
        if done:
            data["preview"] = preview(decision.text)
        data["tool_call_id"] = call.id
        yield Step("tool.completed", data, _observations(call, decision), state)


def _observations(call: OpenCall, decision: Decision) -> tuple[Json, ...]:
    """What the model is told of a call; nothing where it runs again."""
    if decision.choice == "rerun":
        return ()
    if decision.choice == "done":
        return (observation(call.id, call.name, decision.text),)
    return (observation(call.id, call.name, error=decision.text or _FAILED),)


def _argv(name: str, reading: Reading) -> list[Json]:
    raw = {} if reading.request is None else reading.request.raw
    for check in Members(raw).many("verification"):
        if isinstance(check, dict) and check.get("name") == name:
            return [*Members(check).many("argv")]
    return []


def _abandoned(manifest: Manifest, handled: set[str]) -> Iterable[Step]:
    """The question that nobody answered, or whose answer came to nothing: the model must ask again."""
    pending = manifest.pending
    if pending is None or pending.action_id in handled:
        return
    request = Members(Members(manifest.raw).object("pending_action") or {}).text("request_id")
    told: Json = (
        message("user", f"{pending.name}: {_ABANDONED}")
        if pending.action_id.startswith(CHECK)
        else observation(pending.action_id, pending.name, error=_ABANDONED)
    )
    yield Step(
        "approval.abandoned",
        {
            "request_id": request,
            "action_id": pending.action_id,
            "effect": pending.effect,
            "reason": "process_interrupted_before_decision",
        },
        (told,),
        {"pending_action": None, **_running(manifest)},
    )


def _resumed(
    manifest: Manifest,
    open_calls: tuple[OpenCall, ...],
    decisions: Mapping[str, Decision],
    ended_ids: set[str],
) -> Step:
    unseen = [call for call in open_calls if call.standing == "unseen"]
    told = tuple(item for call in unseen for item in _observations(call, decisions[call.id]))
    data: dict[str, Json] = {
        "provider": manifest.provider,
        "model": manifest.model,
        "base_sha": manifest.base_sha,
        "resumed_step": manifest.step,
    }
    if unseen:
        data["decisions"] = {
            call.id: {"choice": decisions[call.id].choice, "text": preview(decisions[call.id].text)}
            for call in unseen
        }
    state = _running(manifest)
    if manifest.pending is not None:
        # A question that is still open is closed by an event of its own.
        state = {"pending_action": None, **state} if manifest.pending.action_id in ended_ids else {}
    return Step("session.resumed", data, told, state)


def _running(manifest: Manifest) -> dict[str, Json]:
    return {} if manifest.phase in {"created", "preparing"} else {"phase": "running"}


def _repair(reason: str, reading: Reading, manifest: Manifest) -> dict[str, Json]:
    """What is known about the event that was lost."""
    unproved = [preview(found.text, 300) for found in differences(reading.state, manifest)][:20]
    return {
        "reason": reason,
        "sequence": manifest.last_event_sequence,
        "after": reading.state.tail,
        "unproved": [*unproved],
    }
