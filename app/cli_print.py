"""What the command line prints: lines of safe text with modest colour, or JSON in plain ASCII."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, TextIO, cast

from refold.app.ansi import CODES
from refold.app.glyphs import to_ascii
from refold.app.lines import Cell, Line, Role, cells
from refold.app.safe import Safe, fit, line, width
from refold.app.settings import said_width
from refold.core.errors import RefoldError

if TYPE_CHECKING:
    from refold.core.records import Json
    from refold.core.redact import Redactor


class OutputFailed(Exception):
    """Standard output does not take what was written."""

    def __init__(self, cause: OSError | ValueError) -> None:
        # A stream that the code of an agent has closed answers with a ValueError.
        self.cause = cause if isinstance(cause, OSError) else OSError(errno.EBADF, os.strerror(errno.EBADF))
        super().__init__(f"the output could not be written: {self.cause.strerror}")


class Printer:
    """Writes to standard output and standard error: what leaves has passed `app.safe`, or is ASCII."""

    def __init__(self, *, no_color: bool = False, ascii_only: bool = False) -> None:
        self._out = sys.stdout
        self._error = sys.stderr
        self._ascii = ascii_only
        self._colour = not no_color and is_terminal(self._out)
        self._aside_colour = not no_color and is_terminal(self._error)
        self.redactor: Redactor | None = None
        """What every row and object goes through; None lets them out as they are."""
        self.aside_redactor: Redactor | None = None
        """What progress alone goes through, where the output is let out as it is."""
        self.columns = _columns(self._out)
        """The width that COLUMNS names, else that of the terminal; None without either: nothing is cut."""

    def json(self, value: object) -> None:
        """Print one object on one line: ASCII, so that neither a control character nor half a pair leaves."""
        import json

        if self.redactor is not None:
            value = self.redactor.value(cast("Json", value))
        text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
        self.raw(text.replace("\x7f", r"\u007f") + "\n")

    def let_out(self, text: str) -> str:
        """Redact a text before it is cut, where the output is redacted."""
        return text if self.redactor is None else self.redactor.text(text)

    def line(self, row: Line, *, cut: bool = False) -> None:
        """Print one row; cut it to the terminal's width if asked to, and there is one."""
        if self.redactor is not None:
            let_out = self.redactor.text
            row = tuple(Cell(Safe(let_out(cell.text)), cell.role) for cell in row)
        if cut and self.columns is not None and cells(row) > self.columns:
            row = _cropped(row, self.columns)
        self.raw("".join(self._painted(cell, colour=self._colour) for cell in row).rstrip() + "\n")

    def text(self, text: Safe, role: Role = "text") -> None:
        """Print one row of one role."""
        self.line((Cell(text, role),))

    def raw(self, text: str) -> None:
        """Print text that the program itself made."""
        try:
            self._out.write(text)
        except (OSError, ValueError) as error:
            raise OutputFailed(error) from error

    def error(self, problem: RefoldError | str, subject: str = "") -> None:
        """Say on standard error what is wrong, where, and what can be done."""
        message = line(f"{subject}: {problem}" if subject else str(problem))
        remedy = line(problem.remedy) if isinstance(problem, RefoldError) and problem.remedy else ""
        self._say(f"refold: {message}" + (f" ({remedy})" if remedy else ""))

    def note(self, text: str) -> None:
        """Say on standard error what is no part of the answer."""
        self._say(line(text))

    def aside(self, row: Line) -> None:
        """Print one row on standard error: what happens meanwhile, not what was asked for."""
        self.flush()
        self._print("".join(self._painted(cell, colour=self._aside_colour) for cell in row))

    def flush(self) -> None:
        """Hand everything to the system."""
        try:
            self._out.flush()
        except (OSError, ValueError) as error:
            raise OutputFailed(error) from error

    def _say(self, text: str) -> None:
        self.flush()
        self._print(to_ascii(text) if self._ascii else text)

    def _print(self, text: str) -> None:
        try:
            print(text, file=self._error)
        except ValueError as error:
            raise OutputFailed(error) from error

    def _painted(self, cell: Cell, *, colour: bool) -> str:
        text = to_ascii(cell.text) if self._ascii else cell.text
        code = CODES.get(cell.role) if colour else None
        return f"\x1b[{code}m{text}\x1b[0m" if code and text.strip() else text


def _cropped(row: Line, limit: int) -> Line:
    kept: list[Cell] = []
    left = limit
    for cell in row:
        taken = width(cell.text)
        if taken >= left:
            kept.append(Cell(fit(cell.text, left), cell.role))
            break
        kept.append(cell)
        left -= taken
    return tuple(kept)


def is_terminal(stream: TextIO) -> bool:
    """Say whether a stream leads to a terminal; one that was closed does not."""
    try:
        return stream.isatty()
    except ValueError:
        return False


def _columns(stream: TextIO) -> int | None:
    said = said_width()
    if said:
        return said
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None
