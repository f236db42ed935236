"""What is refused where Refold only looks: what changes a run or its notes, or leads out of the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from refold.app.key_table import TABLE

if TYPE_CHECKING:
    from refold.app.settings import Settings

_SCREENS: Final = frozenset({"runs", "run", "lineage", "postmortem", "chat", "history", "search", "trash"})
_COPIES: Final = frozenset({"copy"})
KEPT: Final = frozenset({"star", "tags", "name", "note", "trash", "prune"})
"""Writes notes, or moves runs: whatever group of keys it is found in."""
OUT: Final = frozenset({"export", "outside"})
"""Writes a file or starts a program; of a bundle that is no harm, of a served screen it is."""
COMMANDS: Final = frozenset(
    {
        *("fork", "salvage", "repair", "resume", "run", "trash", "restore", "prune"),
        *("star", "tag", "name", "note"),
    }
)
"""Commands that write, unless they are told to plan only."""


def going_on() -> frozenset[str]:
    """Give the actions that change a run or its notes, or go on with it."""
    named = {key.action.partition("(")[0] for key in TABLE if key.group == "Go on" and key.place in _SCREENS}
    return frozenset(named | KEPT) - _COPIES


def why_not(action: str, settings: Settings) -> str:
    """Say why an action is refused; empty where it is not.

    Args:
        action: Its name, without arguments.
        settings: How Refold was started.
    """
    if not settings.read_only or action not in going_on() | OUT:
        return ""
    if settings.bundle:
        return (
            ""
            if action in OUT
            else "This is a bundle: it can be read, exported and compared, not gone on with."
        )
    return "Refold was started to look only (--read-only): nothing is written, and no program is started."
