"""What ends a run for good: reasons that no answer, no force and no other agent goes past. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from refold.core.state import RunState

WITHHOLDS: Final[Mapping[str, str]] = {
    "max_tokens": "the reply was cut off, so the call may be cut off too",
    "refusal": "the model refused",
}
"""Stop reasons of turns whose calls run only when told to, and why (formats/fisk-ai.md 8, 10)."""


class Barred(NamedTuple):
    """Why a run leads nowhere."""

    code: str
    message: str


def barred_by(state: RunState, run_id: str, *, native: bool) -> Barred | None:
    """Say why a run leads nowhere whatever is answered, whoever goes on with it; None where it may.

    Args:
        state: what its records fold to; of its messages at most the last one is looked at.
        run_id: what its file is called.
        native: it is in our own format.
    """
    at_once = barred_at_once(state.run_id, run_id, completed=state.completed, native=native)
    if at_once is not None:
        return at_once
    if state.last_stop_reason in WITHHOLDS and not state.interactive and ends_on_reply(state):
        why = "the model refused" if state.last_stop_reason == "refusal" else "the last reply was cut off"
        return Barred("ended", f"{why}, and nothing follows it: fork it with a new prompt instead")
    return None


def barred_at_once(own_id: str, run_id: str, *, completed: bool, native: bool) -> Barred | None:
    """Say why a run leads nowhere as far as it can be told without its messages.

    Args:
        own_id: what it calls itself.
        run_id: what its file is called.
        completed: its last terminal record says so.
        native: it is in our own format.
    """
    if completed:
        return Barred("completed", "the run is completed: fork it to go on from some point")
    if not native and own_id != run_id:
        return Barred(
            "renamed",
            f"the run calls itself {own_id!a}, its file {run_id!a}: "
            "its agent is given ids only where both are one",
        )
    return None


def ends_on_reply(state: RunState) -> bool:
    """Say whether the model spoke last and is not to go on: there is nothing to send it."""
    last = state.messages[-1].role if state.messages else ""
    return state.pending is None and last == "assistant" and state.last_stop_reason != "pause_turn"
