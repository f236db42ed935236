"""What a tool does, in the words that every screen has for it: those of `[agents.NAME] effects`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from refold.app.lines import Role

EFFECTS: Final[Mapping[str, tuple[str, Role]]] = {
    "read": ("reads only", "good"),
    "idempotent": ("idempotent", "good"),
    "write": ("writes", "problem"),
    "unknown": ("effect unknown", "warn"),
}
"""By what is known of it; what nobody says is treated as one that writes."""


def effect_words(effect: str) -> str:
    """Give the words for an effect; the program of a run directory has its own, shown as they are."""
    known = EFFECTS.get(effect)
    return effect if known is None else known[0]
