"""What the explanation of a run rests on: its records, the notes on it, and what its agent says of its tools.

The screen takes these steps one by one and draws between them; the command line takes them in one go.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from refold.app.agents import RunAgent, agent_of
from refold.app.forking import notes_of
from refold.app.resuming import answered
from refold.app.seen_before import rewritten_in
from refold.core.calls_made import JournalCalls
from refold.core.patterns import Patterns, limits_of, look_for
from refold.core.postmortem import Postmortem, as_it_is, examine_stopped, with_rewritten
from refold.core.rewritten import rewritten_finding
from refold.core.store.postmortem import known_of
from refold.core.store.resume import facts_of

if TYPE_CHECKING:
    from refold.app.settings import Settings
    from refold.core.findings import Finding
    from refold.core.postmortem import Let
    from refold.core.resume import ResumeFacts
    from refold.core.store.reader import RunReader


def look_back(reader: RunReader, settings: Settings) -> Finding | None:
    """Say where a run, indexed to its end, is no longer what was seen of it before.

    Raises:
        StoreError: it cannot be read.
    """
    found = rewritten_in(reader, settings)
    return None if found is None else rewritten_finding(reader.timeline, found)


def facts_from(reader: RunReader, settings: Settings) -> tuple[RunAgent, ResumeFacts]:
    """Read what a resume of a journal depends on, as far as it is known without asking its agent.

    Raises:
        StoreError: it cannot be read.
    """
    notes = notes_of(settings).read(reader.path)
    agent = agent_of(reader.path, reader.format.name, settings, notes)
    facts = facts_of(reader, notes=notes)
    return agent, msgspec.structs.replace(facts, effects=agent.entry.effects)


def told(agent: RunAgent, facts: ResumeFacts, settings: Settings) -> ResumeFacts:
    """Ask the agent too; where Refold only looks, no program is started for that."""
    if settings.read_only:
        return msgspec.structs.replace(facts, problem=agent.problem())
    return answered(agent, facts)


def explained(reader: RunReader, agent: RunAgent, facts: ResumeFacts, let: Let = as_it_is) -> Postmortem:
    """Explain a journal that is indexed to its end.

    Raises:
        StoreError: it cannot be read.
    """
    post = examine_stopped(known_of(reader, facts), reader.bytes_at, let)
    return msgspec.structs.replace(post, workplace=agent.workplace)


def remembered(post: Postmortem, rewritten: Finding | None, reader: RunReader) -> Postmortem:
    """Add to an explanation that the run is no longer what was seen of it before, where that is so."""
    if rewritten is None:
        return post
    return with_rewritten(post, rewritten, reader.timeline, reader.bytes_at)


def patterns_in(reader: RunReader, facts: ResumeFacts) -> Iterator[Patterns | None]:
    """Look for what keeps happening in a journal, in small steps; the last one gives what was found."""
    chat = reader.meta is not None and reader.meta.interactive
    calls = JournalCalls(reader.timeline, reader.record, reader.decoder)
    return look_for(reader.timeline, calls, limits_of(reader.timeline, facts.saved, chat=chat))


def explain(
    reader: RunReader, settings: Settings, let: Let = as_it_is, *, now: float | None = None
) -> tuple[Postmortem, Patterns]:
    """Explain a run of any format in one go.

    Args:
        reader: The open run; it is read to its end.
        settings: Where notes and caches lie; the configured agents.
        let: What the texts of the run go through before they are cut to their length.
        now: Seconds since 1970; the clock of the system if left out.

    Raises:
        StoreError: it cannot be read.
    """
    reader.index_all()
    rewritten = look_back(reader, settings)
    if reader.session is not None:
        from refold.app.session_postmortem import patterns_of_run, session_postmortem

        now = time.time() if now is None else now
        post = session_postmortem(reader.session, settings, now, let)
        return remembered(post, rewritten, reader), _found(patterns_of_run(reader.session, now))
    agent, facts = facts_from(reader, settings)
    post = explained(reader, agent, told(agent, facts, settings), let)
    return remembered(post, rewritten, reader), _found(patterns_in(reader, facts))


def _found(looking: Iterator[Patterns | None]) -> Patterns:
    return next(found for found in looking if found is not None)
