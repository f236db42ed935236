"""Makes a new run of the good records of a damaged one, which stays as it is.

The same care as for a fork: written aside, read back, synced, and named by a link that overwrites nothing.
The report of what was left out is kept in our notes on the new run.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from refold.core.fork import ForkFormat
from refold.core.formats.registry import by_name
from refold.core.good_records import Source
from refold.core.records import ForkOrigin
from refold.core.repair import PlanOutdated
from refold.core.salvage import SalvagePlan, plan_salvage, report
from refold.core.store.files import open_regular, shown, status_of, write_all
from refold.core.store.fork import Forked, make_child
from refold.core.store.new_run import copy, pieces, stamp
from refold.core.store.notes import NotesStore
from refold.core.store.reader import RunReader
from refold.core.store.run_id import check_run_id, new_run_id

REASON: Final = "salvage"
"""The reason that the lineage of the new run gives."""
_MOST_NOTED: Final = 2000
"""Lines of the report that are kept."""


def salvage_of(reader: RunReader, *, child: str | None = None) -> SalvagePlan:
    """Plan a new run of the good records of a run that is being read; it is indexed to its end first.

    Args:
        reader: the damaged run.
        child: the id of the new run; a new one where none is given.

    Raises:
        NothingToSalvage: it is whole, has no readable meta record, or is of a version that we do not fold.
        InvalidRunId: the text is no run id.
        StoreError: it cannot be read.
    """
    timeline = reader.index_all()
    source = Source(timeline, reader.record, reader.hole, reader.bytes_at, reader.decoder)
    return plan_salvage(
        source,
        by_name(reader.format.name),
        parent=reader.run_id,
        path=str(reader.path),
        identity=reader.identity,
        child=new_run_id() if child is None else check_run_id(child),
    )


def carry_out(
    plan: SalvagePlan,
    format_: ForkFormat | None = None,
    directory: Path | None = None,
    *,
    notes: NotesStore | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Forked:
    """Make the new run.

    Args:
        plan: what to make.
        format_: the format of the damaged run; found by its name where not given.
        directory: where the new run goes; beside the damaged one where not given.
        notes: where the report is kept, and the lineage where the format has no place for it.
        now: the clock.

    Raises:
        PlanOutdated: the run is not the file that the plan was made from, or no longer the same.
        RunExists: there is a run of that id.
        WriteFailed: the new run is not known to be on disk; nothing of it is left.
        StoreError: the damaged run cannot be read, or the directory not be made.
    """
    format_ = by_name(plan.format) if format_ is None else format_
    path = Path(plan.path)
    source = open_regular(path)
    try:
        found = status_of(source, path)
        if (found.st_dev, found.st_ino) != (plan.device, plan.inode):
            raise _outdated(plan, "was replaced")
        origin = ForkOrigin(
            plan.parent, plan.last_seq, _hash(source, path, 0, plan.prefix_end, b"\n"), REASON
        )

        def fill(fd: int, head: bytes, _: str) -> None:
            for stretch in plan.stretches:
                copy(source, fd, stretch.start, stretch.end)
                write_all(fd, b"\n" * stretch.newline)
            if _hash(fd, path, len(head)) != plan.sha256:
                raise _outdated(plan, "was rewritten")

        lines = report(plan)
        kept = lines[:_MOST_NOTED]
        if len(lines) > len(kept):
            kept = (*kept, f"and {len(lines) - len(kept)} more")
        return make_child(
            plan, format_, origin, fill, directory, notes=notes, created=stamp(now()), left_out=kept
        )
    finally:
        os.close(source)


def _hash(fd: int, path: Path, start: int, end: int | None = None, more: bytes = b"") -> str:
    digest = hashlib.sha256()
    for piece in pieces(fd, path, start, end):
        digest.update(piece)
    digest.update(more)
    return digest.hexdigest()


def _outdated(plan: SalvagePlan, what: str) -> PlanOutdated:
    return PlanOutdated(
        f"{shown(plan.path)}: the run {what} since the plan was made", remedy="look at it again, then salvage"
    )
