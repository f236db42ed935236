"""Where a run may be forked, and what a fork there would be. Pure: `core.store.fork` carries it out.

A fork is a new run: a new meta line, then the parent's own bytes up to the end of the chosen record
(design/contracts.md "Forks"). It restores the conversation, not the world: files, processes and what
tools did elsewhere stay as they are.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from refold.core.errors import BadRecord, RefoldError, UnsupportedVersion
from refold.core.records import Json, MetaRecord
from refold.core.state import RunState, ToolCall
from refold.core.timeline import DAMAGE, EVENT, META, RECOVERED, SEQUENCED, TERMINAL, Timeline


class NoForkHere(RefoldError):
    """A fork at this point is not legal; nothing was written."""

    def __init__(self, message: str, *, nearest: int | None = None) -> None:
        remedy = "" if nearest is None else f"the nearest legal point before it is seq {nearest}"
        super().__init__(message, remedy=remedy)
        self.nearest = nearest


Point = Literal["between", "inside"]
"""Where a legal point lies: between turns, or inside a batch of calls that will be pending."""


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
    start: int
    """Where the bytes that are copied begin: after the meta line."""
    end: int
    """The byte after the newline of record `at`; one past the file where that newline is missing."""
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
    """What the reader should know."""


def why_not(timeline: Timeline, item: int) -> str | None:
    """Say why a run may not be forked after an item; None where it may."""
    columns = timeline.columns
    if columns.kind[item] == DAMAGE or columns.flags[item] & RECOVERED:
        return "these bytes are damaged"
    if columns.kind[item] == EVENT or not columns.flags[item] & SEQUENCED:
        return "this is no record that folds"
    error = timeline.error_at(item)
    if isinstance(error, UnsupportedVersion):
        return str(error)
    if error is not None:
        return f"the records up to here do not fold: {error}"
    if columns.kind[item] == TERMINAL and timeline.terminal(item) == (item, "completed"):
        return "the run is completed here: a fork must begin before its end"
    return None


def point_at(timeline: Timeline, item: int) -> Point:
    """Say whether a legal point lies between turns or inside a batch of calls."""
    return "inside" if timeline.open_calls(item) else "between"


def next_legal(timeline: Timeline, item: int, step: int) -> int | None:
    """Give the next (step 1) or previous (step -1) item after which a fork is legal, or None."""
    found = item + step
    while 0 <= found < timeline.items:
        if why_not(timeline, found) is None:
            return found
        if step > 0 and timeline.error_at(found) is not None and timeline.has_strict_record(found):
            return None
        found += step
    return None


def plan_fork(
    timeline: Timeline,
    item: int,
    state: RunState | None,
    meta: MetaRecord,
    *,
    parent: str,
    path: str,
    format_name: str,
    identity: tuple[int, int],
    child: str,
    prompt: str = "",
    reason: str = "",
) -> ForkPlan:
    """Plan a fork after an item.

    Args:
        timeline: the index of the parent.
        item: the last item taken.
        state: the strict fold up to it; None where there is none.
        meta: the parent's meta record.
        parent: its id.
        path: its journal.
        format_name: the word of its format.
        identity: device and inode of its file.
        child: the id of the new run.
        prompt: what the user says next; empty for nothing.
        reason: why it is forked; recorded.

    Raises:
        NoForkHere: the point is not legal, or the prompt cannot stand there.
    """
    refusal = why_not(timeline, item)
    if refusal is None and state is None:
        refusal = "the records up to here do not fold"
    if refusal is not None or state is None:
        raise NoForkHere(
            f"no fork after seq {timeline.seq(item)}: {refusal}", nearest=timeline.legal_fork(item - 1)
        )
    pending = () if state.pending is None else state.pending.unanswered
    if prompt and pending:
        raise NoForkHere("a new prompt cannot stand here: the open calls must be answered first")
    if prompt and format_name != "refold" and meta.version <= 1:
        raise NoForkHere("a new prompt cannot be recorded in version 1 of this format")
    if child == parent:
        raise NoForkHere("the new run needs an id of its own")
    span = timeline.span(item)
    first = _meta_item(timeline)
    return ForkPlan(
        parent=parent,
        path=path,
        format=format_name,
        version=meta.version,
        device=identity[0],
        inode=identity[1],
        at=timeline.columns.seq[item],
        line=span.line,
        start=min(timeline.span(first).end + 1, span.end + 1),
        end=span.end + 1,
        child=child,
        meta=meta,
        point="inside" if pending else "between",
        comes=item + 1,
        stays=timeline.items - item - 1,
        turns=timeline.turn(item),
        messages=len(state.messages),
        pending=pending,
        prompt=prompt,
        reason=reason,
        notes=_notes(format_name, meta, state),
    )


def _meta_item(timeline: Timeline) -> int:
    for item in range(timeline.items):
        if timeline.columns.kind[item] == META:
            return item
    raise BadRecord("the run has no meta record", code="E_NO_META")


def _notes(format_name: str, meta: MetaRecord, state: RunState) -> tuple[str, ...]:
    notes = ["files, processes and what tools did elsewhere are not restored"]
    if state.pending is not None:
        names = ", ".join(call.name for call in state.pending.unanswered)
        notes.append(f"pending in the new run: {names}")
    if format_name == "fisk-ai":
        resumes = (
            "today's fisk-ai resumes it" if meta.version == 3 else "only the fisk-ai that wrote it resumes it"
        )
        notes.append(f"a run of version {meta.version}: {resumes}")
    return tuple(notes)


def plan_json(plan: ForkPlan) -> dict[str, Json]:
    """Give a plan as `refold fork --plan --json` prints it."""
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
