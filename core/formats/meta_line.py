"""The meta line of a fork: the parent's own line, in which only what names the run is changed.

Everything else stays as its writer spelled it: keys we do not know, their order, numbers, escapes
(formats/fisk-ai.md 1.6, "never re-serialise an existing line"). Where a line is too odd to be changed in
place, a new one is written, and what it leaves out is named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from refold.core.errors import BadRecord
from refold.core.formats.gojson import encode
from refold.core.records import Json, MetaRecord, Record

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_VALUE = json.JSONDecoder(parse_int=str, parse_float=str)
_ENVELOPE = frozenset({"seq", "protocol", "time", "meta"})
_META = frozenset({"version", "run_id", "created", "fingerprint", "prompt", "interactive", "forked_from"})
_FINGERPRINT = frozenset(
    {"provider", "model", "system_hash", "tools_hash", "thinking_mode", "max_tokens", "max_iterations"}
)


class MetaLine(NamedTuple):
    """A meta line that was made from another."""

    line: bytes
    """The line, newline included."""
    lost: tuple[str, ...]
    """The keys of the parent's line that it does not have."""


class _Member(NamedTuple):
    key: str
    start: int
    """Where the value starts."""
    end: int
    """Behind the value."""


class _Odd(ValueError):
    """The line is not laid out so that it can be changed in place."""


def renamed(
    line: bytes,
    record: MetaRecord,
    encoded: Callable[[Record], bytes],
    decoded: Callable[[bytes], Record],
    changes: Mapping[str, Json],
) -> MetaLine:
    """Give the meta line of another run.

    Args:
        line: the parent's meta line.
        record: what the new line must mean.
        encoded: writes a record in the parent's format and version.
        decoded: reads a line of it; raises BadRecord.
        changes: members of the meta object to be changed; what is not there is added at its end.
    """
    try:
        text = line.decode("latin-1").strip(" \t\r\n")
        new = _changed(text, changes).encode("latin-1") + b"\n"
        if decoded(new[:-1]) == record:
            return MetaLine(new, ())
    except (_Odd, BadRecord):
        pass
    return MetaLine(encoded(record), _unknown(line))


def _changed(text: str, changes: Mapping[str, Json]) -> str:
    outer = _members(text, 0)
    meta = _only(outer, "meta")
    if meta is None:
        raise _Odd
    inner = _members(text, meta.start)
    places: list[tuple[int, int, str]] = []
    added = ""
    for key, value in changes.items():
        found = _only(inner, key)
        if found is not None:
            places.append((found.start, found.end, _json(value)))
        else:
            added += f',"{key}":{_json(value)}'
    if added:
        places.append((inner[-1].end, inner[-1].end, added))
    for start, end, new in sorted(places, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _json(value: Json) -> str:
    return encode(value).decode("latin-1")


def _only(members: list[_Member], key: str) -> _Member | None:
    found = [member for member in members if member.key == key]
    if len(found) > 1:
        raise _Odd
    return found[0] if found else None


def _members(text: str, start: int) -> list[_Member]:
    """Find the members of the object that starts at a place; its own values are not looked into."""
    found: list[_Member] = []
    at = _expect(text, start, "{")
    while True:
        key = _STRING.match(text, _skip(text, at))
        if key is None:
            raise _Odd
        value = _skip(text, _expect(text, key.end(), ":"))
        try:
            _, end = _VALUE.raw_decode(text, value)
        except (ValueError, RecursionError) as error:
            raise _Odd from error
        found.append(_Member(key[0][1:-1], value, end))
        at = _skip(text, end)
        if text[at : at + 1] == "}":
            return found
        at = _expect(text, at, ",")


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


def _expect(text: str, at: int, mark: str) -> int:
    """Give the place behind a mark, white space before it skipped."""
    at = _skip(text, at)
    if text[at : at + 1] != mark:
        raise _Odd
    return at + 1


def _unknown(line: bytes) -> tuple[str, ...]:
    """Name the keys of a meta line that no record of ours holds; nothing where it cannot be told."""
    text = line.decode("latin-1").strip(" \t\r\n")
    try:
        outer = _members(text, 0)
        lost = [member.key for member in outer if member.key.lower() not in _ENVELOPE]
        for meta in outer:
            if meta.key.lower() != "meta" or text[meta.start] != "{":
                continue
            for member in _members(text, meta.start):
                if member.key.lower() not in _META:
                    lost.append(f"meta.{member.key}")
                elif member.key.lower() == "fingerprint" and text[member.start] == "{":
                    inner = _members(text, member.start)
                    lost += [
                        f"meta.fingerprint.{each.key}"
                        for each in inner
                        if each.key.lower() not in _FINGERPRINT
                    ]
    except _Odd:
        return ("whatever else its meta record holds",)
    return tuple(lost)
