"""What must be done to the end of a journal before anything is appended, decided from bytes alone.

A record that is appended after a torn line, or after a whole one without its newline, is glued to it and
both are lost (formats/fisk-ai.md 3.4). So the end is put right first, and in such a way that the run folds
to the same state before and after: a repair cuts exactly what the strict fold drops, keeps the cut bytes in
a file of their own, and never touches anything further up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Literal

import msgspec

from refold.core.errors import BadRecord, CorruptJournal, StoreError
from refold.core.formats import Decoder
from refold.core.journal_text import is_blank
from refold.core.records import IncompleteRecord, Record, UnknownRecord

BLANK_LIMIT = 65_536
"""How many bytes of blank lines at the end are looked through for the last record."""


class TailLine(msgspec.Struct, frozen=True):
    """One line at the end of a journal."""

    start: int
    """Where it begins in the file."""
    data: bytes
    """Its bytes without the newline."""
    ended: bool
    """Whether a newline follows."""


class JournalFile(msgspec.Struct, frozen=True):
    """Which file was looked at, and how long it was then."""

    path: str
    device: int
    inode: int
    size: int


class RepairPlan(msgspec.Struct, frozen=True):
    """What will be done to the end of one journal, valid for exactly the bytes it was made from."""

    action: Literal["complete", "cut"]
    """complete: add the missing newline; cut: keep the torn bytes in a side file and cut them off."""
    file: JournalFile
    keep: int
    """How many bytes from the start of the journal stay as they are."""
    last_seq: int
    """The sequence of the last record that stays; 0 where none does."""
    sha256: str
    """The hash of the last line, up to the end of the file: the bytes that the plan is about."""
    reason: str
    """Why the end cannot stay as it is."""
    side_file: str = ""
    """The name of the file beside the journal that will hold the torn bytes; empty for complete."""

    @property
    def torn_bytes(self) -> int:
        """How many bytes will be cut off."""
        return self.file.size - self.keep

    @property
    def code(self) -> str:
        """The finding that the repair settles (`core.findings`)."""
        return "E_NO_FINAL_NL" if self.action == "complete" else "E_TORN_TAIL"

    @property
    def sentence(self) -> str:
        """What is wrong and what will be done, for a person."""
        if self.action == "complete":
            return f"{self.reason}: one newline will be added"
        kept = f"kept in {self.side_file} and cut off"
        if not self.keep:
            return (
                f"there is no whole record, {self.reason}: all {self.torn_bytes} bytes will be {kept}, "
                "and the run begins again with its meta record"
            )
        after = f"after seq {self.last_seq}" if self.last_seq else "at the end"
        return f"{self.reason}: {self.torn_bytes} bytes {after} will be {kept}"


class Tail(msgspec.Struct, frozen=True):
    """How a journal ends."""

    empty: bool
    """Whether there is no record at all."""
    last_seq: int
    """The sequence of the last record; 0 where there is none."""
    plan: RepairPlan | None
    """What must be done before an append; None where the end is clean."""


class TornTail(StoreError):
    """The journal ends in a way to which nothing may be appended; nothing was changed."""

    error_class = "torn_tail"

    def __init__(self, plan: RepairPlan) -> None:
        super().__init__(
            f"{plan.file.path}: {plan.sentence}",
            remedy="agree to the repair; whatever is cut off stays beside the run",
        )
        self.plan = plan


class PlanOutdated(StoreError):
    """The run is not what it was when the plan was made; nothing was changed."""

    error_class = "changed"


def plan_repair(file: JournalFile, lines: Iterable[TailLine], decoder: Decoder) -> Tail:
    """Say how a journal ends, from its lines read backwards; no more of them are taken than needed.

    Raises:
        CorruptJournal: the damage is deeper than one torn line at the very end, or the last record is none
            that a run can go on from.
    """
    last: TailLine | None = None
    torn: TailLine | None = None
    record: Record | None = None
    why = ""
    blank = 0
    for line in lines:
        if last is None:
            last = line
        if is_blank(line.data):
            blank += len(line.data) + 1
            if blank > BLANK_LIMIT:
                raise CorruptJournal(f"{BLANK_LIMIT} bytes of blank lines at the end")
            continue
        try:
            record = decoder.record(line.data)
        except BadRecord as error:
            if line is not last:
                raise CorruptJournal(f"a line before the last one is no record: {error.reason}") from error
            if line.ended and error.code == "E_TOO_DEEP":
                # Whole, and good for a reader who can go so deep: not ours to cut.
                raise CorruptJournal(error.reason) from error
            torn, why = line, _why_torn(line, error)
            continue
        break
    seq = _seq_to_go_on_from(record)
    empty = record is None
    if last is None or (torn is None and last.ended):
        return Tail(empty, seq, None)
    if torn is None:
        reason = "the last line has no newline" if is_blank(last.data) else "the last record has no newline"
        return Tail(empty, seq, RepairPlan("complete", file, file.size, seq, _sha256(last), reason))
    side_file = side_file_name(file.path, torn.start)
    return Tail(empty, seq, RepairPlan("cut", file, torn.start, seq, _sha256(torn), why, side_file))


def side_file_name(journal: str, offset: int, number: int = 1) -> str:
    """Give the name of the file for bytes cut off at an offset, or of the second, third, … one there."""
    run_id = journal.rpartition("/")[2].removesuffix(".json")
    return f"{run_id}.{offset}.torn" if number == 1 else f"{run_id}.{offset}.{number}.torn"


def _seq_to_go_on_from(record: Record | None) -> int:
    if record is None:
        return 0
    if isinstance(record, UnknownRecord):
        raise CorruptJournal(f"unknown record protocol {record.protocol!r} at seq {record.seq}")
    if isinstance(record, IncompleteRecord):
        raise CorruptJournal(f"{record.kind} record with no payload at seq {record.seq}")
    return record.seq


def _why_torn(line: TailLine, error: BadRecord) -> str:
    zeros = len(line.data) - len(line.data.rstrip(b"\0"))
    if zeros:
        return f"the file ends in {zeros} NUL bytes"
    if not line.ended:
        return "the last record was written in part"
    return f"the last line is no record ({error.reason})"


def _sha256(line: TailLine) -> str:
    return hashlib.sha256(line.data + b"\n" * line.ended).hexdigest()
