"""What a resume of a run directory needs beside its plan: its program, its repository, our notes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from refold.app.agents import session_agent
from refold.app.going_on import Prepared
from refold.core.records import Decision
from refold.core.repair import PlanOutdated
from refold.core.resume import ResumePlan, ResumeRefused, ResumeRequest
from refold.core.rivumi.plan import session_facts
from refold.core.rivumi.reading import read_snapshot
from refold.core.store.notes import NotesStore
from refold.core.store.session_files import read_run
from refold.core.store.session_plan import note_decisions, noted_decisions

if TYPE_CHECKING:
    from refold.app.settings import Settings


def prepared_session(path: Path, settings: Settings, *, last_point: int | None = None) -> Prepared:
    """Read a run directory, without a lock, and what is noted about it.

    Args:
        path: the directory.
        settings: the configured agents, and where notes lie.
        last_point: the last sequence at which a fork is legal.

    Raises:
        StoreError: it cannot be looked into.
    """
    snapshot = read_run(path)
    reading = read_snapshot(snapshot)
    request = reading.request
    notes = NotesStore(settings.notes_dir).read(path)
    repository = "" if request is None else request.repository
    agent = session_agent(path, repository, settings, notes, manifest=reading.manifest, request=request)
    facts = session_facts(
        snapshot, str(path), now=time.time(), problem=agent.problem(), program=agent.why, reading=reading
    )
    return Prepared(
        facts=facts,
        agent=agent,
        notes=notes,
        last_point=last_point,
        noted=noted_decisions(notes, facts.reading.state.last_sequence),
    )


def standing_plan(path: Path, settings: Settings) -> ResumePlan:
    """Give the plan of a resume of a run directory as its dialog opens: with what was decided before.

    The list and the open run say of a run what this says, so that no screen promises what another refuses.

    Raises:
        StoreError: it cannot be looked into.
    """
    prepared = prepared_session(path, settings)
    return prepared.plan(ResumeRequest(decisions=prepared.noted))


def make_session_ready(prepared: Prepared, plan: ResumePlan, settings: Settings) -> tuple[str, ...]:
    """Look again, note what was decided, and give the command that goes on with the run.

    Raises:
        ResumeRefused: it may not go on.
        PlanOutdated: it is not what the plan was made for.
        StoreError: it cannot be read, or the notes not be written.
    """
    path = prepared.agent.run
    now = prepared_session(path, settings).plan(plan.request)
    if now.last_seq != plan.last_seq:
        raise PlanOutdated(f"{plan.run_id}: went on since the plan was made", remedy="look at it again")
    if now.outcome != "accept":
        raise ResumeRefused(now)
    note(now, path, settings)
    return prepared.agent.command(plan.request)


def note(plan: ResumePlan, path: Path, settings: Settings) -> bool:
    """Note what is decided, where something is, or was before; False where that stood there already.

    Raises:
        StoreError: it cannot be written.
    """
    store = NotesStore(settings.notes_dir)
    before: Mapping[str, Decision] = noted_decisions(store.read(path), plan.last_seq)
    if not plan.forced and dict(before) == dict(plan.request.decisions):
        return False
    moment = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    note_decisions(store, path, plan, moment)
    return True
