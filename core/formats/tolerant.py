"""Any line as the original decoder sees it: tolerant of odd text, strict about JSON.

The program that wrote a run reads it with Go's `encoding/json`. That decoder takes repeated keys,
turns every byte that is not UTF-8 and every lone surrogate into U+FFFD, and knows no NaN
(formats/fisk-ai.md 1.7). Here such a line becomes a tree in which nothing is merged yet.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
from typing import TypeAlias

from refold.core.errors import BadRecord
from refold.core.records import Json

MAX_DEPTH = 200
"""Nesting that we still read; deeper lines are kept as bytes only."""

FLAT = 2 * (MAX_DEPTH - 10)
"""A value of fewer bytes than this cannot nest too deep, wherever in a record it stands."""

_MAX_DIGITS = 4300
_FIRST_LOOK = 8192
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_SURROGATE = re.compile("[\ud800-\udfff]")
_HANDLER = "refold-replace-each-byte"


class Members(tuple[tuple[str, "Node"], ...]):
    """The members of an object in the order they stand, repeated keys included."""

    __slots__ = ()


class MinusZero(int):
    """The literal `-0`, which is no unsigned number."""

    __slots__ = ()


Node: TypeAlias = "bool | int | float | str | list[Node] | Members | None"
"""A JSON value as it stands in the line."""


def _replace_each_byte(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error(_HANDLER, _replace_each_byte)


def _refuse_constant(word: str) -> Node:
    raise BadRecord(f"{word} is no JSON number", code="E_NONFINITE")


def _whole_number(digits: str) -> int | float:
    if digits == "-0":
        return MinusZero()
    if len(digits) > _MAX_DIGITS:
        return -sys.float_info.max if digits[0] == "-" else sys.float_info.max
    return int(digits)


def _broken_number(text: str) -> float:
    """Give a number that JSON can hold again: what is out of range becomes the largest there is."""
    return max(-sys.float_info.max, min(sys.float_info.max, float(text)))


_JSON = json.JSONDecoder(
    object_pairs_hook=Members,
    parse_constant=_refuse_constant,
    parse_int=_whole_number,
    parse_float=_broken_number,
)


def too_deep(line: bytes) -> bool:
    """Say whether a line nests deeper than we read."""
    if line.count(b"[") + line.count(b"{") <= MAX_DEPTH:
        return False
    # Ever longer beginnings: what is nested on purpose shows it early, whatever the size of the line.
    size = _FIRST_LOOK
    while size < len(line):
        if _nests_too_deep(line[:size]):
            return True
        size *= 16
    return _nests_too_deep(line)


def _nests_too_deep(text: bytes) -> bool:
    depth = 0
    for byte in _STRING.sub(b"", text).translate(None, _NOT_BRACKETS):
        if byte in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        else:
            depth -= 1
    return False


def parse(line: bytes) -> Node:
    """Give the one JSON value of a line.

    Raises:
        BadRecord: the line is no JSON (E_BAD_JSON, E_BAD_UTF8, E_NONFINITE) or nests too deep (E_TOO_DEEP).
    """
    if too_deep(line):
        raise BadRecord(f"nested more than {MAX_DEPTH} levels deep", code="E_TOO_DEEP")
    try:
        text = line.decode("utf-8")
        clean = True
    except UnicodeDecodeError:
        text = line.decode("utf-8", _HANDLER)
        clean = False
    text = text.strip(" \t\r\n")
    try:
        node: Node
        node, end = _JSON.raw_decode(text)
    except RecursionError:
        raise BadRecord(f"nested more than {MAX_DEPTH} levels deep", code="E_TOO_DEEP") from None
    except json.JSONDecodeError as error:
        at = error.pos
        if not clean and text[at : at + 1] == "\ufffd":
            raise BadRecord(f"byte that is not UTF-8 at character {at + 1}", code="E_BAD_UTF8") from None
        raise BadRecord(f"not JSON: {_what_is_wrong(error, text)}", code="E_BAD_JSON") from None
    if end != len(text):
        raise BadRecord(f"not JSON: more after the value at character {end + 1}", code="E_BAD_JSON")
    return node


def _what_is_wrong(error: json.JSONDecodeError, text: str) -> str:
    if error.pos >= len(text) or error.msg.startswith("Unterminated"):
        return "the line ends inside a value"
    # Some messages of the decoder end in "at" themselves: "Invalid control character at".
    what = error.msg.removesuffix(" at")
    return f"{what[:1].lower()}{what[1:]} at character {error.pos + 1}"


def scrub(text: str) -> str:
    """Give a text without lone surrogates, each of them replaced by U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def plain(node: Node) -> Json:
    """Give a value as plain JSON: of a repeated key the last counts, numbers and texts are whole."""
    if isinstance(node, str):
        return scrub(node)
    if isinstance(node, Members):
        return {scrub(key): plain(value) for key, value in node}
    if isinstance(node, list):
        return [plain(value) for value in node]
    if isinstance(node, MinusZero):
        return 0
    return node
