"""Where inside a record its shape goes wrong, for a line that the strict reading has refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from refold.core.errors import BadRecord
from refold.core.formats.tolerant import Members, Node, parse

Shape: TypeAlias = "str | list[Shape] | dict[str, Shape]"
"""What a value should be: a word of `_WORDS`, a list of one shape, or an object of named shapes."""

_FINGERPRINT: Final[dict[str, Shape]] = {
    "provider": "text",
    "model": "text",
    "system_hash": "text",
    "tools_hash": "text",
    "thinking_mode": "text",
    "max_tokens": "whole",
    "max_iterations": "whole",
}
_RESULT: Final[dict[str, Shape]] = {"tool_use_id": "text", "content": "text", "is_error": "flag"}
_BLOCK: Final[dict[str, Shape]] = {
    "text": {"text": "text"},
    "thinking": {"text": "text"},
    "tool_use": {"id": "text", "name": "text"},
    "tool_result": _RESULT,
    "provider": {"kind": "text"},
}
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
    return _mismatch(node, _record(neutral=version >= 3), "the record") or ""


def _record(*, neutral: bool) -> Shape:
    """Give the shape of a record (formats/fisk-ai.md 1.2 to 1.5)."""
    block: Shape = _BLOCK if neutral else "anything"
    message: Shape = {"role": "text", "content": [block]}
    numbers = ("iteration", "in_tokens", "out_tokens", "cache_read_tokens", "cache_create_tokens")
    return {
        "seq": "whole",
        "protocol": "text",
        "meta": {
            "version": "whole",
            "run_id": "text",
            "created": "text",
            "fingerprint": _FINGERPRINT,
            "prompt": "text",
            "interactive": "flag",
        },
        "assistant": {"message": message, "stop_reason": "text", **dict.fromkeys(numbers, "whole")},
        "user": {"message": message},
        "tool_result": {
            "tool_use_id": "text",
            "result": _RESULT if neutral else "anything",
            "remote": "flag",
        },
        "terminal": {"reason": "text", "message": "text"},
    }


def _mismatch(node: Node, shape: Shape, place: str) -> str | None:
    if node is None or shape == "anything":
        return None
    if isinstance(shape, str):
        word, kind = _WORDS[shape]
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
