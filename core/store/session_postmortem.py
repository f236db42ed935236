"""Reads what the explanation of a run directory depends on; nothing is locked or written."""

from __future__ import annotations

from refold.core.errors import RefoldError, StoreError
from refold.core.fork import NoForkHere
from refold.core.fork_point import BEFORE_DAMAGE, BEFORE_TURN, LAST, ForkPoint
from refold.core.repair import RepairPlan
from refold.core.resume import ResumeRequest
from refold.core.rivumi.fork import SessionForkPlan
from refold.core.rivumi.plan import SessionFacts, fork_before, plan_session_resume, session_facts
from refold.core.rivumi.postmortem import KnownSession
from refold.core.rivumi.snapshot import Snapshot
from refold.core.status import RUNNING
from refold.core.store.files import shown
from refold.core.store.lock import locked_inodes
from refold.core.store.notes import Notes
from refold.core.store.session_fork import plan_session_at
from refold.core.store.session_plan import noted_decisions
from refold.core.store.session_reader import SessionReader
from refold.core.store.session_standing import standing_of
from refold.core.store.session_tail import plan_for_log

_TRIES = 4


def known_session(
    session: SessionReader,
    snapshot: Snapshot | None = None,
    *,
    now: float,
    problem: str = "",
    program: str = "",
    notes: Notes | None = None,
) -> KnownSession:
    """Give what is known of a run directory whose log is indexed to its end.

    Args:
        session: The open run.
        snapshot: Its files as they were read; they are read now where this is left out.
        now: Seconds since 1970.
        problem: Why its program cannot be started; empty where it can.
        program: What a person should know about how the program was found.
        notes: What is noted about it; decisions that hold still are in the plan.

    Raises:
        StoreError: it cannot be read.
    """
    snapshot = session.snapshot() if snapshot is None else snapshot
    timeline = session.timeline
    facts = session_facts(snapshot, str(session.path), now=now, problem=problem, program=program)
    decided = noted_decisions(notes or Notes(), facts.reading.state.last_sequence)
    point = propose_session(session, facts)
    at = None if point is None else timeline.seq(point.item)
    fork, fork_problem = _fork(session, snapshot, facts, at)
    return KnownSession(
        timeline=timeline,
        status=RUNNING if snapshot.holder else standing_of(session),
        snapshot=snapshot,
        facts=facts,
        plan=plan_session_resume(facts, ResumeRequest(decisions=decided)),
        lock_known=bool(snapshot.holder) or locked_inodes() is not None,
        repair=_repair(session),
        fork=fork,
        fork_problem=fork_problem,
        directory=shown(session.path.absolute().parent),
        now=now,
    )


def propose_session(session: SessionReader, facts: SessionFacts) -> ForkPoint | None:
    """Give the point of a run directory at which a fork is proposed; None where there is none."""
    timeline = session.timeline
    before = fork_before(facts)
    last = timeline.items - 1 if before is None else timeline.item_at(before)
    item = None if last is None or last < 0 else timeline.legal_item(last)
    if item is None:
        return None
    if before is not None:
        return ForkPoint(item, BEFORE_TURN)
    return ForkPoint(item, LAST if timeline.breaks is None else BEFORE_DAMAGE)


def _fork(
    session: SessionReader, snapshot: Snapshot, facts: SessionFacts, at: int | None
) -> tuple[SessionForkPlan | None, str]:
    """Plan a fork after an event, or after the nearest one before it that is legal; else say why not."""
    problem = "no event stands before the trouble that a run could begin with"
    for _ in range(_TRIES):
        if at is None:
            break
        try:
            return plan_session_at(session.path, at, snapshot=snapshot, reading=facts.reading), ""
        except NoForkHere as error:
            problem, at = str(error), error.nearest
        except RefoldError as error:
            return None, str(error)
    return None, problem


def _repair(session: SessionReader) -> RepairPlan | None:
    try:
        return plan_for_log(session.path)
    except StoreError:
        return None
