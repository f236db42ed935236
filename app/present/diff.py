"""Two texts as one: what was taken out and put in, with a sign, a colour and some lines around it."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Final, NamedTuple

from refold.app import safe
from refold.app.lines import Cell, Line, Role
from refold.app.present import code
from refold.app.present.layout import cell, flow
from refold.app.present.units import plural
from refold.app.safe import Safe
from refold.core.composing import Piece
from refold.core.line_diff import Row, compare, lines_of

AROUND: Final = 3
"""Lines shown before and after a change."""
_LONGEST_LINE: Final = 2_000
_SIGNS: Final[dict[str, tuple[str, Role]]] = {
    "+": ("+ ", "added"),
    "-": ("- ", "removed"),
    " ": ("  ", "dim"),
}
_STEP: Final = 512


class Laid(NamedTuple):
    """A piece, ready to be drawn."""

    piece: Piece
    rows: Sequence[Row]
    added: int
    removed: int
    exact: bool = True
    cut: int = 0
    """Lines put in that are not among the rows."""


def lay(piece: Piece, most: int) -> Generator[None, None, Laid]:
    """Compare a piece with what stood there, in small steps.

    Args:
        piece: What was changed.
        most: Lines of a text that is not compared with another one that are made at most.
    """
    if piece.old and piece.new is not None:
        found = yield from compare(piece.old, piece.new)
        return Laid(piece, found.rows, found.added, found.removed, found.exact)
    text, tag = (piece.new or "", "+") if piece.new else (piece.old or "", "-")
    count = text.count("\n") + (not text.endswith("\n")) if text else 0
    end = _end_of(text, most)
    rows = [
        Row("+" if tag == "+" else "-", row, number) for number, row in enumerate(lines_of(text[:end]), 1)
    ]
    if not text:
        rows = []
    added, removed = (count, 0) if tag == "+" else (0, count)
    return Laid(piece, rows, added, removed, cut=max(0, count - len(rows)))


def _end_of(text: str, most: int) -> int:
    """Where the first lines of a text end."""
    end = 0
    for _ in range(most):
        end = text.find("\n", end) + 1
        if end == 0:
            return len(text)
    return end


def laid_lines(laid: Laid, path: str, width: int, most: int) -> Iterator[Line | None]:
    """Draw a piece, at most so many lines of it; None where there was work without a line."""
    piece = laid.piece
    numbers = piece.whole or bool(piece.line)
    shift = max(0, piece.line - 1)
    made = 0
    if not laid.exact:
        said = "too long or too different to compare line by line: all taken out, all put in"
        yield from flow((cell(f"  {said}", "dim"),), width, 2)
    stretches = _stretches(laid.rows)
    for number, (first, last) in enumerate(stretches):
        if made >= most:
            break
        if number or (piece.whole and first):
            yield (cell("    ⋯" if numbers else "  ⋯", "dim"),)
        rows = laid.rows[first : min(last, first + most - made)]
        made += len(rows)
        yield None
        digits = max(4, len(str(max((row.line for row in rows), default=0) + shift))) if numbers else 0
        for row, parts in _coloured(rows, path):
            if row is None or parts is None:
                yield None
                continue
            sign, role = _SIGNS[row.tag]
            gutter = f"{row.line + shift:>{digits}} " if numbers else ""
            lead = (Cell(Safe(f"{sign}{gutter}"), role),)
            for line in flow((*lead, *parts), width, len(sign) + len(gutter), words=False):
                # What goes on in the next line stands on the same ground.
                yield line if line[0].role == role else (Cell(line[0].text, role), *line[1:])
    total = sum(last - first for first, last in stretches) + laid.cut
    if total > made:
        yield (cell(f"  ⋯ {plural(total - made, 'more line')}", "dim"),)


def _stretches(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Give the stretches of rows that are shown: changes, and some lines around each."""
    found: list[tuple[int, int]] = []
    for at, row in enumerate(rows):
        if row.tag == " ":
            continue
        first, last = max(0, at - AROUND), min(len(rows), at + AROUND + 1)
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return found


def _coloured(rows: Sequence[Row], path: str) -> Iterator[tuple[Row | None, tuple[Cell, ...] | None]]:
    """Give the rows with their cells; each side is taken apart as the text that it is."""
    new = code.parts(path, [_shown(row) for row in rows if row.tag != "-"])
    old = code.parts(path, [_shown(row) for row in rows if row.tag != "+"])
    for row in rows:
        for side in (old, new) if row.tag == " " else (old,) if row.tag == "-" else (new,):
            parts = next(side, None)
            while parts is None:
                yield None, None
                parts = next(side, code.plain(_shown(row)))
        cells = tuple(_cells(parts or []))
        yield row, cells


def _shown(row: Row) -> str:
    return row.text[: 2 * _LONGEST_LINE].expandtabs(safe.TAB)


def _cells(parts: list[tuple[str, Role]]) -> Iterator[Cell]:
    left = _LONGEST_LINE
    for text, role in parts:
        yield Cell(safe.line(text, left), role)
        left -= len(text)
        if left <= 0:
            yield cell(" …", "dim")
            return
