"""What a resume needs beside its plan: what its agent says, and the notes on runs of other tools."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from refold.app.agents import NoAgent, RunAgent
from refold.app.cli_run import hint_of
from refold.core.resume import ResumeFacts, ResumePlan, ResumeRequest
from refold.core.store.notes import NotedResume, Notes, NotesStore
from refold.core.store.resume import hand_over, read_facts

if TYPE_CHECKING:
    from refold.app.settings import Settings


def facts_for(agent: RunAgent, notes: Notes, settings: Settings) -> ResumeFacts:
    """Read what a resume depends on: the run without a lock, its agent in a process of its own.

    Raises:
        StoreError: the run cannot be opened or read.
    """
    hint = hint_of(agent.run, settings)
    facts = read_facts(agent.run, notes=notes, hint=hint, cache=settings.cache_dir)
    return answered(agent, msgspec.structs.replace(facts, prices=settings.prices))


def answered(agent: RunAgent, facts: ResumeFacts) -> ResumeFacts:
    """Join to what was read of a run what its agent says, which is asked in a process of its own.

    An agent that cannot be asked is a reason against the resume, not an error.
    """
    problem = agent.problem()
    if not problem:
        try:
            said = agent.describe()
        except NoAgent as error:
            problem = str(error)
        else:
            return msgspec.structs.replace(facts, now=said.fingerprint, effects=said.effects)
    return msgspec.structs.replace(facts, effects=agent.entry.effects, problem=problem)


def prepare(
    agent: RunAgent,
    notes: Notes,
    request: ResumeRequest,
    settings: Settings,
    *,
    expected: int | None = None,
) -> ResumePlan:
    """Make a run ready for the program that wrote it: decide under the lock, write what was decided, note it.

    Args:
        agent: what goes on with it.
        notes: what is noted about it.
        request: what is asked for.
        settings: know where the notes are.
        expected: the last sequence that a plan was shown for; None where none was.

    Raises:
        NoAgent: it cannot be started, or not so.
        ResumeRefused: the run may not go on, or a question is open.
        StoreError: the run is held, is not what was shown, or cannot be written; nothing is to be started.
    """
    problem = agent.problem()
    if not problem and not agent.command(request):
        problem = f"{agent.entry.name} knows no way past a changed fingerprint"
    if problem:
        raise NoAgent(problem)
    said = agent.describe()
    plan = hand_over(
        agent.run,
        now=said.fingerprint,
        effects=said.effects,
        notes=notes,
        request=request,
        expected=expected,
        hint=hint_of(agent.run, settings),
    )
    _note(agent, plan, settings)
    return plan


def _note(agent: RunAgent, plan: ResumePlan, settings: Settings) -> None:
    """Note what a resume of another tool's run did: its journal has no place for it."""
    moment = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    resume = NotedResume(
        time=moment,
        after_seq=plan.last_seq,
        forced=plan.forced,
        reason=plan.request.reason if plan.forced else "",
        fingerprint=plan.now,
        decisions=dict(plan.request.decisions),
    )
    NotesStore(settings.notes_dir).update(
        agent.run,
        lambda notes: msgspec.structs.replace(
            notes,
            resumes=(*notes.resumes, resume),
            config=agent.config,
            cwd=agent.directory,
        ),
    )
