"""A run that stopped, explained: how it ended, what was in flight, what is damaged, what can be done. Pure.

Everything comes from what was read already; nothing here opens a file or takes a lock. What is said about a
resume is what `core.resume` decides, and about a fork what the index allows: no second opinion.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, Literal, TypeAlias

import msgspec

from refold.core.columns import DAMAGE, META
from refold.core.findings import CODES, LEFT_BY_A_CRASH, Finding
from refold.core.fork_point import left_behind, propose
from refold.core.records import Json
from refold.core.resume import Effect, ResumeFacts, ResumePlan, withheld_because
from refold.core.salvage import is_whole
from refold.core.state import RunState, ToolCall
from refold.core.status import Status
from refold.core.timeline import Timeline
from refold.core.verdict import Verdict, verdict_on

ActionName: TypeAlias = Literal["resume", "fork", "salvage", "repair", "nothing"]

Let: TypeAlias = Callable[[Json], Json]
"""What the texts of a run go through before they are cut: the redaction pass, or nothing."""

LAST: Final = 6
"""So many of the last records are shown."""
DAMAGED: Final = 20
"""So many damaged places are shown; the others are counted."""
PEEK: Final = 48
"""Bytes of a damaged place that are shown."""
_SEARCHED: Final = 65_536
_HEAD: Final = 256
_REMARKS: Final = frozenset(code for code, entry in CODES.items() if entry.severity == "info")


def as_it_is(value: Json) -> Json:
    """Let a text out unchanged."""
    return value


class InFlight(msgspec.Struct, frozen=True):
    """A call that has no result."""

    call: ToolCall
    effect: Effect
    item: int
    """The record of the turn that asked for it."""
    seq: int | None
    ordinal: int
    """Its place among the calls of the turn."""
    withheld: str = ""
    """Why it was not allowed to run; empty where it may have run."""
    elsewhere: str = ""
    """Of a fork that nobody has gone on with: that it did not run in it, and what its parent knows."""
    said: str = ""
    """What is known of it, where the events of a run directory tell more."""

    @property
    def outcome(self) -> str:
        """Say what is known of it."""
        if self.said:
            return self.said
        if self.withheld:
            return f"not run: {self.withheld}"
        if self.elsewhere:
            return self.elsewhere
        if self.effect == "read":
            return "no result; it reads only, a resume runs it again"
        if self.effect == "idempotent":
            return "no result; it is idempotent, a resume runs it again"
        return "outcome unknown: it may have run without a result"

    def through(self, let: Let) -> InFlight:
        """Give the same with other arguments."""
        given = let(self.call.input)
        if given is self.call.input:
            return self
        return msgspec.structs.replace(self, call=msgspec.structs.replace(self.call, input=given))


class Damage(msgspec.Struct, frozen=True):
    """A damaged place, and some of its bytes."""

    finding: Finding
    item: int
    peek: bytes
    peek_at: int
    """Where in the file they begin: at the damage where it is known more closely than the line."""
    is_result: bool = False
    """A torn tail that begins as the result of a call does."""


class Position(msgspec.Struct, frozen=True):
    """Where the lock of a run stands."""

    holder: str
    """Who holds it, as a phrase; empty where nobody is seen."""
    known: bool
    """False where the system cannot say who holds a run."""
    lock_file: str
    """Its name; empty where there is none."""
    claims: tuple[str, ...] = ()
    """Of a run directory: where its manifest stands beside its log, the lease, its last sign of life."""

    @property
    def sentence(self) -> str:
        """Say it."""
        if self.holder:
            return f"held by {self.holder}"
        there = f"{self.lock_file} is there" if self.lock_file else "there is no lock file"
        if not self.known:
            return f"{there}; whether somebody holds it cannot be seen on this system"
        if self.lock_file:
            return f"no process is seen holding it; {there}, which alone means nothing"
        return f"no process is seen holding it; {there}"


class Action(msgspec.Struct, frozen=True):
    """Something that can be done with the run, or why not."""

    name: ActionName
    possible: bool
    why_not: str = ""
    first: str = ""
    """What has to be answered before it is done; empty where nothing has."""
    writes: str = ""
    """What it would write."""
    at: int | None = None
    """The sequence after which a fork is made."""
    left: int = 0
    """How many results of the turn that stands open stay behind there."""
    keeps: int | None = None
    """The sequence after which a fork keeps them."""
    aside: bool = False
    """Another one does all that it would: it is not offered at once."""
    instead: str = ""
    """What is done in its place, where what its name says will not come of it."""


class Known(msgspec.Struct, frozen=True):
    """What was read of a run."""

    timeline: Timeline
    status: Status
    facts: ResumeFacts
    plan: ResumePlan
    """Of a resume that asks for nothing special."""
    state: RunState | None
    """The best that the readable records fold to; None where they fold to nothing."""
    lock_file: str = ""
    directory: str = ""
    """Where new runs would go, as it is shown."""


class Postmortem(msgspec.Struct, frozen=True):
    """Everything that the screen says, in its order."""

    run_id: str
    status: Status
    verdict: Verdict
    in_flight: tuple[InFlight, ...]
    last_rows: tuple[int, ...]
    """Rows of the timeline, oldest first."""
    damage: tuple[Damage, ...]
    more_damage: int
    remarks: int
    """Findings that stop nothing."""
    position: Position
    actions: tuple[Action, ...]
    against: tuple[str, ...] = ()
    """Of a run directory: what speaks against a resume, the most severe first."""
    notes: tuple[str, ...] = ()
    """What is worth knowing about a resume, and stops nothing."""
    left_out: tuple[str, ...] = ()
    """What the salvage that made the run could not take, a line each."""
    plan: ResumePlan | None = None
    """Of a resume that asks for no more than was decided before."""
    workplace: str = ""
    """Where relative paths in arguments begin; empty where nothing says."""


def examine_stopped(known: Known, peek: Callable[[int, int], bytes], let: Let = as_it_is) -> Postmortem:
    """Explain a run.

    Args:
        known: What was read of it; its index is complete.
        peek: Gives bytes of the file: from a place, so many.
        let: What the texts of the run go through before they are cut to their length.
    """
    known = _through(known, let)
    flying = tuple(each.through(let) for each in in_flight(known))
    damage, more, remarks = damage_of(known.timeline, peek)
    actions = _actions(known, damage)
    return Postmortem(
        run_id=known.facts.run_id,
        status=known.status,
        verdict=verdict_on(known, flying, damage, actions),
        in_flight=flying,
        last_rows=last_rows(known.timeline),
        damage=damage,
        more_damage=more,
        remarks=remarks,
        position=Position(known.facts.holder, known.facts.lock_known, known.lock_file),
        actions=actions,
        left_out=known.facts.left_out,
        plan=known.plan,
    )


def with_rewritten(
    post: Postmortem, finding: Finding, timeline: Timeline, peek: Callable[[int, int], bytes]
) -> Postmortem:
    """Give the same for a run that is no longer what was seen of it before."""
    at = bisect_right(range(timeline.items), finding.start, key=lambda item: timeline.span(item).end)
    at = at if at < timeline.items else -1
    first = Damage(finding, at, peek(finding.start, min(PEEK, finding.end - finding.start)), finding.start)
    happened = f"{post.verdict.happened} Beware: {finding.message}."
    return msgspec.structs.replace(
        post, damage=(first, *post.damage), verdict=post.verdict._replace(happened=happened)
    )


def _through(known: Known, let: Let) -> Known:
    """Give the same with another message of its end."""
    terminal = known.state.terminal if known.state is not None else None
    said = None if terminal is None else let(terminal.message)
    if known.state is None or terminal is None or said == terminal.message:
        return known
    told = msgspec.structs.replace(terminal, message=str(said))
    return msgspec.structs.replace(known, state=msgspec.structs.replace(known.state, terminal=told))


def in_flight(known: Known) -> tuple[InFlight, ...]:
    """Give the calls without a result, in the order the model asked for them."""
    state, timeline = known.state, known.timeline
    if state is None or state.pending is None or not timeline.items:
        return ()
    item = max(0, timeline.columns.last_assistant[timeline.items - 1] - 1)
    withheld = withheld_because(msgspec.structs.replace(known.facts, state=state))
    parent = None if withheld else known.facts.in_parent
    waiting = {call.id for call in state.pending.unanswered}
    return tuple(
        InFlight(
            call=call,
            effect=known.facts.effects.get(call.name, "unknown"),
            item=item,
            seq=timeline.seq(item),
            ordinal=at,
            withheld=withheld,
            elsewhere="" if parent is None else parent.said(call.id),
        )
        for at, call in enumerate(state.pending.calls)
        if call.id in waiting
    )


def last_rows(timeline: Timeline) -> tuple[int, ...]:
    """Give the last rows, oldest first."""
    return tuple(range(max(0, timeline.rows - LAST), timeline.rows))


def damage_of(timeline: Timeline, peek: Callable[[int, int], bytes]) -> tuple[tuple[Damage, ...], int, int]:
    """Give the damaged places that are shown, how many more there are, and how many mere remarks."""
    remarks = sum(mark.code in _REMARKS for mark in timeline.marks)
    bad = len(timeline.marks) - remarks
    first = islice((mark.item for mark in timeline.marks if mark.code not in _REMARKS), DAMAGED)
    items = {*first, *(mark.item for mark in timeline.marks[-1:] if mark.code not in _REMARKS)}
    findings = [
        (finding, item)
        for item in sorted(items)
        for finding in timeline.findings_at(item)
        if finding.severity != "info"
    ]
    # The last one stays: it may be the torn end.
    chosen = [*findings[: DAMAGED - 1], findings[-1]] if len(findings) > DAMAGED else findings
    found = [_peeked(finding, item, peek) for finding, item in chosen]
    return tuple(found), bad - len(found), remarks


def _peeked(finding: Finding, item: int, peek: Callable[[int, int], bytes]) -> Damage:
    start, end = finding.start, max(finding.start, finding.end)
    is_result = False
    if finding.code == "E_NUL_RUN":
        found = peek(start, min(_SEARCHED, end - start)).find(0)
        start += max(0, found - 16)
    elif finding.code == "E_TORN_TAIL":
        is_result = b"session.tool_result" in peek(start, min(_HEAD, end - start))
        start = max(start, end - PEEK)
    return Damage(finding, item, peek(start, min(PEEK, end - start)), start, is_result)


def _actions(known: Known, damage: Sequence[Damage]) -> tuple[Action, ...]:
    return (
        *now_first(_resume(known), _fork(known), blocked=bool(known.plan.missing)),
        _salvage(known, damage),
        _repair(known),
        Action("nothing", possible=True, writes="nothing: the run stays as it is, byte for byte"),
    )


def now_first(resume: Action, fork: Action, *, blocked: bool) -> tuple[Action, Action]:
    """Give both with that first which can be done now; `blocked` where no answer makes a resume possible."""
    later = fork.possible and (blocked or not resume.possible)
    return (fork, resume) if later else (resume, fork)


def _resume(known: Known) -> Action:
    plan, facts = known.plan, known.facts
    hard = [reason for reason in plan.reasons if reason.code not in ("fingerprint", "no_agent")]
    soft = [reason for reason in plan.reasons if reason.code in ("fingerprint", "no_agent")]
    if plan.outcome == "refuse" and (refusing := _refusing(plan)):
        return Action("resume", possible=False, why_not=refusing)
    first: list[str] = []
    if soft:
        first.append(
            plan.missing or "its agent has to be named"
            if soft[0].code == "no_agent"
            else "its agent has changed, which has to be forced with a reason"
        )
    if any(reason.code == "torn_tail" for reason in hard):
        first.append("the end has to be repaired")
    waiting = sum(call.verdict in ("unknown", "withheld") for call in plan.calls)
    if waiting:
        first.append(f"{_count(waiting, 'call')} {'waits' if waiting == 1 else 'wait'} for a decision")
    writes = (
        f"appends the next records after seq {plan.last_seq} to this run"
        if facts.native
        else f"hands the run to its own program, which appends after seq {plan.last_seq}"
    )
    return Action("resume", possible=True, first=", and ".join(first), writes=writes)


def _refusing(plan: ResumePlan) -> str:
    """Give the first reason that no answer goes past; empty where there is none."""
    passable = {"fingerprint", "no_agent", "torn_tail", "lock_unsure", "unknown_call", "withheld"}
    return next((reason.message for reason in plan.reasons if reason.code not in passable), "")


def _fork(known: Known) -> Action:
    """Plan a fork before the trouble."""
    timeline = known.timeline
    point = propose(timeline)
    if point is None:
        newer = known.status.name == "newer"
        why = (
            known.status.rule if newer else "no record stands before the trouble that a run could begin with"
        )
        return Action("fork", possible=False, why_not=why)
    at, taken = timeline.seq(point.item), _count(point.item + 1, "record")
    writes = f"a new run of {taken}, up to seq {at}, in {known.directory}"
    if point.left:
        writes = f"{writes}; {left_behind(point.left, point.keeps)}"
    return Action("fork", possible=True, writes=writes, at=at, left=point.left, keeps=point.keeps)


def _salvage(known: Known, damage: Sequence[Damage]) -> Action:
    timeline = known.timeline
    if known.status.name == "newer":
        return Action("salvage", possible=False, why_not=known.status.rule)
    if META not in timeline.columns.kind:
        return Action(
            "salvage", possible=False, why_not="no meta record can be read, which a run begins with"
        )
    if is_whole(timeline):
        return Action("salvage", possible=False, why_not="nothing is damaged: a fork takes all there is")
    good = timeline.items - bytes(timeline.columns.kind).count(DAMAGE)
    taken = f"the good ones among {_count(good, 'record')}"
    torn = timeline.strict_error is None and all(each.finding.code in LEFT_BY_A_CRASH for each in damage)
    if torn:
        taken = f"{_count(good, 'record')}, all but the torn end"
    # Where the end alone is torn, mending it does all that a salvage would.
    return Action("salvage", possible=True, writes=f"a new run of {taken}, in {known.directory}", aside=torn)


def _repair(known: Known) -> Action:
    plan = known.facts.repair
    if known.facts.holder:
        return Action("repair", possible=False, why_not=f"held by {known.facts.holder}")
    if plan is not None:
        return Action("repair", possible=True, writes=plan.sentence)
    deeper = known.timeline.strict_error is not None
    why = "the damage is not at its end" if deeper else "the end is clean"
    return Action("repair", possible=False, why_not=why)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun if number == 1 else noun + 's'}"
