"""The calls that a fresh fork begins with: asked for in its parent, and not run in the fork itself. Pure.

A fork inside a batch takes the request of a call without what became of it (design/contracts.md "Forks").
Nothing has run in the fork, so nothing of it is in flight; whether the call ran at all its parent tells.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class InParent(msgspec.Struct, frozen=True):
    """What is known of the open calls of a fork that nobody has gone on with."""

    parent: str
    """The id of the run that it was forked from."""
    seen: bool = False
    """The parent lies beside it, and is the one that was forked."""
    results: Mapping[str, int | None] = {}
    """The sequence of the result in the parent, by the id of the call; without one there it is missing."""

    def said(self, call_id: str) -> str:
        """Say of a call that it did not run here, and what its parent knows of it."""
        if call_id in self.results:
            seq = self.results[call_id]
            where = "" if seq is None else f" at seq {seq}"
            return f"not run in this fork; its parent {self.parent} has the result{where}"
        if self.seen:
            return f"not run in this fork; it may have run in its parent {self.parent}, which has no result"
        return f"not run in this fork; whether it ran in its parent {self.parent} is not known here"
