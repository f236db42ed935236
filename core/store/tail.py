"""The end of a journal: read without reading the rest, and put right as a plan says.

Source of the rules: design/contracts.md "Opening for append" and "Where our own files lie".
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from refold.core.errors import RunExists, StoreError, TooLarge, Unreadable, UnsupportedVersion
from refold.core.formats import Decoder, Format
from refold.core.repair import (
    JournalFile,
    PlanOutdated,
    RepairPlan,
    Tail,
    TailLine,
    plan_repair,
    side_file_name,
)
from refold.core.store.files import (
    append_durably,
    create_private,
    fsync_directory,
    open_regular,
    read_range,
    shown,
    status_of,
    sync,
    write_all,
    write_failed,
)

# Together under the 64 KiB that opening may read beyond the last record.
_HEAD = 32_768
_FIRST_PIECE = 4_096
_LAST_PIECE = 16_384
LINE_LIMIT = 1 << 30
"""The longest last line that is read to find out whether it is a record."""


def lines_backwards(fd: int, size: int, path: Path) -> Iterator[TailLine]:
    """Yield the lines of the first `size` bytes of a file, last one first, reading only as far as asked.

    Raises:
        Unreadable: the file cannot be read or is shorter than that.
        TooLarge: one line does not fit into memory.
    """
    ended = False
    pieces: list[bytes] = []
    length = 0
    position = size
    step = _FIRST_PIECE
    while position:
        start = max(0, position - step)
        data = read_range(fd, start, position, path)
        if len(data) != position - start:
            raise Unreadable(f"{shown(path)}: the file became shorter while it was read")
        stop = len(data)
        while (newline := data.rfind(b"\n", 0, stop)) >= 0:
            line = b"".join((data[newline + 1 : stop], *reversed(pieces)))
            if ended or line:
                yield TailLine(start + newline + 1, line, ended)
            ended, pieces, length, stop = True, [], 0, newline
        pieces.append(data[:stop])
        length += stop
        if length > LINE_LIMIT:
            raise TooLarge(f"{shown(path)}: the last line is longer than {LINE_LIMIT} bytes")
        position = start
        step = min(2 * step, _LAST_PIECE)
    line = b"".join(reversed(pieces))
    if ended or line:
        yield TailLine(0, line, ended)


def read_tail(fd: int, path: Path, format_: Format) -> tuple[Tail, Decoder]:
    """Say how an open journal ends, and give the decoder of its version.

    Raises:
        UnsupportedVersion: the run was written by a newer version than this build may append to.
        CorruptJournal: the damage is deeper than a torn tail.
        StoreError: the file cannot be read.
    """
    status = status_of(fd, path)
    decoder = format_.decoder(read_range(fd, 0, min(status.st_size, _HEAD), path))
    if not decoder.readable:
        raise UnsupportedVersion(decoder.version, decoder.supported)
    file = JournalFile(shown(path), status.st_dev, status.st_ino, status.st_size)
    tail = plan_repair(file, lines_backwards(fd, status.st_size, path), decoder)
    if tail.plan is not None and tail.plan.action == "cut":
        torn = read_range(fd, tail.plan.keep, status.st_size, path)
        side_file = free_side_file(path, tail.plan.keep, torn)
        plan = msgspec.structs.replace(tail.plan, side_file=side_file)
        tail = msgspec.structs.replace(tail, plan=plan)
    return tail, decoder


def carry_out(plan: RepairPlan, found: RepairPlan | None, fd: int, path: Path) -> None:
    """Put the end of a locked journal right, exactly as planned; the torn bytes are safe before they are cut.

    Raises:
        PlanOutdated: what was found now calls for something else; nothing was changed.
        WriteFailed: the system refused; the journal still ends as it did or is whole.
    """
    if plan != found:
        raise PlanOutdated(
            f"{shown(path)}: the end of the run is not what the repair was planned for",
            remedy="look at the run again",
        )
    if plan.action == "complete":
        append_durably(fd, b"\n", path)
        return
    torn = read_range(fd, plan.keep, plan.file.size, path)
    side_path = path.with_name(plan.side_file)
    _keep_aside(side_path, torn)
    try:
        os.ftruncate(fd, plan.keep)
        sync(fd)
    except OSError as error:
        rest = f"the torn bytes are in {shown(side_path)}"
        raise write_failed(path, "the torn end could not be cut", error, rest) from error


def free_side_file(path: Path, offset: int, torn: bytes) -> str:
    """Give a name beside a file that is free for the bytes torn off at an offset, or holds them already."""
    number = 1
    while True:
        name = side_file_name(path.name, offset, number)
        side_path = path.with_name(name)
        # An equal file is what a repair left that was killed before it cut.
        if not os.path.lexists(side_path) or _holds_exactly(side_path, torn):
            return name
        number += 1


def _holds_exactly(side_path: Path, torn: bytes) -> bool:
    try:
        fd = open_regular(side_path)
    except StoreError:
        return False
    try:
        return (
            status_of(fd, side_path).st_size == len(torn) and read_range(fd, 0, len(torn), side_path) == torn
        )
    finally:
        os.close(fd)


def _keep_aside(side_path: Path, torn: bytes) -> None:
    made = True
    try:
        fd = create_private(side_path)
    except RunExists:
        if not _holds_exactly(side_path, torn):
            raise PlanOutdated(f"{shown(side_path)}: already there with other content") from None
        fd = open_regular(side_path, append=True)
        made = False
    try:
        if made:
            write_all(fd, torn)
        sync(fd)
        fsync_directory(side_path.parent)
    except BaseException as error:
        if made:
            side_path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            rest = "the run was not changed"
            raise write_failed(side_path, "the torn bytes could not be kept", error, rest) from error
        raise
    finally:
        os.close(fd)
