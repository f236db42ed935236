"""What the files of a run mean, as far as they can be read."""

from __future__ import annotations

import msgspec

from refold.core.errors import BadRecord
from refold.core.rivumi.events import EventLog, read_log
from refold.core.rivumi.events_state import EventsState, events_state
from refold.core.rivumi.manifest import Manifest, Request, read_manifest, read_request
from refold.core.rivumi.snapshot import Snapshot


class Reading(msgspec.Struct, frozen=True):
    """A run, read as well as it can be."""

    log: EventLog
    state: EventsState
    """The fold of every event that can be read."""
    manifest: Manifest | None = None
    manifest_problem: str = ""
    """Why there is none; empty also where the file is missing."""
    request: Request | None = None
    request_problem: str = ""


def read_snapshot(snapshot: Snapshot) -> Reading:
    """Give what the files mean; what lies behind a link inside the run counts as its own."""
    manifest, manifest_problem = None, ""
    request, request_problem = None, ""
    if snapshot.manifest.known:
        try:
            manifest = read_manifest(snapshot.manifest.data)
        except BadRecord as wrong:
            manifest_problem = wrong.reason
    elif snapshot.manifest.state != "missing":
        manifest_problem = snapshot.manifest.detail
    if snapshot.request.known:
        try:
            request = read_request(snapshot.request.data)
        except BadRecord as wrong:
            request_problem = wrong.reason
    elif snapshot.request.state != "missing":
        request_problem = snapshot.request.detail
    log = read_log(snapshot.events.data)
    return Reading(log, events_state(log.events), manifest, manifest_problem, request, request_problem)


def is_external(snapshot: Snapshot, reading: Reading) -> bool:
    """Say whether a program that keeps no manifest wrote the run; its log is empty until that ends."""
    if snapshot.manifest.state != "missing" or snapshot.events.state != "read":
        return False
    return all(not event.run_id and not event.task_id for event in reading.log.events) or (
        b'"backend_name"' in snapshot.checkpoint.data
    )
