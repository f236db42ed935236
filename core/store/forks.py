"""Finds the forks of one run that lie beside it or are noted, without reading any run whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from refold.core.errors import StoreError
from refold.core.records import ForkOrigin
from refold.core.store.files import open_regular
from refold.core.store.notes import NotesStore, prefix_of
from refold.core.store.reader import RunReader
from refold.core.store.roots import SUFFIX
from refold.core.store.session_origin import fork_origin

MOST = 5000
"""So many neighbours are looked at; the lineage of a run finds the others."""
_HEAD = 4096
"""Bytes among which a fork names its parent."""
_MARK = b'"forked_from"'


class Fork(msgspec.Struct, frozen=True):
    """One fork of a run."""

    run_id: str
    path: str
    seq: int
    """The last sequence that it took."""


def forks_of(path: Path, notes: NotesStore | None = None) -> Iterator[Fork | None]:
    """Yield the forks of a run, and None where there was work without a result.

    Args:
        path: the run.
        notes: where the lineage of runs is kept whose format has no place for it.
    """
    run_id = path.name.removesuffix(SUFFIX)
    for known in notes.each() if notes is not None else ():
        if known.forked_from is not None and known.forked_from.run_id == run_id:
            if os.path.lexists(known.path) and known.prefix_sha256 in ("", prefix_of(Path(known.path))):
                yield _fork(known.path, known.forked_from)
        else:
            yield None
    wanted = run_id.encode("utf-8", "surrogateescape")
    for neighbour in _neighbours(path):
        if neighbour.name.endswith(SUFFIX):
            head = _head(neighbour)
            origin = _origin(neighbour) if _MARK in head and wanted in head else None
        else:
            origin = fork_origin(neighbour)
        yield _fork(str(neighbour), origin) if origin is not None and origin.run_id == run_id else None


def _neighbours(path: Path) -> Iterator[Path]:
    try:
        with os.scandir(path.parent) as entries:
            for number, entry in enumerate(entries):
                if number >= MOST:
                    return
                if entry.name == path.name or entry.name.startswith("."):
                    continue
                if entry.name.endswith(SUFFIX) or entry.is_dir(follow_symlinks=False):
                    yield path.parent / entry.name
    except OSError:
        return


def _head(path: Path) -> bytes:
    try:
        fd = open_regular(path)
    except StoreError:
        return b""
    try:
        return os.pread(fd, _HEAD, 0)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _origin(path: Path) -> ForkOrigin | None:
    try:
        with RunReader.open(path) as reader:
            reader.step(0)
            return reader.meta.forked_from if reader.meta is not None else None
    except StoreError:
        return None


def _fork(path: str, origin: ForkOrigin) -> Fork:
    return Fork(os.path.basename(path).removesuffix(SUFFIX), path, origin.seq)  # noqa: PTH119 - need not be UTF-8
