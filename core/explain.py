"""Where inside a record its shape goes wrong, for a line that the strict reading has refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from refold.core.errors import BadRecord
from refold.core.formats.journal import NEUTRAL_VERSION
from refold.core.formats.tolerant import Members, Node, parse
from refold.core.shapes import Shape, Typed, record_shape

_WORDS: Final[Mapping[str, tuple[str, type]]] = {
    "text": ("a text", str),
    "whole": ("a whole number", int),
    "flag": ("true or false", bool),
}


def where_it_fails(line: bytes, version: int) -> str:
    """Give the place of the first value of the wrong type, and what it is; empty where none is found.

    Args:
        line: A line that is JSON but no record.
        version: The version that the run was written in; from 3 on blocks are objects of one key.
    """
    try:
        node = parse(line)
    except BadRecord:
        return ""
    return _mismatch(node, record_shape(neutral=version >= NEUTRAL_VERSION, native=False), "the record") or ""


def _mismatch(node: Node, shape: Shape, place: str) -> str | None:
    if node is None or shape == "anything" or isinstance(shape, Typed):
        return None
    if isinstance(shape, str | re.Pattern):
        word, kind = _WORDS[shape if isinstance(shape, str) else "text"]
        fits = isinstance(node, kind) and isinstance(node, bool) == (kind is bool)
        return None if fits else f"{place}: expected {word}, found {_name(node)}"
    if isinstance(shape, list):
        if not isinstance(node, list):
            return f"{place}: expected a list, found {_name(node)}"
        return _first(_mismatch(item, shape[0], f"{place}[{at}]") for at, item in enumerate(node))
    if not isinstance(node, Members):
        return f"{place}: expected an object, found {_name(node)}"
    inside = "" if place == "the record" else f"{place}."
    return _first(
        _mismatch(value, shape[key.lower()], f"{inside}{key.lower()}")
        for key, value in node
        if key.lower() in shape
    )


def _first(found: Iterable[str | None]) -> str | None:
    return next((text for text in found if text is not None), None)


def _name(node: Node) -> str:
    if isinstance(node, bool):
        return "true" if node else "false"
    if isinstance(node, str):
        return "a text"
    if isinstance(node, int):
        return f"the number {node}"
    if isinstance(node, float):
        return "a number with a fraction or an exponent"
    return "a list" if isinstance(node, list) else "an object"
