"""Makes a fork exactly as planned: the parent's own bytes behind a new meta line.

The child is written under a temporary name, synced, and given its name by a link that overwrites nothing;
until then no list shows it, after it the run is whole. The parent is opened for reading only: its bytes,
mtime and lock stay as they are, also while its writer appends (design/contracts.md "Forks").
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import msgspec

from refold.core.errors import RunExists
from refold.core.fork import ForkPlan
from refold.core.formats import Decoder
from refold.core.records import ForkOrigin, Message, MetaRecord, Record, UserRecord
from refold.core.repair import PlanOutdated
from refold.core.store.files import (
    create_private,
    fsync_directory,
    open_regular,
    private_directory,
    read_range,
    shown,
    sync,
    write_all,
    write_failed,
)
from refold.core.store.run_id import check_run_id

TEMPORARY = ".fork"
"""How the name of an unfinished fork ends; no list shows such a file."""
_PIECE = 1 << 20
_CANNOT_COPY = {errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF}


class ForkFormat(Protocol):
    """A format that can write the head of a fork."""

    name: str

    def encode(self, record: Record, version: int | None = None) -> bytes:
        """Give the one line, newline included, that stands for a record in a run of this version."""
        ...

    def decoder(self, head: bytes) -> Decoder:
        """Give the decoder for a run whose file starts with these bytes."""
        ...


class Forked(msgspec.Struct, frozen=True):
    """A fork that was made."""

    run_id: str
    path: Path
    prefix_sha256: str
    """Of the parent's bytes from the first one to the newline of the last record taken."""
    durable: bool
    """False where the directory could not be synced."""


def carry_out(
    plan: ForkPlan,
    format_: ForkFormat,
    directory: Path,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Forked:
    """Make the fork.

    Args:
        plan: what to make.
        format_: the parent's format.
        directory: where the new run goes; made if it is not there.
        now: the clock.

    Raises:
        PlanOutdated: the parent is not the file that the plan was made from.
        RunExists: there is a run of that id.
        WriteFailed: the fork is not known to be on disk; nothing of it is left.
        StoreError: the parent cannot be read, or the directory not be made.
    """
    target = directory / f"{check_run_id(plan.child)}.json"
    private_directory(directory)
    if os.path.lexists(target):
        raise RunExists(f"{shown(target)}: already there", remedy="choose another id")
    source = open_regular(Path(plan.path))
    try:
        end = _checked_end(source, plan)
        prefix = _prefix_hash(source, end, plan)
        return _write(source, end, prefix, plan, format_, target, now())
    finally:
        os.close(source)


def _checked_end(source: int, plan: ForkPlan) -> int:
    """Give where the copied bytes end in the file; its last newline may be missing."""
    found = os.fstat(source)
    if (found.st_dev, found.st_ino) != (plan.device, plan.inode) or found.st_size < plan.end - 1:
        raise PlanOutdated(
            f"{shown(plan.path)}: the run was replaced or cut since the plan was made",
            remedy="look at it again, then fork",
        )
    return min(plan.end, found.st_size)


def _prefix_hash(source: int, end: int, plan: ForkPlan) -> str:
    digest = hashlib.sha256()
    for start in range(0, end, _PIECE):
        digest.update(read_range(source, start, min(start + _PIECE, end), Path(plan.path)))
    if end < plan.end:
        digest.update(b"\n")
    return digest.hexdigest()


def _write(
    source: int, end: int, prefix: str, plan: ForkPlan, format_: ForkFormat, target: Path, moment: datetime
) -> Forked:
    temporary = target.with_name(f".{plan.child}.{secrets.token_hex(8)}{TEMPORARY}")
    os.close(create_private(temporary))
    fd = -1
    try:
        # Not for appending: the system copies between files only into one that is opened plainly.
        fd = os.open(temporary, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        head = _head(plan, format_, prefix, moment)
        write_all(fd, head)
        _copy(source, fd, plan.start, end)
        if end < plan.end and end > plan.start:
            write_all(fd, b"\n")
        write_all(fd, _follow_up(plan, format_, head, moment))
        sync(fd)
        if _prefix_hash(source, end, plan) != prefix:
            raise PlanOutdated(
                f"{shown(plan.path)}: the run was rewritten while it was forked; no fork was made",
                remedy="look at it again, then fork",
            )
        os.link(temporary, target)
    except FileExistsError as error:
        raise RunExists(f"{shown(target)}: already there", remedy="choose another id") from error
    except OSError as error:
        raise write_failed(target, "the fork was not made", error, "nothing of it is left") from error
    finally:
        if fd >= 0:
            os.close(fd)
        with contextlib.suppress(OSError):
            temporary.unlink()
    try:
        durable = fsync_directory(target.parent)
    except OSError:
        durable = False
    return Forked(plan.child, target, prefix, durable)


def _head(plan: ForkPlan, format_: ForkFormat, prefix: str, moment: datetime) -> bytes:
    """Give the new meta line: the parent's, with its own id, in the parent's version."""
    stamp = _stamp(moment)
    native = format_.name == "refold"
    origin = ForkOrigin(plan.parent, plan.at, prefix, plan.reason) if native else None
    meta: MetaRecord = msgspec.structs.replace(
        plan.meta,
        run_id=plan.child,
        created=stamp,
        forked_from=origin,
        time=stamp if native else None,
    )
    return format_.encode(meta, plan.version)


def _follow_up(plan: ForkPlan, format_: ForkFormat, head: bytes, moment: datetime) -> bytes:
    if not plan.prompt:
        return b""
    content = format_.decoder(head).prompt_content(plan.prompt)
    record = UserRecord(
        message=Message("user", content),
        seq=plan.at + 1,
        time=_stamp(moment) if format_.name == "refold" else None,
    )
    return format_.encode(record, plan.version)


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _copy(source: int, target: int, start: int, end: int) -> None:
    """Add a stretch of the parent, copied by the system itself where it can."""
    by_system = hasattr(os, "copy_file_range")
    while start < end:
        copied = 0
        if by_system:
            try:
                copied = os.copy_file_range(source, target, end - start, offset_src=start)
            except OSError as error:
                if error.errno not in _CANNOT_COPY:
                    raise
                by_system = False
        if not copied:
            data = os.pread(source, min(end - start, _PIECE), start)
            if not data:
                raise PlanOutdated("the parent became shorter while it was forked; no fork was made")
            write_all(target, data)
            copied = len(data)
        start += copied
