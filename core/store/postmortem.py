"""Reads what the explanation of a run depends on; nothing is locked or written."""

from __future__ import annotations

import os

from refold.core.errors import BadRecord, FoldError
from refold.core.postmortem import Known
from refold.core.resume import ResumeFacts, plan_resume
from refold.core.standing import facts_of, opening_meta
from refold.core.state import RunState
from refold.core.status import derive
from refold.core.store.files import shown
from refold.core.store.reader import RunReader


def known_of(reader: RunReader, facts: ResumeFacts) -> Known:
    """Give what is known of a run that is indexed to its end.

    Args:
        reader: The open run.
        facts: What its resume depends on.

    Raises:
        StoreError: it cannot be read.
    """
    timeline = reader.timeline
    meta = opening_meta(timeline, reader.meta)
    lock = reader.path.with_suffix(".lock")
    return Known(
        timeline=timeline,
        status=derive(facts_of(timeline, meta, reader.decoder, facts.kept), held=bool(facts.holder)),
        facts=facts,
        plan=plan_resume(facts),
        state=_state(reader),
        lock_file=lock.name if os.path.lexists(lock) else "",
        directory=shown(reader.path.parent),
    )


def _state(reader: RunReader) -> RunState | None:
    if not reader.timeline.items:
        return None
    try:
        return reader.salvaged_at(reader.timeline.items - 1)
    except (BadRecord, FoldError):
        return None
