"""The texts of one line of a run, told apart by who said them, whatever wrote the line.

Runs are searched by their JSON, not by their records: a line that its own program would refuse is found
all the same, and one that is no JSON by its bytes.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import msgspec

from refold.core.records import Json
from refold.core.search_text import Scope

_SAYS_NOTHING: Final = frozenset(
    {
        "protocol",
        "role",
        "type",
        "kind",
        "stop_reason",
        "finish_reason",
        "signature",
        "time",
        "created",
        "created_at",
        "run_id",
        "task_id",
        "event_id",
        "event_type",
        "system_hash",
        "tools_hash",
        "prefix_sha256",
    }
)
"""Keys whose values say what a record is made of, or which one it is: every record has them."""
_GIVEN: Final = frozenset({"input", "arguments"})
"""Keys below which names are as telling as values: what a call was given."""
_PAYLOADS: Final[dict[str, Scope]] = {
    "meta": "prompt",
    "user": "prompt",
    "assistant": "answer",
    "tool_result": "result",
    "terminal": "result",
}
_PARTS: Final[dict[str, Scope]] = {
    "tool_use": "argument",
    "tool_calls": "argument",
    "tool_result": "result",
}
"""Blocks of a message that are said by somebody else than the message."""
_EVENTS: Final[dict[str, Scope]] = {
    "run.created": "prompt",
    "model": "answer",
    "role_lane": "answer",
    "tool.requested": "argument",
    "tool.started": "argument",
    "approval": "argument",
}
_ROLES: Final[dict[str, Scope]] = {
    "user": "prompt",
    "system": "prompt",
    "developer": "prompt",
    "assistant": "answer",
    "tool": "result",
}
_DEEPEST: Final = 200
"""Levels of nesting above which a line is searched by its bytes."""
_BOM: Final = b"\xef\xbb\xbf"
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


class Document(NamedTuple):
    """What is found or not found as one: a line of a run, or a message of its manifest."""

    texts: dict[Scope, list[str]]
    kind: str
    """The word for it: assistant, tool_result, tool.completed, damage …"""
    seq: int | None = None
    """Its number, where it carries one."""


def read_line(line: bytes) -> Document:
    """Read one line, its newline excluded."""
    body = line.removeprefix(_BOM)
    try:
        return _read(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, _TooDeep):
        return Document({"result": [_unescaped(body.decode("utf-8", "replace"))]}, "damage")


def _read(value: Json) -> Document:
    if not isinstance(value, dict):
        return Document(_sorted_out(value, "result"), "damage")
    seq = value.get("seq", value.get("sequence"))
    number = seq if isinstance(seq, int) and not isinstance(seq, bool) else None
    event = value.get("event_type")
    if isinstance(event, str):
        area = event.partition(".")[0]
        scope = _EVENTS.get(event) or _EVENTS.get(area) or "result"
        return Document(_sorted_out(value, scope), event, number)
    for name, scope in _PAYLOADS.items():
        if name in value:
            return Document(_sorted_out(value, scope), name, number)
    kind = value.get("type")
    return Document(_sorted_out(value, "result"), kind if isinstance(kind, str) and kind else "other", number)


def read_messages(data: bytes) -> list[Document]:
    """Read the messages of a manifest in order, none where it cannot be read."""
    try:
        value: Json = msgspec.json.decode(data.removeprefix(_BOM))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return []
    messages = value.get("messages") if isinstance(value, dict) else None
    return [_message(message) for message in messages] if isinstance(messages, list) else []


def read_request(data: bytes) -> list[Document]:
    """Read what a run was asked to do."""
    document = read_line(data)
    texts = [text for found in document.texts.values() for text in found]
    return [Document({"prompt": texts}, "request")] if texts else []


def _message(message: Json) -> Document:
    role = message.get("role") if isinstance(message, dict) else None
    word = role if isinstance(role, str) else ""
    try:
        texts = _sorted_out(message, _ROLES.get(word, "result"))
    except _TooDeep:
        texts = {"result": [msgspec.json.encode(message).decode()]}
    return Document(texts, f"message {word}".strip())


class _TooDeep(Exception):
    """A value is nested deeper than any record is."""


def _sorted_out(value: Json, scope: Scope) -> dict[Scope, list[str]]:
    """Give every text that says something, in the order in which they stand."""
    texts: dict[Scope, list[str]] = {}
    _collect(value, scope, texts, 0)
    return texts


def _collect(value: Json, scope: Scope, texts: dict[Scope, list[str]], depth: int) -> None:
    """Gather the texts of a value; a call of itself costs less than a stack of what is left to do."""
    if isinstance(value, str):
        if value:
            _take(value, scope, texts, depth)
    elif depth > _DEEPEST:
        raise _TooDeep
    elif isinstance(value, dict):
        kind = value.get("type")
        if isinstance(kind, str):
            scope = _PARTS.get(kind, scope)
        for key, element in value.items():
            if key in _GIVEN:
                _collect_given(element, "argument", texts, depth + 1)
            elif isinstance(element, str):
                if element and key not in _SAYS_NOTHING:
                    _take(element, _PARTS.get(key, scope), texts, depth)
            elif isinstance(element, (dict, list)):
                _collect(element, _PARTS.get(key, scope), texts, depth + 1)
    elif isinstance(value, list):
        for each in value:
            _collect(each, scope, texts, depth + 1)


def _collect_given(value: Json, scope: Scope, texts: dict[Scope, list[str]], depth: int) -> None:
    """Gather names, texts and whole numbers."""
    if isinstance(value, str):
        if value:
            _take(value, scope, texts, depth)
    elif depth > _DEEPEST:
        raise _TooDeep
    elif isinstance(value, dict):
        for key, element in value.items():
            _collect_given(key, scope, texts, depth + 1)
            _collect_given(element, scope, texts, depth + 1)
    elif isinstance(value, list):
        for each in value:
            _collect_given(each, scope, texts, depth + 1)
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63:
        texts.setdefault(scope, []).append(str(value))


def _take(text: str, scope: Scope, texts: dict[Scope, list[str]], depth: int) -> None:
    packed = _packed(text) if text[0] in "{[" else None
    if packed is not None:
        _collect_given(packed, scope, texts, depth + 1)
    elif scope in texts:
        texts[scope].append(text)
    else:
        texts[scope] = [text]


def _packed(text: str) -> Json:
    """Give the value of a text that is itself JSON, as the output of many tools is; None for any other."""
    if text[-1].isalnum():
        return None
    try:
        value: Json = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError):
        return None
    return value


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else " ", text)
