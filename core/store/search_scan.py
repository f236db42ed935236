"""The search without an index, in the files themselves: what it finds is what there is to find."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

from refold.core.errors import StoreError
from refold.core.search_hits import Hit, shown_text
from refold.core.search_record import Document, read_line
from refold.core.search_text import Query
from refold.core.store.files import open_regular
from refold.core.store.search_source import Source, read_blocks, read_line_at, read_whole


def hit_of(query: Query, source: Source, start: int, document: Document) -> Hit | None:
    """Say whether a query finds a document, and how."""
    match = query.match(document.texts)
    if match is None:
        return None
    return Hit(
        source.run,
        source.file,
        source.hint,
        document.kind,
        document.seq,
        start,
        match.scopes,
        match.score,
        shown_text(query, document, match.scopes),
        source.updated_ns,
        source.number,
    )


def scan(query: Query, source: Source, start: int = 0) -> Iterator[Hit | None]:
    """Yield the hits of a file from the start of a line on, in order, and None between pieces of work.

    A file that cannot be read, or has vanished, holds nothing.
    """
    try:
        fd = open_regular(Path(source.file))
    except StoreError:
        return
    try:
        if source.kind == "lines":
            yield from _scan_lines(query, source, fd, start)
        else:
            for found in read_whole(fd, source.kind):
                yield None if found is None else hit_of(query, source, *found)
    except OSError:
        return
    finally:
        os.close(fd)


def _scan_lines(query: Query, source: Source, fd: int, start: int) -> Iterator[Hit | None]:
    for block in read_blocks(fd, start):
        if query.possible(block.data):
            for place, line in block.lines():
                if query.possible(line):
                    hit = hit_of(query, source, place, read_line(line))
                    if hit is not None:
                        yield hit
        yield None


def look_up(query: Query, source: Source, places: list[int]) -> Generator[Hit | None, None, bool]:
    """Yield the hits at some places of a file, in order, and None between pieces of work.

    Returns:
        False where one of them is none: the file is not what it was.
    """
    try:
        fd = open_regular(Path(source.file))
    except StoreError:
        return False
    try:
        if source.kind != "lines":
            return (yield from _look_up_whole(query, source, fd, places))
        for place in places:
            hit = hit_of(query, source, place, read_line(read_line_at(fd, place)))
            if hit is None:
                return False
            yield hit
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def _look_up_whole(
    query: Query, source: Source, fd: int, places: list[int]
) -> Generator[Hit | None, None, bool]:
    missing = set(places)
    for found in read_whole(fd, source.kind):
        if found is None:
            yield None
        elif found[0] in missing:
            hit = hit_of(query, source, *found)
            if hit is None:
                return False
            yield hit
            missing.discard(found[0])
            if not missing:
                return True
    return not missing
