"""What passes between those who decide what is shown and those who draw it: cells of safe text with a role.

A role says what a piece of text is, never how it looks; `app.looks` gives each its look.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, Protocol, get_args

from refold.app import safe
from refold.app.safe import Safe

Role = Literal[
    "text",
    "dim",
    "strong",
    "accent",
    "user",
    "assistant",
    "call",
    "result",
    "meta",
    "terminal",
    "problem",
    "warn",
    "good",
    "fork",
    "number",
    "match",
    "cursor",
    "brand",
    "key",
    "added",
    "removed",
    "json-key",
    "json-string",
    "json-number",
    "json-word",
]

ROLES: Final[tuple[Role, ...]] = get_args(Role)


GUTTER: Final = 1
"""Cells left of every row of a list, where the cursor is marked also for those who see no colour."""


class Cell(NamedTuple):
    """A piece of one row."""

    text: Safe
    role: Role = "text"


Line = tuple[Cell, ...]
"""One row, left to right."""


class Rows(Protocol):
    """What a list draws: so many rows, each made when it comes into sight."""

    def __len__(self) -> int: ...

    def line(self, index: int, width: int) -> Line:
        """The row for a list of this width; drawing cuts what is longer."""
        ...


class RulerCell(NamedTuple):
    """One column of a ruler."""

    glyph: Safe
    role: Role = "text"


class Column(NamedTuple):
    """One column of a header."""

    key: str
    """What the list is asked to sort by; empty where it cannot."""
    label: Safe
    width: int
    align: Literal["left", "right"] = "left"
    gap: int = 1
    """Blank cells after it."""


class FixedRows:
    """Rows that are all there already."""

    def __init__(self, lines: tuple[Line, ...] | list[Line]) -> None:
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    def line(self, index: int, width: int) -> Line:
        """The row, whatever the width."""
        return self._lines[index]


NO_ROWS: Final[Rows] = FixedRows(())


def cells(line: Line) -> int:
    """The cells that a row takes."""
    return sum(safe.width(cell.text) for cell in line)


def filled(line: Line, width: int) -> list[Cell]:
    """The cells of a row of exactly so many columns: cut without a mark, or padded."""
    kept: list[Cell] = []
    left = width
    for text, role in line:
        taken = safe.width(text)
        if taken > left:
            text = safe.cut(text, left)[0]
            kept.append(Cell(text, role))
            left -= safe.width(text)
            break
        kept.append(Cell(text, role))
        left -= taken
    if left > 0:
        kept.append(Cell(Safe(" " * left)))
    return kept


def plain(line: Line) -> Safe:
    """The text of a row without its roles."""
    return Safe("".join(cell.text for cell in line))
