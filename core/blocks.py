"""Message blocks as a reader wants them, whatever version wrote them.

Both shapes are understood: flat wire blocks with a `type`, and the single-key objects of version 3
(formats/fisk-ai.md 1.4, 1.5). Nothing here refuses a block; what is unknown is `other`, kept whole.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from refold.core.records import Json

BlockKind: TypeAlias = Literal["text", "thinking", "call", "result", "other"]

_VARIANTS = ("text", "thinking", "tool_use", "tool_result", "provider")


class Block(msgspec.Struct, frozen=True):
    """One block of a message."""

    kind: BlockKind
    text: str = ""
    """What it says: text, thoughts, the text of a result."""
    id: str = ""
    """The call's id; of a result, the id of the call it answers."""
    name: str = ""
    """The tool of a call; of other blocks, their own word for what they are."""
    input: Json = None
    """The arguments of a call."""
    is_error: bool = False
    raw: Json = None
    """The block as it was written."""


def read_blocks(content: tuple[Json, ...] | list[Json] | None) -> tuple[Block, ...]:
    """Give the blocks of a message in order; a version 3 block of two variants gives two."""
    return tuple(block for raw in content or () for block in _read(raw))


def result_text(result: Json) -> str:
    """Give what a result says: plain content as it is, text blocks joined by newlines."""
    if isinstance(result, str):
        return result
    content = result.get("content") if isinstance(result, dict) else result
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(text for item in content if (text := _text_item(item)) is not None)


def result_is_error(result: Json) -> bool:
    """Say whether a result tells of a failure."""
    return isinstance(result, dict) and result.get("is_error") is True


def result_is_denial(result: Json) -> bool:
    """Say whether a result tells that its call was not allowed to run (formats/fisk-ai.md 1.4)."""
    text = result_text(result).strip()
    if not text.startswith("{") or '"allowed"' not in text:
        return False
    try:
        said = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return isinstance(said, dict) and said.get("allowed") is False


def result_id(result: Json) -> str:
    """Give the id of the call that a result block says it answers."""
    return _string(result.get("tool_use_id")) if isinstance(result, dict) else ""


def _read(raw: Json) -> list[Block]:
    if isinstance(raw, str):
        return [Block("text", raw, raw=raw)]
    if not isinstance(raw, dict):
        return [Block("other", raw=raw)]
    if isinstance(raw.get("type"), str):
        return [_wire(raw)]
    variants = [(name, inner) for name in _VARIANTS if isinstance(inner := raw.get(name), dict)]
    return [_variant(name, inner, raw) for name, inner in variants] or [Block("other", raw=raw)]


def _wire(raw: dict[str, Json]) -> Block:
    kind = _string(raw.get("type"))
    if kind == "text":
        return Block("text", _string(raw.get("text")), raw=raw)
    if kind == "thinking":
        return Block("thinking", _string(raw.get("thinking")), raw=raw)
    if kind == "tool_use":
        return _call(raw, raw)
    if kind == "tool_result":
        return _result(raw, raw)
    return Block("other", id=_string(raw.get("id")), name=kind, raw=raw)


def _variant(name: str, inner: dict[str, Json], raw: Json) -> Block:
    if name in {"text", "thinking"}:
        return Block("text" if name == "text" else "thinking", _string(inner.get("text")), raw=raw)
    if name == "tool_use":
        return _call(inner, raw)
    if name == "tool_result":
        return _result(inner, raw)
    return Block("other", name=_string(inner.get("kind")), raw=raw)


def _call(inner: dict[str, Json], raw: Json) -> Block:
    return Block(
        "call",
        id=_string(inner.get("id")),
        name=_string(inner.get("name")),
        input=inner.get("input"),
        raw=raw,
    )


def _result(inner: dict[str, Json], raw: Json) -> Block:
    return Block("result", result_text(inner), id=result_id(inner), is_error=result_is_error(inner), raw=raw)


def _string(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _text_item(item: Json) -> str | None:
    """Give the text of one item of a result's content; None for an image and the like."""
    if isinstance(item, str):
        return item
    if not isinstance(item, dict):
        return None
    text = item.get("text")
    if isinstance(text, dict):
        text = text.get("text")
    return text if isinstance(text, str) else None
