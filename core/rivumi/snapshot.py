"""What was read of a run directory at one moment, as a value (formats/rivumi.md 1).

The store fills it; every verdict is a pure function of it.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

RESUME_LIMIT: Final = 16 * 1024 * 1024
"""Bytes above which the original's resume refuses a file."""

PartState: TypeAlias = Literal[
    "read", "missing", "link", "not_regular", "not_permitted", "too_large", "unreadable"
]
Target: TypeAlias = Literal["", "inside", "outside", "missing"]


class Part(msgspec.Struct, frozen=True):
    """One file of a run."""

    name: str
    state: PartState = "missing"
    data: bytes = b""
    """Its bytes; of a link those of the file it leads to, if that lies in the run itself."""
    size: int = 0
    detail: str = ""
    """What the system said, or what lies there."""
    target: Target = ""
    """Where a link leads: to a file of the run, elsewhere, or nowhere."""

    @property
    def known(self) -> bool:
        """Its bytes are here: read, or found behind a link that stays in the run."""
        return self.state == "read" or self.target == "inside"


class Workspace(msgspec.Struct, frozen=True):
    """The clone in which a run works, as far as its own files tell; no program is asked."""

    state: Literal["missing", "link", "not_directory", "no_git", "unknown", "git"] = "missing"
    """unknown: git keeps its data elsewhere, where nobody here looks."""
    head: str = ""
    """The commit that HEAD names; empty where it names none."""
    detail: str = ""


class Snapshot(msgspec.Struct, frozen=True):
    """A run directory as it was read."""

    name: str
    """The name of the directory."""
    manifest: Part = Part("session.json")
    request: Part = Part("request.json")
    events: Part = Part("events.jsonl")
    verification: Part = Part("verification.json")
    result: Part = Part("result.json")
    checkpoint: Part = Part("checkpoint.json")
    workspace: Workspace = Workspace()
    lock: Literal["missing", "file", "link", "other"] = "missing"
    lock_line: str = ""
    """The one line that the last writer left in the lock file: its process and its token."""
    holder: str = ""
    """Who holds the lock, as a phrase; empty where no holder is seen from here."""
    link: bool = False
    """The directory itself was named through a link."""
    moving: bool = False
    """A writer was at work: manifest and log may be of different moments."""
    litter: tuple[str, ...] = ()
    """Files that a write left behind when it was interrupted."""
    others: tuple[str, ...] = ()
    """What else lies there."""
