"""What the newest original takes as a manifest, a request and an event (formats/rivumi.md 0, 2, 3).

The original checks with pydantic, whose lax rules (`"9"` is a number, an epoch is a time) are part of its
answer; the same core does the checking here. It is imported when it is first needed.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from pydantic_core import CoreSchema, SchemaValidator, ValidationError

PHASES: Final = (
    "created",
    "preparing",
    "running",
    "waiting_approval",
    "verifying",
    "paused",
    "completed",
    "failed",
    "cancelled",
)
ENDED: Final = frozenset({"completed", "failed", "cancelled"})
EFFECTS: Final = ("read", "modify", "execute", "modify_execute")
DECISIONS: Final = ("allow_once", "allow_session", "deny", "cancel")

Kind: TypeAlias = Literal["manifest", "request", "event"]
Fields: TypeAlias = "dict[str, object]"

_SKILL = re.compile("[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Refusal(msgspec.Struct, frozen=True):
    """Why the original refuses a value."""

    where: str
    """The path to the member, dotted."""
    what: str
    extra: bool = False
    """Nothing is wrong but keys that it does not know."""


def taken(kind: Kind, value: object) -> Fields | Refusal:
    """Give a decoded value as the original takes it, defaults filled in, or why it does not."""
    from pydantic_core import ValidationError

    try:
        made: Fields = _validator(kind).validate_python(value)
    except ValidationError as error:
        return _first(error)
    return made


def _first(error: ValidationError) -> Refusal:
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    wrong = [one for one in errors if one["type"] != "extra_forbidden"]
    first = (wrong or errors)[0]
    return Refusal(".".join(str(part) for part in first["loc"]), first["msg"], extra=not wrong)


def event_taken(line: str) -> Fields | None:
    """Give a line of a log as the original's resume takes it; None where it does not."""
    from pydantic_core import ValidationError

    try:
        made: Fields = _validator("event").validate_json(line)
    except (ValidationError, ValueError):
        # Half of a surrogate pair cannot even be handed to the decoder.
        return None
    return made


def event_refusal(line: str) -> Refusal | None:
    """Say why the original's resume does not take a line of a log; None where it does."""
    from pydantic_core import ValidationError

    try:
        _validator("event").validate_json(line)
    except ValidationError as error:
        return _first(error)
    except ValueError:
        return Refusal("", "half of a surrogate pair, which no text can hold")
    return None


@cache
def _validator(kind: Kind) -> SchemaValidator:
    from pydantic_core import SchemaValidator

    match kind:
        case "manifest":
            return SchemaValidator(_manifest())
        case "request":
            return SchemaValidator(_request())
        case _:
            return SchemaValidator(_event())


def _closed(required: dict[str, CoreSchema], optional: dict[str, CoreSchema] | None = None) -> CoreSchema:
    """An object with these members and no others."""
    from pydantic_core import core_schema as s

    fields = {name: s.typed_dict_field(schema) for name, schema in required.items()}
    for name, schema in (optional or {}).items():
        fields[name] = s.typed_dict_field(schema, required=False)
    return s.typed_dict_schema(fields, extra_behavior="forbid")


def _event() -> CoreSchema:
    from pydantic_core import core_schema as s

    filled = s.str_schema(min_length=1)
    return _closed(
        {"event_type": filled, "run_id": filled, "sequence": s.int_schema(ge=0)},
        {
            "task_id": s.nullable_schema(s.str_schema()),
            "data": _any_object(),
            "event_id": s.str_schema(),
            "created_at": s.datetime_schema(),
        },
    )


def _any_object() -> CoreSchema:
    from pydantic_core import core_schema as s

    return s.dict_schema(s.str_schema(), s.any_schema())


def _many(item: CoreSchema, *, least: int | None = None) -> CoreSchema:
    from pydantic_core import core_schema as s

    return s.tuple_variable_schema(item, min_length=least)


def _name(*, stripped: bool = True) -> CoreSchema:
    """A text that is not empty, nor blank where the original strips it."""
    from pydantic_core import core_schema as s

    plain = s.str_schema(min_length=1)
    return s.no_info_after_validator_function(_stripped, plain) if stripped else plain


def _stripped(text: str) -> str:
    if not text.strip():
        raise ValueError("blank")
    return text.strip()


def _usage() -> CoreSchema:
    from pydantic_core import core_schema as s

    count = s.int_schema(ge=0)
    names = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")
    return _closed({}, {**dict.fromkeys(names, count), "provider_total_tokens": s.nullable_schema(count)})


def _call() -> CoreSchema:
    filled = _name(stripped=False)
    return _closed(
        {"name": filled},
        {"tool_call_id": filled, "arguments": _any_object(), "provider_metadata": _any_object()},
    )


def _item() -> CoreSchema:
    """One entry of the conversation: a message, an observation or injected context, told by its shape."""
    from pydantic_core import core_schema as s

    filled, text = _name(stripped=False), s.nullable_schema(s.str_schema())
    message = _closed(
        {"role": s.literal_schema(["system", "user", "assistant"])},
        {"content": text, "tool_calls": _many(_call()), "provider_metadata": _any_object()},
    )
    observation = _closed(
        {"tool_call_id": filled, "name": filled, "ok": s.bool_schema()},
        {"content": s.str_schema(), "error": text},
    )
    injected = _closed(
        {
            "source": s.str_schema(min_length=1, max_length=128),
            "content": s.str_schema(min_length=1, max_length=16_000),
        },
        {"item_type": s.literal_schema(["injected_context"])},
    )
    return s.union_schema(
        [
            s.no_info_after_validator_function(_message, message),
            s.no_info_after_validator_function(_observation, observation),
            s.no_info_after_validator_function(_injected, injected),
        ]
    )


def _message(fields: Fields) -> Fields:
    speaks, calls = fields.get("content") is not None, bool(fields.get("tool_calls"))
    if fields["role"] != "assistant" and (calls or not speaks):
        raise ValueError("a message of this role has content and no calls")
    if not speaks and not calls:
        raise ValueError("neither content nor calls")
    return fields


def _observation(fields: Fields) -> Fields:
    error = fields.get("error")
    if error is not None if fields["ok"] else not error:
        raise ValueError("an observation has an error exactly where it is not ok")
    return fields


def _injected(fields: Fields) -> Fields:
    if any("\0" in str(fields[name]) for name in ("source", "content")):
        raise ValueError("NUL")
    return fields


def _check() -> CoreSchema:
    from pydantic_core import core_schema as s

    part = s.no_info_after_validator_function(_argument, s.str_schema())
    return _closed({"name": _name(), "argv": _many(part, least=1)}, {"timeout_seconds": s.float_schema(gt=0)})


def _argument(text: str) -> str:
    if not text or "\0" in text:
        raise ValueError("empty, or with NUL")
    return text


def _approval() -> CoreSchema:
    from pydantic_core import core_schema as s

    filled = _name(stripped=False)
    fields = _closed(
        {
            "run_id": filled,
            "action_id": filled,
            "effect": s.literal_schema(list(EFFECTS)),
            "reason": s.literal_schema(["model_tool", "final_verification"]),
        },
        {
            "request_id": filled,
            "policy_reason": s.str_schema(max_length=2_000),
            "preview": s.str_schema(max_length=16_000),
            "tool_call": s.nullable_schema(_call()),
            "command": s.nullable_schema(_check()),
        },
    )
    return s.no_info_after_validator_function(_one_action, fields)


def _one_action(fields: Fields) -> Fields:
    call, command = fields.get("tool_call"), fields.get("command")
    if (call is None) == (command is None):
        raise ValueError("not exactly one of tool_call and command")
    if fields["reason"] == "final_verification" and command is None:
        raise ValueError("a final verification needs a command")
    return fields


def _manifest() -> CoreSchema:
    from pydantic_core import core_schema as s

    filled, time = _name(stripped=False), s.nullable_schema(s.datetime_schema())
    text = s.nullable_schema(s.str_schema())
    cost = _closed(
        {"provider": filled, "model": filled},
        {
            "currency": s.literal_schema(["USD"]),
            "source": s.literal_schema(["estimated", "authoritative"]),
            **dict.fromkeys(("input_cost", "cached_input_cost", "output_cost"), s.float_schema(ge=0)),
        },
    )
    used = _closed(
        {"lane": filled, "provider": filled, "model": filled},
        {"usage": _usage(), "cost": s.nullable_schema(cost)},
    )
    outcome = _closed(
        {"name": s.str_schema(), "argv": _many(s.str_schema()), "ok": s.bool_schema()},
        {
            "exit_code": s.nullable_schema(s.int_schema()),
            "duration_seconds": s.float_schema(ge=0),
            "output": s.str_schema(),
        },
    )
    audit = _closed(
        {"request": _approval(), "decision": s.literal_schema(list(DECISIONS))},
        {"decided_at": s.datetime_schema()},
    )
    fields = _closed(
        {
            **dict.fromkeys(("run_id", "task_id", "provider_name", "model_id", "protocol"), _name()),
            "base_sha": s.str_schema(pattern="^[0-9a-fA-F]{40}$"),
        },
        {
            "schema_version": s.literal_schema([1]),
            "prompt_version": filled,
            "phase": s.literal_schema(list(PHASES)),
            "step": s.int_schema(ge=0),
            "messages": _many(_item()),
            "usage": _usage(),
            "model_usage": _many(used),
            "final_summary": s.str_schema(),
            "last_action_fingerprint": text,
            "repeat_count": s.int_schema(ge=0),
            "last_event_sequence": s.int_schema(ge=-1),
            "verification": _many(outcome),
            "verified_workspace_fingerprint": text,
            "pending_action": s.nullable_schema(_approval()),
            "approval_history": _many(audit),
            "granted_effects": s.frozenset_schema(s.literal_schema(list(EFFECTS))),
            "active_wall_time_seconds": s.float_schema(ge=0),
            "active_started_at": time,
            "terminal": s.bool_schema(),
            "active_writer_token": text,
            "writer_claimed_at": time,
            "writer_heartbeat_at": time,
            "updated_at": s.datetime_schema(),
        },
    )
    return s.no_info_after_validator_function(_agrees, fields)


def _agrees(fields: Fields) -> Fields:
    phase, pending = fields.get("phase", "created"), fields.get("pending_action")
    if fields.get("terminal", False) != (phase in ENDED):
        raise ValueError("the terminal flag does not agree with the phase")
    if phase == "waiting_approval" and pending is None:
        raise ValueError("an approval is waited for, but none is pending")
    if isinstance(pending, dict) and pending.get("run_id") != fields["run_id"]:
        raise ValueError("the pending approval is of another run")
    return fields


def _request() -> CoreSchema:
    from pydantic_core import core_schema as s

    count = s.int_schema(ge=1)
    limits = _closed(
        {},
        {
            **dict.fromkeys(("max_steps", "max_tool_output_bytes", "max_patch_bytes"), count),
            "wall_time_seconds": s.float_schema(gt=0),
            "max_total_tokens": s.nullable_schema(count),
        },
    )
    paths = _many(s.no_info_after_validator_function(_relative, s.str_schema()), least=1)
    skills = _many(s.no_info_after_validator_function(_skill, s.str_schema()))
    return _closed(
        {
            "repository": s.str_schema(),
            "instruction": _name(),
            "allowed_paths": s.no_info_after_validator_function(_distinct, paths),
            "verification": _many(_check(), least=1),
        },
        {
            "limits": limits,
            "enabled_skills": s.no_info_after_validator_function(_distinct, skills),
            "task_id": _name(),
            "base_sha": s.nullable_schema(s.no_info_after_validator_function(_stripped, s.str_schema())),
            "attachments": _many(s.dict_schema(s.str_schema(), s.str_schema())),
        },
    )


def _relative(text: str) -> str:
    pattern = text.strip().replace("\\", "/")
    path = PurePosixPath(pattern)
    if not pattern or path.is_absolute() or ".." in path.parts or "\0" in pattern:
        raise ValueError("not a safe relative pattern")
    return pattern


def _skill(text: str) -> str:
    if _SKILL.fullmatch(text.strip()) is None:
        raise ValueError("not the name of a skill")
    return text.strip()


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) != len(names):
        raise ValueError("the same name twice")
    return names
