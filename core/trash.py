"""What moving a run to the trash would be: which files, where to, how much, and what stands against it.

A plan is a value made from one look at the disk; nothing here touches it. `core.store.trash` carries it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from refold.core.errors import Refused
from refold.core.keeping import NOTHING, TRASH, Kept
from refold.core.records import Json

MANIFEST: Final = "refold-trash.json"
"""What tells in an entry of the trash what lay where."""
DELETING: Final = ".deleting."
"""Stands before the name of an entry that is being deleted for good."""

PartKind: TypeAlias = Literal["run", "side", "lock"]
Code: TypeAlias = Literal["missing", "locked", "permission", "other_disk", "nested", "link", "trash"]


class Part(msgspec.Struct, frozen=True):
    """One name that belongs to a run."""

    name: str
    kind: PartKind
    """The journal or the directory of the run; what a repair cut off; its lock."""
    size: int
    mode: int
    mtime_ns: int
    inode: int

    @property
    def stamp(self) -> tuple[int, int, int]:
        """What is another where somebody has written."""
        return self.inode, self.size, self.mtime_ns


class Reason(msgspec.Struct, frozen=True):
    """Why a run stays where it is."""

    code: Code
    message: str
    remedy: str = ""


class Found(msgspec.Struct, frozen=True):
    """What one look at a run found."""

    path: str
    """Absolute."""
    root: str
    """The directory that it lies in."""
    id: str
    parts: tuple[Part, ...]
    """The run itself first, its lock last."""
    bytes: int
    """All of them together; of a directory with everything in it."""
    against: tuple[Reason, ...] = ()
    directory: bool = False
    inside: tuple[Part, ...] = ()
    """Of a directory the files in it that say what the run is, by which a change is noticed."""


class TrashPlan(msgspec.Struct, frozen=True):
    """What would be moved, and where to."""

    found: Found
    entry: str
    """The name of the new directory in the trash."""
    remarks: tuple[str, ...] = ()
    """What else to know, as sentences."""

    @property
    def id(self) -> str:
        """The id of the run."""
        return self.found.id

    @property
    def target(self) -> str:
        """The directory that the files would lie in."""
        return f"{self.found.root.rstrip('/')}/{TRASH}/{self.entry}"

    @property
    def refused(self) -> bool:
        """Whether the run stays where it is."""
        return bool(self.found.against)

    @property
    def sentence(self) -> str:
        """What would happen, or why it would not."""
        if self.found.against:
            return f"{self.id} stays: {'; '.join(reason.message for reason in self.found.against)}"
        others = len(self.found.parts) - 1
        files = f" and {others} file{'' if others == 1 else 's'} beside it" if others else ""
        return f"{self.id}{files} would move to the trash"


class TrashRefused(Refused):
    """A run was not moved; it lies where it lay."""

    def __init__(self, plan: TrashPlan) -> None:
        super().__init__(
            plan.sentence, remedy="; ".join(reason.remedy for reason in plan.found.against if reason.remedy)
        )
        self.plan = plan


def plan_trash(
    found: Found,
    *,
    suffix: str,
    kept: Kept = NOTHING,
    forks: Sequence[str] = (),
    uncertain: Sequence[str] = (),
) -> TrashPlan:
    """Plan to move a run.

    Args:
        found: What was seen of it.
        suffix: What makes the name of the entry one of its own.
        kept: What is noted about the run.
        forks: The ids of the runs that were forked from it.
        uncertain: The names of its calls that may have run without a result.
    """
    remarks: list[str] = []
    if uncertain:
        named = ", ".join(uncertain[:3]) + (f" and {len(uncertain) - 3} more" if len(uncertain) > 3 else "")
        it = "it" if len(uncertain) == 1 else "they"
        remarks.append(f"it stopped with {named} in flight: only this run says that {it} may have run")
    if kept.star:
        remarks.append("it is starred")
    if kept.name or kept.tags or kept.note or kept.records:
        remarks.append("what is noted about it stays, and is there again after a restore")
    if forks:
        named = ", ".join(forks[:3]) + (f" and {len(forks) - 3} more" if len(forks) > 3 else "")
        are, parent = ("is a fork", "its parent") if len(forks) == 1 else ("are forks", "their parent")
        remarks.append(f"{named} {are} of it: whole without it, but then {parent} is missing")
    # The name of a file has at most 255 bytes.
    return TrashPlan(found, f"{found.id[:60]}.{suffix}", tuple(remarks))


def trash_json(plan: TrashPlan) -> dict[str, Json]:
    """Give a plan as `refold trash --plan --json` prints it: names as text that can be encoded."""
    found = plan.found
    parts: list[Json] = [
        {
            "name": encodable(part.name),
            "kind": part.kind,
            "size": part.size,
            "mode": f"{part.mode & 0o7777:04o}",
        }
        for part in found.parts
    ]
    reasons: list[Json] = [
        {"code": reason.code, "message": encodable(reason.message), "remedy": encodable(reason.remedy)}
        for reason in found.against
    ]
    return {
        "id": encodable(plan.id),
        "path": encodable(found.path),
        "outcome": "refuse" if plan.refused else "accept",
        "reasons": reasons,
        "target": encodable(plan.target),
        "parts": parts,
        "bytes": found.bytes,
        "remarks": [encodable(remark) for remark in plan.remarks],
    }


def encodable(text: str) -> str:
    """Give a name of the system as text that can always be encoded: bytes that are no UTF-8 become escapes.

    What is half of a pair without standing for a byte is escaped too.
    """
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


def bytes_of(plans: Iterable[TrashPlan]) -> int:
    """Sum up what would be moved."""
    return sum(plan.found.bytes for plan in plans if not plan.refused)
