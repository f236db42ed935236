"""What is read before a resume, and the opening that begins one: lock, then fold, then decide.

`read_facts` looks without a lock, for plans that are shown. `open_to_resume` and `hand_over` decide again
under the lock, from what is on disk then: a plan that was shown is never carried out on a run that changed
(design/contracts.md "Opening for append", formats/fisk-ai.md 8, point 4).
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from refold.core.agent import Agent
from refold.core.columns import DAMAGE, RECOVERED, TERMINAL
from refold.core.decisions import decided_text
from refold.core.errors import BadRecord, FoldError, StoreError
from refold.core.formats.registry import by_name
from refold.core.in_parent import InParent
from refold.core.records import (
    AssistantRecord,
    Fingerprint,
    MetaRecord,
    Record,
    Resumed,
    TerminalRecord,
    ToolResultRecord,
    UserRecord,
)
from refold.core.repair import PlanOutdated, RepairPlan, TornTail
from refold.core.resume import (
    Effect,
    ResumeFacts,
    ResumePlan,
    ResumeRefused,
    ResumeRequest,
    plan_resume,
)
from refold.core.state import RunState
from refold.core.store.files import open_regular, shown
from refold.core.store.in_parent import in_parent, nothing_began
from refold.core.store.journal import Journal, JournalStore
from refold.core.store.lock import Holder, holder_of, locked_inodes
from refold.core.store.notes import Notes
from refold.core.store.reader import RunReader
from refold.core.store.tail import read_tail
from refold.core.timeline import Timeline

_MARK = b'"resumed"'
"""What stands in every record that says what a resume did; inside a string its quotes are escaped."""
_PIECE = 1 << 20


class Opened(msgspec.Struct, frozen=True):
    """A run that is locked, open for appending, and may go on."""

    journal: Journal
    """Close it; it is a context manager."""
    reader: RunReader
    plan: ResumePlan
    """Accepted."""

    def records(self) -> Iterator[Record]:
        """Give all records that the strict fold reads, in order."""
        timeline = self.reader.timeline
        for item in range(timeline.items):
            if not _is_loose(timeline, item):
                yield self.reader.record(item)

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up the file and its lock."""
        self.reader.close()
        self.journal.close()


def read_facts(
    path: Path,
    *,
    now: Fingerprint | None = None,
    effects: Mapping[str, Effect] | None = None,
    notes: Notes | None = None,
    hint: str = "refold",
    cache: Path | None = None,
) -> ResumeFacts:
    """Read what a resume depends on; nothing is locked or written.

    Args:
        path: the journal.
        now: what its agent would run with; None where nobody here can say.
        effects: what the tools do, as far as it is declared.
        notes: what is noted about the run.
        hint: the format to take where the bytes do not tell.
        cache: where finished indexes are kept; None for no cache.

    Raises:
        StoreError: the file cannot be opened or read.
    """
    with RunReader.open(path, hint=hint, cache=cache) as reader:
        reader.index_all()
        return facts_of(reader, now=now, effects=effects, notes=notes)


def facts_of(
    reader: RunReader,
    *,
    now: Fingerprint | None = None,
    effects: Mapping[str, Effect] | None = None,
    notes: Notes | None = None,
) -> ResumeFacts:
    """Give what a resume depends on, from a run that is indexed to its end; nothing is locked or written.

    Raises:
        StoreError: the file cannot be read.
    """
    holder = holder_of(reader.path.with_suffix(".lock"), reader.path)
    facts = _facts(reader, now, effects or {}, notes or Notes(), repair=_repair(reader))
    return msgspec.structs.replace(
        facts,
        holder=_held_by(holder),
        lock_known=holder is not None or locked_inodes() is not None,
        in_parent=_in_parent(reader, facts),
    )


def open_to_resume(
    store: JournalStore,
    run_id: str,
    agent: Agent,
    *,
    request: ResumeRequest | None = None,
    expected: int | None = None,
    repair: RepairPlan | None = None,
) -> Opened:
    """Lock a native run, fold it, and decide whether this agent may go on with it.

    Args:
        store: where it lies.
        run_id: the run.
        agent: what is to go on.
        request: what is asked for.
        expected: the last sequence that a plan was shown for; None where none was.
        repair: the repair that was shown; with `request.repair` the one found now, if left out.

    Raises:
        RunLocked: somebody holds the run.
        ResumeRefused: it may not go on, or a question is open; nothing was written, but a repair that was
            agreed to is done.
        PlanOutdated: the run is not the one that was shown; nothing was written.
        TornTail: its end must be repaired first, and nobody agreed to that.
        StoreError: it cannot be opened.
        FoldError: the damage is deeper than its end, or a newer version wrote it.
    """
    request = request or ResumeRequest()
    journal = _opened(store, run_id, request, repair)
    try:
        reader = RunReader.open(store.path_of(run_id))
        try:
            plan = _decided(reader, agent.fingerprint(), agent.effects(), Notes(), request, expected)
        except BaseException:
            reader.close()
            raise
    except BaseException:
        journal.close()
        raise
    return Opened(journal, reader, plan)


def hand_over(
    path: Path,
    *,
    now: Fingerprint | None = None,
    effects: Mapping[str, Effect] | None = None,
    notes: Notes | None = None,
    request: ResumeRequest | None = None,
    expected: int | None = None,
    repair: RepairPlan | None = None,
    hint: str = "fisk-ai",
) -> ResumePlan:
    """Make a run of another tool ready to be resumed by it: decide under the lock, write what was decided.

    The end is repaired if that was agreed to, and calls that were decided as failed or done get their
    results, so that their agent does not run them. The lock is free again on return: the agent takes its own.

    Args:
        path: the journal.
        now: what its agent would run with; None where nobody here can say.
        effects: what its tools do, as far as it is declared.
        notes: what is noted about the run.
        request: what is asked for.
        expected: the last sequence that a plan was shown for; None where none was.
        repair: the repair that was shown; with `request.repair` the one found now, if left out.
        hint: the format to take where the bytes do not tell.

    Raises:
        RunLocked: somebody holds the run.
        ResumeRefused: it may not go on, or a question is open.
        PlanOutdated: the run is not the one that was shown.
        TornTail: its end must be repaired first, and nobody agreed to that.
        StoreError: it cannot be opened or written.
        FoldError: the damage is deeper than its end, or a newer version wrote it.
    """
    request = request or ResumeRequest()
    with RunReader.open(path, hint=hint) as reader:
        store = JournalStore(path.parent, by_name(reader.format.name))
    with _opened(store, path.stem, request, repair) as journal, RunReader.open(path, hint=hint) as reader:
        plan = _decided(reader, now, effects or {}, notes or Notes(), request, expected)
        for call in plan.calls:
            decision = call.decision
            if decision is not None and decision.choice != "rerun":
                failed = decision.choice == "failed"
                result = reader.decoder.result_of(call.id, decided_text(decision), is_error=failed)
                journal.append(ToolResultRecord(call.id, result))
        return plan


def _opened(store: JournalStore, run_id: str, request: ResumeRequest, repair: RepairPlan | None) -> Journal:
    if repair is not None and request.repair:
        return store.open(run_id, repair=repair)
    try:
        return store.open(run_id)
    except TornTail as torn:
        if not request.repair:
            raise
        return store.open(run_id, repair=torn.plan)


def _decided(
    reader: RunReader,
    now: Fingerprint | None,
    effects: Mapping[str, Effect],
    notes: Notes,
    request: ResumeRequest,
    expected: int | None,
) -> ResumePlan:
    """Plan again from what is on disk now, which nobody else changes: the run is locked.

    Raises:
        ResumeRefused: the plan is not accepted.
        PlanOutdated: the run ends elsewhere than when a plan was shown.
    """
    reader.index_all()
    plan = plan_resume(_facts(reader, now, effects, notes), request)
    if expected is not None and plan.last_seq != expected:
        raise PlanOutdated(
            f"{shown(reader.path)}: the run ends at seq {plan.last_seq}, not at {expected} as when its "
            "resume was planned; nothing was written",
            remedy="look at the plan again",
        )
    if plan.outcome != "accept":
        raise ResumeRefused(plan)
    return plan


def _facts(
    reader: RunReader,
    now: Fingerprint | None,
    effects: Mapping[str, Effect],
    notes: Notes,
    repair: RepairPlan | None = None,
) -> ResumeFacts:
    timeline = reader.timeline
    error = timeline.strict_error
    state = None if error is not None else _needed(reader.state_at(timeline.items - 1))
    meta = reader.meta or MetaRecord()
    return ResumeFacts(
        run_id=reader.run_id,
        path=shown(reader.path),
        native=_is_native(reader),
        state=state,
        error=error,
        saved=last_fingerprint(reader) or notes.fingerprint or meta.fingerprint,
        now=now,
        effects=effects,
        repair=repair,
        stopped=_stopped(timeline),
        left_out=notes.left_out,
        kept=notes.kept,
        context=_context(timeline),
    )


def _in_parent(reader: RunReader, facts: ResumeFacts) -> InParent | None:
    """Give what the parent of a fresh fork knows of its open calls; None where they may have run here."""
    if facts.state is None or facts.state.pending is None or not nothing_began(reader, facts.kept):
        return None
    origin = reader.meta.forked_from if reader.meta is not None else None
    parent = origin.run_id if origin is not None else facts.kept.fork_of
    return in_parent(reader, parent) if parent else None


def _context(timeline: Timeline) -> int:
    """Give the tokens of the last turn, which read all that stood before it."""
    turn = timeline.columns.last_assistant[timeline.items - 1] - 1 if timeline.items else -1
    return max(0, timeline.own_tokens(turn)) if turn >= 0 else 0


def _is_native(reader: RunReader) -> bool:
    return by_name(reader.format.name).keeps_lineage


def _needed(state: RunState) -> RunState:
    """Give a state without what a plan does not look at, so that it outlives the reader of its messages."""
    pending = state.pending
    return msgspec.structs.replace(
        state,
        messages=(state.messages[-1],) if state.messages else (),
        pending=None if pending is None else msgspec.structs.replace(pending, results=()),
    )


def last_fingerprint(reader: RunReader) -> Fingerprint | None:
    """Give the fingerprint that the last resume of a native run recorded; None where none did.

    Only records whose bytes hold the word are decoded; they are looked for from the end.
    """
    timeline = reader.timeline
    if not _is_native(reader) or not timeline.items:
        return None
    offsets = timeline.columns.offset
    end = timeline.span(timeline.items - 1).end
    while (at := _found_before(reader, end)) >= 0:
        item = bisect_right(offsets, at) - 1
        resumed = None if item < 0 else _resumed(reader, item)
        if resumed is not None and resumed.fingerprint is not None:
            return resumed.fingerprint
        end = at if item < 0 else offsets[item]
    return None


def _found_before(reader: RunReader, end: int) -> int:
    """Give where the mark stands for the last time in the bytes before `end`; -1 where it does not."""
    while end > 0:
        start = max(0, end - _PIECE)
        found = reader.bytes_at(start, end - start).rfind(_MARK)
        if found >= 0:
            return start + found
        # A mark that the cut parted lies in both pieces.
        end = start + len(_MARK) - 1 if start else 0
    return -1


def _resumed(reader: RunReader, item: int) -> Resumed | None:
    if _is_loose(reader.timeline, item):
        return None
    try:
        record = reader.record(item)
    except BadRecord:
        return None
    if isinstance(record, AssistantRecord | UserRecord | ToolResultRecord | TerminalRecord):
        return record.resumed
    return None


def _is_loose(timeline: Timeline, item: int) -> bool:
    """Say whether an item is nothing that the strict fold reads."""
    columns = timeline.columns
    return columns.kind[item] == DAMAGE or bool(columns.flags[item] & RECOVERED)


def _stopped(timeline: Timeline) -> str:
    """Give the reason of the last terminal record where no record follows it."""
    for item in range(timeline.items - 1, -1, -1):
        if not _is_loose(timeline, item):
            last = timeline.terminal(item)
            return last[1] if timeline.columns.kind[item] == TERMINAL and last is not None else ""
    return ""


def _repair(reader: RunReader) -> RepairPlan | None:
    """Give what must be done to the end of the file first; None where nothing must, or nothing helps."""
    try:
        fd = open_regular(reader.path)
    except StoreError:
        return None
    try:
        return read_tail(fd, reader.path, reader.format)[0].plan
    except (FoldError, StoreError):
        # Deeper than the tail: the fold says so.
        return None
    finally:
        os.close(fd)


def _held_by(holder: Holder | None) -> str:
    return "" if holder is None else f"process {holder.pid} ({holder.command})"
