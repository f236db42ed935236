"""A JSON value as highlighted lines, made one by one: a large one costs only what is looked at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from refold.app import safe
from refold.app.lines import Cell, Line, Role
from refold.app.present.layout import cell, flow, paragraph
from refold.app.safe import Safe
from refold.core.records import Json

_STEP: Final = 2
_INLINE_MEMBERS: Final = 8
_INLINE_TEXT: Final = 32
_LONGEST_KEY: Final = 200


def json_lines(value: Json, width: int, *, indent: int = 0) -> Iterator[Line]:
    """Give a value as indented JSON; a text of several lines stands between its quotes as it was written."""
    yield from _lines(value, width, indent, (), "")


def _lines(value: Json, width: int, indent: int, lead: tuple[Cell, ...], end: str) -> Iterator[Line]:
    blank = Cell(Safe(" " * min(indent, width // 2)), "text")
    if isinstance(value, dict | list) and value and not _fits_on_a_line(value):
        is_object = isinstance(value, dict)
        yield from flow((blank, *lead, _mark("{" if is_object else "[")), width, indent + _STEP, words=False)
        members = [(_key(name), item) for name, item in value.items()] if isinstance(value, dict) else None
        pairs = members if members is not None else [((), item) for item in value]
        for number, (name, item) in enumerate(pairs, 1):
            yield from _lines(item, width, indent + _STEP, name, "," if number < len(pairs) else "")
        yield (blank, _mark(("}" if is_object else "]") + end))
    elif isinstance(value, str) and "\n" in value:
        yield from _text(value, width, indent, (blank, *lead), end)
    else:
        yield from flow((blank, *lead, *_inline(value), _mark(end)), width, indent + _STEP, words=False)


def _text(value: str, width: int, indent: int, lead: tuple[Cell, ...], end: str) -> Iterator[Line]:
    yield from flow((*lead, Cell(Safe('"'), "json-string")), width, indent + _STEP, words=False)
    for row in value.split("\n"):
        yield from paragraph(safe.block(row)[0], width, "json-string", indent=min(indent + _STEP, width // 2))
    yield (lead[0], Cell(Safe('"'), "json-string"), _mark(end))


def _fits_on_a_line(value: dict[str, Json] | list[Json]) -> bool:
    if len(value) > _INLINE_MEMBERS:
        return False
    if isinstance(value, dict):
        return (
            all(_is_short(item) for item in value.values())
            and sum(map(len, value)) <= 2 * _INLINE_TEXT
            and len(value) <= 2
        )
    return all(_is_short(item) for item in value)


def _is_short(value: Json) -> bool:
    if isinstance(value, str):
        return len(value) <= _INLINE_TEXT and "\n" not in value
    return (
        value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 10**18)
    )


def _inline(value: Json) -> Iterator[Cell]:
    if isinstance(value, dict):
        yield _mark("{")
        for number, (name, item) in enumerate(value.items()):
            if number:
                yield _mark(", ")
            yield from _key(name)
            yield from _inline(item)
        yield _mark("}")
    elif isinstance(value, list):
        yield _mark("[")
        for number, item in enumerate(value):
            if number:
                yield _mark(", ")
            yield from _inline(item)
        yield _mark("]")
    else:
        yield _scalar(value)


def _scalar(value: bool | int | float | str | None) -> Cell:  # noqa: FBT001
    if isinstance(value, str):
        return cell(f'"{value}"', "json-string")
    role: Role = "json-word" if value is None or isinstance(value, bool) else "json-number"
    try:
        return cell(json.dumps(value), role)
    except ValueError:
        return cell("a number of over 4,300 digits", role)


def _key(name: str) -> tuple[Cell, ...]:
    return (cell(f'"{name[:_LONGEST_KEY]}"', "json-key"), _mark(": "))


def _mark(text: str) -> Cell:
    return Cell(Safe(text), "dim")
