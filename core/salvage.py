"""Which records of a damaged run make a new one that folds, and what has to be left out. Pure.

Every readable record is taken with its own bytes, those recovered from damaged lines too; none is changed,
numbered anew or made up. They stand in the order of their sequence, and of two records with one sequence the
one counts that the order of the file speaks for (`core.chain`). The strict fold has the last word
(design/features.md N6).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from refold.core.chain import ordered
from refold.core.columns import DAMAGE, RECOVERED
from refold.core.errors import FoldError, Refused
from refold.core.findings import CODES
from refold.core.fold import Fold
from refold.core.fork import ForkFormat
from refold.core.good_records import GoodRecord, LeftOut, Source, gather, stretches
from refold.core.records import AssistantRecord, Json, MetaRecord, ToolResultRecord, UserRecord
from refold.core.timeline import Timeline

_MOST_REMARKS: Final = 100
_PIECE: Final = 1 << 20


class NothingToSalvage(Refused):
    """No new run can be made of this one, or there is no need to; nothing was written."""

    def __init__(self, message: str, *, code: str, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.code = code
        """sound, no_meta, newer, same_id or exists."""


class Stretch(NamedTuple):
    """Bytes of the damaged file that go into the new one."""

    start: int
    end: int
    newline: bool
    """A newline has to be added behind them."""


class SalvagePlan(msgspec.Struct, frozen=True):
    """A new run as it will be made of what is good in a damaged one."""

    parent: str
    path: str
    format: str
    version: int
    device: int
    inode: int
    child: str
    meta: MetaRecord
    """The meta record of the damaged run."""
    meta_line: bytes
    """Its line, newline excluded."""
    last_seq: int
    """The sequence of the last record taken."""
    prefix_end: int
    """Where the first record of that sequence ends in the damaged file, its newline excluded."""
    stretches: tuple[Stretch, ...]
    """What follows the new meta line, in this order."""
    sha256: str
    """Of those bytes."""
    records: int
    """How many there will be, the meta record included."""
    recovered: int
    """How many of them were read out of damaged lines."""
    moved: int
    """How many times the order of the file is not kept."""
    left_out: tuple[LeftOut, ...]
    """In the order of the file."""
    remarks: tuple[str, ...]
    """What is odd about the records that were taken."""


def plan_salvage(
    source: Source, format_: ForkFormat, *, parent: str, path: str, identity: tuple[int, int], child: str
) -> SalvagePlan:
    """Plan a new run of all good records of a damaged one.

    Args:
        source: the damaged run, indexed to its end.
        format_: its format.
        parent: its id.
        path: its journal.
        identity: device and inode of its file.
        child: the id of the new run.

    Raises:
        NothingToSalvage: it is whole, has no readable meta record, or is of a version that we do not fold.
        StoreError: it cannot be read.
    """
    if child == parent:
        raise NothingToSalvage("the new run needs an id of its own", code="same_id")
    timeline = source.timeline
    if is_whole(timeline):
        raise NothingToSalvage(
            "nothing is damaged: the run folds as it is", code="sound", remedy="fork it to get a copy"
        )
    found = gather(source)
    head, meta = _meta(found.records)
    taken, refused = _take(found.records, head, meta, source)
    digest = hashlib.sha256()
    parts = tuple(Stretch(*part) for part in stretches(taken, lambda at: source.read(at, 1) == b"\n"))
    for part in parts:
        for start in range(part.start, part.end, _PIECE):
            digest.update(source.read(start, min(_PIECE, part.end - start)))
        digest.update(b"\n" * part.newline)
    last = taken[-1] if taken else head
    item = timeline.item_at(last.record.seq)
    return SalvagePlan(
        parent=parent,
        path=path,
        format=format_.name,
        version=meta.version,
        device=identity[0],
        inode=identity[1],
        child=child,
        meta=meta,
        meta_line=b"".join(source.read(start, end - start) for start, end in head.ranges),
        last_seq=last.record.seq,
        prefix_end=last.ranges[-1][1] if item is None else timeline.span(item).end,
        stretches=parts,
        sha256=digest.hexdigest(),
        records=1 + len(taken),
        recovered=sum(each.recovered for each in (head, *taken)),
        moved=sum(after.ranges < before.ranges for before, after in pairwise((head, *taken))),
        left_out=tuple(sorted((*found.left_out, *refused), key=lambda left: (left.start, left.end))),
        remarks=tuple(_remarks(taken, meta.seq)),
    )


def is_whole(timeline: Timeline) -> bool:
    """Say whether the strict fold uses every byte of a run: then there is nothing to salvage."""
    columns = timeline.columns
    if not timeline.items or timeline.strict_error is not None or DAMAGE in columns.kind:
        return False
    return not any(flags & RECOVERED for flags in columns.flags)


def _meta(records: Sequence[GoodRecord]) -> tuple[GoodRecord, MetaRecord]:
    for each in records:
        if isinstance(each.record, MetaRecord):
            return each, each.record
    raise NothingToSalvage(
        "no meta record can be read: nothing says what the run was started with",
        code="no_meta",
        remedy="its records can be looked at: refold show, refold state --salvage",
    )


def _take(
    records: Sequence[GoodRecord], head: GoodRecord, meta: MetaRecord, source: Source
) -> tuple[list[GoodRecord], list[LeftOut]]:
    """Give the records that make the new run, in order, and the others."""
    own, left_out = _own(records, head, meta)
    chosen = ordered([each.record.seq for each in own], meta.seq)
    fold = Fold(source.decoder)
    try:
        fold.feed(meta)
    except FoldError as error:
        raise NothingToSalvage(str(error), code="newer", remedy=error.remedy) from error
    taken: list[GoodRecord] = []
    for _, place in sorted(chosen.items()):
        try:
            fold.feed(own[place].record)
        except FoldError as error:
            left_out.append(_left_out(own[place], "E_TOOL_ORPHAN", str(error)))
        else:
            taken.append(own[place])
    for place, each in enumerate(own):
        if chosen.get(each.record.seq) != place:
            left_out.append(_without_place(each, own, chosen, meta.seq))
    return taken, left_out


def _own(
    records: Sequence[GoodRecord], head: GoodRecord, meta: MetaRecord
) -> tuple[list[GoodRecord], list[LeftOut]]:
    """Part the records of this run from those of another that stand in the same file.

    Behind the meta record of another run, what goes on from its sequence is taken to be its own.
    """
    own: list[GoodRecord] = []
    left_out: list[LeftOut] = []
    last, others, foreign = meta.seq, -1, False
    for each in records:
        seq = each.record.seq
        if each is head:
            continue
        if isinstance(each.record, MetaRecord):
            foreign = each.record.run_id != meta.run_id
            others = seq if foreign else others
            code = "E_FOREIGN_RUN" if foreign else "E_DUP_META"
            left_out.append(_left_out(each, code, CODES[code].meaning))
            continue
        if others >= 0:
            foreign = _is_foreign(seq, last, others, foreign=foreign)
        if foreign:
            others = max(others, seq)
            left_out.append(_left_out(each, "E_FOREIGN_RUN", CODES["E_FOREIGN_RUN"].meaning))
        else:
            last = max(last, seq)
            own.append(each)
    return own, left_out


def _is_foreign(seq: int, last: int, others: int, *, foreign: bool) -> bool:
    """Say whose a record is that stands behind the meta record of another run.

    Args:
        seq: its sequence.
        last: the last sequence of our run.
        others: the last sequence of the other.
        foreign: whether the record before it is the other's.
    """
    ours, theirs = seq == last + 1, seq == others + 1
    if ours != theirs:
        return theirs
    return foreign and (ours or seq <= last or seq > others)


def _without_place(
    each: GoodRecord, own: Sequence[GoodRecord], chosen: dict[int, int], first: int
) -> LeftOut:
    """Say why a whole record of this run has no place in the chain."""
    seq = each.record.seq
    place = chosen.get(seq)
    if place is not None and own[place].content == each.content:
        return _left_out(each, "E_SEQ_DUP", f"a copy of the record on line {own[place].line}")
    if place is not None:
        return _left_out(each, "E_SEQ_DUP", f"seq {seq} stands on line {own[place].line} with other content")
    if seq <= first:
        return _left_out(each, "E_SEQ_BACK", f"seq {seq} is not above that of the meta record, {first}")
    return _left_out(each, "E_SEQ_BACK", f"seq {seq} stands among smaller ones, which go on without it")


def _left_out(each: GoodRecord, code: str, reason: str) -> LeftOut:
    return LeftOut(each.line, each.ranges[0][0], each.ranges[-1][1], each.record.seq, code, reason)


def _remarks(taken: Sequence[GoodRecord], first: int) -> Iterator[str]:
    """Say what a resume of the new run may trip over."""
    missing = (taken[-1].record.seq - first - len(taken)) if taken else 0
    if missing:
        what = "one sequence number" if missing == 1 else f"{missing} sequence numbers"
        yield f"{what} between {first} and {taken[-1].record.seq} missing"
    said = 0
    turn, waiting = first, set[str]()
    answered: set[str] = set()
    for each in taken:
        record = each.record
        if isinstance(record, ToolResultRecord):
            call = record.tool_use_id
            if call not in waiting and said < _MOST_REMARKS:
                said += 1
                again = (
                    "answers a call that was answered before"
                    if call in answered
                    else "answers no pending call"
                )
                yield f"seq {record.seq} {again}: a model may refuse the conversation"
            waiting.discard(call)
            answered.add(call)
        elif isinstance(record, AssistantRecord | UserRecord):
            if waiting and said < _MOST_REMARKS:
                said += 1
                count = f"{len(waiting)} calls" if len(waiting) > 1 else "a call"
                yield f"seq {turn} makes {count} without a result: a model may refuse the conversation"
            turn, waiting, answered = record.seq, set(each.calls), set()
    if said == _MOST_REMARKS:
        yield "there is more of this kind"


def plan_json(plan: SalvagePlan) -> dict[str, Json]:
    """Give a plan as `refold salvage --plan --json` prints it."""
    return {
        "parent": plan.parent,
        "path": plan.path,
        "id": plan.child,
        "seq": plan.last_seq,
        "records": plan.records,
        "recovered": plan.recovered,
        "moved": plan.moved,
        "left_out": [
            {
                "line": left.line,
                "start": left.start,
                "end": left.end,
                "seq": left.seq,
                "code": left.code,
                "reason": left.reason,
            }
            for left in plan.left_out
        ],
        "remarks": list(plan.remarks),
    }


def report(plan: SalvagePlan) -> tuple[str, ...]:
    """Give what was left out and why, a line each, as it is printed and kept."""
    return tuple(
        f"line {left.line}, bytes {left.start} to {left.end}"
        + (f", seq {left.seq}" if left.seq is not None else "")
        + f": {left.code}: {left.reason}"
        for left in plan.left_out
    )
