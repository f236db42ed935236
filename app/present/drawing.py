"""The timeline of a run as a picture (SVG) and as a recording of a terminal (asciicast 2).

Both are made of the same rows as the screen, whose text is safe already; nothing in them is live.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final
from xml.sax.saxutils import escape

from refold.app.ansi import CODES
from refold.app.lines import Cell, Line, Role, Rows
from refold.app.safe import Safe, width
from refold.core.playback import AS_RECORDED
from refold.core.timeline import Timeline

COLUMNS: Final = 110
MOST_ROWS: Final = 5000
"""So many rows are drawn into one picture."""
_CELL: Final = 8.4
_LINE: Final = 19
_EDGE: Final = 16
_CAST_ROWS: Final = 30

_COLOURS: Final[Mapping[Role, str]] = {
    "dim": "#7f87a1",
    "terminal": "#7f87a1",
    "accent": "#e6b450",
    "key": "#e6b450",
    "user": "#7dcfff",
    "meta": "#7dcfff",
    "assistant": "#7aa2f7",
    "call": "#d9b380",
    "result": "#9ece6a",
    "good": "#9ece6a",
    "problem": "#f7768e",
    "warn": "#e0995e",
    "fork": "#bb9af7",
    "json-key": "#7aa2f7",
    "json-string": "#9ece6a",
    "json-number": "#d9b380",
    "json-word": "#bb9af7",
}
"""As the dark theme has them."""


def svg(title: Safe, rows: Rows, columns: int = COLUMNS) -> Iterator[str]:
    """Give the rows as one picture; what is beyond `MOST_ROWS` is said in its last line."""
    count = min(len(rows), MOST_ROWS)
    more = len(rows) - count
    wide = round(columns * _CELL) + 2 * _EDGE
    high = (count + 2 + bool(more)) * _LINE + 2 * _EDGE
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
        f'font-family="ui-monospace, DejaVu Sans Mono, Menlo, monospace" font-size="14">\n'
        f"<title>{_escaped(title)}</title>\n"
        f'<rect width="{wide}" height="{high}" rx="8" fill="#14161d"/>\n'
    )
    yield _drawn(0, ((title, "#d3d8e6", True),))
    for index in range(count):
        line = rows.line(index, columns)
        cells = ((cell.text, _COLOURS.get(cell.role, "#d3d8e6"), cell.role == "strong") for cell in line)
        yield _drawn(index + 2, cells)
    if more:
        yield _drawn(count + 2, ((Safe(f"⋯ {more:,} more rows"), "#7f87a1", False),))
    yield "</svg>\n"


def _drawn(row: int, cells: Iterator[tuple[Safe, str, bool]] | tuple[tuple[Safe, str, bool], ...]) -> str:
    """Draw one row; each piece stands at its own column, so that no font can shift what follows."""
    parts: list[str] = []
    column = 0
    for text, colour, bold in cells:
        taken = width(text)
        shown = text.rstrip()
        if shown:
            lead = len(shown) - len(shown.lstrip())
            x = _EDGE + (column + lead) * _CELL
            weight = ' font-weight="bold"' if bold else ""
            parts.append(
                f'<tspan x="{x:.1f}" fill="{colour}"{weight}>{_escaped(Safe(shown.lstrip()))}</tspan>'
            )
        column += taken
    y = _EDGE + (row + 1) * _LINE - 5
    return f'<text y="{y}" xml:space="preserve">{"".join(parts)}</text>\n' if parts else ""


def _escaped(text: Safe) -> str:
    # Safe text holds no control character and no half of a pair: all of it may stand in XML.
    return escape(text, {'"': "&quot;"})


def cast(
    title: Safe,
    rows: Rows,
    timeline: Timeline,
    items: int,
    started: float | None,
    columns: int = COLUMNS,
) -> Iterator[str]:
    """Give a recording in which the rows appear when they do on the screen where the run is played.

    Args:
        title: what it is called.
        rows: the rows of the timeline.
        timeline: which record a row belongs to, and when it was written.
        items: how many records are shown.
        started: the first recorded time.
        columns: the width of the terminal.
    """
    header: dict[str, object] = {
        "version": 2,
        "width": columns,
        "height": _CAST_ROWS,
        "idle_time_limit": AS_RECORDED.idle,
        "title": title,
        "env": {"TERM": "xterm-256color"},
    }
    if started is not None:
        header["timestamp"] = int(started)
    yield json.dumps(header) + "\n"
    yield _event(0.0, f"\x1b[1m{title}\x1b[0m\r\n\r\n")
    for item, now in enumerate(AS_RECORDED.moments(timeline, items)):
        for index in range(timeline.first_row(item), timeline.first_row(item + 1)):
            yield _event(now, _painted(rows.line(index, columns)) + "\r\n")


def _event(now: float, text: str) -> str:
    return json.dumps([round(now, 3), "o", text]) + "\n"


def _painted(line: Line) -> str:
    parts: list[str] = []
    for cell in line:
        code = CODES.get(cell.role)
        parts.append(f"\x1b[{code}m{cell.text}\x1b[0m" if code and cell.text.strip() else cell.text)
    return "".join(parts).rstrip()


class SharedRows:
    """The rows of a timeline up to one of them, each passed on by whoever lets texts leave."""

    def __init__(self, rows: Rows, count: int, let_out: Callable[[str], str]) -> None:
        """Show the first rows of others.

        Args:
            rows: all rows.
            count: how many of them are shown.
            let_out: gives a text without its secrets.
        """
        self._rows = rows
        self._count = count
        self._let_out = let_out

    def __len__(self) -> int:
        return min(self._count, len(self._rows))

    def line(self, index: int, width: int) -> Line:
        """Give a row."""
        return tuple(
            Cell(Safe(self._let_out(cell.text)), cell.role) for cell in self._rows.line(index, width)
        )
