"""Run ids: which text may be one, and new ones that sort by time.

Source of both rules: formats/fisk-ai.md 3.1.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from refold.core.errors import InvalidRunId

_EPOCH = 1_400_000_000
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_KSUID_LENGTH = 27
_LONGEST = 128
_FIRST = frozenset(_ALPHABET)
_ALLOWED = _FIRST | {"_", "-"}


def is_run_id(text: str) -> bool:
    """Say whether a text may name a run; anything else must never become part of a path."""
    return 0 < len(text) <= _LONGEST and text[0] in _FIRST and _ALLOWED.issuperset(text)


def is_segment(text: str) -> bool:
    """Say whether a text may be the name of a run directory (formats/rivumi.md 1)."""
    return text not in {"", ".", ".."} and not {"/", "\0"} & set(text)


def check_run_id(run_id: str) -> str:
    """Give the id back unchanged.

    Raises:
        InvalidRunId: the text is no run id.
    """
    if not is_run_id(run_id):
        raise InvalidRunId(run_id)
    return run_id


def new_run_id(
    *, now: Callable[[], float] = time.time, random_bytes: Callable[[int], bytes] = os.urandom
) -> str:
    """Give a new KSUID: 27 characters whose order is the order of creation, to the second."""
    seconds = min(max(int(now()) - _EPOCH, 0), 0xFFFF_FFFF)
    number = int.from_bytes(seconds.to_bytes(4, "big") + random_bytes(16), "big")
    digits: list[str] = []
    while number:
        number, digit = divmod(number, 62)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits)).rjust(_KSUID_LENGTH, "0")
