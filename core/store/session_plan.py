"""Keeps what was decided about the calls of a run directory: its own files have no place for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from refold.core.records import Decision
from refold.core.resume import ResumePlan
from refold.core.store.notes import NotedResume, Notes, NotesStore


def noted_decisions(notes: Notes, last_sequence: int) -> Mapping[str, Decision]:
    """Give what was decided while the run ended where it ends now; nothing once it went on."""
    last = next((each for each in reversed(notes.resumes) if each.after_seq == last_sequence), None)
    return {} if last is None else last.decisions


def note_decisions(store: NotesStore, run: Path, plan: ResumePlan, time: str) -> None:
    """Note what is decided now, in place of what was while the run ended at the same event.

    Args:
        store: the notes.
        run: the directory.
        plan: made with the decisions.
        time: RFC 3339.

    Raises:
        StoreError: it cannot be written.
    """
    noted = NotedResume(
        time=time,
        after_seq=plan.last_seq,
        forced=plan.forced,
        reason=plan.request.reason if plan.forced else "",
        decisions=dict(plan.request.decisions),
    )

    def change(notes: Notes) -> Notes:
        before = notes.resumes
        if before and before[-1].after_seq == plan.last_seq:
            before = before[:-1]
        return msgspec.structs.replace(notes, resumes=(*before, noted))

    store.update(run, change)
