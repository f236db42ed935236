"""What is wrong with a run that is a directory, each with its place (design/contracts.md "Findings")."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from refold.core.findings import CODES, Allowed, Finding, Severity
from refold.core.rivumi import schema
from refold.core.rivumi.events import BadLine, Event, EventLog
from refold.core.rivumi.kinds import KNOWN
from refold.core.rivumi.manifest import dangling
from refold.core.rivumi.reading import Reading, is_external, read_snapshot
from refold.core.rivumi.replay import MAX_LINE
from refold.core.rivumi.snapshot import RESUME_LIMIT, Part, PartState, Snapshot
from refold.core.rivumi.verdict import UNICODE_ENDS, Verdict, verdict, workspace_problem
from refold.core.sizes import sized

_CODES: Final[dict[PartState, str]] = {
    "link": "E_NOT_REGULAR",
    "not_regular": "E_NOT_REGULAR",
    "not_permitted": "E_PERM",
    "too_large": "E_OVERSIZE",
    "unreadable": "E_PERM",
}
_FIRST: Final = 100
"""Findings of one kind that are listed; a log can hold millions."""


_BEFORE: Final = "fork at the last sequence before it; what follows can still be read"
_SALVAGE: Final = ", or salvage the good records"
"""What is done with journals alone: the conversation of a directory stands in no log."""
_LOG: Final = "events.jsonl"
_CLAIMS: Final = "session.json"
_IN_ITS_PLACE: Final = "move away what lies there, and bring the file back from a copy"


def findings(
    snapshot: Snapshot, *, found: Verdict | None = None, reading: Reading | None = None
) -> tuple[Finding, ...]:
    """Give everything that is wrong or odd, the files first, then the lines in their order.

    Args:
        snapshot: What was read.
        found: The verdict on it, where it is known already.
        reading: What it means, likewise.
    """
    found = found or verdict(snapshot)
    reading = reading or read_snapshot(snapshot)
    allowed = Allowed(fork_to=_fork_to(reading.log), resume=found.outcome == "accept")
    make = _Maker(allowed)
    every = [*_files(make, snapshot, reading), *_lines(make, snapshot, reading)]
    if reading.manifest is not None:
        every.extend(_manifest(make, snapshot, reading))
    return tuple(every)


class _Maker:
    def __init__(self, allowed: Allowed) -> None:
        self._allowed = allowed

    def __call__(
        self,
        code: str,
        message: str,
        at: Event | BadLine | None = None,
        *,
        severity: Severity | None = None,
        remedy: str = "",
        file: str = "",
    ) -> Finding:
        row = CODES[code]
        line, start, end = (0, 0, 0) if at is None else (at.line, at.start, at.end)
        seq = at.sequence if isinstance(at, Event) else None
        return Finding(
            code,
            severity or row.severity,
            seq,
            line,
            start,
            end,
            message,
            remedy or row.remedy.replace(_SALVAGE, ""),
            self._allowed,
            file or (_LOG if at is not None else ""),
        )


def _fork_to(log: EventLog) -> int | None:
    """The last sequence up to which every line is whole and in its place."""
    first_bad = min((bad.line for bad in log.bad), default=None)
    last: int | None = None
    for expected, event in enumerate(log.events):
        if event.sequence != expected or (first_bad is not None and event.line > first_bad):
            break
        last = event.sequence
    return last


def _files(make: _Maker, snapshot: Snapshot, reading: Reading) -> Iterator[Finding]:
    external = is_external(snapshot, reading)
    for part in (snapshot.manifest, snapshot.request, snapshot.events):
        if part.state == "missing" and not (external and part.name == "session.json"):
            yield make("E_MISSING", f"{part.name} is missing", file=part.name)
    for part in (
        snapshot.manifest,
        snapshot.request,
        snapshot.events,
        snapshot.verification,
        snapshot.result,
        snapshot.checkpoint,
    ):
        if part.state in _CODES:
            text = f"{part.name}: {part.detail or part.state}{_leads(part)}"
            yield make(
                _CODES[part.state],
                text,
                file=part.name,
                remedy=_IN_ITS_PLACE if part.state == "not_regular" else "",
            )
        elif part.size > RESUME_LIMIT:
            most = sized(RESUME_LIMIT)
            text = f"{part.name} has {sized(part.size)}; its own program reads no more than {most}"
            remedy = "it is read here, but can be resumed nowhere"
            yield make("E_OVERSIZE", text, remedy=remedy, file=part.name)
    if snapshot.lock in {"link", "other"}:
        yield make(
            "E_NOT_REGULAR",
            f".writer.lock is {'a symbolic link' if snapshot.lock == 'link' else 'no file'}",
            remedy="remove it once no agent is at work on the run: it holds nothing",
            file=".writer.lock",
        )
    if snapshot.holder:
        yield make("E_LOCKED", f"{snapshot.holder} holds the run", severity="info", file=".writer.lock")
    for name, problem, code in (
        ("session.json", reading.manifest_problem, "E_BAD_MANIFEST"),
        ("request.json", reading.request_problem, "E_REQUEST"),
    ):
        part = snapshot.manifest if name == "session.json" else snapshot.request
        if problem and part.known:
            found = make(code, f"{name}: {problem}", file=name)
            start = _breaks_off(part.data)
            line = part.data.count(b"\n", 0, start) + 1
            yield msgspec.structs.replace(found, line=line, start=start, end=len(part.data))
        elif part.known and (at := _not_utf8(part.data)) is not None:
            text = f"{name}: byte {at} is not UTF-8: its own program cannot read the file"
            remedy = "it is read here as well as can be; repair a copy of it"
            found = make("E_BAD_UTF8", text, remedy=remedy, file=name)
            line = part.data.count(b"\n", 0, at) + 1
            yield msgspec.structs.replace(found, line=line, start=at, end=at + 1)
    for name in snapshot.litter:
        text = f"{name}: left behind when a write was interrupted"
        remedy = "nobody reads it; it can be removed"
        yield make("E_FORK_PARTIAL", text, severity="info", remedy=remedy, file=name)


def _breaks_off(data: bytes) -> int:
    """Give the byte at which the JSON of a file goes wrong."""
    try:
        text = data.decode()
        json.loads(text)
    except UnicodeDecodeError as error:
        return error.start
    except json.JSONDecodeError as error:
        torn = error.msg.startswith("Unterminated")
        return len(data) if torn else len(text[: error.pos].encode())
    except (RecursionError, ValueError):
        return 0
    return 0


def _not_utf8(data: bytes) -> int | None:
    """Give the first byte that is not UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


def _leads(part: Part) -> str:
    return {"inside": " to a file of the run", "missing": " to nothing", "outside": " out of the run"}.get(
        part.target, ""
    )


def _lines(make: _Maker, snapshot: Snapshot, reading: Reading) -> Iterator[Finding]:
    log = reading.log
    if snapshot.events.state == "read" and not snapshot.events.size:
        yield make("E_EMPTY", "events.jsonl is empty", file=_LOG)
    if log.bom:
        yield make("E_BOM", "a byte order mark stands before the first event", file=_LOG)
    for bad in log.bad[:_FIRST]:
        yield make(bad.code, f"line {bad.line}: {bad.reason}", bad, remedy=_BEFORE)
    if log.torn is not None:
        yield make("E_TORN_TAIL", f"line {log.torn.line} is cut off", log.torn)
    elif log.unterminated:
        yield make("E_NO_FINAL_NL", "the last event has no line end", log.last)
    yield from _sequences(make, log)
    run_id = reading.manifest.run_id if reading.manifest is not None else reading.state.run_id
    foreign = [event for event in log.events if event.run_id and event.run_id != run_id]
    for event in foreign[:_FIRST]:
        yield make("E_FOREIGN_RUN", f"the event is of run {event.run_id}", event)
    task = reading.manifest.task_id if reading.manifest is not None else None
    if task:
        other = [event for event in log.events if event.task_id not in {None, task}]
        for event in other[:_FIRST]:
            yield make("E_FOREIGN_RUN", f"the event is of task {event.task_id}", event)
    external = not snapshot.manifest.known
    yield from islice(_oddities(make, log, external=external), 3 * _FIRST)
    if not external:
        yield from islice(_refused(make, snapshot.events.data, log), _FIRST)


def _oddities(make: _Maker, log: EventLog, *, external: bool) -> Iterator[Finding]:
    for event in log.events:
        if not external and event.event_type not in KNOWN:
            yield make("E_UNKNOWN_KIND", f"unknown type {event.event_type}", event, severity="info")
        if event.odd:
            yield make("E_BAD_RECORD", f"line {event.line}: {'; '.join(event.odd)}", event)
        if event.end - event.start > MAX_LINE:
            text = f"the line has {sized(event.end - event.start)}; its own program's replay refuses it"
            yield make("E_OVERSIZE", text, event)


def _refused(make: _Maker, data: bytes, log: EventLog) -> Iterator[Finding]:
    """Name the lines that its own program's resume refuses, though they are read here."""
    for event in log.events:
        if event.odd:
            continue
        try:
            text = data[event.start : event.end].decode()
        except UnicodeDecodeError:
            continue
        mark = next((mark for mark in UNICODE_ENDS if mark in text), "")
        if mark:
            what = f"a text holds U+{ord(mark):04X}, at which its own program cuts the line"
            remedy = "its own program resumes no such log; a fork takes the event along"
            yield make("E_BAD_RECORD", f"line {event.line}: {what}", event, severity="warning", remedy=remedy)
            continue
        refusal = schema.event_refusal(text)
        if refusal is not None:
            what = f"its own program refuses {refusal.where or 'the line'}: {refusal.what}"
            yield make("E_BAD_RECORD", f"line {event.line}: {what}", event)


def _sequences(make: _Maker, log: EventLog) -> Iterator[Finding]:
    seen: dict[int, Event] = {}
    highest = -1
    told = 0
    for event in log.events:
        text = ""
        other = seen.setdefault(event.sequence, event)
        if other is not event:
            twice = "the same event again" if event.event_id == other.event_id else "another event"
            code, text = (
                "E_SEQ_DUP",
                f"sequence {event.sequence} stands twice: {twice} as on line {other.line}",
            )
        elif event.sequence < highest:
            code, text = "E_SEQ_BACK", f"sequence {event.sequence} stands after {highest}"
        elif event.sequence > highest + 1:
            code, text = "E_SEQ_GAP", f"sequence {event.sequence} follows {highest}"
        highest = max(highest, event.sequence)
        if text and told < _FIRST:
            told += 1
            remedy = "its own program resumes no log with gaps" if code == "E_SEQ_GAP" else ""
            yield make(code, text, event, remedy=remedy)


def _manifest(make: _Maker, snapshot: Snapshot, reading: Reading) -> Iterator[Finding]:
    manifest, state = reading.manifest, reading.state
    if manifest is None:
        return
    version = manifest.raw.get("schema_version")
    refusal = schema.taken("manifest", manifest.raw)
    if isinstance(version, int) and version > 1:
        yield make("E_NEWER_VERSION", f"session.json is of version {version}, and 1 is read", file=_CLAIMS)
    elif isinstance(refusal, schema.Refusal):
        severity: Severity | None = "warning" if refusal.extra else None
        text = f"session.json: {refusal.where or 'as a whole'}: {refusal.what}"
        yield make("E_BAD_MANIFEST", text, severity=severity, file=_CLAIMS)
    if manifest.run_id != snapshot.name:
        text = f"session.json is of run {manifest.run_id}, the directory is called {snapshot.name}"
        yield make("E_FOREIGN_RUN", text, file=_CLAIMS)
    ahead = manifest.last_event_sequence - state.last_sequence
    if ahead and snapshot.events.state in {"read", "missing"}:
        code = "E_MANIFEST_AHEAD" if ahead > 0 else "E_MANIFEST_BEHIND"
        where = "ahead of" if ahead > 0 else "behind"
        # One ahead is what a crash of the writer leaves: it saves the manifest first.
        one: Severity | None = "warning" if ahead == 1 else None
        remedy = "a crash leaves it so: a resume goes on after the last event and says why" if one else ""
        yield make(
            code,
            f"the manifest is {abs(ahead)} {where} the events",
            severity=one,
            remedy=remedy,
            file=_CLAIMS,
        )
    if not manifest.terminal:
        places = {event.sequence: event for event in reading.log.events}
        for call in state.open_calls:
            if call.uncertain:
                text = f"{call.id} ({call.name}) was started, and no end of it is recorded"
                yield make("E_UNCERTAIN_EFFECT", text, places.get(call.started or 0))
        pending = "" if manifest.pending is None else manifest.pending.action_id
        for lost in dangling(manifest):
            if lost.id != pending:
                yield make(
                    "E_DANGLING", f"{lost.id} ({lost.name}) has no result in the conversation", file=_CLAIMS
                )
        problem = workspace_problem(snapshot.workspace, manifest.base_sha)
        if problem:
            yield make("E_WORKSPACE", problem, file="workspace")
    request = reading.request
    if request is not None and request.task_id != manifest.task_id:
        yield make(
            "E_REQUEST",
            f"request.json is of task {request.task_id}, the run of {manifest.task_id}",
            file="request.json",
        )
    elif request is not None and request.base_sha.lower() != manifest.base_sha.lower():
        yield make("E_REQUEST", "request.json names another commit than session.json", file="request.json")
