"""Makes a fork exactly as planned: the parent's own bytes behind a new meta line.

The parent is opened for reading only: its bytes, mtime and lock stay as they are, also while its writer
appends, and nothing waits for it (design/contracts.md "Forks").
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import msgspec

from refold.core.fork import FOOT, Child, ForkFormat, ForkPlan, Parent, meta_item, plan_fork
from refold.core.formats.registry import by_name
from refold.core.records import ForkOrigin, Message, MetaRecord, UserRecord
from refold.core.repair import PlanOutdated
from refold.core.store.files import open_regular, read_range, shown, status_of, write_all
from refold.core.store.new_run import copy, make_run, pieces, stamp
from refold.core.store.notes import NotesStore
from refold.core.store.reader import RunReader
from refold.core.store.run_id import check_run_id, new_run_id


class Forked(msgspec.Struct, frozen=True):
    """A fork that was made."""

    run_id: str
    path: Path
    prefix_sha256: str
    """Of the parent's bytes from the first one to the newline of the last record taken."""
    durable: bool
    """False where the directory could not be synced."""
    noted: bool
    """False where the format has no place for the lineage and it could not be noted elsewhere."""


def plan_at(
    reader: RunReader, item: int, *, child: str | None = None, prompt: str = "", reason: str = ""
) -> ForkPlan:
    """Plan a fork of a run that is being read, after an item.

    Args:
        reader: the parent, indexed at least up to the item.
        item: the last item taken.
        child: the id of the new run; a new one where none is given.
        prompt: what the user says next; empty for nothing.
        reason: why it is forked; recorded.

    Raises:
        NoForkHere: the point is not legal, or the prompt cannot stand there.
        InvalidRunId: the text is no run id.
        StoreError: the run cannot be read.
    """
    timeline = reader.timeline
    legal = timeline.is_legal(item)
    end = timeline.span(item).end
    start = max(0, end - FOOT)
    parent = Parent(
        run_id=reader.run_id,
        path=str(reader.path),
        identity=reader.identity,
        format=by_name(reader.format.name),
        meta=reader.meta or MetaRecord(),
        meta_line=reader.raw(meta_item(timeline)) if legal else b"",
        foot=reader.bytes_at(start, end - start),
    )
    new = Child(run_id=new_run_id() if child is None else check_run_id(child), prompt=prompt, reason=reason)
    return plan_fork(timeline, item, reader.state_at(item) if legal else None, parent, new)


def carry_out(
    plan: ForkPlan,
    format_: ForkFormat | None = None,
    directory: Path | None = None,
    *,
    notes: NotesStore | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Forked:
    """Make the fork.

    Args:
        plan: what to make.
        format_: the parent's format; found by its name where not given.
        directory: where the new run goes, made if it is not there; beside its parent where not given.
        notes: where the lineage is kept of a run whose format has no place for it.
        now: the clock.

    Raises:
        PlanOutdated: the parent is not the file that the plan was made from, or no longer the same.
        RunExists: there is a run of that id.
        WriteFailed: the fork is not known to be on disk; nothing of it is left.
        StoreError: the parent cannot be read, or the directory not be made.
    """
    format_ = by_name(plan.format) if format_ is None else format_
    path = Path(plan.path)
    source = open_regular(path)
    try:
        parent = _Parent(source, plan)
        origin = ForkOrigin(plan.parent, plan.at, parent.prefix, plan.reason)

        def fill(fd: int, head: bytes, created: str) -> None:
            parent.copy_to(fd)
            parent.check_copy(fd, len(head))
            write_all(fd, _follow_up(plan, format_, head, created))

        prompt_at = plan.at + 1 if plan.prompt else 0
        return make_child(
            plan, format_, origin, fill, directory, notes=notes, created=stamp(now()), prompt_at=prompt_at
        )
    finally:
        os.close(source)


class ChildPlan(Protocol):
    """What a plan says of the run that is to be made, and of the one that it is made from."""

    @property
    def path(self) -> str:
        """Of the parent."""
        ...

    @property
    def meta(self) -> MetaRecord:
        """Of the parent."""
        ...

    @property
    def meta_line(self) -> bytes:
        """Of the parent."""
        ...

    @property
    def child(self) -> str:
        """The id of the new run."""
        ...


def make_child(
    plan: ChildPlan,
    format_: ForkFormat,
    origin: ForkOrigin,
    fill: Callable[[int, bytes, str], None],
    directory: Path | None,
    *,
    notes: NotesStore | None,
    created: str,
    left_out: tuple[str, ...] = (),
    prompt_at: int = 0,
) -> Forked:
    """Make a run out of another one: a meta line that says where it comes from, and what is filled in.

    Args:
        plan: what to make.
        format_: the format of both.
        origin: where it comes from; noted beside it where the format has no place for that.
        fill: writes the rest into the open file, given the meta line and the time.
        directory: where the new run goes; beside its parent where not given.
        notes: where it is noted.
        created: the time of the new run.
        left_out: what else is noted: the lines of a report.
        prompt_at: the sequence of the prompt that it is made with; 0 for none.

    Raises:
        StoreError: as `make_run` does; nothing of it is left.
    """
    head = format_.forked_meta(
        plan.meta_line, plan.meta, run_id=plan.child, created=created, origin=origin
    ).line
    lineage = None if format_.keeps_lineage else origin

    def write(fd: int) -> None:
        write_all(fd, head)
        fill(fd, head, created)

    made = make_run(
        Path(plan.path).parent if directory is None else directory,
        plan.child,
        write,
        notes=notes,
        note=None
        if lineage is None and not left_out
        else lambda known: msgspec.structs.replace(
            known, forked_from=lineage, prompt_at=prompt_at if lineage else 0, left_out=left_out
        ),
    )
    return Forked(plan.child, made.path, origin.prefix_sha256, made.durable, made.noted)


class _Parent:
    """The open file of the parent, as far as a plan takes it."""

    def __init__(self, fd: int, plan: ForkPlan) -> None:
        self._fd = fd
        self._plan = plan
        found = status_of(fd, plan.path)
        if (found.st_dev, found.st_ino) != (plan.device, plan.inode) or found.st_size < plan.end - 1:
            raise self._outdated("was replaced or cut since the plan was made")
        self._end = min(plan.end, found.st_size)
        """Where the bytes taken end in the file: its last newline may be missing."""
        self._before = hashlib.sha256(read_range(fd, 0, min(plan.start, self._end), Path(plan.path)))
        if plan.start > self._end:
            self._before.update(b"\n")
        self._check_same()
        self.prefix = self._hash(self._fd, plan.start, self._end, self._newline)

    @property
    def _newline(self) -> bytes:
        """What ends the last record where the file does not."""
        return b"\n" if max(self._end, self._plan.start) < self._plan.end else b""

    def copy_to(self, fd: int) -> None:
        copy(self._fd, fd, self._plan.start, self._end)
        write_all(fd, self._newline)

    def check_copy(self, fd: int, start: int) -> None:
        """Read back what was written: it must be what was hashed before."""
        if self._hash(fd, start, None, b"") != self.prefix:
            raise self._outdated("was rewritten while it was forked; no fork was made")

    def _hash(self, fd: int, start: int, end: int | None, more: bytes) -> str:
        digest = self._before.copy()
        for piece in pieces(fd, Path(self._plan.path), start, end):
            digest.update(piece)
        digest.update(more)
        return digest.hexdigest()

    def _check_same(self) -> None:
        plan, path = self._plan, Path(self._plan.path)
        stop = plan.end - 1
        foot = read_range(self._fd, max(0, stop - FOOT), stop, path)
        # A last line without its newline may have got more than that since.
        if read_range(self._fd, stop, plan.end, path) not in (b"\n", b""):
            raise self._outdated("was rewritten since the plan was made")
        meta_line = read_range(self._fd, plan.head, plan.head + len(plan.meta_line), path)
        if hashlib.sha256(foot).hexdigest() != plan.foot or meta_line != plan.meta_line:
            raise self._outdated("was rewritten since the plan was made")

    def _outdated(self, what: str) -> PlanOutdated:
        return PlanOutdated(f"{shown(self._plan.path)}: the run {what}", remedy="look at it again, then fork")


def _follow_up(plan: ForkPlan, format_: ForkFormat, head: bytes, created: str) -> bytes:
    """Give the line of the new prompt, if there is one."""
    if not plan.prompt:
        return b""
    content = format_.decoder(head).prompt_content(plan.prompt)
    record = UserRecord(message=Message("user", content), seq=plan.at + 1, time=created)
    return format_.encode(record, plan.version)
