"""Reads in the parent of a fresh fork what became of the calls that the fork begins with: a bounded piece."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from refold.core.errors import BadRecord, StoreError
from refold.core.in_parent import InParent
from refold.core.keeping import NOTHING, Kept
from refold.core.records import AssistantRecord, ToolResultRecord
from refold.core.standing import facts_of, opening_meta
from refold.core.status import derive
from refold.core.store.files import open_regular
from refold.core.store.reader import RunReader
from refold.core.store.roots import SUFFIX
from refold.core.store.run_id import is_run_id

_FOOT: Final = 4096
"""Bytes before the point in which parent and fork must be alike."""
_AHEAD: Final = 256 << 10
"""Bytes after the point in which results are looked for."""


def was_opened(path: Path) -> bool:
    """Say whether anybody ever took the lock of a run, as the file that is left of it shows.

    A call that was started in a fork and killed leaves no record: then only this tells that it may have run.
    """
    return os.path.lexists(path.with_suffix(".lock"))


def nothing_began(reader: RunReader, kept: Kept = NOTHING) -> bool:
    """Say whether a run, indexed to its end, is a fork in which nothing began: its open calls did not run.

    Args:
        reader: The run.
        kept: What is noted about it: of whom it is a fork, where its format has no place for that.
    """
    meta = opening_meta(reader.timeline, reader.meta)
    status = derive(facts_of(reader.timeline, meta, reader.decoder, kept))
    return status.name == "ready" and not was_opened(reader.path)


class Untouched:
    """Tells again and again of an open run whether nothing began in it: a long one is looked through once."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self._known: tuple[int, Kept, bool] = (-1, NOTHING, False)
        """By how many items and what is noted it was told, and what."""

    def nothing_began(self, kept: Kept) -> bool:
        """Say whether it has open calls that did not run in it; it is indexed to its end."""
        timeline = self._reader.timeline
        items = timeline.items
        if not items or not timeline.open_calls(items - 1):
            return False
        if self._known[:2] != (items, kept):
            self._known = (items, kept, nothing_began(self._reader, kept))
        return self._known[2] and not was_opened(self._reader.path)


def in_parent(reader: RunReader, parent: str) -> InParent:
    """Give what is known of the open calls of a fork that nobody has gone on with.

    Only a parent beside it is looked at, and of that only what follows the point of the fork.

    Args:
        reader: The fork, indexed to its end.
        parent: The id of the run that it was forked from.
    """
    path = reader.path.parent / f"{parent}{SUFFIX}"
    unknown = InParent(parent)
    if not is_run_id(parent) or path == reader.path:
        return unknown
    try:
        fd = open_regular(path)
    except StoreError:
        return unknown
    try:
        after = _after(fd, reader)
    except OSError:
        return unknown
    finally:
        os.close(fd)
    return unknown if after is None else InParent(parent, seen=True, results=_results(reader, after))


def _after(fd: int, reader: RunReader) -> bytes | None:
    """Give what the parent holds after the point of the fork; None where it is not the run that was forked.

    Both are alike but for their first lines, so the point lies as far behind the end of either.
    """
    timeline = reader.timeline
    own_head = reader.bytes_at(0, _AHEAD).find(b"\n")
    end = timeline.span(timeline.items - 1).end
    head = os.pread(fd, _AHEAD, 0).find(b"\n")
    if head < 0 or own_head < 0 or end <= own_head:
        return None
    point = head + end - own_head
    size = min(_FOOT, end - own_head)
    if os.pread(fd, size, point - size) != reader.bytes_at(end - size, size):
        return None
    return os.pread(fd, _AHEAD, point)


def _results(reader: RunReader, after: bytes) -> Mapping[str, int | None]:
    """Give the sequences of the results before the next turn, by the ids of their calls."""
    found: dict[str, int | None] = {}
    for line in after.split(b"\n")[:-1]:
        if not line:
            continue
        try:
            record = reader.decoder.record(line)
        except BadRecord:
            break
        if isinstance(record, AssistantRecord):
            break
        if isinstance(record, ToolResultRecord):
            found.setdefault(record.tool_use_id, record.seq)
    return found
