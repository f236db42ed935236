"""From what was read of a run directory to its row of the list (design/contracts.md "Status")."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

import msgspec

from refold.core.errors import BadRecord
from refold.core.findings import LEFT_BY_A_CRASH, is_damage
from refold.core.records import Json
from refold.core.rivumi.barred import barred_by
from refold.core.rivumi.events import json_object
from refold.core.rivumi.kinds import STARTS
from refold.core.rivumi.log_facts import LogFacts
from refold.core.rivumi.manifest import Manifest, Request, read_manifest, read_request
from refold.core.rivumi.members import Members
from refold.core.rivumi.snapshot import RESUME_LIMIT, Part, PartState
from refold.core.sizes import sized
from refold.core.status import Status
from refold.core.summary import RunSummary

VERSION: Final = 1
"""The version of the manifest that is read."""
LONGEST_PROMPT: Final = 65_536
_LONGEST_WORDS: Final = 500
_MOST_NAMES: Final = 64
_ENDED: Final = frozenset({"completed", "failed", "cancelled"})
_WAITS: Final = frozenset({"waiting_approval", "paused"})
_NO_HOLDER: Final = "no holder seen from here"
_PASSABLE: Final = LEFT_BY_A_CRASH | {"E_BAD_MANIFEST"}
_CODES: Final[dict[PartState, str]] = {
    "link": "E_NOT_REGULAR",
    "not_regular": "E_NOT_REGULAR",
    "not_permitted": "E_PERM",
    "unreadable": "E_PERM",
    "too_large": "E_OVERSIZE",
}


class Found(NamedTuple):
    """What is known of a run before any of its files is read."""

    name: str
    """The name of the directory."""
    path: str
    updated: float
    size: int
    lock_odd: bool = False
    """Something that is no file lies in the place of the lock."""


class Parts(msgspec.Struct, frozen=True):
    """The files of a run, the log apart."""

    manifest: Part = Part("session.json")
    request: Part = Part("request.json")
    events: Part = Part("events.jsonl")
    """Without its bytes."""
    result: Part = Part("result.json")
    """Read only where there is no manifest."""
    checkpoint: Part = Part("checkpoint.json")
    moving: bool = False
    """A writer was at work: manifest and log are of different moments."""


def summary(found: Found, parts: Parts, log: LogFacts) -> RunSummary:
    """Give the row of a run that was read to the end of its log."""
    manifest, wrong = _manifest(parts.manifest)
    request, bad_request = _request(parts.request)
    outcome = outcome_of(parts)
    status = standing(manifest, wrong, parts, log, outcome)
    codes = _codes(found, parts, log, manifest)
    codes["E_REQUEST"] += bad_request
    if wrong and parts.manifest.state == "read":
        codes["E_BAD_MANIFEST"] += 1
    codes = +codes
    counts = _counts(manifest, log)
    reason = log.reason or (outcome.text("terminal_reason") if outcome is not None else "")
    row = RunSummary(
        id=found.name,
        path=found.path,
        format="rivumi",
        status=status.name,
        rule=status.rule,
        model=(manifest.model if manifest is not None else "") or log.model or _backend(outcome),
        created=log.created,
        updated=found.updated,
        size=found.size,
        turns=counts.turns,
        calls=counts.calls,
        errors=counts.errors,
        tokens=manifest.tokens.total if manifest is not None else log.tokens,
        spent_input=log.spent[0],
        spent_output=log.spent[1],
        spent_cache_read=log.spent[2],
        models=max(1, len(log.models)),
        prompt=_prompt(request, manifest),
        problems=tuple(sorted(codes)),
        damaged=sum(count for code, count in codes.items() if is_damage(code)),
        torn=log.torn,
        last_seq=log.last_sequence,
        in_flight=log.open_calls()[:_MOST_NAMES],
        last_words=counts.words or _summary_text(manifest),
        tools=tuple(sorted(log.tools)),
        fork_of=log.parent,
        reason=reason,
        provider_version=_version(manifest, outcome, log),
        barred=next((each.message for each in barred_by(manifest, found.name, problem=wrong)), "")
        or _damage(codes)
        or _misfit(manifest, request, log)
        or _started(manifest, log)
        or _too_large(parts),
    )
    return msgspec.structs.replace(row, note=status.rule) if status.name == "unreadable" else row


def _damage(codes: Counter[str]) -> str:
    """Say what damage no resume goes past: what a crash leaves can be repaired, an odd claim may pass."""
    named = sorted(code for code in codes if is_damage(code) and code not in _PASSABLE)
    return f"its files are damaged: {', '.join(named)}" if named else ""


def _started(manifest: Manifest | None, log: LogFacts) -> str:
    """Say that its own program refuses it for a start that is the last event (formats/rivumi.md 5)."""
    if manifest is None or log.tail not in STARTS or manifest.last_event_sequence == log.last_sequence + 1:
        return ""
    named = ", ".join(log.open_calls()[-1:])[:_LONGEST_WORDS] or "a call"
    return f"{named} was started and has no end: its own program refuses such a run, whatever is decided"


def _misfit(manifest: Manifest | None, request: Request | None, log: LogFacts) -> str:
    """Say which rule of its own program, for whom such a run is closed, it breaks (formats/rivumi.md 5)."""
    if not log.is_contiguous:
        return "its events are not numbered 0, 1, 2 …: its own program resumes no log with gaps"
    if manifest is None:
        return ""
    if manifest.unknown:
        names = ", ".join(manifest.unknown)[:_LONGEST_WORDS]
        return f"session.json has keys that its own program refuses: {names}"
    if request is not None and request.task_id != manifest.task_id:
        return f"request.json is of task {request.task_id}, the run of {manifest.task_id}"
    if request is not None and request.base_sha.lower() != manifest.base_sha.lower():
        return "request.json names another commit than session.json"
    return ""


def _too_large(parts: Parts) -> str:
    """Say which file its own program does not read for its size."""
    large = next(
        (each for each in (parts.events, parts.manifest, parts.request) if each.size > RESUME_LIMIT), None
    )
    if large is None:
        return ""
    return f"{large.name} has {sized(large.size)}; its own program reads no more than {sized(RESUME_LIMIT)}"


def closed(found: Found, note: str, code: str) -> RunSummary:
    """Give the row of a run that cannot be looked into."""
    return RunSummary(
        id=found.name,
        path=found.path,
        format="rivumi",
        rule=note,
        updated=found.updated,
        problems=(code,) if code else (),
        damaged=1 if code else 0,
        note=note,
    )


def standing(
    manifest: Manifest | None, wrong: str, parts: Parts, log: LogFacts, outcome: Members | None = None
) -> Status:
    """Give the status of a run that nobody holds.

    Args:
        manifest: What it claims; None where there is none, or none that can be read.
        wrong: Why it cannot be read.
        parts: The files.
        log: What the events say.
        outcome: What is recorded of the end of a run without a manifest.
    """
    torn = "; a torn event follows" if log.torn else ""
    if manifest is None:
        return _without_manifest(wrong, parts, log, outcome, torn)
    version = manifest.raw.get("schema_version")
    if isinstance(version, int) and version > VERSION:
        return Status("newer", f"written as version {version}; this build reads up to version {VERSION}")
    if manifest.phase in _ENDED:
        return _ended(manifest.phase, log.reason, "session.json", torn)
    if log.tail == "run.forked" and log.parent:
        at = f" at seq {log.parent_sequence}" if log.parent_sequence >= 0 else ""
        return Status("ready", f"forked{at} of {log.parent[:64]}; nothing was appended since")
    ahead = manifest.last_event_sequence - log.last_sequence
    one = "; its last event was not written" if ahead == 1 and not parts.moving and not log.torn else ""
    if manifest.phase in _WAITS:
        pending = manifest.pending
        asked = f" of {(pending.name or pending.action_id)[:64]}" if pending is not None else ""
        said = "it is paused" if manifest.phase == "paused" else f"it waits for an approval{asked}"
        return Status("suspended", f"{said}{one}{torn}; {_NO_HOLDER}")
    phase = manifest.phase[:64] or "no phase"
    return Status("crashed", f"session.json says {phase}{one}{torn}; {_NO_HOLDER}")


def _ended(phase: str, reason: str, where: str, torn: str) -> Status:
    if phase == "completed":
        return Status("completed", f"{where} says completed{torn}")
    if phase == "cancelled":
        return Status("cancelled", f"{where} says that the run was cancelled{_because(reason)}{torn}")
    if reason == "max_steps_exceeded":
        return Status("max-iterations", f"the run failed: the limit of steps was reached{torn}")
    if reason == "token_budget_exceeded":
        return Status("budget", f"the run failed: the token budget was used up{torn}")
    return Status("failed", f"{where} says that the run failed{_because(reason)}{torn}")


def _because(reason: str) -> str:
    return f": {reason if len(reason) <= 80 else reason[:79] + '…'}" if reason else ""


def _without_manifest(wrong: str, parts: Parts, log: LogFacts, outcome: Members | None, torn: str) -> Status:
    if parts.manifest.state != "missing":
        if parts.manifest.state == "read" and not parts.manifest.data.strip() and not log.events:
            return Status("empty", "session.json is empty, and there is no event")
        return Status("unreadable", f"session.json cannot be read: {wrong}")
    if outcome is not None:
        phase = outcome.text("status")
        if phase in _ENDED:
            where = "result.json" if parts.result.known else "checkpoint.json"
            return _ended(phase, outcome.text("terminal_reason"), where, torn)
    if log.ended:
        return _ended(log.ended, log.reason, "the last event", torn)
    if not log.events and parts.request.state == "missing" and outcome is None:
        return Status("empty", "the directory holds nothing of a run but traces")
    program = _backend(outcome)
    if program:
        return Status("crashed", f"a run of {program[:64]}, whose end is not recorded; {_NO_HOLDER}")
    return Status("crashed", f"there is no session.json, and no end is recorded{torn}; {_NO_HOLDER}")


def _manifest(part: Part) -> tuple[Manifest | None, str]:
    if part.state == "missing":
        return None, ""
    if part.state != "read":
        return None, part.detail or part.state
    try:
        return read_manifest(part.data), ""
    except BadRecord as error:
        return None, error.reason


def _request(part: Part) -> tuple[Request | None, bool]:
    if part.state != "read":
        return None, False
    try:
        return read_request(part.data), False
    except BadRecord:
        return None, True


def outcome_of(parts: Parts) -> Members | None:
    """What is recorded of a run without a manifest: its result, else its checkpoint."""
    read: dict[str, Json] = {}
    for part in (parts.checkpoint, parts.result):
        if part.state == "read":
            try:
                read |= json_object(part.data)
            except BadRecord:
                continue
    return Members(read) if read else None


def _backend(outcome: Members | None) -> str:
    return outcome.text("backend_name") if outcome is not None else ""


def _version(manifest: Manifest | None, outcome: Members | None, log: LogFacts) -> str:
    if manifest is not None:
        return f"rivumi {manifest.generation}"
    program = _backend(outcome)
    if program:
        return f"rivumi, run by {program[:64]}"
    return "rivumi, run by another tool" if log.external else ""


def _prompt(request: Request | None, manifest: Manifest | None) -> str:
    if request is not None and request.instruction:
        return request.instruction[:LONGEST_PROMPT]
    for item in manifest.messages if manifest is not None else ():
        if isinstance(item, dict) and item.get("role") == "user":
            return Members(item).text("content")[:LONGEST_PROMPT]
    return ""


class _Counts(NamedTuple):
    """What was said and done."""

    turns: int
    calls: int
    errors: int
    words: str


def _counts(manifest: Manifest | None, log: LogFacts) -> _Counts:
    """Count from the events; in a fork from the conversation, for what it inherits stands only there."""
    if manifest is None or not log.parent:
        return _Counts(log.turns, log.requested, log.errors, log.words)
    items = [item for item in manifest.messages if isinstance(item, dict)]
    said = [item for item in items if item.get("role") == "assistant"]
    words = [text for item in said if (text := Members(item).text("content").strip())]
    return _Counts(
        max(log.turns, len(said)),
        max(log.requested, sum(len(Members(item).many("tool_calls")) for item in said)),
        max(log.errors, sum(item.get("ok") is False for item in items)),
        log.words or (words[-1][:_LONGEST_WORDS] if words else ""),
    )


def _summary_text(manifest: Manifest | None) -> str:
    return Members(manifest.raw).text("final_summary")[:_LONGEST_WORDS] if manifest is not None else ""


def _codes(found: Found, parts: Parts, log: LogFacts, manifest: Manifest | None) -> Counter[str]:
    codes = Counter(log.codes)
    # An external program begins with an empty log (formats/rivumi.md 1).
    external = (
        parts.manifest.state == "missing"
        and parts.events.state == "read"
        and (log.external or not log.events or bool(_backend(outcome_of(parts))))
    )
    for part in (parts.manifest, parts.request, parts.events):
        if part.state == "missing" and not (external and part.name == "session.json"):
            codes["E_MISSING"] += 1
        elif part.state in _CODES:
            codes[_CODES[part.state]] += 1
    if parts.events.state == "read" and not parts.events.size:
        codes["E_EMPTY"] += 1
    codes["E_TORN_TAIL"] += log.torn
    codes["E_NO_FINAL_NL"] += log.unterminated
    codes["E_NOT_REGULAR"] += found.lock_odd
    if manifest is not None:
        codes["E_FOREIGN_RUN"] += (manifest.run_id != found.name) + log.foreign(
            manifest.run_id, manifest.task_id
        )
        codes["E_BAD_MANIFEST"] += bool(manifest.odd) or manifest.terminal != (manifest.phase in _ENDED)
        ahead = manifest.last_event_sequence - log.last_sequence
        # One ahead is what a crash of the writer leaves: it saves the manifest first.
        if not parts.moving and ahead not in {0, 1}:
            codes["E_MANIFEST_AHEAD" if ahead > 0 else "E_MANIFEST_BEHIND"] += 1
    else:
        codes["E_FOREIGN_RUN"] += log.foreign(log.run_id(), "")
    return codes
