"""Where the run of a run directory was forked from, as its first events say (formats/rivumi.md 6)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from refold.core.errors import StoreError
from refold.core.records import ForkOrigin
from refold.core.rivumi.events import read_log
from refold.core.rivumi.members import Members
from refold.core.store.files import open_regular
from refold.core.store.session_names import EVENTS

_HEAD: Final = 64 << 10
_MARK: Final = b'"run.forked"'


def fork_origin(directory: Path) -> ForkOrigin | None:
    """Give the parent that a run names and the last sequence it took; None where it names none.

    Only the beginning of the log is read: the event of a fork is its first one.
    """
    try:
        fd = open_regular(directory / EVENTS)
    except StoreError:
        return None
    try:
        head = os.pread(fd, _HEAD, 0)
    except OSError:
        return None
    finally:
        os.close(fd)
    if _MARK not in head:
        return None
    for event in read_log(head).events:
        data = Members(event.data)
        if event.event_type == "run.forked" and data.text("source_run_id"):
            seq = max(0, data.whole("fork_point_sequence", 0))
            return ForkOrigin(data.text("source_run_id"), seq, reason=data.text("reason"))
    return None
