"""What two runs of Rivumi are compared by: the face of an event, and the fields of two states."""

from __future__ import annotations

import hashlib
import json
from typing import Final

from refold.core.records import Json
from refold.core.rivumi.events import Event
from refold.core.rivumi.events_state import EventsState

_IDS: Final = frozenset(
    {"tool_call_id", "action_id", "request_id", "run_id", "task_id", "source_run_id", "provider_request_id"}
)
"""Members of an event that differ between two attempts that do the same."""
_TIMES: Final = frozenset({"duration", "duration_ms", "duration_seconds", "elapsed", "elapsed_ms"})


def said_by(event: Event) -> bytes:
    """Give a hash of what an event says, without its sequence, its time, and all ids."""
    data = {name: value for name, value in event.data.items() if name not in _IDS | _TIMES}
    return _digest([event.event_type, event.text, data])


def call_of(event: Event) -> bytes:
    """Give a hash of what the request of a call asks for: its tool and its arguments."""
    return _digest([event.data.get("name"), event.data.get("arguments")])


def _digest(value: Json) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def state_values(state: EventsState) -> dict[str, Json]:
    """Give what two states are compared by."""
    return {
        "phase": state.phase,
        "step": state.step,
        "provider": state.provider,
        "model": state.model,
        "base_sha": state.base_sha,
        "open_calls": [call.name for call in state.open_calls],
        "waiting": None if state.waiting is None else state.waiting.name,
        "calls": sum(not call.is_check for call in state.calls),
        "approvals": len(state.approvals),
        "checks": [f"{check.name}: {check.state}" for check in state.checks],
        "in_tokens": state.tokens.input,
        "out_tokens": state.tokens.output,
        "cache_read_tokens": state.tokens.cached,
        "resumes": state.resumes,
        "terminal": state.terminal_reason or None,
    }
