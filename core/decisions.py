"""How a person names a call and says what becomes of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from refold.core.blocks import result_is_error, result_text
from refold.core.records import Decision, ToolResultRecord

CHOICES: Final = ("rerun", "failed", "done")
"""What can be decided about a call whose outcome nobody knows."""
FAILED: Final = "outcome unknown: recorded as failed"
"""What is recorded as the result of a call that was decided to count as failed."""

_ODD_ID: Final = re.compile(rf"\A#|=(?:{'|'.join(CHOICES)})")


def names_itself(call_id: str) -> bool:
    """Say whether an id can stand before `=CHOICE` in a command and be read as nothing else.

    The id is the model's own: one that would command the terminal it is pasted into cannot (`core.pasted`).
    """
    return bool(call_id) and call_id.isprintable() and _ODD_ID.search(call_id) is None


def decided_text(decision: Decision) -> str:
    """Give what is recorded as the result of a call that was decided as failed or done."""
    if decision.choice != "failed":
        return decision.text
    return f"{FAILED}: {decision.text}" if decision.text else FAILED


def leaves_unknown(record: ToolResultRecord) -> bool:
    """Say whether a result was recorded by a decision that the call counts as failed: it may well have run.

    A journal of ours says so itself; those of others have no place for it, and are known by the text.
    """
    if record.decision is not None:
        return record.decision.choice == "failed"
    text = result_text(record.result)
    return result_is_error(record.result) and (text == FAILED or text.startswith(f"{FAILED}: "))


def by_id(given: Mapping[str, Decision], calls: Sequence[str]) -> dict[str, Decision]:
    """Give decisions by the ids of calls, also those that were given by number: `#2` is the second call.

    Args:
        given: what was decided, by id or number; an id comes first.
        calls: the ids of the open turn, in order.
    """
    known = set(calls)
    meant = {f"#{number}": call_id for number, call_id in enumerate(calls, 1)}
    decisions = {key: each for key, each in given.items() if key in known}
    for key, decision in given.items():
        # What contradicts stays under its own name, and is refused as such.
        if key not in known and decisions.setdefault(meant.get(key, key), decision) != decision:
            decisions[key] = decision
    return decisions
