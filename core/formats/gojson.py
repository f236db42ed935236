"""JSON as the original writes it: compact, keys in the given order, its own escapes.

Formats/fisk-ai.md 1.6. `<`, `>`, `&`, U+2028 and U+2029 are escaped, all other text is raw UTF-8.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from json.encoder import encode_basestring

import msgspec

from refold.core.errors import BadRecord
from refold.core.formats.tolerant import MAX_DEPTH, scrub
from refold.core.records import Json

_HTML = re.compile("[<>&\u2028\u2029]")
_PLAIN = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_QUICK = msgspec.json.Encoder().encode
_MARKUP = tuple((mark.encode(), b"\\u%04x" % ord(mark)) for mark in "<>&")
_SEPARATORS = tuple((mark.encode(), b"\\u%04x" % ord(mark)) for mark in "\u2028\u2029")
_SPACED = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[ \t\r\n]++', re.DOTALL)
_SCALARS = frozenset({str, int, bool, type(None)})


class SpelledObject(dict[str, Json]):
    """An object that also keeps how it was spelled: numbers like 1e5 and escapes survive a copy."""

    __slots__ = ("spelling",)

    def __init__(self, value: dict[str, Json], spelling: bytes) -> None:
        super().__init__(value)
        self.spelling = spelling


class SpelledList(list[Json]):
    """A list that also keeps how it was spelled."""

    __slots__ = ("spelling",)

    def __init__(self, value: list[Json], spelling: bytes) -> None:
        super().__init__(value)
        self.spelling = spelling


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def string(text: str) -> str:
    """Give a text as a JSON string."""
    return _HTML.sub(_escape, encode_basestring(scrub(text)))


def compact(raw: bytes) -> bytes:
    """Give a JSON text without its white space and with the same escapes of markup, else untouched."""
    if any(space in raw for space in (b" ", b"\n", b"\t", b"\r")):
        raw = _SPACED.sub(lambda match: match[0] if match[0][:1] == b'"' else b"", raw)
    return _marked_up(raw)


def encode(value: Json) -> bytes:
    """Give a value as one JSON text.

    Raises:
        BadRecord: the value has no JSON text (NaN, a number of thousands of digits) or nests too deep.
    """
    return encode_plain(value) or encode_exactly(value)


def encode_plain(value: Json) -> bytes | None:
    """Give the same text for what is made of plain texts, whole numbers, lists and objects; None otherwise.

    Several times as quick, and what it gives is sure to be JSON that we read.
    """
    if not is_plain(value):
        return None
    return encode_what_is_plain(value)


def encode_what_is_plain(value: Json) -> bytes | None:
    """Give the text of a value that `is_plain`; None where one of its texts or numbers has no usual one."""
    try:
        return _marked_up(_QUICK(value))
    except (ValueError, OverflowError):
        # Half a pair of surrogates, or a number of thousands of digits.
        return None


def encode_exactly(value: Json) -> bytes:
    """Give any value as one JSON text, number by number and key by key.

    Raises:
        BadRecord: as `encode` does.
    """
    parts: list[bytes] = []
    _write(value, parts, 0)
    return b"".join(parts)


def is_plain(value: Json, depth: int = 0) -> bool:
    """Say whether msgspec spells a value as we do, markup apart: it spells floats in another way."""
    members: Iterable[Json]
    # Exact types: an object that keeps its spelling is a dict as well.
    if type(value) is dict:
        for key in value:
            if type(key) is not str:
                return False
        members = value.values()
    elif type(value) is list:
        members = value
    else:
        return type(value) in _SCALARS
    if depth >= MAX_DEPTH:
        return False
    for member in members:  # noqa: SIM110 - a generator costs more than what it asks
        if type(member) not in _SCALARS and not is_plain(member, depth + 1):
            return False
    return True


def _marked_up(raw: bytes) -> bytes:
    """Escape markup in a JSON text, where it can only stand within strings."""
    for mark, escaped in _MARKUP:
        if mark in raw:
            raw = raw.replace(mark, escaped)
    if not raw.isascii():
        for mark, escaped in _SEPARATORS:
            raw = raw.replace(mark, escaped)
    return raw


def keep_spelling(value: Json, raw: bytes) -> Json:
    """Give the value with its spelling where encoding it would spell it in another way."""
    if not isinstance(value, dict | list):
        return value
    usual = _marked_up(_PLAIN.encode(value).encode())
    if usual == raw or usual == (spelling := compact(raw)):
        return value
    return SpelledObject(value, spelling) if isinstance(value, dict) else SpelledList(value, spelling)


def _write(value: Json, parts: list[bytes], depth: int) -> None:
    if isinstance(value, str):
        parts.append(string(value).encode())
    elif value is None or isinstance(value, bool):
        parts.append(b"null" if value is None else b"true" if value else b"false")
    elif isinstance(value, int | float):
        parts.append(_number(value))
    elif isinstance(value, SpelledObject | SpelledList):
        parts.append(value.spelling)
    elif depth >= MAX_DEPTH:
        raise BadRecord(f"nested more than {MAX_DEPTH} levels deep", code="E_TOO_DEEP")
    elif isinstance(value, dict):
        mark = b"{"
        for key, member in value.items():
            parts.extend((mark, string(key).encode(), b":"))
            _write(member, parts, depth + 1)
            mark = b","
        parts.append(b"}" if value else b"{}")
    else:
        mark = b"["
        for item in value:
            parts.append(mark)
            _write(item, parts, depth + 1)
            mark = b","
        parts.append(b"]" if value else b"[]")


def _number(value: int | float) -> bytes:
    if isinstance(value, float) and not math.isfinite(value):
        raise BadRecord(f"{value} is no JSON number", code="E_NONFINITE")
    try:
        return repr(value).encode()
    except ValueError:
        raise BadRecord("a number of more than 4300 digits") from None
