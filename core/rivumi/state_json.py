"""The JSON of `refold state` for a run of Rivumi (design/contracts.md "JSON of the command line")."""

from __future__ import annotations

from refold.core.records import Json
from refold.core.rivumi.calls import CallLife
from refold.core.rivumi.events_state import EventsState, differences
from refold.core.rivumi.manifest import Manifest, Tokens


def run_json(
    name: str, events: EventsState, manifest: Manifest | None, *, compare: bool = True
) -> dict[str, Json]:
    """Give what events and manifest say of a run, every key written out.

    Args:
        name: The name of the directory.
        events: The fold of the events, or of the first of them.
        manifest: What is claimed; None where there is none.
        compare: Name the differences; they mean nothing for a part of the events.
    """
    generation: str | None = None if manifest is None else manifest.generation
    if manifest is None and not events.run_id and events.last_sequence >= 0:
        generation = "external"
    different = differences(events, manifest) if manifest is not None and compare else ()
    return {
        "run_id": (manifest.run_id if manifest is not None else "") or events.run_id or name,
        "generation": generation,
        "manifest": None if manifest is None else manifest.raw,
        "events": events_json(events),
        "differences": [
            {"field": one.field, "events": one.events, "manifest": one.manifest, "text": one.text}
            for one in different
        ],
    }


def events_json(state: EventsState) -> dict[str, Json]:
    """Give what the events prove."""
    return {
        "phase": state.phase,
        "step": state.step,
        "open_calls": [_call(call) for call in state.open_calls],
        "approvals": [
            {
                "request_id": one.request_id,
                "action_id": one.action_id,
                "effect": one.effect,
                "asked": one.asked,
                "decision": one.decision or None,
                "decided": one.decided,
            }
            for one in state.approvals
        ],
        "tokens": tokens_json(state.tokens),
        "checks": [
            {
                "name": check.name,
                "state": check.state,
                "ok": check.ok,
                "exit_code": check.exit_code,
                "started": check.started,
                "ended": check.ended,
            }
            for check in state.checks
        ],
        "last_sequence": state.last_sequence,
    }


def calls_json(state: EventsState) -> list[Json]:
    """Give every call and check with its life."""
    return [
        {
            **_call(call),
            "arguments": call.arguments,
            "asked": call.asked,
            "decision": call.decision or None,
            "decided": call.decided,
            "ended": call.ended,
            "ok": call.ok,
            "error": call.error or None,
        }
        for call in state.calls
    ]


def tokens_json(tokens: Tokens) -> dict[str, Json]:
    """Give the tokens, each kind by its name."""
    return {
        "input": tokens.input,
        "output": tokens.output,
        "cached": tokens.cached,
        "reasoning": tokens.reasoning,
        "total": tokens.total,
    }


def _call(call: CallLife) -> dict[str, Json]:
    return {
        "id": call.id,
        "name": call.name,
        "effect": call.effect,
        "state": call.state,
        "requested": call.requested,
        "started": call.started,
    }
