"""Puts the end of a log right when told to: what a crash left of one line is kept aside and cut off.

Its own program refuses a log that ends in a torn line for good (formats/rivumi.md 5, `invalid_event`). Only
an event that was never acknowledged ends so, and the manifest that is one ahead says that it was meant.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from refold.core.repair import JournalFile, PlanOutdated, RepairPlan
from refold.core.rivumi.events import EventLog, read_log
from refold.core.rivumi.snapshot import RESUME_LIMIT
from refold.core.store.files import open_regular, read_range, shown, status_of
from refold.core.store.lock import RunLock
from refold.core.store.session_lease import SessionWriterLease
from refold.core.store.session_names import EVENTS
from refold.core.store.tail import carry_out, free_side_file


def plan_for_log(directory: Path) -> RepairPlan | None:
    """Say what the end of a log needs; None where it is whole, or damaged in other ways. Nothing is written.

    Raises:
        StoreError: it cannot be read.
    """
    path = directory / EVENTS
    fd = open_regular(path)
    try:
        return _plan(fd, path)
    finally:
        os.close(fd)


def repair_log(directory: Path, plan: RepairPlan) -> None:
    """Carry out a plan under the lease of the run.

    Raises:
        PlanOutdated: the log has changed since the plan was made; nothing was changed.
        RunLocked: somebody holds the run.
        StoreError: it cannot be written; the log ends as it did, or is whole.
    """
    with SessionWriterLease.hold(directory) as lease:
        path = lease.directory / EVENTS
        own = RunLock.hold(open_regular(path, append=True), path)
        try:
            if shown(path) != plan.file.path:
                raise PlanOutdated(f"{shown(path)}: the plan is about another log")
            carry_out(plan, _plan(own.fileno(), path), own.fileno(), path)
        finally:
            own.release()


def _plan(fd: int, path: Path) -> RepairPlan | None:
    status = status_of(fd, path)
    if status.st_size > RESUME_LIMIT:
        return None
    data = read_range(fd, 0, RESUME_LIMIT + 1, path)
    log = read_log(data)
    file = JournalFile(shown(path), status.st_dev, status.st_ino, len(data))
    if log.torn is not None:
        torn = data[log.torn.start :]
        why = "the last event was written in part"
        side_file = free_side_file(path, log.torn.start, torn)
        return RepairPlan("cut", file, log.torn.start, _last(log), _hash(torn), why, side_file)
    if log.unterminated and log.last is not None:
        line = data[log.last.start :]
        return RepairPlan(
            "complete", file, len(data), _last(log), _hash(line), "the last event has no newline"
        )
    return None


def _last(log: EventLog) -> int:
    return -1 if log.last is None else log.last.sequence


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
