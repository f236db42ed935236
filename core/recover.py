"""What can still be read out of a line that is no record.

A torn line with a whole record glued to it, two records on one line, a record written into the middle of
another, NUL padding, a byte order mark: each leaves whole records behind (design/safety.md 2.4 rows 8 to 12).
Nothing here guesses: a record is recovered only if its own bytes decode.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple

from refold.core.errors import BadRecord
from refold.core.formats import Columns

LONGEST = 16 * 1024 * 1024
"""Lines above this are not taken apart, in bytes."""

_START = re.compile(rb'\{\s*"seq"\s*:')
_NULS = re.compile(rb"\0+")
_BOM = b"\xef\xbb\xbf"
_TRIES = 256
_DECODER = json.JSONDecoder()


class Piece(NamedTuple):
    """A stretch of a damaged line: a record with what the index needs of it, or bytes that are none."""

    start: int
    """First byte, counted from the start of the line."""
    end: int
    columns: Columns | None


class Recovery(NamedTuple):
    """What a damaged line holds."""

    code: str
    """The damage code that names how the line was damaged."""
    pieces: tuple[Piece, ...]
    """In order; empty where no record could be recovered."""


def recover(line: bytes, decode: Callable[[bytes], Columns], reason: BadRecord) -> Recovery:
    """Take a damaged line apart.

    Args:
        line: the bytes of the line, newline excluded.
        decode: reads one record, raising BadRecord.
        reason: why the whole line is no record.
    """
    if len(line) > LONGEST:
        return Recovery(reason.code, ())
    if line.startswith(_BOM):
        piece = _whole(line, len(_BOM), len(line), decode)
        if piece is not None:
            return Recovery("E_BOM", (Piece(0, len(_BOM), None), piece))
    if b"\0" in line:
        return _around_nuls(line, decode)
    starts = [match.start() for match in _START.finditer(line)][:_TRIES]
    if not starts:
        return Recovery(reason.code, ())
    pieces = _records(line, starts, decode)
    if not pieces:
        return Recovery(reason.code, ())
    spliced = _outer(line, pieces, decode)
    if spliced is not None:
        return Recovery("E_SPLICED", (spliced, *pieces))
    return Recovery("E_GLUED", _with_gaps(pieces, len(line)))


def _whole(line: bytes, start: int, end: int, decode: Callable[[bytes], Columns]) -> Piece | None:
    try:
        return Piece(start, end, decode(line[start:end]))
    except BadRecord:
        return None


def _around_nuls(line: bytes, decode: Callable[[bytes], Columns]) -> Recovery:
    found: list[Piece] = []
    position = 0
    for match in [*_NULS.finditer(line)][:_TRIES]:
        if match.start() > position:
            found += _within(line, position, match.start(), decode)
        found.append(Piece(match.start(), match.end(), None))
        position = match.end()
    if position < len(line):
        found += _within(line, position, len(line), decode)
    if all(piece.columns is None for piece in found):
        return Recovery("E_NUL_RUN", ())
    return Recovery("E_NUL_RUN", tuple(found))


def _within(line: bytes, start: int, end: int, decode: Callable[[bytes], Columns]) -> list[Piece]:
    """Give what a stretch of a line holds: one record, or records with what stands between them."""
    piece = _whole(line, start, end, decode)
    if piece is not None:
        return [piece]
    part = line[start:end]
    pieces = _records(part, [match.start() for match in _START.finditer(part)][:_TRIES], decode)
    return [
        Piece(start + found.start, start + found.end, found.columns)
        for found in _with_gaps(pieces, len(part))
    ]


def _records(line: bytes, starts: list[int], decode: Callable[[bytes], Columns]) -> tuple[Piece, ...]:
    """Find the whole records that start at any of the positions, none inside another."""
    text = line.decode("latin-1")
    found: list[Piece] = []
    position = 0
    for start in starts:
        if start < position:
            continue
        try:
            _, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        piece = _whole(line, start, end, decode)
        if piece is not None and piece.columns is not None and not piece.columns.kind.startswith("unknown:"):
            found.append(piece)
            position = end
    return tuple(found)


def without(line: bytes, start: int, end: int) -> bytes:
    """Give a line without the record that was written into the middle of it."""
    return line[:start] + line[end:]


def _outer(line: bytes, pieces: tuple[Piece, ...], decode: Callable[[bytes], Columns]) -> Piece | None:
    """Join what stands around one inner record; give it where that is a record as well."""
    if len(pieces) != 1 or pieces[0].start == 0 or pieces[0].end == len(line):
        return None
    try:
        return Piece(0, len(line), decode(without(line, pieces[0].start, pieces[0].end)))
    except BadRecord:
        return None


def _with_gaps(pieces: tuple[Piece, ...], length: int) -> tuple[Piece, ...]:
    whole: list[Piece] = []
    position = 0
    for piece in pieces:
        if piece.start > position:
            whole.append(Piece(position, piece.start, None))
        whole.append(piece)
        position = piece.end
    if position < length:
        whole.append(Piece(position, length, None))
    return tuple(whole)
