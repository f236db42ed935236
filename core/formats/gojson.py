"""JSON as the original writes it: compact, keys in the given order, its own escapes.

Formats/fisk-ai.md 1.6. `<`, `>`, `&`, U+2028 and U+2029 are escaped, all other text is raw UTF-8.
"""

from __future__ import annotations

import json
import math
import re
from json.encoder import encode_basestring

from refold.core.errors import BadRecord
from refold.core.formats.tolerant import MAX_DEPTH, scrub
from refold.core.records import Json

_HTML = re.compile("[<>&\u2028\u2029]")
_PLAIN = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_HTML_BYTES = re.compile(rb"[<>&]|\xe2\x80[\xa8\xa9]")
_SPACED = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[ \t\r\n]++', re.DOTALL)


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


def _escape_bytes(match: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(match[0].decode())


def string(text: str) -> str:
    """Give a text as a JSON string."""
    return _HTML.sub(_escape, encode_basestring(scrub(text)))


def compact(raw: bytes) -> bytes:
    """Give a JSON text without its white space and with the same escapes of markup, else untouched."""
    if any(space in raw for space in (b" ", b"\n", b"\t", b"\r")):
        raw = _SPACED.sub(lambda match: match[0] if match[0][:1] == b'"' else b"", raw)
    return _HTML_BYTES.sub(_escape_bytes, raw)


def encode(value: Json) -> bytes:
    """Give a value as one JSON text.

    Raises:
        BadRecord: the value has no JSON text (NaN, a number of thousands of digits) or nests too deep.
    """
    parts: list[bytes] = []
    _write(value, parts, 0)
    return b"".join(parts)


def keep_spelling(value: Json, raw: bytes) -> Json:
    """Give the value with its spelling where encoding it would spell it in another way."""
    if not isinstance(value, dict | list):
        return value
    usual = _HTML.sub(_escape, _PLAIN.encode(value)).encode()
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
