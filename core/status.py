"""The status of a run: derived from its records and from who holds it, never stored as truth.

The set is closed (contracts.md "Status"); each answer carries the rule that gave it.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

StatusName: TypeAlias = Literal[
    "running",
    "ready",
    "suspended",
    "crashed",
    "completed",
    "failed",
    "cancelled",
    "budget",
    "max-iterations",
    "unreadable",
    "empty",
    "newer",
]

STATUSES: Final[tuple[StatusName, ...]] = get_args(StatusName)
"""Every status there is, in the order in which people look for them."""

_STOPPED: Final[dict[str, tuple[StatusName, str]]] = {
    "error": ("failed", "the last record says that the run ended in an error"),
    "failed": ("failed", "the last record says that the run failed"),
    "cancelled": ("cancelled", "the last record says that the run was cancelled"),
    "budget": ("budget", "the last record says that the token budget was used up"),
    "max_iterations": ("max-iterations", "the last record says that the limit of iterations was reached"),
}


class Facts(msgspec.Struct, frozen=True):
    """What the status of a run depends on, the lock apart."""

    has_meta: bool = False
    """The first readable record is a meta record with a payload."""
    blank: bool = False
    """The file holds nothing but blank space."""
    version: int = 0
    supported: int = 0
    terminal: str | None = None
    """The reason of the last terminal record; None where there is none."""
    after_terminal: int = 0
    """Records that follow it."""
    torn: bool = False
    forked_at: int | None = None
    """The last sequence taken from the parent; None where the run records no parent."""
    prompted: bool = False
    """All that follows it is the prompt that the fork was made with."""
    last_seq: int = 0
    note: str = ""
    """Why the file could not be opened, or its first record not be read; empty else."""
    opened: bool = True
    """The file could be opened and read."""


class Status(NamedTuple):
    """One word of the closed set and the sentence that explains it."""

    name: StatusName
    rule: str


RUNNING: Final = Status("running", "a process is seen holding its lock")
"""What a held run is, whatever its records say."""


def derive(facts: Facts, *, held: bool = False) -> Status:
    """Give the status of a run.

    Args:
        facts: What its records say.
        held: Another process is seen holding its lock.
    """
    if not facts.opened:
        return Status("unreadable", facts.note or "the file cannot be read")
    if held:
        return RUNNING
    if facts.blank:
        return Status("empty", "the file holds no records")
    if not facts.has_meta:
        return Status("unreadable", facts.note or "its first record cannot be read")
    if facts.version > facts.supported:
        return Status(
            "newer", f"written as version {facts.version}; this build reads up to version {facts.supported}"
        )
    untouched = (facts.prompted or facts.last_seq == facts.forked_at) and not facts.torn
    if facts.forked_at is not None and untouched and facts.terminal != "completed":
        return fresh_fork(facts.forked_at, prompted=facts.prompted)
    return _stopped(facts)


def fresh_fork(forked_at: int, *, prompted: bool) -> Status:
    """Give the status of a fork to which nothing was added since it was made.

    Args:
        forked_at: The last sequence taken from the parent.
        prompted: It was made with a new prompt.
    """
    prompt = " with a new prompt" if prompted else ""
    return Status("ready", f"forked at seq {forked_at}{prompt}; nothing was appended since")


def _stopped(facts: Facts) -> Status:
    reason = facts.terminal
    torn = "; a torn record follows" if facts.torn else ""
    if reason is None:
        return Status("crashed", f"ends without a terminal record{torn}; no process is seen holding it")
    if reason == "completed":
        after = f"; {_records(facts.after_terminal)} it" if facts.after_terminal else ""
        return Status("completed", f"a terminal record says completed{after}{torn}")
    if facts.after_terminal:
        return Status(
            "crashed",
            f"{_records(facts.after_terminal)} the last terminal record{torn}; no process is seen holding it",
        )
    if reason == "suspended":
        return Status("suspended", f"the last record says suspended{torn}")
    name, rule = _STOPPED.get(reason, ("failed", f"the last record gives the reason {_quoted(reason)}"))
    return Status(name, f"{rule}{torn}")


def _records(count: int) -> str:
    return "1 record follows" if count == 1 else f"{count} records follow"


def _quoted(reason: str) -> str:
    shown = reason if len(reason) <= 80 else reason[:79] + "…"
    return f"“{shown}”"
