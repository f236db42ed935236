"""How a star, tags, a name and notes are shown: on the row of a run, in its preview and its first row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from refold.app.lines import Cell, Role
from refold.app.present.layout import cell
from refold.app.present.units import plural
from refold.core.keeping import LONGEST_NOTE, Kept

STAR: Final = "*"
"""Stands before what is starred."""
NOTED: Final = "▪"
"""Stands at what carries a note."""


def has_note(kept: Kept) -> bool:
    """Say whether there is something to be read: on the run, on its records, or about its notes."""
    return bool(kept.note or kept.records or kept.trouble)


def kept_cells(kept: Kept, *, name: bool = False) -> Iterator[Cell]:
    """Give what is kept about a run, one piece after the other, the shortest first.

    Args:
        kept: What is kept.
        name: Say the given name too.
    """
    parts: list[tuple[str, Role]] = []
    if kept.star:
        parts.append((f"{STAR} starred", "accent"))
    if name and kept.name:
        parts.append((kept.name, "strong"))
    if kept.tags:
        parts.append((", ".join(kept.tags), "accent"))
    if kept.records:
        parts.append((f"{NOTED} {plural(kept.records, 'record')} noted", "accent"))
    if kept.trouble:
        parts.append((kept.trouble, "warn"))
    if kept.note:
        parts.append((kept.note, "text"))
    for number, (text, role) in enumerate(parts):
        if number:
            yield cell(" · ", "dim")
        yield cell(text, role, LONGEST_NOTE)
