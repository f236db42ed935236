"""The line of a record in one step, where its fields and blocks are of the types that a reader wants.

This is what lies between a tool's result and the disk at every append: one function a kind, which looks at
the fields and gathers them in the same breath. Whatever is out of the ordinary is left to `writing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from refold.core.formats.exact import Dialect
from refold.core.formats.fields import MAX_INT, MAX_SEQ
from refold.core.formats.gojson import encode_what_is_plain, is_plain
from refold.core.records import (
    AssistantRecord,
    Json,
    Message,
    Record,
    TerminalRecord,
    ToolResultRecord,
    UserRecord,
)

_MIN_INT: Final = -MAX_INT - 1
_LEVELS_ABOVE_RESULT: Final = 2
_LEVELS_ABOVE_BLOCK: Final = 4


def write_plain(record: Record, dialect: Dialect) -> bytes | None:
    """Give the line of a record that is sure to be read again, newline included; None where it may not be."""
    kind = _KINDS.get(type(record))
    if kind is None or dialect.neutral:
        return None
    seq, time = record.seq, record.time
    if type(seq) is not int or not 0 < seq <= MAX_SEQ or (type(time) is not str and time is not None):
        return None
    name, gathered = kind
    payload = gathered(record)
    if payload is None:
        return None
    envelope: dict[str, Json] = {"seq": seq, "protocol": dialect.prefix + name}
    if time is not None and dialect.native:
        envelope["time"] = time
    envelope[name] = payload
    text = encode_what_is_plain(envelope)
    return None if text is None else text + b"\n"


def _tool_result(record: Record) -> dict[str, Json] | None:
    if (
        not isinstance(record, ToolResultRecord)
        or record.resumed is not None
        or record.decision is not None
        or type(record.tool_use_id) is not str
        or not is_plain(record.result, _LEVELS_ABOVE_RESULT)
    ):
        return None
    payload: dict[str, Json] = {"tool_use_id": record.tool_use_id, "result": record.result}
    if record.remote:
        payload["remote"] = True
    return payload


def _assistant(record: Record) -> dict[str, Json] | None:
    if not isinstance(record, AssistantRecord) or record.resumed is not None:
        return None
    message, stop_reason = _message(record.message), record.stop_reason
    iteration, in_tokens, out_tokens = record.iteration, record.in_tokens, record.out_tokens
    cache_read, cache_create = record.cache_read_tokens, record.cache_create_tokens
    if (
        message is None
        or type(stop_reason) is not str
        or not type(iteration) is type(in_tokens) is type(out_tokens) is int
        or not type(cache_read) is type(cache_create) is int
        or min(iteration, in_tokens, out_tokens, cache_read, cache_create) < _MIN_INT
        or max(iteration, in_tokens, out_tokens, cache_read, cache_create) > MAX_INT
    ):
        return None
    payload: dict[str, Json] = {"iteration": iteration, "message": message}
    if stop_reason:
        payload["stop_reason"] = stop_reason
    payload["in_tokens"] = in_tokens
    payload["out_tokens"] = out_tokens
    if cache_read:
        payload["cache_read_tokens"] = cache_read
    if cache_create:
        payload["cache_create_tokens"] = cache_create
    return payload


def _user(record: Record) -> dict[str, Json] | None:
    if not isinstance(record, UserRecord) or record.resumed is not None:
        return None
    message = _message(record.message)
    return None if message is None else {"message": message}


def _terminal(record: Record) -> dict[str, Json] | None:
    if (
        not isinstance(record, TerminalRecord)
        or record.resumed is not None
        or not type(record.reason) is type(record.message) is str
    ):
        return None
    payload: dict[str, Json] = {"reason": record.reason}
    if record.message:
        payload["message"] = record.message
    return payload


def _message(message: Message) -> dict[str, Json] | None:
    if type(message.role) is not str:
        return None
    if message.content is None:
        return {"role": message.role}
    for block in message.content:
        if not is_plain(block, _LEVELS_ABOVE_BLOCK):
            return None
    return {"content": list(message.content), "role": message.role}


_KINDS: Final[Mapping[type[Record], tuple[str, Callable[[Record], dict[str, Json] | None]]]] = {
    ToolResultRecord: ("tool_result", _tool_result),
    AssistantRecord: ("assistant", _assistant),
    UserRecord: ("user", _user),
    TerminalRecord: ("terminal", _terminal),
}
