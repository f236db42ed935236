"""A record as the line its writer would write (formats/fisk-ai.md 1.2 to 1.6).

Keys stand in the writer's order, what is empty and optional is left out, and a value that kept its
spelling keeps it.
"""

from __future__ import annotations

from refold.core.formats.exact import Dialect
from refold.core.formats.gojson import encode
from refold.core.records import (
    AssistantRecord,
    Fingerprint,
    ForkOrigin,
    IncompleteRecord,
    Json,
    Message,
    MetaRecord,
    Record,
    Resumed,
    TerminalRecord,
    ToolResultRecord,
    UnknownRecord,
    UserRecord,
)

_YEAR_ONE = "0001-01-01T00:00:00Z"


def write(record: Record, dialect: Dialect) -> bytes:
    """Give the line of a record, newline included; raise BadRecord where a value has no JSON text."""
    return encode(_envelope(record, dialect)) + b"\n"


def _envelope(record: Record, dialect: Dialect) -> dict[str, Json]:
    kind, payload = _payload(record, dialect)
    protocol = record.protocol if isinstance(record, UnknownRecord) else dialect.prefix + kind
    envelope: dict[str, Json] = {"seq": record.seq, "protocol": protocol}
    if dialect.native and record.time is not None:
        envelope["time"] = record.time
    if payload is not None:
        resumed = None if isinstance(record, MetaRecord) else _resumed(record)
        if dialect.native and resumed is not None:
            payload["resumed"] = _resumed_json(resumed)
        envelope[kind] = payload
    return envelope


def _payload(record: Record, dialect: Dialect) -> tuple[str, dict[str, Json] | None]:
    if isinstance(record, MetaRecord):
        return "meta", _meta(record, dialect)
    if isinstance(record, AssistantRecord):
        return "assistant", _assistant(record, dialect)
    if isinstance(record, UserRecord):
        return "user", {"message": _message(record.message, dialect)}
    if isinstance(record, ToolResultRecord):
        return "tool_result", _tool_result(record, dialect)
    if isinstance(record, TerminalRecord):
        return "terminal", _terminal(record)
    return (record.kind if isinstance(record, IncompleteRecord) else ""), None


def _meta(record: MetaRecord, dialect: Dialect) -> dict[str, Json]:
    meta: dict[str, Json] = {
        "version": record.version,
        "run_id": record.run_id,
        "created": record.created or _YEAR_ONE,
        "fingerprint": fingerprint_json(record.fingerprint),
        "prompt": record.prompt,
    }
    if record.interactive:
        meta["interactive"] = True
    origin = record.forked_from
    if dialect.native and origin is not None:
        meta["forked_from"] = fork_origin_json(origin)
    return meta


def fork_origin_json(origin: ForkOrigin) -> dict[str, Json]:
    """Give as it is recorded where a run was forked from."""
    return {
        "run_id": origin.run_id,
        "seq": origin.seq,
        "prefix_sha256": origin.prefix_sha256,
        "reason": origin.reason,
    }


def fingerprint_json(fingerprint: Fingerprint) -> dict[str, Json]:
    """Give a fingerprint as it is recorded; `provider` only where one is known."""
    fields: dict[str, Json] = {} if fingerprint.provider is None else {"provider": fingerprint.provider}
    fields["model"] = fingerprint.model
    fields["system_hash"] = fingerprint.system_hash
    fields["tools_hash"] = fingerprint.tools_hash
    fields["thinking_mode"] = fingerprint.thinking_mode
    fields["max_tokens"] = fingerprint.max_tokens
    fields["max_iterations"] = fingerprint.max_iterations
    return fields


def _message(message: Message, dialect: Dialect) -> dict[str, Json]:
    content = None if message.content is None else list(message.content)
    if dialect.neutral:
        return {"role": message.role, "content": content}
    if content is None:
        return {"role": message.role}
    return {"content": content, "role": message.role}


def _assistant(record: AssistantRecord, dialect: Dialect) -> dict[str, Json]:
    reply: dict[str, Json] = {
        "iteration": record.iteration,
        "message": _message(record.message, dialect),
    }
    if record.stop_reason:
        reply["stop_reason"] = record.stop_reason
    reply["in_tokens"] = record.in_tokens
    reply["out_tokens"] = record.out_tokens
    if record.cache_read_tokens:
        reply["cache_read_tokens"] = record.cache_read_tokens
    if record.cache_create_tokens:
        reply["cache_create_tokens"] = record.cache_create_tokens
    return reply


def _tool_result(record: ToolResultRecord, dialect: Dialect) -> dict[str, Json]:
    answer: dict[str, Json] = {"tool_use_id": record.tool_use_id, "result": record.result}
    if record.remote:
        answer["remote"] = True
    if dialect.native and record.decision is not None:
        decision: dict[str, Json] = {"choice": record.decision.choice}
        if record.decision.text:
            decision["text"] = record.decision.text
        answer["decision"] = decision
    return answer


def _terminal(record: TerminalRecord) -> dict[str, Json]:
    terminal: dict[str, Json] = {"reason": record.reason}
    if record.message:
        terminal["message"] = record.message
    return terminal


def _resumed(record: Record) -> Resumed | None:
    if isinstance(record, AssistantRecord | UserRecord | ToolResultRecord | TerminalRecord):
        return record.resumed
    return None


def _resumed_json(resumed: Resumed) -> dict[str, Json]:
    fields: dict[str, Json] = {"forced": resumed.forced, "reason": resumed.reason}
    if resumed.fingerprint is not None:
        fields["fingerprint"] = fingerprint_json(resumed.fingerprint)
    return fields
