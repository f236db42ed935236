"""A state as JSON, every key written out (the form of `refold state --json`)."""

from __future__ import annotations

from refold.core.formats.writing import fingerprint_json
from refold.core.records import Json, Message
from refold.core.state import Counters, PendingTurn, RunState, Terminal


def state_json(state: RunState) -> dict[str, Json]:
    """Give a state with the keys of the shared fixtures, messages in the run's own shape."""
    return {
        "version": state.version,
        "run_id": state.run_id,
        "fingerprint": fingerprint_json(state.fingerprint),
        "prompt": state.prompt,
        "interactive": state.interactive,
        "messages": [message_json(message) for message in state.messages],
        "counters": counters_json(state.counters),
        "next_iteration": state.next_iteration,
        "last_stop_reason": state.last_stop_reason,
        "pending": None if state.pending is None else pending_json(state.pending),
        "terminal": None if state.terminal is None else terminal_json(state.terminal),
        "completed": state.completed,
    }


def message_json(message: Message) -> dict[str, Json]:
    """Give one message: role, and its blocks or null."""
    return {"role": message.role, "content": None if message.content is None else list(message.content)}


def counters_json(counters: Counters) -> dict[str, Json]:
    """Give all seven sums."""
    return {
        "llm_calls": counters.llm_calls,
        "tool_calls": counters.tool_calls,
        "remote_tool_calls": counters.remote_tool_calls,
        "in_tokens": counters.in_tokens,
        "out_tokens": counters.out_tokens,
        "cache_read_tokens": counters.cache_read_tokens,
        "cache_create_tokens": counters.cache_create_tokens,
    }


def terminal_json(terminal: Terminal) -> dict[str, Json]:
    """Give the last terminal record; its message only where it has one."""
    if not terminal.message:
        return {"reason": terminal.reason}
    return {"reason": terminal.reason, "message": terminal.message}


def pending_json(pending: PendingTurn) -> dict[str, Json]:
    """Give an open turn; the ids that are answered stand sorted."""
    return {
        "assistant": message_json(pending.assistant),
        "iteration": pending.iteration,
        "stop_reason": pending.stop_reason,
        "results": list(pending.results),
        "answered": list(pending.answered),
    }
