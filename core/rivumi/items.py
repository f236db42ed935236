"""Items of a conversation and the tokens it used, with the members that every generation reads.

See formats/rivumi.md 3, "Nested".
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal

from refold.core.records import Json
from refold.core.rivumi.calls import CHECK
from refold.core.rivumi.canonical import preview, time_text


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


def approval_request(
    run_id: str,
    effect: Literal["read", "modify", "execute"],
    *,
    call: Mapping[str, Json] | None = None,
    check: Mapping[str, Json] | None = None,
    shown: str = "",
    policy: str = "",
) -> dict[str, Json]:
    """Give the question whether a call or a check may run: the value of `pending_action`.

    Args:
        run_id: The run.
        effect: What it does to the world.
        call: The call of the model, as in `message`; or
        check: the command of a check: `{"name": ..., "argv": [...], "timeout_seconds": ...}`.
        shown: What the person is shown of it; a long one is cut.
        policy: Why it is asked.
    """
    action = call["tool_call_id"] if call is not None else f"{CHECK}{(check or {}).get('name')}"
    return {
        "request_id": uuid.uuid4().hex,
        "run_id": run_id,
        "action_id": action,
        "effect": effect,
        "reason": "model_tool" if call is not None else "final_verification",
        "policy_reason": policy,
        "preview": preview(shown, 16_000),
        "tool_call": None if call is None else dict(call),
        "command": None if check is None else dict(check),
    }


def approval_record(
    request: Mapping[str, Json],
    decision: Literal["allow_once", "allow_session", "deny", "cancel"],
    now: datetime,
) -> dict[str, Json]:
    """Give the answer to a question as an item of `approval_history`."""
    return {"request": dict(request), "decision": decision, "decided_at": time_text(now)}


def check_outcome(
    name: str,
    argv: Iterable[str],
    *,
    ok: bool,
    exit_code: int | None = None,
    seconds: float = 0.0,
    output: str = "",
) -> dict[str, Json]:
    """Give the result of a check as an item of `verification`."""
    return {
        "name": name,
        "argv": [*argv],
        "ok": ok,
        "exit_code": exit_code,
        "duration_seconds": seconds,
        "output": output,
    }
