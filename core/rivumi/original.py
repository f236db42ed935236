"""What the original's resume would answer, without asking it: it changes a run even when it refuses.

The steps and their order are those of formats/rivumi.md 5; the first that fails gives the answer.
"""

from __future__ import annotations

import json
from typing import Final

import msgspec

from refold.core.rivumi import schema
from refold.core.rivumi.kinds import STARTS
from refold.core.rivumi.replay import ReplayRefused, replay_bytes
from refold.core.rivumi.snapshot import RESUME_LIMIT, Part, Snapshot

OK: Final = "ok"
UNKNOWN: Final = frozenset({"link_outside", "blocks", "git_elsewhere"})
"""Codes of what cannot be foretold: a file beyond the run decides, or the original would hang."""

_ARTIFACTS = {
    "missing": "missing session artifact: {}",
    "too_large": "session artifact is too large: {}",
    "json": "invalid JSON session artifact: {}",
}
_DIRECTORY = "a directory"
_INVALID = "SessionValidationError"
_REPLAY = "ReplayValidationError"
_IN_FLIGHT = (
    "session stopped during a side effect; automatic resume cannot prove whether the action completed"
)


class Original(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of the original."""

    code: str
    """ok, or the short name of the rule (formats/rivumi.md 10)."""
    ok: bool | None
    """None where it cannot be foretold."""
    error: str = ""
    """Its words."""
    error_class: str = ""
    """The exception it raises."""
    uncaught: bool = False
    """Its own command line does not catch that exception."""
    rewritten: bool = False
    """It would have changed the manifest by then."""
    repaired: bool = False
    """It would have taken the sequence of the manifest back by one."""
    last_sequence: int | None = None
    """Where it would go on from."""


class _Stop(Exception):
    """The step that fails."""

    def __init__(self, code: str, error: str = "", *, uncaught: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.error = error
        self.uncaught = uncaught


class _Progress(msgspec.Struct):
    rewritten: bool = False
    repaired: bool = False


def resume_of_original(snapshot: Snapshot, *, allow_terminal: bool = False) -> Original:
    """Say what the original's resume would answer."""
    progress = _Progress()
    try:
        last = _walk(snapshot, progress, allow_terminal=allow_terminal)
    except _Stop as stop:
        if stop.code in UNKNOWN:
            return Original(code=stop.code, ok=None, rewritten=progress.rewritten)
        return Original(
            code=stop.code,
            ok=False,
            error=stop.error,
            error_class=stop.uncaught or ("SessionBusyError" if stop.code == "busy" else _INVALID),
            uncaught=bool(stop.uncaught) or stop.code == "busy",
            rewritten=progress.rewritten,
            repaired=progress.repaired,
        )
    return Original(code=OK, ok=True, rewritten=True, repaired=progress.repaired, last_sequence=last)


def replay_of_original(snapshot: Snapshot) -> Original:
    """Say what the original's replay would answer."""
    try:
        problem = _unread(snapshot.events, limit=None)
    except _Stop as stop:
        return Original(code=stop.code, ok=None)
    if problem:
        directory = snapshot.events.detail == _DIRECTORY
        what = "Is a directory" if directory else snapshot.events.detail
        why = f"could not read event JSONL: {what}"
        return Original(code="unreadable", ok=False, error=why, error_class=_REPLAY)
    try:
        state = replay_bytes(snapshot.events.data)
        state.canonical()
    except ReplayRefused as refused:
        return Original(
            code=refused.code,
            ok=False,
            error=str(refused),
            error_class=refused.uncaught or _REPLAY,
            uncaught=bool(refused.uncaught),
        )
    return Original(code=OK, ok=True, last_sequence=state.last_sequence)


def _walk(snapshot: Snapshot, progress: _Progress, *, allow_terminal: bool) -> int:
    _lease(snapshot)
    manifest = _taken("manifest", snapshot.manifest, "session.json does not match the supported schema")
    progress.rewritten = True
    _request(snapshot.request, manifest)
    last, tail = _events(snapshot.events, manifest)
    progress.repaired = manifest.get("last_event_sequence", -1) == last + 1
    if not progress.repaired and tail in STARTS:
        raise _Stop("in_flight_side_effect", _IN_FLIGHT)
    _workspace(snapshot, str(manifest["base_sha"]))
    if manifest.get("terminal") and not allow_terminal:
        raise _Stop("terminal", "terminal sessions cannot be resumed")
    return last


def _lease(snapshot: Snapshot) -> None:
    if snapshot.lock in {"link", "other"}:
        what = "Too many levels of symbolic links" if snapshot.lock == "link" else "not a file"
        raise _Stop("lock", f"{what}: '.writer.lock'", uncaught="OSError")
    if snapshot.holder:
        raise _Stop("busy", "session already has an active writer")


def _taken(kind: schema.Kind, part: Part, error: str) -> schema.Fields:
    made = schema.taken(kind, _json(kind, part))
    if isinstance(made, schema.Refusal):
        raise _Stop(f"{kind}_schema", error)
    return made


def _json(kind: schema.Kind, part: Part) -> object:
    """Decode a side file as the original does."""
    problem = _unread(part)
    if problem:
        raise _Stop(f"{kind}_{problem}", _ARTIFACTS[problem].format(part.name))
    try:
        value: object = json.loads(part.data.decode())
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise _Stop(f"{kind}_json", _ARTIFACTS["json"].format(part.name)) from None
    except (ValueError, RecursionError) as error:
        raise _Stop(f"{kind}_json", str(error), uncaught=type(error).__name__) from None
    return value


def _unread(part: Part, *, limit: int | None = RESUME_LIMIT) -> str:
    """Why the original cannot read a file: missing, too_large, json; empty where it can.

    Raises:
        _Stop: nobody here can say.
    """
    if part.state == "missing" or part.target == "missing":
        return "missing"
    if part.target == "outside":
        raise _Stop("link_outside")
    if part.state == "not_regular" and part.detail != _DIRECTORY:
        raise _Stop("blocks")
    if part.state == "too_large" or (limit is not None and part.size > limit):
        return "too_large"
    return "" if part.known else "json"


def _request(part: Part, manifest: schema.Fields) -> None:
    request = _taken("request", part, "request.json is not a valid task contract")
    # A task id that is missing is made up by the original, so it never agrees.
    if request.get("task_id") != manifest["task_id"]:
        raise _Stop("request_task_id", "request task_id does not match session")
    base = request.get("base_sha")
    if base is None or str(base).lower() != str(manifest["base_sha"]).lower():
        raise _Stop("request_base_sha", "request base_sha does not match session")


def _events(part: Part, manifest: schema.Fields) -> tuple[int, str]:
    """The last sequence of the log and the type that stands there."""
    claimed = manifest.get("last_event_sequence", -1)
    problem = _unread(part)
    if problem == "missing":
        if claimed == -1:
            return -1, ""
        raise _Stop("events_missing", "events.jsonl is missing")
    if problem == "too_large":
        raise _Stop("events_too_large", "events.jsonl is too large to resume safely")
    events = [] if problem else _decoded(part.data)
    if problem or events is None:
        raise _Stop("invalid_event", "events.jsonl contains an invalid event")
    for expected, event in enumerate(events):
        if event["sequence"] != expected:
            raise _Stop("not_contiguous", "event sequence is not contiguous")
        if event["run_id"] != manifest["run_id"]:
            raise _Stop("run_id", "event run_id does not match session")
        if event.get("task_id") not in {None, manifest["task_id"]}:
            raise _Stop("task_id", "event task_id does not match session")
    last = len(events) - 1
    if claimed not in {last, last + 1}:
        raise _Stop("sequence_mismatch", "manifest event sequence does not match events.jsonl")
    return last, str(events[-1]["event_type"]) if events else ""


def _decoded(data: bytes) -> list[schema.Fields] | None:
    """The events of a log cut at every line end that Unicode knows; None where one of them is invalid."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    events: list[schema.Fields] = []
    for line in text.replace("\r\n", "\n").replace("\r", "\n").splitlines():
        if line.strip():
            event = schema.event_taken(line)
            if event is None:
                return None
            events.append(event)
    return events


def _workspace(snapshot: Snapshot, base_sha: str) -> None:
    workspace = snapshot.workspace
    match workspace.state:
        case "missing" | "link" | "not_directory":
            raise _Stop("workspace", "session workspace is missing or is a symlink")
        case "no_git":
            raise _Stop("workspace", "session workspace is not a valid Git worktree")
        case "unknown":
            raise _Stop("git_elsewhere")
    if workspace.head.lower() != base_sha.lower():
        raise _Stop("workspace", "workspace HEAD does not match the recorded base_sha")
