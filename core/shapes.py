"""The shape of a record: which keys each object of it has, what their values are, which words they hold.

Source: formats/fisk-ai.md 1.2 to 1.5; what ours adds is in architecture.md "Native journal".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias


class Typed(NamedTuple):
    """A block of the wire: an object whose `type` says which keys it has."""

    by_type: Mapping[str, Mapping[str, Shape]]

    def of(self, kind: str | None) -> Mapping[str, Shape] | None:
        """Give the keys of a block: any that a block can have where it names no type.

        Returns:
            None where a block of its type may hold anything.
        """
        if kind is None:
            return {key: "anything" for keys in self.by_type.values() for key in keys}
        return self.by_type.get(kind)


Shape: TypeAlias = "str | re.Pattern[str] | list[Shape] | Mapping[str, Shape] | Typed"
"""What a value should be: `text`, `whole`, `flag` or `anything`, a text that a pattern matches, a list of
one shape, an object of named shapes, or a block of the wire."""

_HASH: Final = re.compile("(?:[0-9a-f]{64})?")
_THINKING: Final = re.compile("(?:off|summarized)?")
_STOP: Final = re.compile("(?:end_turn|max_tokens|tool_use|pause_turn|refusal|stop_sequence)?")
_REASON: Final = re.compile("completed|suspended|error|budget|max_iterations")
_OWN_REASON: Final = re.compile(f"{_REASON.pattern}|cancelled")
_COUNTERS: Final = ("iteration", "in_tokens", "out_tokens", "cache_read_tokens", "cache_create_tokens")
_RESULT: Final[Mapping[str, Shape]] = {"tool_use_id": "text", "content": "text", "is_error": "flag"}
_NEUTRAL: Final[Mapping[str, Shape]] = {
    "text": {"text": "text"},
    "thinking": {"text": "text", "signature": "anything"},
    "tool_use": {"id": "text", "name": "text", "input": "anything"},
    "tool_result": _RESULT,
    "provider": {"kind": "text", "raw": "anything"},
}


def _keys(*names: str) -> Mapping[str, Shape]:
    return dict.fromkeys((*names, "type"), "anything")


_WIRE_RESULT: Final[Mapping[str, Shape]] = {
    **_keys("tool_use_id", "is_error", "cache_control"),
    "type": re.compile("tool_result"),
    "content": [Typed({"text": _keys("text", "citations", "cache_control")})],
}
_WIRE: Final = Typed(
    {
        "text": _keys("text", "citations", "cache_control"),
        "thinking": _keys("signature", "thinking"),
        "redacted_thinking": _keys("data"),
        "tool_use": _keys("id", "input", "name", "cache_control", "caller"),
        "server_tool_use": _keys("id", "input", "name", "cache_control", "caller"),
        "tool_result": _WIRE_RESULT,
        "web_search_tool_result": _keys("content", "tool_use_id", "cache_control", "caller"),
        "tool_search_tool_result": _keys("content", "tool_use_id", "cache_control"),
    }
)
_OTHER_TYPES: Final = re.compile(
    "image|document|search_result|tool_reference|container_upload|compaction|mcp_tool_(?:use|result)|"
    "(?:web_fetch|(?:bash_|text_editor_)?code_execution)_tool_result"
)


def is_free_type(kind: str) -> bool:
    """Say whether a block of the wire is of a type that is known, and whose keys are not looked at."""
    return kind in _WIRE.by_type or _OTHER_TYPES.fullmatch(kind) is not None


def record_shape(*, neutral: bool, native: bool) -> Mapping[str, Shape]:
    """Give the shape of a record.

    Args:
        neutral: Blocks are objects of one key, as from version 3 of fisk-ai on; else they are of the wire.
        native: It is in our own format, whose agents may name models and stops in words of their own.
    """
    fingerprint: dict[str, Shape] = {
        "model": "text",
        "system_hash": "text" if native else _HASH,
        "tools_hash": "text" if native else _HASH,
        "thinking_mode": "text" if native else _THINKING,
        "max_tokens": "whole",
        "max_iterations": "whole",
        "provider": "text",
    }
    blocks: list[Shape] = [_NEUTRAL if neutral else _WIRE]
    result: Shape = _RESULT if neutral else _WIRE_RESULT
    meta: dict[str, Shape] = {
        "version": "whole",
        "run_id": "text",
        "created": "text",
        "fingerprint": fingerprint,
        "prompt": "text",
        "interactive": "flag",
    }
    payloads: dict[str, dict[str, Shape]] = {
        "assistant": {
            "message": {"role": re.compile("assistant"), "content": blocks},
            "stop_reason": "text" if native else _STOP,
            **dict.fromkeys(_COUNTERS, "whole"),
        },
        "user": {"message": {"role": re.compile("user"), "content": blocks}},
        "tool_result": {"tool_use_id": "text", "result": result, "remote": "flag"},
        "terminal": {"reason": _OWN_REASON if native else _REASON, "message": "text"},
    }
    envelope: dict[str, Shape] = {"seq": "whole", "protocol": "text", "meta": meta, **payloads}
    if native:
        # Ours may grow within a version: what stands in these objects is looked at when it is read.
        envelope["time"] = "text"
        meta["forked_from"] = "anything"
        for payload in payloads.values():
            payload["resumed"] = "anything"
        payloads["tool_result"]["decision"] = "anything"
    return envelope
