"""What of a conversation had been said up to an event: the manifest keeps only the latest state of it.

The events prove how many turns there were and which calls had ended; the messages are cut back to that. Where
the conversation was compacted nothing tells what it was before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from refold.core.records import Json
from refold.core.rivumi.members import Members

COMPACTED = "context_pressure.summary_fallback_applied"
"""The event after which earlier messages are kept nowhere."""


def sent_at(
    messages: Sequence[Json], turns: int, ended: Collection[str], *, inherited: int = 0, asked: bool = False
) -> tuple[Json, ...] | None:
    """Give the messages of a conversation up to a point; None where it has fewer turns than the events.

    Args:
        messages: As they stand now.
        turns: How many replies of the model there are up to the point.
        ended: The calls that have come to their end up to the point, by id.
        inherited: So many messages a fork began with: none of them is one of its turns.
        asked: After the last of these replies the model was asked for another one.
    """
    kept = list(messages[:inherited])
    found = 0
    for message in messages[inherited:]:
        is_reply = isinstance(message, dict) and message.get("role") == "assistant"
        if is_reply and found == turns:
            return tuple(kept)
        found += is_reply
        if found < turns or turns == 0 or is_reply or asked or _is_end(message, ended):
            kept.append(message)
    return tuple(kept) if found >= turns else None


def _is_end(message: Json, ended: Collection[str]) -> bool:
    """Say whether a message is what came of one of some calls."""
    return isinstance(message, dict) and "ok" in message and Members(message).text("tool_call_id") in ended
