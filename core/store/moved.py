"""Runs that are called otherwise than they were: found again by their first line, which no append changes.

A run that somebody moved or renamed has another path than its notes remember, and another name than its own
records give. Both are looked for only where nothing else was found: the head of each run is read for it.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Sequence
from pathlib import Path

import msgspec

from refold.core.errors import StoreError
from refold.core.store.notes import first_line, prefix_of
from refold.core.store.roots import SUFFIX, Root, distinct
from refold.core.store.run_id import is_run_id
from refold.core.store.session_names import is_run_directory


class _Meta(msgspec.Struct):
    run_id: str = ""


class _Head(msgspec.Struct):
    """What a first line says of its run: the meta record of a journal, or the first event of a directory."""

    meta: _Meta | None = None
    run_id: str = ""


def beginning_with(prefixes: Container[str], roots: Sequence[Root]) -> list[Path]:
    """Give the runs of some directories whose first line has one of these hashes of `prefix_of`."""
    return [path for path in _runs_in(roots) if prefix_of(path) in prefixes]


def that_say(run_id: str, roots: Sequence[Root]) -> list[Path]:
    """Give the runs whose own records call them so, whatever their file is called."""
    return [path for path in _runs_in(roots) if _said_id(path) == run_id]


def _runs_in(roots: Sequence[Root]) -> Iterator[Path]:
    for root in distinct(roots)[0]:
        try:
            names = sorted(os.listdir(root.path))  # noqa: PTH208 - names
        except (OSError, ValueError):
            continue
        for name in names:
            is_journal = name.endswith(SUFFIX) and is_run_id(name[: -len(SUFFIX)])
            if is_journal or is_run_directory(root.path / name):
                yield root.path / name


def _said_id(path: Path) -> str:
    try:
        head = msgspec.json.decode(first_line(path).removeprefix(b"\xef\xbb\xbf"), type=_Head)
    except (StoreError, msgspec.MsgspecError, RecursionError):
        return ""
    return head.meta.run_id if head.meta is not None else head.run_id
