"""What is refused where Refold only looks: what changes a run or its notes, or leads out of the screen."""

from __future__ import annotations

from collections.abc import Sequence
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
    return "Started to look only (--read-only): nothing is written, no program of yours run."


def refuse(command: str, runs: Sequence[str], settings: Settings, *, plans: bool) -> None:
    """Refuse a command that writes where Refold only looks, and into a bundle, which is gone at the end.

    Args:
        command: One that writes.
        runs: What it is given, as runs are named.
        settings: How Refold was started.
        plans: It only says what it would do.

    Raises:
        Refused: it is not to be carried out.
    """
    from refold.app.bundles import is_bundle
    from refold.core.errors import Refused

    if settings.read_only and not plans:
        raise Refused(f"{command}: refused with --read-only", remedy="leave --read-only out, or --plan")
    for run in runs:
        if is_bundle(run.rpartition("@")[0] or run) or is_bundle(run):
            raise Refused(f"{command}: {run} is a bundle, and only read", remedy="do it where the run lies")
