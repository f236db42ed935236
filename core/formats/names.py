"""What follows from the name of a format alone; nothing else compares names."""

from __future__ import annotations


def is_own(name: str) -> bool:
    """Say whether a format is our own: we write it, and its records may hold our additions."""
    return name == "refold"


def keeps_directories(name: str) -> bool:
    """Say whether the runs of a format are directories, each with an event log in it."""
    return name == "rivumi"
