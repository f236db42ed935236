"""The first rows of a run, painted before the toolkit of the screen is there to paint them.

Importing it takes longer than all else between a command and its rows. So the rows are painted as they will
stand, and the screen takes them over: it paints over them, and gives the terminal back at the end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Final, NoReturn

from refold.app.forbidden import FORBIDDEN
from refold.app.glyphs import to_ascii
from refold.app.lines import GUTTER, Cell, Line, filled
from refold.app.looks import Look, look_of
from refold.app.palettes import PALETTES
from refold.app.present.landing import is_at_end
from refold.app.present.reading import LARGE, Reading, reading_of
from refold.app.present.run_room import Room, room_of
from refold.app.safe import Safe
from refold.app.settings import Settings, terminal_size
from refold.core.errors import RefoldError
from refold.core.store.reader import RunReader

ENTER: Final = "\x1b[?1049h"
"""Takes the other screen of the terminal; as Textual (8.2.8) writes it."""
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HIDE_CURSOR: Final = "\x1b[?25l"
_SLICE: Final = 0.001
_PATIENCE: Final = 0.03
"""Seconds that a short run may take to be read before anything of it is painted."""
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_WAITING: Final = (signal.SIGTSTP,)
"""What must wait until the screen is there, which gives the terminal back before it stops."""
_WORDS: Final = {"bold": "1", "dim": "2", "underline": "4", "reverse": "7"}
_ANSI: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


class FirstRows:
    """Rows on the terminal that no screen owns yet."""

    def __init__(self) -> None:
        self.taken = False
        """The screen has the terminal, and gives it back."""
        self._ended_by = 0
        signal.pthread_sigmask(signal.SIG_BLOCK, _WAITING)

    def take(self) -> None:
        """Leave the rows to the screen."""
        self.taken = True
        self.release()
        if self._ended_by:
            # What is raised while an object goes away is told nobody: the screen heeds the signal now.
            signal.raise_signal(self._ended_by)

    def release(self) -> None:
        """Let come what had to wait."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WAITING)

    def end(self, number: int, _frame: FrameType | None) -> NoReturn:
        """End the program by a signal."""
        self._ended_by = number
        raise SystemExit(128 + number)


@contextlib.contextmanager
def painted(reader: RunReader, settings: Settings) -> Iterator[FirstRows | None]:
    """Paint the first rows of a run; unless a screen takes them over they are gone at the end.

    Gives None, and paints nothing, where it is not known what the screen will look like, and in the
    background: the terminal is another's.
    """
    data = painting(reader, settings, *terminal_size()) if _is_ours() else ""
    if not data:
        yield None
        return
    rows = FirstRows()
    before = {number: signal.signal(number, rows.end) for number in _ENDING}
    try:
        _write(data)
        yield rows
    finally:
        if not rows.taken:
            _write(_LEAVE)
            for number, handler in before.items():
                signal.signal(number, handler)
            rows.release()


def painting(reader: RunReader, settings: Settings, columns: int, rows: int) -> str:
    """Give what paints the first rows of an open run on a terminal of a size; empty where that is not known.

    Args:
        reader: The run; some of it is read, in a bounded time.
        settings: How the program looks.
        columns: The width of the terminal.
        rows: Its height.
    """
    palette = PALETTES.get(settings.theme)
    if palette is None or settings.served:
        return ""
    brush = _Brush(settings, palette)
    try:
        found = _first_reading(reader)
        if found is None:
            return ""
        reading, ends = found
        room = room_of(columns, rows, lanes=reader.complete and bool(reading.lanes()))
        lines = _lines(reading, room, brush, from_end=ends)
        # Blanks, for not every terminal erases in a colour.
        shown = (
            lines.get(y, "") + brush.blank(columns - (room.width - 1) * (y in lines)) for y in range(rows)
        )
        return ENTER + _HIDE_CURSOR + "".join(f"\x1b[{y};1H{text}" for y, text in enumerate(shown, 1))
    except (RefoldError, OSError):
        # The screen meets the same, and says it.
        return ""


def _first_reading(reader: RunReader) -> tuple[Reading, bool] | None:
    """Give what the screen shows first, and whether it shows the end of it."""
    short = reader.size < LARGE
    until = time.monotonic() + _PATIENCE
    finished = reader.step(_SLICE if short or reader.timeline.items else 0.0)
    while short and not finished:
        if time.monotonic() > until:
            return None
        finished = reader.step(_SLICE)
    reading = reading_of(reader)
    if not finished:
        reading = Reading.of_end(reader) or reading
    if not reading.timeline.rows:
        return None
    return reading, reading.is_window or (finished and is_at_end(reading.timeline))


def _lines(reading: Reading, room: Room, brush: _Brush, *, from_end: bool) -> dict[int, str]:
    """Give the rows in sight by the row of the screen they stand on."""
    rows = reading.rows()
    count = len(rows)
    first = max(0, count - room.height) if from_end else 0
    cursor = count - 1 if from_end else 0
    cells = room.width - 1
    drawn: dict[int, str] = {}
    for y, index in enumerate(range(first, min(count, first + room.height)), room.top):
        mark = Cell(Safe("▌" if index == cursor else " "), "cursor")
        line = (mark, *rows.line(index, max(0, cells - GUTTER)))
        state = "here" if index == cursor else ""
        drawn[y] = brush.line(line, cells, state)
    return drawn


class _Brush:
    """Turns cells into what a terminal draws them by."""

    def __init__(self, settings: Settings, palette: Mapping[str, str]) -> None:
        self._no_color = settings.no_color
        self._ansi = settings.no_color or settings.theme == "refold-ansi"
        self._ascii = settings.ascii
        self._palette = palette
        self._coloured = not settings.no_color and (settings.truecolor or self._ansi)

    def blank(self, cells: int) -> str:
        """Give so many cells of the ground that all stands on."""
        return self._piece(" " * cells, (self._base,))

    def line(self, line: Line, cells: int, state: str) -> str:
        """Give a row of exactly so many cells."""
        over = (self._look(state),) if state else ()
        return "".join(
            self._piece(text, (self._base, self._look(role), *over)) for text, role in filled(line, cells)
        )

    @property
    def _base(self) -> Look:
        return Look("foreground", "background")

    def _look(self, role: str) -> Look:
        return look_of(role, ansi=self._ansi, no_color=self._no_color)

    def _piece(self, text: str, looks: tuple[Look, ...]) -> str:
        shown = FORBIDDEN.sub("", text)
        return self._codes(looks) + (to_ascii(shown) if self._ascii else shown)

    def _codes(self, looks: tuple[Look, ...]) -> str:
        codes = ["0"]
        codes.extend(_WORDS[word] for word in dict.fromkeys(" ".join(look.words for look in looks).split()))
        if self._coloured:
            colour = [look.colour for look in looks if look.colour]
            ground = [look.ground for look in looks if look.ground]
            codes.append(_colour(self._palette[colour[-1]], 30))
            codes.append(_colour(self._palette[ground[-1]], 40))
        return f"\x1b[{';'.join(codes)}m"


def _colour(value: str, base: int) -> str:
    """Give the code of a colour; 30 stands before those of text, 40 before those of the ground."""
    if value.startswith("#"):
        red, green, blue = (int(value[at : at + 2], 16) for at in (1, 3, 5))
        return f"{base + 8};2;{red};{green};{blue}"
    name = value.removeprefix("ansi_")
    if name == "default":
        return str(base + 9)
    bright = name.startswith("bright_")
    return str(base + 60 * bright + _ANSI.index(name.removeprefix("bright_")))


def _is_ours() -> bool:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _write(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        out = sys.__stderr__
        if out is not None:
            out.write(text)
            out.flush()
