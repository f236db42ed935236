"""One field of a record, read as the original decoder reads it (formats/fisk-ai.md 1.7).

Each function takes what the line says and what stood there before: null changes nothing, the last
scalar wins, and a value of the wrong type is an error of the whole line.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from refold.core.errors import BadRecord
from refold.core.formats.tolerant import Members, MinusZero, Node, scrub

MAX_SEQ = 2**64 - 1
MAX_INT = 2**63 - 1

_CREATED = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,][0-9]+)?"
    r"(?:Z|[+-]([0-9]{2}):([0-9]{2}))"
)
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def is_time(text: str) -> bool:
    """Say whether the original takes this text as a time (formats/fisk-ai.md 1.7)."""
    match = _CREATED.fullmatch(text)
    if match is None:
        return False
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return (
        1 <= month <= 12
        and 1 <= day <= _DAYS[month - 1] + leap
        and hour < 24
        and minute < 60
        and second < 60
        and int(match[7] or 0) <= 24
        and int(match[8] or 0) <= 60
    )


def _wrong(what: str, node: Node, wanted: str) -> BadRecord:
    names = {
        bool: "true or false",
        int: "a number",
        MinusZero: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
        Members: "an object",
    }
    return BadRecord(f"{what} is {names.get(type(node), 'null')}, not {wanted}")


def members(node: Node, what: str) -> Iterator[tuple[str, Node]]:
    """Give the members of an object with their keys as the original compares them; nothing for null."""
    if node is None:
        return
    if not isinstance(node, Members):
        raise _wrong(what, node, "an object")
    for key, value in node:
        yield key.replace("\u017f", "s").lower(), value


def text_of(node: Node, old: str, what: str) -> str:
    """Give a text, without lone surrogates."""
    if node is None:
        return old
    if not isinstance(node, str):
        raise _wrong(what, node, "a text")
    return scrub(node)


def flag_of(node: Node, what: str, *, old: bool) -> bool:
    """Give true or false."""
    if node is None:
        return old
    if not isinstance(node, bool):
        raise _wrong(what, node, "true or false")
    return node


def whole_of(node: Node, old: int, what: str, *, low: int = -MAX_INT - 1, high: int = MAX_INT) -> int:
    """Give a whole number within its range; `2.0` and `1e3` are none."""
    if node is None:
        return old
    if isinstance(node, bool) or not isinstance(node, int):
        raise _wrong(what, node, "a whole number")
    if not low <= node <= high or (low == 0 and isinstance(node, MinusZero)):
        raise BadRecord(f"{what} is out of range")
    return int(node)


def bytes_of(node: Node, old: bytes, what: str) -> bytes:
    """Give a byte string: base64, or, which the original takes as well, a list of small numbers."""
    if node is None:
        return b""
    if isinstance(node, list):
        return bytes(whole_of(item, 0, what, low=0, high=255) for item in node)
    text = text_of(node, "", what)
    try:
        return base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        raise BadRecord(f"{what} is not base64") from None
