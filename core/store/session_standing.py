"""The status of an open run directory, from its index and the files beside its log."""

from __future__ import annotations

from refold.core.rivumi.log_facts import LogFacts
from refold.core.rivumi.members import Members
from refold.core.rivumi.summary import Parts, outcome_of, standing
from refold.core.status import Status
from refold.core.store.session_reader import SessionReader


def standing_of(session: SessionReader) -> Status:
    """Give the status of a run that nobody holds, as the list of runs does."""
    timeline = session.timeline
    log = LogFacts()
    log.events = timeline.items
    log.torn = timeline.torn is not None
    if timeline.items:
        last = timeline.last_event(timeline.items - 1)
        end = timeline.terminal(timeline.items - 1)
        log.ended = end[1] if end is not None and not timeline.external else ""
        log.reason = timeline.state_at(timeline.items - 1).terminal_reason
        if last is not None:
            log.last_sequence, log.tail = timeline.columns.seq[last], timeline.type_of(last)
        if log.tail == "run.forked" and last is not None:
            own = Members(session.event(last).data)
            log.parent = own.text("source_run_id")
            log.parent_sequence = own.whole("fork_point_sequence", -1)
    parts = Parts(session.part("session.json"), session.part("request.json"))
    if session.manifest is None:
        parts = Parts(
            parts.manifest,
            parts.request,
            result=session.part("result.json"),
            checkpoint=session.part("checkpoint.json"),
        )
    return standing(session.manifest, session.manifest_problem, parts, log, outcome_of(parts))
