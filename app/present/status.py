"""How a status is shown: one glyph, one role, the same on every screen."""

from __future__ import annotations

from typing import Final

from refold.app.lines import Cell, Role
from refold.app.safe import Safe
from refold.core.status import StatusName

_LOOKS: Final[dict[StatusName, tuple[str, Role]]] = {
    "running": ("●", "good"),
    "ready": ("ψ", "fork"),
    "suspended": ("▮", "warn"),
    "crashed": ("✗", "problem"),
    "completed": ("✓", "good"),
    "failed": ("✗", "problem"),
    "cancelled": ("■", "dim"),
    "budget": ("■", "warn"),
    "max-iterations": ("■", "warn"),
    "unreadable": ("⚠", "problem"),
    "empty": ("◇", "dim"),
    "newer": ("◇", "warn"),
}


def status_cell(name: StatusName) -> Cell:
    """Give the glyph and the word of a status."""
    glyph, role = _LOOKS[name]
    return Cell(Safe(f"{glyph} {name}"), role)
