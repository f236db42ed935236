"""What a readable line may still have that two readers could see differently.

A record that decodes can hold a key twice, bytes that are not UTF-8, or half of a surrogate pair: the
original program accepts all three (formats/fisk-ai.md 1.7), the next one may not.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_SHOWN = 60


class Remark(NamedTuple):
    """One thing that is odd about a line."""

    code: str
    start: int
    """First byte, counted from the start of the line."""
    end: int
    reason: str


def remarks(line: bytes) -> tuple[Remark, ...]:
    """Give what is odd about a line that decodes."""
    return (*bad_utf8(line), *surrogates(line), *repeated_keys(line))


def bad_utf8(line: bytes) -> tuple[Remark, ...]:
    """Give the first bytes that are not UTF-8."""
    if line.isascii():
        return ()
    try:
        line.decode()
    except UnicodeDecodeError as error:
        shown = line[error.start : error.end].hex(" ").upper()
        return (Remark("E_BAD_UTF8", error.start, error.end, f"byte {shown} at column {error.start + 1}"),)
    return ()


def surrogates(line: bytes) -> tuple[Remark, ...]:
    """Give the first escape that is half of a surrogate pair."""
    if _HALF.search(line) is None:
        return ()
    high: re.Match[bytes] | None = None
    for match in _ESCAPE.finditer(line):
        unit = int(match[1], 16) if match[1] else 0
        is_low = 0xDC00 <= unit < 0xE000
        if high is not None and not (is_low and match.start() == high.end()):
            return (_half(high),)
        if is_low and high is None:
            return (_half(match),)
        high = match if 0xD800 <= unit < 0xDC00 else None
    return () if high is None else (_half(high),)


def _half(match: re.Match[bytes]) -> Remark:
    return Remark("E_SURROGATE", match.start(), match.end(), f"{match[0].decode('ascii')} stands alone")


class _Pairs:
    """Notes the first key that an object holds twice, at any depth."""

    def __init__(self) -> None:
        self.repeated: str | None = None

    def __call__(self, pairs: list[tuple[str, object]]) -> tuple[str, ...]:
        keys = [key for key, _ in pairs]
        if self.repeated is None and len(set(keys)) < len(keys):
            self.repeated = next(key for key in keys if keys.count(key) > 1)
        return tuple(keys)


def repeated_keys(line: bytes) -> tuple[Remark, ...]:
    """Give the first key that stands twice in one object, or twice in the record but for its case."""
    found = _Pairs()
    decoder = json.JSONDecoder(object_pairs_hook=found, parse_int=_pass, parse_float=_pass)
    try:
        outer = decoder.decode(line.decode("utf-8", "replace").strip())
    except (ValueError, RecursionError):
        return ()
    repeated = found.repeated
    if repeated is None and isinstance(outer, tuple):
        folded = [key.lower() for key in outer]
        repeated = next((key for key in outer if folded.count(key.lower()) > 1), None)
    if repeated is None:
        return ()
    shown = repeated if len(repeated) <= _SHOWN else repeated[: _SHOWN - 1] + "…"
    return (Remark("E_DUP_KEY", 0, len(line), repr(shown)),)


def _pass(text: str) -> str:
    return text
