"""Cells into lines of an exact width: fitted, spread to both edges, wrapped, with matches marked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from refold.app import safe
from refold.app.lines import Cell, Line, Role
from refold.app.safe import Safe

BLANK: Line = ()
"""An empty line."""


def cell(text: str, role: Role = "text", limit: int | None = None) -> Cell:
    """Give text of any origin as one cell that fits on one row."""
    return Cell(safe.line(text, limit), role)


def span(cells: Iterable[Cell]) -> int:
    """Give the columns that cells take."""
    return sum(safe.width(text) for text, _ in cells)


def fit(cells: Iterable[Cell], width: int) -> Line:
    """Give a line of exactly this width: what does not fit is cut with an ellipsis, what is left is blank."""
    fitted: list[Cell] = []
    left = width
    for text, role in cells:
        needed = safe.width(text)
        if needed > left:
            if left > 0:
                fitted.append(Cell(safe.fit(text, left), role))
            return tuple(fitted)
        if needed:
            fitted.append(Cell(text, role))
            left -= needed
    if left > 0:
        fitted.append(Cell(Safe(" " * left), "text"))
    return tuple(fitted)


def spread(left: Iterable[Cell], right: Iterable[Cell], width: int, *, least: int = 12) -> Line:
    """Give a line with cells at both edges; the right ones go first where both do not fit."""
    ending = tuple(right)
    room = width - span(ending)
    if not ending or room < least:
        return fit(left, width)
    return (*fit(left, room), *ending)


def paragraph(text: Safe, width: int, role: Role, *, indent: int = 0) -> Iterator[Line]:
    """Wrap one safe line to a width as lines of one role, indented."""
    lead = (Cell(Safe(" " * indent), "text"),) if indent else ()
    for piece in safe.wrap(text, max(2, width - indent)):
        yield (*lead, Cell(piece, role))


def flow(cells: Iterable[Cell], width: int, hanging: int = 0, *, words: bool = True) -> Iterator[Line]:
    """Lay cells out on as many lines as they need; later lines hang in by some columns.

    Lines break at a space where they have one; with `words` off they break at the edge.
    """
    hanging = min(hanging, width // 2)
    lead = [Cell(Safe(" " * hanging), "text")] if hanging else []
    line: list[Cell] = []
    left = width
    for text, role in cells:
        first, rest = safe.cut(text, left)
        if rest and words and not rest.startswith(" "):
            space = first.rfind(" ")
            if space >= (not line):
                first, rest = Safe(text[:space]), Safe(text[space + 1 :])
            elif line and line[-1].text.endswith(" "):
                first, rest = Safe(""), text
        if first:
            line.append(Cell(first, role))
        left -= safe.width(first)
        if not rest:
            continue
        for piece in safe.wrap(Safe(rest.lstrip(" ")) if words else rest, width - hanging, words=words):
            yield tuple(line)
            line = [*lead, Cell(piece, role)]
            left = width - hanging - safe.width(piece)
    if line:
        yield tuple(line)


def marked(line: Line, pattern: re.Pattern[str] | None) -> Line:
    """Give a line whose matches of a search stand out."""
    if pattern is None:
        return line
    cells: list[Cell] = []
    for text, role in line:
        last = 0
        for match in pattern.finditer(text):
            if match.start() == match.end():
                continue
            if match.start() > last:
                cells.append(Cell(Safe(text[last : match.start()]), role))
            cells.append(Cell(Safe(match.group()), "match"))
            last = match.end()
        if last < len(text):
            cells.append(Cell(Safe(text[last:]), role))
    return tuple(cells)
