"""Items of a conversation and the tokens it used, with the members that every generation reads.

See formats/rivumi.md 3, "Nested".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from refold.core.records import Json


def observation(call: str, name: str, content: str = "", *, error: str | None = None) -> dict[str, Json]:
    """Give the result of a call as an item of the conversation; it is ok where there is no error."""
    return {"tool_call_id": call, "name": name, "ok": error is None, "content": content, "error": error}


def message(role: str, content: str | None, calls: Iterable[Mapping[str, Json]] = ()) -> dict[str, Json]:
    """Give a message as an item of the conversation, with the members that every generation reads.

    Args:
        role: system, user or assistant.
        content: The text; None for a turn that only calls.
        calls: Of the assistant: `{"tool_call_id": ..., "name": ..., "arguments": {...}}` each.
    """
    return {"role": role, "content": content, "tool_calls": [dict(call) for call in calls]}


def usage(
    *, given: int = 0, made: int = 0, cached: int = 0, reasoning: int = 0, total: int | None = None
) -> dict[str, Json]:
    """Give the tokens used as a manifest has them: no computed total."""
    return {
        "input_tokens": given,
        "output_tokens": made,
        "cached_input_tokens": cached,
        "reasoning_tokens": reasoning,
        "provider_total_tokens": total,
    }
