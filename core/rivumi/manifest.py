"""The manifest and the request of a run, of any generation (formats/rivumi.md 0 and 3).

Every original is closed: it refuses a key that it does not know. Here unknown keys are kept and named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from refold.core.errors import BadRecord
from refold.core.records import Json
from refold.core.rivumi.events import json_object, json_value
from refold.core.rivumi.members import Members, capped

Generation: TypeAlias = Literal["G1", "G2", "G3", "external"]
"""Which program wrote a run; external: a run of another tool, which has no manifest."""

OLD_PROMPT: Final = "m2-unversioned-patch"
"""What a manifest without a prompt version stands for."""

FIRST_FIELDS: Final = (
    "schema_version",
    "run_id",
    "task_id",
    "provider_name",
    "model_id",
    "protocol",
    "prompt_version",
    "base_sha",
    "phase",
    "step",
    "messages",
    "usage",
    "final_summary",
    "last_action_fingerprint",
    "repeat_count",
    "last_event_sequence",
    "verification",
    "pending_action",
    "approval_history",
    "granted_effects",
    "active_wall_time_seconds",
    "active_started_at",
    "terminal",
    "active_writer_token",
    "writer_claimed_at",
    "writer_heartbeat_at",
    "updated_at",
)
"""The keys of the first generation, which every generation reads."""

_SECOND = "model_usage"
_THIRD = "verified_workspace_fingerprint"
_KNOWN = frozenset({*FIRST_FIELDS, _SECOND, _THIRD})


class Pending(msgspec.Struct, frozen=True):
    """The action that waits for an approval, or was approved and had not yet started."""

    action_id: str
    name: str
    """The tool, or the check."""
    effect: str
    reason: str


class Tokens(msgspec.Struct, frozen=True):
    """Tokens as the original counts them: cached is a part of input, reasoning a part of output."""

    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0
    total: int = 0


class Manifest(msgspec.Struct, frozen=True):
    """What `session.json` claims."""

    raw: dict[str, Json]
    """The whole object, unknown keys included."""
    generation: Generation
    run_id: str = ""
    task_id: str = ""
    provider: str = ""
    model: str = ""
    protocol: str = ""
    prompt_version: str = OLD_PROMPT
    base_sha: str = ""
    phase: str = "created"
    step: int = 0
    terminal: bool = False
    last_event_sequence: int = -1
    tokens: Tokens = Tokens()
    messages: tuple[Json, ...] = ()
    pending: Pending | None = None
    active_seconds: float = 0.0
    active_started_at: str = ""
    """As recorded; empty where no stretch of work is open."""
    unknown: tuple[str, ...] = ()
    """Keys that no generation has."""
    odd: tuple[str, ...] = ()
    """Members of the wrong shape; they read as if they were missing."""


class Request(msgspec.Struct, frozen=True):
    """What a run was asked to do: `request.json`."""

    raw: dict[str, Json]
    task_id: str = ""
    base_sha: str = ""
    repository: str = ""
    instruction: str = ""
    wall_time_seconds: float = 900.0
    max_steps: int = 12
    max_total_tokens: int = 0
    """0 for no limit."""
    odd: tuple[str, ...] = ()


class Call(msgspec.Struct, frozen=True):
    """A call in the conversation."""

    id: str
    name: str
    arguments: Json = None


def _object_of(data: bytes) -> dict[str, Json]:
    """Give the object that a file holds; what is wrong with it is said of the file and not of a line."""
    if not data.strip():
        raise BadRecord("it is empty", code="E_BAD_JSON")
    try:
        return json_object(data)
    except BadRecord as error:
        raise BadRecord(error.reason.replace("the line ends", "it ends"), code=error.code) from error


def read_manifest(data: bytes) -> Manifest:
    """Give the manifest that some bytes hold.

    Raises:
        BadRecord: they hold no object.
    """
    raw = _object_of(data)
    own = Members(raw)
    messages = own.many("messages")
    pending = own.object("pending_action")
    started = raw.get("active_started_at")
    return Manifest(
        raw,
        _generation(raw, messages),
        own.text("run_id"),
        own.text("task_id"),
        own.text("provider_name"),
        own.text("model_id"),
        own.text("protocol"),
        own.text("prompt_version", OLD_PROMPT),
        own.text("base_sha"),
        own.text("phase", "created"),
        own.whole("step", 0),
        bool(own.flag("terminal")),
        own.whole("last_event_sequence", -1),
        tokens_of(own.object("usage")),
        messages,
        None if pending is None else _pending(pending),
        own.number("active_wall_time_seconds", 0.0),
        "" if started is None else str(started),
        tuple(key for key in raw if key not in _KNOWN),
        tuple(own.odd),
    )


def read_request(data: bytes) -> Request:
    """Give the request that some bytes hold.

    Raises:
        BadRecord: they hold no object.
    """
    own = Members(_object_of(data))
    limits = Members(own.object("limits") or {})
    return Request(
        own.raw,
        own.text("task_id"),
        own.text("base_sha"),
        own.text("repository"),
        own.text("instruction"),
        limits.number("wall_time_seconds", 900.0),
        limits.whole("max_steps", 12),
        limits.whole("max_total_tokens", 0),
        (*own.odd, *limits.odd),
    )


def read_list(data: bytes) -> tuple[Json, ...]:
    """Give the items of a file that holds a list: `verification.json`.

    Raises:
        BadRecord: it holds none.
    """
    value = json_value(data)
    if not isinstance(value, list):
        raise BadRecord("JSON, but not a list")
    return tuple(value)


def tokens_of(usage: dict[str, Json] | None) -> Tokens:
    """Give the tokens of a usage object; of a missing one none."""
    own = Members(usage or {})
    given, made = own.whole("input_tokens", 0), own.whole("output_tokens", 0)
    return Tokens(
        given,
        made,
        own.whole("cached_input_tokens", 0),
        own.whole("reasoning_tokens", 0),
        own.whole("provider_total_tokens", capped(given + made)),
    )


def calls_of(manifest: Manifest) -> Iterator[Call]:
    """Give the calls that the conversation makes, in order."""
    for item in manifest.messages:
        if isinstance(item, dict) and item.get("role") == "assistant":
            for call in Members(item).many("tool_calls"):
                if isinstance(call, dict):
                    own = Members(call)
                    yield Call(own.text("tool_call_id"), own.text("name"), call.get("arguments"))


def dangling(manifest: Manifest) -> tuple[Call, ...]:
    """Give the calls of the conversation that have no observation (formats/rivumi.md 9, weakness 5)."""
    observed = {
        item.get("tool_call_id") for item in manifest.messages if isinstance(item, dict) and "ok" in item
    }
    return tuple(call for call in calls_of(manifest) if call.id not in observed)


def observed_last(manifest: Manifest, call: str) -> dict[str, Json] | None:
    """Give the observation of a call; one before the last turn that makes the call is of another."""
    seen: dict[str, Json] | None = None
    for item in reversed(manifest.messages):
        if not isinstance(item, dict):
            continue
        if item.get("role") == "assistant":
            made = [one for one in Members(item).many("tool_calls") if isinstance(one, dict)]
            if call in [one.get("tool_call_id") for one in made]:
                return seen
        elif "ok" in item and item.get("tool_call_id") == call:
            seen = item
    return None


def _pending(raw: dict[str, Json]) -> Pending:
    own = Members(raw)
    action = own.object("tool_call") or own.object("command") or {}
    return Pending(
        own.text("action_id"), Members(action).text("name"), own.text("effect"), own.text("reason")
    )


def _generation(raw: dict[str, Json], messages: tuple[Json, ...]) -> Generation:
    if _THIRD in raw:
        return "G3"
    later = any(
        isinstance(item, dict) and ("provider_metadata" in item or "item_type" in item) for item in messages
    )
    return "G2" if later or _SECOND in raw else "G1"
