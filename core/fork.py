"""Where a run may be forked, and what a fork there would be. Pure: `core.store.fork` carries it out.

A fork is a new run: a new meta line, then the parent's own bytes up to the end of the chosen record
(design/contracts.md "Forks"). It restores the conversation, not the world: files, processes and what
tools did elsewhere stay as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from refold.core.columns import DAMAGE, EVENT, META, RECOVERED, SEQUENCED
from refold.core.errors import BadRecord, Refused, UnsupportedVersion
from refold.core.formats import Decoder
from refold.core.formats.meta_line import MetaLine
from refold.core.records import ForkOrigin, Json, MetaRecord, Record
from refold.core.state import RunState, ToolCall
from refold.core.timeline import Timeline

FOOT: Final = 4096
"""Bytes before the point whose hash tells that they are still the ones planned for."""

_SOME_TIME: Final = "1970-01-01T00:00:00Z"

WhyNot: TypeAlias = Literal[
    "damaged",
    "no_record",
    "newer",
    "corrupt",
    "completed",
    "prompt_pending",
    "prompt_version",
    "same_id",
    "exists",
    "no_manifest",
    "request",
    "repository",
]
"""Why a fork is refused, as a word for scripts."""


class NoForkHere(Refused):
    """A fork at this point is not legal; nothing was written."""

    def __init__(self, message: str, *, code: WhyNot = "corrupt", nearest: int | None = None) -> None:
        remedy = "" if nearest is None else f"the nearest legal point before it is seq {nearest}"
        super().__init__(message, remedy=remedy)
        self.code: WhyNot = code
        self.nearest = nearest
        """The nearest legal sequence before the point."""


Point: TypeAlias = Literal["between", "inside"]
"""Where a legal point lies: between turns, or inside a batch of calls that will be pending."""


class ForkFormat(Protocol):
    """A format in which a fork can be written."""

    name: str
    keeps_lineage: bool
    """Whether a meta record names the run that it was forked from."""

    def encode(self, record: Record, version: int | None = None) -> bytes:
        """Give the one line, newline included, that stands for a record in a run of this version."""
        ...

    def decoder(self, head: bytes) -> Decoder:
        """Give the decoder for a run whose file starts with these bytes."""
        ...

    def takes_follow_ups(self, version: int) -> bool:
        """Say whether a run of a version may hold user records."""
        ...

    def resumed_by(self, version: int) -> str:
        """Say who resumes a run of a version, as a phrase; empty where it is always we."""
        ...

    def forked_meta(
        self, line: bytes, meta: MetaRecord, *, run_id: str, created: str, origin: ForkOrigin
    ) -> MetaLine:
        """Give the meta line of a fork, newline included, in the version of its parent."""
        ...


class ForkPlan(msgspec.Struct, frozen=True):
    """A fork as it will be made."""

    parent: str
    """The id of the run forked."""
    path: str
    """Its journal."""
    format: str
    version: int
    device: int
    """Device and inode of the parent's file: what was planned for is what must still lie there."""
    inode: int
    at: int
    """The sequence of the last record taken."""
    line: int
    head: int
    """Where the parent's meta line begins."""
    meta_line: bytes
    """That line, newline excluded."""
    start: int
    """Where the bytes that are copied begin: after the meta line."""
    end: int
    """The byte after the newline of record `at`; one past the file where that newline is missing."""
    foot: str
    """The hash of the last bytes before that newline."""
    child: str
    """The id of the new run."""
    meta: MetaRecord
    """The parent's meta record."""
    point: Point
    comes: int
    """Records that come along, the meta record included."""
    stays: int
    """Records that stay behind."""
    turns: int
    messages: int
    pending: tuple[ToolCall, ...]
    """Calls that the new run has to answer first."""
    prompt: str
    """A user record that follows the copied ones; empty for none."""
    reason: str
    notes: tuple[str, ...]
    """What the reader should know beside all this."""

    @property
    def size(self) -> int:
        """Bytes that are copied."""
        return max(0, self.end - self.start)


def _refusal(timeline: Timeline, item: int) -> tuple[WhyNot, str] | None:
    """Say why a run may not be forked after an item, as a word and a sentence; None where it may."""
    if timeline.is_legal(item):
        return None
    columns = timeline.columns
    if columns.kind[item] == DAMAGE or columns.flags[item] & RECOVERED:
        return "damaged", "these bytes are damaged"
    if columns.kind[item] == EVENT or not columns.flags[item] & SEQUENCED:
        return "no_record", "this is no record that folds"
    error = timeline.error_at(item)
    if isinstance(error, UnsupportedVersion):
        return "newer", str(error)
    if error is not None:
        return "corrupt", f"the records up to here do not fold: {error}"
    return "completed", "the run is completed here: a fork must begin before its end"


def legal_points(timeline: Timeline, first: int = 0, last: int | None = None) -> Iterator[int]:
    """Yield the items from first to last, both included, after which a fork is legal."""
    stop = timeline.strict_end if last is None else min(last + 1, timeline.strict_end)
    return (item for item in range(first, stop) if timeline.is_legal(item))


def next_legal(timeline: Timeline, item: int, step: int) -> int | None:
    """Give the next (step 1) or previous (step -1) item after which a fork is legal, or None."""
    if step < 0:
        return timeline.legal_item(item - 1)
    return next(legal_points(timeline, item + 1), None)


class Parent(msgspec.Struct, frozen=True, kw_only=True):
    """The run that is to be forked, as it was read for that."""

    run_id: str
    path: str
    """Its journal."""
    identity: tuple[int, int]
    """Device and inode of its file."""
    format: ForkFormat
    meta: MetaRecord
    meta_line: bytes
    """The line of it, newline excluded."""
    foot: bytes
    """The last `FOOT` bytes up to the end of the last record taken, fewer where there are fewer."""


class Child(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of the new run."""

    run_id: str
    prompt: str = ""
    """What the user says next; empty for nothing."""
    reason: str = ""
    """Why it is forked; recorded."""


def between_turns(timeline: Timeline, item: int) -> tuple[int | None, int | None]:
    """Give the nearest legal sequences before and after an item with no call open; None where none is."""
    before = timeline.legal_item(item)
    while before is not None and timeline.open_calls(before):
        before = timeline.legal_item(timeline.columns.last_assistant[before] - 2)
    after = item + 1
    while after < timeline.items and timeline.open_calls(after):
        after += 1
    legal = after < timeline.items and timeline.legal_item(after) == after
    return None if before is None else timeline.seq(before), timeline.seq(after) if legal else None


def plan_fork(
    timeline: Timeline, item: int, state: RunState | None, parent: Parent, child: Child
) -> ForkPlan:
    """Plan a fork after an item.

    Args:
        timeline: the index of the parent.
        item: the last item taken.
        state: the strict fold up to it; None where there is none.
        parent: what was read of the run.
        child: what is asked of the new one.

    Raises:
        NoForkHere: the point is not legal, or the prompt cannot stand there.
    """
    meta, format_ = parent.meta, parent.format
    refused = _refusal(timeline, item)
    if refused is not None or state is None:
        code, why = refused or ("corrupt", "the records up to here do not fold")
        where = _where(timeline, item)
        raise NoForkHere(f"no fork after {where}: {why}", code=code, nearest=timeline.legal_fork(item - 1))
    pending = () if state.pending is None else state.pending.unanswered
    if child.prompt and pending:
        before, after = between_turns(timeline, item)
        after_it = "" if after is None else f", seq {after} the one after it"
        raise NoForkHere(
            f"a new prompt cannot stand here: calls are open; take a point between turns{after_it}",
            code="prompt_pending",
            nearest=before,
        )
    if child.prompt and not format_.takes_follow_ups(meta.version):
        raise NoForkHere(
            f"a new prompt cannot be recorded in version {meta.version} of this format", code="prompt_version"
        )
    if child.run_id == parent.run_id:
        raise NoForkHere("the new run needs an id of its own", code="same_id")
    span = timeline.span(item)
    head = timeline.span(meta_item(timeline))
    return ForkPlan(
        parent=parent.run_id,
        path=parent.path,
        format=format_.name,
        version=meta.version,
        device=parent.identity[0],
        inode=parent.identity[1],
        at=timeline.columns.seq[item],
        line=span.line,
        head=head.start,
        meta_line=parent.meta_line,
        start=min(head.end + 1, span.end + 1),
        end=span.end + 1,
        foot=hashlib.sha256(parent.foot).hexdigest(),
        child=child.run_id,
        meta=meta,
        point="inside" if pending else "between",
        comes=item + 1,
        stays=timeline.items - item - 1,
        turns=timeline.turn(item),
        messages=len(state.messages),
        pending=pending,
        prompt=child.prompt,
        reason=child.reason,
        notes=_notes(format_, meta, parent.meta_line, state),
    )


def meta_item(timeline: Timeline) -> int:
    """Give the item of the first meta record.

    Raises:
        BadRecord: there is none.
    """
    try:
        return bytes(timeline.columns.kind).index(META)
    except ValueError:
        raise BadRecord("the run has no meta record", code="E_NO_META") from None


def _where(timeline: Timeline, item: int) -> str:
    seq = timeline.seq(item)
    return f"line {timeline.span(item).line}" if seq is None else f"seq {seq}"


def _notes(format_: ForkFormat, meta: MetaRecord, meta_line: bytes, state: RunState) -> tuple[str, ...]:
    notes = ["files, processes and what tools did elsewhere are not restored"]
    if state.completed:
        notes.append("a record before this point says completed: an agent may refuse to go on from here")
    resumed_by = format_.resumed_by(meta.version)
    if resumed_by:
        notes.append(resumed_by)
    if lost := format_.forked_meta(meta_line, meta, run_id="x", created=_SOME_TIME, origin=ForkOrigin()).lost:
        notes.append(f"not carried over from the meta record: {', '.join(lost)}")
    return tuple(notes)


class Planned(Protocol):
    """What the plans of all formats say."""

    @property
    def parent(self) -> str:
        """The id of the run forked."""

    @property
    def path(self) -> str:
        """Where it lies."""

    @property
    def at(self) -> int:
        """The sequence of the last record taken."""

    @property
    def child(self) -> str:
        """The id of the new run."""

    @property
    def point(self) -> Point:
        """Where the point lies."""

    @property
    def comes(self) -> int:
        """Records that come along."""

    @property
    def stays(self) -> int:
        """Records that stay behind."""

    @property
    def turns(self) -> int:
        """Turns that come along."""

    @property
    def messages(self) -> int:
        """Messages that come along."""

    @property
    def pending(self) -> Sequence[Named]:
        """Calls that the new run has to answer first."""

    @property
    def prompt(self) -> str:
        """What the user says next."""

    @property
    def reason(self) -> str:
        """Why it is forked."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader should know."""


class Named(Protocol):
    """A call with a name."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def name(self) -> str:
        """Its tool."""


def plan_json(plan: Planned) -> dict[str, Json]:
    """Give what every plan says as `refold fork --plan --json` prints it."""
    return {
        "parent": plan.parent,
        "path": plan.path,
        "seq": plan.at,
        "id": plan.child,
        "point": plan.point,
        "comes": plan.comes,
        "stays": plan.stays,
        "turns": plan.turns,
        "messages": plan.messages,
        "pending": [{"id": call.id, "name": call.name} for call in plan.pending],
        "prompt": plan.prompt,
        "reason": plan.reason,
        "notes": list(plan.notes),
    }
