"""What a readable line may still have that two readers could see differently.

A record that decodes can hold a key twice, bytes that are not UTF-8, or half of a surrogate pair: the
original program accepts all three (formats/fisk-ai.md 1.7), the next one may not. And it passes over keys
that its format does not have, and over words: of a bit that flipped in a name this is all that is seen.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from refold.core.formats.tolerant import Members, Node
from refold.core.shapes import Shape, Typed, is_free_type

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


def remarks(line: bytes, shape: Shape) -> tuple[Remark, ...]:
    """Give what is odd about a line that decodes, where records of its format have this shape."""
    return (*bad_utf8(line), *surrogates(line), *keys_and_words(line, shape))


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

    def __call__(self, pairs: list[tuple[str, Node]]) -> Members:
        if self.repeated is None:
            self.repeated = _first_twice([key for key, _ in pairs])
        return Members(pairs)


def _first_twice(keys: Sequence[str]) -> str | None:
    """Give the first key that comes back; None where each stands once."""
    if len(set(keys)) == len(keys):
        return None
    # An object may have millions of keys: they are counted once, not once for each.
    times = Counter(keys)
    return next(key for key in keys if times[key] > 1)


def keys_and_words(line: bytes, shape: Shape) -> tuple[Remark, ...]:
    """Give the first key that stands twice, and the first one and the first word that no record has.

    Args:
        line: A line that decodes.
        shape: What a record of its format is like.
    """
    found = _Pairs()
    decoder = json.JSONDecoder(object_pairs_hook=found, parse_int=_pass, parse_float=_pass)
    try:
        outer: Node = decoder.decode(line.decode("utf-8", "replace").strip())
    except (ValueError, RecursionError):
        return ()
    repeated = found.repeated
    if repeated is None and isinstance(outer, Members):
        folded = [key.lower() for key, _ in outer]
        twice = _first_twice(folded)
        repeated = None if twice is None else outer[folded.index(twice)][0]
    odd: dict[str, Remark] = {}
    if repeated is not None:
        odd["E_DUP_KEY"] = Remark("E_DUP_KEY", 0, len(line), repr(_short(repeated)))
    for code, reason in _odd(outer, shape, ""):
        odd.setdefault(code, Remark(code, 0, len(line), reason))
    return tuple(odd.values())


def _odd(node: Node, shape: Shape, place: str) -> Iterator[tuple[str, str]]:
    """Give what stands in a value that its shape has no place for."""
    if isinstance(shape, Typed):
        if not isinstance(node, Members):
            return
        kind = next((value for key, value in node if key == "type"), None)
        keys = shape.of(kind if isinstance(kind, str) else None)
        if keys is None:
            if isinstance(kind, str) and not is_free_type(kind):
                yield "E_UNKNOWN_WORD", f"{place}.type is {_short(kind)!r}"
            return
        shape = keys
    if isinstance(shape, re.Pattern):
        if isinstance(node, str) and not shape.fullmatch(node):
            yield "E_UNKNOWN_WORD", f"{place} is {_short(node)!r}"
    elif isinstance(shape, list):
        if isinstance(node, list):
            for item in node:
                yield from _odd(item, shape[0], place)
    elif not isinstance(shape, str) and isinstance(node, Members):
        inside = f"{place}." if place else ""
        for key, value in node:
            if key in shape:
                yield from _odd(value, shape[key], f"{inside}{key}")
            else:
                yield "E_UNKNOWN_KEY", repr(_short(f"{inside}{key}"))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _pass(text: str) -> int:
    """Leave numbers alone: they may be longer than any that can be read, and none is looked at."""
    return 0
