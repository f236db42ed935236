"""Whether a run can go on: the original's answer, ours beside it, and the stricter of the two.

Ours differs where the original is known to be wrong (formats/rivumi.md 4, 5 and 9): a started call hidden
behind later events, a manifest one ahead over a started effect, a call without its observation, a copied
directory, line ends of Unicode, and the time a dead process is charged for.
"""

from __future__ import annotations

from typing import Final

import msgspec

from refold.core.records import Json
from refold.core.resume import Answer, Reason
from refold.core.rivumi import schema
from refold.core.rivumi.barred import barred_by
from refold.core.rivumi.budget import length, seconds_left
from refold.core.rivumi.calls import CallLife
from refold.core.rivumi.events import EventLog
from refold.core.rivumi.events_state import EventsState
from refold.core.rivumi.inherited import Inherited, inherited_of
from refold.core.rivumi.manifest import Manifest, Request, dangling, observed_last
from refold.core.rivumi.original import Original, replay_of_original, resume_of_original
from refold.core.rivumi.reading import Reading, read_snapshot
from refold.core.rivumi.snapshot import Snapshot, Workspace

_RANK: Final[dict[Answer, int]] = {"accept": 0, "ask": 1, "refuse": 2}
UNICODE_ENDS: Final = "\u0085\u2028\u2029\v\f\x1c\x1d\x1e"
"""Marks beside `\\n` at which the original cuts lines (formats/rivumi.md 9, weakness 7)."""


class Ours(msgspec.Struct, frozen=True):
    """Our own answer."""

    outcome: Answer
    reasons: tuple[Reason, ...] = ()
    """Why it is not accepted."""
    notes: tuple[Reason, ...] = ()
    """What is worth knowing and stops nothing."""
    uncertain: tuple[CallLife, ...] = ()
    """Calls and checks of which nobody can say whether they ran: the reader decides each."""


class Verdict(msgspec.Struct, frozen=True):
    """Both answers on one run."""

    run_id: str
    original: Original
    replay: Original
    """What the original's replay answers: its two readers disagree (weakness 8)."""
    ours: Ours
    outcome: Answer
    """The stricter of the two."""

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why it is not accepted: the original's reason first, where it has one."""
        if self.original.ok:
            return self.ours.reasons
        text = self.original.error or _UNKNOWN.get(self.original.code, "cannot be foretold")
        return (Reason(f"original:{self.original.code}", f"its own program: {text}"), *self.ours.reasons)


_UNKNOWN = {
    "link_outside": "a link leads out of the run, and was not followed",
    "blocks": "it would wait for a pipe or device",
    "git_elsewhere": "git keeps the data of the workspace elsewhere",
}


def verdict(snapshot: Snapshot, *, now: float | None = None) -> Verdict:
    """Give both answers on a run.

    Args:
        snapshot: What was read of it.
        now: The time in seconds since 1970; None leaves the time budget out.
    """
    original = resume_of_original(snapshot)
    reading = read_snapshot(snapshot)
    ours = _ours(snapshot, reading, now)
    theirs: Answer = "accept" if original.ok else "refuse"
    outcome = max(ours.outcome, theirs, key=_RANK.__getitem__)
    # A started effect is the one refusal with an exit: the reader can say what became of it.
    if original.code == "in_flight_side_effect" and ours.outcome == "ask":
        outcome = "ask"
    run_id = (reading.manifest.run_id if reading.manifest is not None else "") or snapshot.name
    return Verdict(run_id, original, replay_of_original(snapshot), ours, outcome)


def verdict_json(found: Verdict) -> dict[str, Json]:
    """Give a verdict as `--plan --json` prints it."""
    return {
        "run_id": found.run_id,
        "outcome": found.outcome,
        "original": {"ok": found.original.ok, "code": found.original.code},
        "replay": {"ok": found.replay.ok, "code": found.replay.code},
        "ours": found.ours.outcome,
        "reasons": [{"code": reason.code, "message": reason.message} for reason in found.reasons],
        "notes": [{"code": note.code, "message": note.message} for note in found.ours.notes],
        "calls": [
            {"id": call.id, "name": call.name, "effect": call.effect, "verdict": "unknown"}
            for call in found.ours.uncertain
        ],
    }


class _Case:
    """Collects what speaks against going on."""

    def __init__(self) -> None:
        self.refused: list[Reason] = []
        self.asked: list[Reason] = []
        self.notes: list[Reason] = []
        self.uncertain: list[CallLife] = []

    def refuse(self, code: str, text: str) -> None:
        self.refused.append(Reason(code, text))

    def ask(self, code: str, text: str) -> None:
        self.asked.append(Reason(code, text))

    def note(self, code: str, text: str) -> None:
        self.notes.append(Reason(code, text))

    def answer(self) -> Ours:
        outcome: Answer = "refuse" if self.refused else "ask" if self.asked else "accept"
        reasons = (*self.refused, *self.asked)
        return Ours(outcome, reasons, tuple(self.notes), tuple(self.uncertain))


def _ours(snapshot: Snapshot, reading: Reading, now: float | None) -> Ours:
    case = _Case()
    _files(case, snapshot)
    manifest = reading.manifest
    problem = "" if snapshot.manifest.state == "missing" else reading.manifest_problem or "it is odd"
    for barred in barred_by(manifest, snapshot.name, problem=problem):
        case.refuse(barred.code, barred.message)
    if manifest is None:
        return case.answer()
    _schema(case, "manifest", "session.json", manifest.raw)
    _log(case, reading.log, manifest)
    if snapshot.events.state in {"read", "missing"} and not reading.log.bad and reading.log.torn is None:
        _position(case, reading.log, reading.state, manifest)
    _effects(case, reading.state, manifest, inherited_of(reading.log.events))
    _request(case, reading.request, manifest)
    if reading.state.phase in schema.ENDED and not manifest.terminal:
        case.note("events_ended", f"the events say that the run {reading.state.phase}, the manifest does not")
    elsewhere = workspace_problem(snapshot.workspace, manifest.base_sha)
    if elsewhere:
        case.refuse("workspace", elsewhere)
    if now is not None:
        _budget(case, manifest, reading.request, now)
    return case.answer()


def _files(case: _Case, snapshot: Snapshot) -> None:
    if snapshot.holder:
        case.refuse("locked", f"{snapshot.holder} holds the run")
    if snapshot.lock in {"link", "other"}:
        case.refuse("lock", ".writer.lock is not a file")
    if snapshot.moving:
        case.refuse("moving", "a writer is at work: the files changed while they were read")
    for part in (snapshot.manifest, snapshot.request, snapshot.events):
        if part.state not in {"read", "missing"}:
            case.refuse("not_regular", f"{part.name}: {part.detail or part.state}")


def _schema(case: _Case, kind: schema.Kind, name: str, value: object) -> None:
    refusal = schema.taken(kind, value)
    if not isinstance(refusal, schema.Refusal):
        return
    text = f"{name}: {refusal.where or 'as a whole'}: {refusal.what}"
    if refusal.extra:
        case.note(f"{kind}_extra", f"{text}; here it stops nothing")
    else:
        case.refuse(f"{kind}_schema", text)


def _log(case: _Case, log: EventLog, manifest: Manifest) -> None:
    if log.torn is not None:
        case.refuse("torn_tail", f"line {log.torn.line} of events.jsonl is cut off")
    elif log.unterminated:
        case.refuse("no_final_newline", "the next event would be glued to the last one: it has no line end")
    for bad in log.bad[:1]:
        case.refuse("invalid_event", f"line {bad.line} of events.jsonl: {bad.reason}")
    if log.bom:
        case.refuse("bom", "a byte order mark stands before the first event")
    for expected, event in enumerate(log.events):
        if event.sequence != expected:
            text = f"line {event.line} has sequence {event.sequence}, not {expected}"
            case.refuse("not_contiguous", text)
            break
    for event in log.events:
        if event.run_id != manifest.run_id or event.task_id not in {None, manifest.task_id}:
            case.refuse("foreign_event", f"line {event.line} is of another run or task")
            break
    odd = next((event for event in log.events if event.odd), None)
    if odd is not None:
        case.refuse("invalid_event", f"line {odd.line}: {odd.odd[0]}")
    if any(_has_unicode_end(value) for event in log.events for value in event.data.values()):
        case.note(
            "unicode_line_end", "a text holds a line end of Unicode, at which its own program cuts lines"
        )


def _has_unicode_end(value: Json) -> bool:
    if isinstance(value, str):
        return any(mark in value for mark in UNICODE_ENDS)
    if isinstance(value, dict):
        return any(_has_unicode_end(item) for item in value.values())
    return isinstance(value, list) and any(_has_unicode_end(item) for item in value)


def _position(case: _Case, log: EventLog, state: EventsState, manifest: Manifest) -> None:
    ahead = manifest.last_event_sequence - state.last_sequence
    if ahead < 0:
        case.refuse(
            "manifest_behind", f"the manifest is {-ahead} behind the events: lost writes, or two tools"
        )
    elif ahead > 1:
        case.refuse("manifest_ahead", f"the manifest is {ahead} ahead of the events: {ahead} events are lost")
    elif ahead == 1 and log.events:
        case.note("manifest_ahead_one", "the manifest is one ahead: the last event was not written")
        waiting = state.waiting
        # Its pending action is cleared only after the line of the start is on disk.
        known = waiting is None or ended_unrecorded(waiting, state, manifest) is not None
        if waiting is not None and not known and waiting.effect != "read" and manifest.pending is None:
            case.ask("lost_start", f"{waiting.id} was allowed, and the event that is lost may be its start")
            case.uncertain.append(waiting)


def _effects(case: _Case, state: EventsState, manifest: Manifest, origin: Inherited | None) -> None:
    for call in state.open_calls:
        if ended_unrecorded(call, state, manifest) is not None:
            case.note("end_not_recorded", f"{call.id} ({call.name}) ended: its result is in the conversation")
        elif call.uncertain:
            case.ask("uncertain_effect", f"{call.id} ({call.name}) was started, and no end of it is recorded")
            case.uncertain.append(call)
        else:
            case.ask("open_read", f"{call.id} ({call.name}) was started; it reads only and can run again")
    pending = "" if manifest.pending is None else manifest.pending.action_id
    lives = {call.id: call for call in state.calls}
    open_ids = {call.id for call in state.open_calls}
    if manifest.pending is not None and pending not in open_ids and not manifest.terminal:
        life = lives.get(pending)
        allowed = life is not None and life.decision.startswith("allow")
        stood = "was allowed and had not begun" if allowed else "waited for an answer"
        before = ""
        if life is None and origin is not None:
            stood, before = "did not run in this fork", origin.before(pending)
        text = f"{manifest.pending.name} {stood}: a resume abandons that, and it has to be asked for again"
        case.note("question_abandoned", text)
        if before:
            case.note("started_in_parent", f"{manifest.pending.name}: {before}")
    for lost in dangling(manifest):
        if lost.id == pending or lost.id in open_ids:
            continue
        life = lives.get(lost.id)
        ended = life is not None and life.ended is not None
        what = "it ended, but the model would not see its result" if ended else "it was never started"
        if life is None and origin is not None:
            what = origin.said(lost.id)
        case.ask("dangling_call", f"{lost.id} ({lost.name}) has no result in the conversation: {what}")


def ended_unrecorded(call: CallLife, state: EventsState, manifest: Manifest) -> dict[str, Json] | None:
    """Give the observation of a call whose end is the one event that the manifest is ahead.

    A writer that puts the observation into the manifest which goes before the line of the end leaves it
    there when it dies between the two: then the outcome is known.
    """
    if manifest.last_event_sequence != state.last_sequence + 1:
        return None
    return observed_last(manifest, call.id)


def _request(case: _Case, request: Request | None, manifest: Manifest) -> None:
    if request is None:
        case.refuse("request", "request.json is missing or cannot be read")
        return
    _schema(case, "request", "request.json", request.raw)
    if request.task_id != manifest.task_id:
        case.refuse("request", f"request.json is of task {request.task_id}, the run of {manifest.task_id}")
    elif request.base_sha.lower() != manifest.base_sha.lower():
        case.refuse("request", "request.json names another commit than session.json")


def workspace_problem(workspace: Workspace, base_sha: str) -> str:
    """Say why a run cannot go on in a workspace; nothing where it can."""
    match workspace.state:
        case "missing":
            return "the workspace is missing"
        case "link":
            return "the workspace is a symbolic link"
        case "not_directory":
            return "the workspace is not a directory"
        case "git" if workspace.head.lower() == base_sha.lower():
            return ""
        case "git":
            return f"the workspace is at commit {workspace.head[:12] or 'unknown'}, not at the recorded one"
        case _:
            return (
                f"the workspace is no clone of its own{f': {workspace.detail}' if workspace.detail else ''}"
            )


def _budget(case: _Case, manifest: Manifest, request: Request | None, now: float) -> None:
    left = seconds_left(manifest, request, now)
    if left is None:
        case.note("clock", "the recorded start of work cannot be compared with the clock")
    elif left <= 0:
        text = "its own program counts the time since it died: a resume now ends the run for good"
        case.ask("wall_time", f"the time budget is passed by {length(-left)}: {text}")
    else:
        case.note("time_left", f"{length(left)} of the time budget are left if resumed now")
