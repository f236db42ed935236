"""What is said of a run directory that stopped: how it ended, where its files stand, what is safe. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from refold.core.rivumi import schema
from refold.core.rivumi.budget import length, seconds_of
from refold.core.rivumi.kinds import STARTS
from refold.core.rivumi.members import Members
from refold.core.rivumi.plan import IN_FLIGHT
from refold.core.verdict import (
    NOTHING_LOST,
    STOPPED,
    Verdict,
    at_work,
    before_calls,
    names,
    newer,
    short,
    unsure,
    was,
    way_to_fork,
    while_held,
    without_program,
)

if TYPE_CHECKING:
    from refold.core.postmortem import Action, ActionName, InFlight
    from refold.core.rivumi.manifest import Manifest
    from refold.core.rivumi.postmortem import KnownSession
    from refold.core.rivumi.reading import Reading
    from refold.core.rivumi.snapshot import Snapshot

_REASON: Final = 160
_LOCK_LINE: Final = re.compile(r"pid=(\d{1,10}) token=([0-9a-f]{32})\s*")
_BY_ITSELF: Final = ("it waits", "it was allowed", "not run in this fork")
"""How it is said that a call stands with which its own program does what is to be done."""
_STOPPED: Final = {
    **STOPPED,
    "max-iterations": "It stopped because it had made as many model turns as it may",
}


def verdict_on_session(known: KnownSession, flying: Sequence[InFlight], actions: Sequence[Action]) -> Verdict:
    """Put what was found into words.

    Args:
        known: What was read of the run.
        flying: What has no end, or did not begin.
        actions: What can be done.
    """
    by_name = {action.name: action for action in actions}
    name, reading = known.status.name, known.facts.reading
    if name == "newer":
        return newer(known.status.rule)
    if name == "empty":
        return Verdict(
            "It holds no event: its writer died before the first one.",
            NOTHING_LOST,
        )
    if not reading.log.events and reading.manifest is not None and not known.snapshot.holder:
        return _without_log(known, reading.manifest, by_name)
    happened = _happened(known, flying)
    said = " ".join(filter(None, (_damaged(known), happened, _apart(known))))
    return Verdict(said, _safe(known, flying, by_name) + _mending(known))


def _without_log(known: KnownSession, manifest: Manifest, by_name: Mapping[ActionName, Action]) -> Verdict:
    part = known.snapshot.events
    why = "is missing" if part.state == "missing" else "holds no event that can be read"
    if part.state not in {"missing", "read"}:
        why = f"cannot be read ({part.detail or part.state})"
    if manifest.last_event_sequence <= 0 and part.state in {"missing", "read"}:
        return Verdict(
            f"It died before its first event was written: session.json is there, events.jsonl {why}; "
            "nothing was in flight.",
            NOTHING_LOST,
        )
    count = manifest.last_event_sequence + 1
    events = "an event" if count == 1 else f"{count:,} events"
    return Verdict(
        f"Its log is lost: session.json speaks of {events}, and events.jsonl {why}.",
        "It cannot be resumed, nor forked: bring events.jsonl back from a copy; "
        "the conversation in session.json can be read.",
    )


def _damaged(known: KnownSession) -> str:
    reading, timeline = known.facts.reading, known.timeline
    if known.status.name == "unreadable":
        what = reading.manifest_problem or known.status.rule
        return f"Its session.json cannot be read: {short(what, _REASON)}."
    if not reading.log.bad and timeline.breaks is None:
        return ""
    sound = "nothing before that is sound"
    if timeline.breaks is not None:
        last = timeline.legal_fork(timeline.breaks - 1) if timeline.breaks else None
        sound = sound if last is None else f"all is sound up to seq {last}"
    if reading.log.bad:
        bad = reading.log.bad[0]
        return f"Its log is damaged (line {bad.line}: {short(bad.reason, _REASON)}); {sound}."
    if timeline.breaks is None or timeline.breaks >= timeline.items:
        return ""
    line, seq = timeline.span(timeline.breaks).line, timeline.seq(timeline.breaks)
    if seq is None:
        return ""
    return f"Its events are not in order (line {line} has sequence {seq}); {sound}."


def _happened(known: KnownSession, flying: Sequence[InFlight]) -> str:
    name, reading = known.status.name, known.facts.reading
    if name == "running":
        return at_work(flying)
    if name == "ready":
        return f"It is a fork that nobody has gone on with yet{_begins_with(flying)}."
    if name == "completed":
        end = _open(flying) if flying else ", and nothing is in flight"
        return f"It completed: its task is done{end}.{_one_sided(known)}"
    if name in _STOPPED:
        return f"{_STOPPED[name]}{_open(flying)}.{_one_sided(known)}"
    if name == "failed":
        reason = reading.state.terminal_reason or known.status.rule
        return f"It ended in an error ({short(reason, _REASON)}){_open(flying)}.{_one_sided(known)}"
    if name == "suspended":
        waits = [each for each in flying if each.withheld.startswith("it waits")]
        began = [each for each in flying if not each.said]
        if began:
            return f"It stopped while {names(began)} {was(began)} in flight."
        if waits:
            return f"It waits for an approval of {names(waits)}, which has not begun; nothing is in flight."
        return f"It was suspended{_open(flying)}."
    if reading.manifest is None and name == "crashed":
        return _without_manifest(known, flying)
    return _crashed(known, flying)


def _begins_with(flying: Sequence[InFlight]) -> str:
    """Say with which calls of its parent a fresh fork begins, and of a single one what it did there."""
    if not flying:
        return ""
    said = flying[0].said if len(flying) == 1 and flying[0].said else "not run in this fork"
    return f", with {names(flying)} still to be answered: {said}"


def _one_sided(known: KnownSession) -> str:
    """Say that only one of the two files knows of the end."""
    reading = known.facts.reading
    if reading.manifest is None or not reading.manifest.terminal or reading.state.phase in schema.ENDED:
        return ""
    return " Only session.json says so: the log has no end."


def _open(flying: Sequence[InFlight]) -> str:
    if not flying:
        return "; nothing was in flight"
    if all(each.withheld for each in flying):
        return f"; {names(flying)} {was(flying)} asked for and not answered"
    return f"; {names(flying)} {was(flying)} in flight"


def _without_manifest(known: KnownSession, flying: Sequence[InFlight]) -> str:
    rule = known.status.rule.split(";")[0]
    return f"There is no session.json, and no end is recorded ({short(rule, _REASON)}){_open(flying)}."


def _crashed(known: KnownSession, flying: Sequence[InFlight]) -> str:
    state = known.facts.reading.state
    where = f"in turn {state.step}" if state.step else "before its first turn"
    began = [each for each in flying if not each.said]
    unseen = [each for each in flying if each.said and not each.said.startswith("not run")]
    idle = [each for each in flying if each.said.startswith("not run")]
    if began:
        rest = f" ({names(idle)} of that turn did not begin)" if idle else ""
        lost = state.tail not in STARTS and not any(call.open for call in state.calls)
        start = ", if it began at all: the event that is lost may be its start" if lost else ""
        return f"It died {where} while {names(began)} {was(began)} in flight{rest}{start}."
    if unseen:
        has = "has its end" if len(unseen) == 1 else "have their ends"
        return f"It died {where}: {names(unseen)} {has} in the log, and no result in the conversation."
    if idle:
        return (
            f"It died {where}: {names(idle)} {was(idle)} asked for and did not begin; nothing was in flight."
        )
    if known.status.name == "unreadable":
        return "No call was in flight."
    match state.tail:
        case "run.created":
            return "It died before its workspace was made; nothing was in flight."
        case "workspace.prepared":
            return "It died before the model was asked; nothing was in flight."
        case "model.requested" | "model.retry":
            return f"It died {where} while the model was asked; no tool was in flight."
        case "model.completed":
            return f"It died {where}, after the model's reply; no tool was in flight."
        case "tool.completed":
            return f"It died {where}, after a call had ended; nothing was in flight."
        case tail:
            after = f" after {short(tail, 60)} (seq {state.last_sequence})" if tail else ""
            return f"It died {where}{after}; nothing was in flight."


def _apart(known: KnownSession) -> str:
    """Say where the manifest does not stand where the log ends."""
    reading = known.facts.reading
    if reading.manifest is None or known.status.name == "running" or known.snapshot.moving:
        return ""
    return _position(reading.manifest, reading) if _ahead(reading.manifest, reading) else ""


def _ahead(manifest: Manifest, reading: Reading) -> int:
    return manifest.last_event_sequence - reading.state.last_sequence


def _position(manifest: Manifest, reading: Reading) -> str:
    ahead, last = _ahead(manifest, reading), reading.state.last_sequence
    if not ahead:
        return f"session.json and the log end at the same event, seq {last}."
    if ahead == 1:
        return f"session.json is one ahead of the log: event {last + 1} was announced and not written."
    if ahead > 1:
        return f"session.json is {ahead:,} ahead of the log: events {last + 1} to {last + ahead} are lost."
    return f"session.json is {-ahead:,} behind the log: lost writes, a file brought back, or two tools."


def _safe(known: KnownSession, flying: Sequence[InFlight], by_name: Mapping[ActionName, Action]) -> str:
    name, resume, fork = known.status.name, by_name["resume"], by_name["fork"]
    forking = way_to_fork(fork)
    if name == "running":
        return while_held(fork)
    manifest = known.facts.reading.manifest
    asked = unsure([each for each in flying if not each.said])
    look = f"Look first whether {names(asked)} ran. " if asked else ""
    if (manifest is not None and manifest.terminal) or (manifest is None and name in schema.ENDED):
        return f"{look}Nothing has to be done" + (
            f"; to go on from an earlier point, {forking}." if forking else "; it cannot be forked here."
        )
    mended = known.repair is not None and resume.why_not.startswith("its end")
    if not resume.possible and not mended:
        why = short(resume.why_not.rstrip("."), _REASON).replace("own program: ", "own program says: ", 1)
        rest = f"Safe: {forking}." if forking else "Nothing here changes it; its events can be read."
        return f"It cannot be resumed: {why}. {look}{rest}"
    resuming = "repair its end (m), then resume (r)" if mended else "resume (r)"
    before = f", or {forking}" if forking else ""
    time_up = any(reason.code == "wall_time" for reason in known.plan.reasons)
    missing = known.facts.problem
    late = " Its time is used up: a resume by its own program now ends it for good." if time_up else ""
    if asked:
        did = "it did" if len(asked) == 1 else "they did"
        those = before_calls(flying, fork)
        before = f"{before}, {those}" if before else ""
        if known.facts.found.original.code == IN_FLIGHT:
            mine = "decide (r) for an agent of your own that takes it over"
            ways = f"{forking}, {those}; or {mine}" if forking else mine
            start = f"Nobody can say for sure whether {names(asked)} ran: look first whether {did}, then "
            return f"Its own program refuses to resume it, whatever is decided. {start}{ways}."
        if missing:
            return without_program(missing, flying, fork, f"{resuming} and decide") + late
        start = f"Nobody can say for sure whether {names(asked)} ran: look first whether {did}, then "
        return f"{start}{resuming} and decide{before}.{late}"
    them = "it" if len(flying) == 1 else "them"
    decided = [each for each in flying if not each.withheld.startswith(_BY_ITSELF)]
    if missing:
        hands = f"{resuming} goes on after seq {known.plan.last_seq}"
        then = f"{resuming} and decide" if decided else f"{resuming} can be forced" if time_up else hands
        return without_program(missing, flying, fork, then) + late
    if decided:
        return f"Safe: {resuming}, which asks what becomes of {them}{before}.{late}"
    if time_up:
        forced = f"{resuming} can be forced"
        return (
            f"Safe: {forking}; {forced}.{late}"
            if forking
            else f"Nothing is safe but to look; {forced}.{late}"
        )
    again = " (the model has to ask again)" if flying else ""
    hands = f"{resuming} hands it to its own program after seq {known.plan.last_seq}"
    return f"Safe: {hands}{again}{before}."


def _mending(known: KnownSession) -> str:
    plan = known.repair
    if plan is None:
        return ""
    if plan.action == "complete":
        return " Its last event lacks only its newline; repair (m) adds it."
    are = "byte is" if plan.torn_bytes == 1 else "bytes are"
    return (
        f" Its last {plan.torn_bytes:,} {are} no whole event, as a crash leaves them; "
        "repair (m) keeps them aside."
    )


def claims(reading: Reading, snapshot: Snapshot, now: float) -> tuple[str, ...]:
    """Say where the manifest stands beside the log, whose lease it names, and when its writer last wrote.

    Args:
        reading: What the files mean.
        snapshot: What was read.
        now: Seconds since 1970.
    """
    manifest = reading.manifest
    if manifest is None:
        return ()
    said = [_position(manifest, reading).removesuffix(".")]
    own = Members(manifest.raw)
    token, beat = own.text("active_writer_token"), own.text("writer_heartbeat_at")
    lock = _LOCK_LINE.fullmatch(snapshot.lock_line)
    if not token:
        said.append("no writer ever claimed it")
    elif lock is None:
        said.append(
            "the lock file names no writer" if snapshot.lock == "file" else "its lease is gone: no lock file"
        )
    elif lock[2] == token:
        said.append(f"the lease is that of the last writer, process {lock[1]}: no later one took the lock")
    else:
        said.append(
            f"process {lock[1]} took the lock after the last writer, and wrote nothing: "
            "whoever still has the old lease is fenced off"
        )
    moment = seconds_of(beat) if beat else None
    if moment is not None:
        said.append(f"its writer last wrote {_ago(now - moment)}; a model call that lasts looks the same")
    return tuple(said)


def _ago(seconds: float) -> str:
    return "at a time that is still to come" if seconds < 0 else f"{length(seconds)} ago"
