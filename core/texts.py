"""The texts of a decoded record that say something: the same ones for every search."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from refold.core.records import Json

if TYPE_CHECKING:
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
"""Keys below which names and numbers are as telling as texts: what a call was given."""
_PARTS: Final[dict[str, Scope]] = {
    "tool_use": "argument",
    "tool_calls": "argument",
    "tool_result": "result",
}
"""Blocks of a message that are said by somebody else than the message."""
_DEEPEST: Final = 200
"""Levels of nesting that are gone down at once; what lies deeper comes last."""
_CROWD: Final = 1 << 19
TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\],]', re.DOTALL)
"""A text, bracket or comma of JSON."""


class Crowded(Exception):
    """There are more values than it would be right to decode: each takes memory, however few bytes it has."""


def decoded(data: bytes) -> Json:
    """Decode a record, or a part of one.

    Raises:
        Crowded: it holds above half a million texts, brackets and commas.
        msgspec.DecodeError: it is no JSON.
        UnicodeDecodeError, RecursionError, ValueError: as above.
    """
    if len(data) > _CROWD and sum(1 for _ in islice(TOKEN.finditer(data), _CROWD + 1)) > _CROWD:
        raise Crowded
    value: Json = msgspec.json.decode(data)
    return value


def sorted_texts(value: Json, scope: Scope) -> dict[Scope, list[str]]:
    """Give all texts by who said them, in the order in which they stand.

    Args:
        value: A decoded record; a text that is JSON itself, as the output of many tools is, is taken apart.
        scope: Where what stands in no part of its own belongs.
    """
    return _Walk(unpacks=True).texts_of(value, scope)


def readable_texts(value: Json) -> Iterator[str]:
    """Yield every text as it was written: values, and all that a call was given."""
    for texts in _Walk(unpacks=False).texts_of(value, "result").values():
        yield from texts


class _Walk:
    """One way through a value; a call of itself costs less than a stack of what is left to do."""

    def __init__(self, *, unpacks: bool) -> None:
        self._unpacks = unpacks
        self._texts: dict[Scope, list[str]] = {}
        self._deeper: list[tuple[Json, Scope, bool]] = []

    def texts_of(self, value: Json, scope: Scope) -> dict[Scope, list[str]]:
        """Give all texts by who said them."""
        self._collect(value, scope, 0)
        for deep, inner, is_given in self._deeper:
            if is_given:
                self._collect_given(deep, inner, 0)
            else:
                self._collect(deep, inner, 0)
        return self._texts

    def _collect(self, value: Json, scope: Scope, depth: int) -> None:
        if isinstance(value, str):
            if value:
                self._take(value, scope, depth)
        elif depth > _DEEPEST:
            self._deeper.append((value, scope, False))
        elif isinstance(value, dict):
            kind = value.get("type")
            if isinstance(kind, str):
                scope = _PARTS.get(kind, scope)
            for key, element in value.items():
                if key in _GIVEN:
                    self._collect_given(element, "argument", depth + 1)
                elif isinstance(element, str):
                    if element and key not in _SAYS_NOTHING:
                        self._take(element, _PARTS.get(key, scope), depth)
                elif isinstance(element, (dict, list)):
                    self._collect(element, _PARTS.get(key, scope), depth + 1)
        elif isinstance(value, list):
            for each in value:
                self._collect(each, scope, depth + 1)

    def _collect_given(self, value: Json, scope: Scope, depth: int) -> None:
        if isinstance(value, str):
            if value:
                self._take(value, scope, depth)
        elif isinstance(value, (dict, list)):
            if depth > _DEEPEST:
                self._deeper.append((value, scope, True))
            elif isinstance(value, list):
                for each in value:
                    self._collect_given(each, scope, depth + 1)
            else:
                for key, element in value.items():
                    self._collect_given(key, scope, depth + 1)
                    self._collect_given(element, scope, depth + 1)
        elif isinstance(value, float):
            # It is written here in one of many ways, and words are looked for in bytes, as they stand there.
            if not self._unpacks:
                self._texts.setdefault(scope, []).append(msgspec.json.encode(value).decode())
        elif value is not None and abs(value) < 1 << 63:
            self._texts.setdefault(scope, []).append(msgspec.json.encode(value).decode())

    def _take(self, text: str, scope: Scope, depth: int) -> None:
        packed = _packed(text) if self._unpacks and text[0] in "{[" else None
        if packed is not None:
            self._collect_given(packed, scope, depth + 1)
        elif scope in self._texts:
            self._texts[scope].append(text)
        else:
            self._texts[scope] = [text]


def _packed(text: str) -> Json:
    """Give the value of a text that is itself JSON; None for any other."""
    if text[-1].isalnum():
        return None
    try:
        return decoded(text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError, Crowded):
        return None
