"""Explains a run directory: what was read of it, and whether its program can be started here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from refold.app.agents import session_agent
from refold.app.forking import notes_of
from refold.core.patterns import look_for
from refold.core.postmortem import as_it_is
from refold.core.rivumi.patterns import EventCalls, limits_of_session
from refold.core.rivumi.postmortem import explain_session
from refold.core.store.session_postmortem import known_session

if TYPE_CHECKING:
    from refold.app.settings import Settings
    from refold.core.patterns import Limit, Patterns
    from refold.core.postmortem import Let, Postmortem
    from refold.core.store.session_reader import SessionReader


def session_postmortem(
    session: SessionReader, settings: Settings, now: float, let: Let = as_it_is
) -> Postmortem:
    """Explain a run directory whose log is indexed to its end; called on a thread of its own.

    Raises:
        StoreError: it cannot be read.
    """
    request = session.request
    repository = "" if request is None else request.repository
    noted = notes_of(settings).read(session.path)
    agent = session_agent(
        session.path, repository, settings, noted, manifest=session.manifest, request=request
    )
    known = known_session(session, now=now, problem=agent.problem(), program=agent.why, notes=noted)
    post = explain_session(known, session.bytes_at, let)
    return msgspec.structs.replace(post, workplace=agent.workplace)


def limits_of_run(session: SessionReader, now: float) -> tuple[Limit, ...]:
    """Give the limits of a run directory: turns, tokens, time."""
    timeline = session.timeline
    state = timeline.state_at(timeline.items - 1)
    return limits_of_session(session.manifest, session.request, state, now)


def patterns_of_run(session: SessionReader, now: float) -> Iterator[Patterns | None]:
    """Look for what keeps happening in a run directory, in small steps; the last one gives what was found."""
    calls = EventCalls(session.timeline, session.event)
    return look_for(session.timeline, calls, limits_of_run(session, now))
