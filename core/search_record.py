"""The texts of one line of a run, told apart by who said them, whatever wrote the line.

Runs are searched by their JSON, not by their records: a line that its own program would refuse is found
all the same, and one that is no JSON by its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from refold.core.records import Json
from refold.core.search_text import Scope
from refold.core.texts import TOKEN, Crowded, decoded, sorted_texts

_PAYLOADS: Final[dict[str, Scope]] = {
    "meta": "prompt",
    "user": "prompt",
    "assistant": "answer",
    "tool_result": "result",
    "terminal": "result",
}
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
MOST: Final = 1 << 22
"""Brackets, commas and texts of a manifest after which the rest is searched as bare text."""
_STEP: Final = 1 << 13
_STEP_BYTES: Final = 1 << 18
_OPEN, _CLOSED, _COMMA = frozenset(b"{["), frozenset(b"}]"), ord(",")
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
        return _read(decoded(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, Crowded):
        return Document(_by_bytes(body), "damage")


def _read(value: Json) -> Document:
    if not isinstance(value, dict):
        return Document(sorted_texts(value, "result"), "damage")
    seq = value.get("seq", value.get("sequence"))
    number = seq if isinstance(seq, int) and not isinstance(seq, bool) else None
    event = value.get("event_type")
    if isinstance(event, str):
        area = event.partition(".")[0]
        scope = _EVENTS.get(event) or _EVENTS.get(area) or "result"
        return Document(sorted_texts(value, scope), event, number)
    for name, scope in _PAYLOADS.items():
        if name in value:
            return Document(sorted_texts(value, scope), name, number)
    kind = value.get("type")
    word = kind if isinstance(kind, str) and kind else "other"
    return Document(sorted_texts(value, "result"), word, number)


class _Manifest(msgspec.Struct):
    messages: msgspec.Raw = msgspec.Raw(b"null")


def read_messages(data: bytes, most: int = MOST) -> Iterator[tuple[int, Document] | None]:
    """Yield the messages of a manifest that hold texts, each with its number, and None between steps.

    Nothing is yielded where it cannot be read. One message is decoded at a time, whatever the file holds.

    Args:
        data: The file.
        most: Brackets, commas and texts after which all that is left is given as one text.
    """
    try:
        messages = bytes(msgspec.json.decode(data.removeprefix(_BOM), type=_Manifest).messages).strip()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return
    if not messages.startswith(b"["):
        return
    number = taken = 0
    for place in _elements(messages, most):
        if place is None:
            yield None
            continue
        message = messages[place[0] : place[1]].strip()
        is_rest = place[1] == len(messages)
        document = Document(_by_bytes(message), "message") if is_rest else _message(message)
        if document.texts:
            yield number, document
        number += 1
        taken += len(message)
        if taken >= _STEP_BYTES:
            taken = 0
            yield None


def _elements(array: bytes, most: int) -> Iterator[tuple[int, int] | None]:
    """Yield where each element of a valid JSON array lies, at last the rest of it, and None between steps."""
    depth = start = 0
    for count, token in enumerate(islice(TOKEN.finditer(array), most), 1):
        at = token.start()
        sign = array[at]
        if sign in _OPEN:
            depth += 1
            if depth == 1:
                start = at + 1
        elif sign in _CLOSED:
            depth -= 1
            if depth == 0 and array[start:at].strip():
                yield start, at
        elif sign == _COMMA and depth == 1:
            yield start, at
            start = at + 1
        if not count % _STEP:
            yield None
    if depth:
        yield start, len(array)


def read_request(data: bytes) -> list[Document]:
    """Read what a run was asked to do."""
    document = read_line(data)
    texts = [text for found in document.texts.values() for text in found]
    return [Document({"prompt": texts}, "request")] if texts else []


def _message(data: bytes) -> Document:
    word = ""
    try:
        message = decoded(data)
        role = message.get("role") if isinstance(message, dict) else None
        word = role if isinstance(role, str) else ""
        texts = sorted_texts(message, _ROLES.get(word, "result"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, Crowded):
        texts = _by_bytes(data)
    return Document(texts, f"message {word}".strip())


def _by_bytes(data: bytes) -> dict[Scope, list[str]]:
    return {"result": [_unescaped(data.decode("utf-8", "replace"))]}


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else " ", text)
