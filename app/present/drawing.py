"""The timeline of a run as a recording of a terminal (asciicast 2).

It is made of the same rows as the screen, whose text is safe already; nothing in it is live.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final

from refold.app.ansi import CODES
from refold.app.lines import Cell, Line, Rows
from refold.app.safe import Safe
from refold.core.playback import AS_RECORDED
from refold.core.timeline import Timeline

COLUMNS: Final = 110
_CAST_ROWS: Final = 30


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
