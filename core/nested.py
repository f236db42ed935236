"""What is told of a run that another one started, from its path alone."""

from __future__ import annotations

from typing import Final

NESTED: Final = "subagents"
"""In a directory of this name lie the runs of a run's own agents (formats/rivumi.md 7)."""


def is_nested(path: str) -> bool:
    """Say whether a run at this path belongs to the run that started it."""
    return path.split("/")[-2:-1] == [NESTED]
