"""An open run, examined from its first byte to its last."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from refold.core.examine import Examination, Place
from refold.core.findings import Finding
from refold.core.formats.names import is_own
from refold.core.rewritten import Rewritten, rewritten_finding
from refold.core.store.lock import holder_of, locked_inodes
from refold.core.store.reader import RunReader

_LARGEST: Final = 256 << 20
"""Records above this many bytes are not decoded in one piece."""


def examine(reader: RunReader, rewritten: Rewritten | None = None) -> Iterator[Finding]:
    """Give everything that is wrong with a run, or worth knowing, from its first byte to its last.

    Args:
        reader: The open run.
        rewritten: Where it is no longer what was seen before, where that is known.

    Raises:
        Unreadable: the system answers a read with an error.
    """
    if reader.session is not None:
        if rewritten is not None:
            yield rewritten_finding(reader.index_all(), rewritten)
        yield from reader.session.examine()
        return
    native = is_own(reader.format.name)
    examination = Examination(reader.decoder, reader.run_id, native=native)
    yield from examination.mode(reader.mode)
    if rewritten is not None:
        yield from examination.rewritten(rewritten)
    for line in reader.lines():
        if line.is_huge and line.length <= _LARGEST:
            whole = reader.bytes_at(line.offset, line.length)
        else:
            whole = line.text
        yield from examination.line(
            whole, Place(None, line.number, line.offset, line.offset + line.length), ended=line.terminated
        )
    yield from examination.end(reader.size)
    lock_file = reader.path.with_suffix(".lock")
    if (holder := holder_of(*reader.locks)) is not None:
        yield from examination.held("E_LOCKED", f"process {holder.pid} ({holder.command})")
        return
    if locked_inodes() is None and os.path.lexists(lock_file):
        yield from examination.held("E_LOCK_UNSURE", f"{lock_file.name} is there")
    yield from examination.in_flight()
