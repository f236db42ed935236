"""How a person names a call and says what becomes of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from refold.core.records import Decision

CHOICES: Final = ("rerun", "failed", "done")
"""What can be decided about a call whose outcome nobody knows."""

_ODD_ID: Final = re.compile(rf"\A#|=(?:{'|'.join(CHOICES)})|\0")


def names_itself(call_id: str) -> bool:
    """Say whether an id can stand before `=CHOICE` in a command and be read as nothing else."""
    return bool(call_id) and _ODD_ID.search(call_id) is None


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
