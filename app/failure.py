"""The error door: what the reader is told when the program itself is at fault."""

from __future__ import annotations

from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import Final

from rich.text import Text

from refold.app import safe
from refold.app.log import record_fault
from refold.app.safe import Safe
from refold.core.errors import RefoldError

_MESSAGE: Final = 400


class Fault(Exception):
    """An unhandled error, ready to be printed where the screen was: no variables, no text of a run."""

    def __init__(self, report: Safe) -> None:
        super().__init__(report)
        self.report = report

    def __rich__(self) -> Text:
        """The report, as text and nothing else."""
        return Text(self.report)


def fault(error: BaseException, log_file: Path | None) -> Fault:
    """Log where the error arose and say so in a few sentences."""
    said = [f"Refold has met a fault of its own and had to stop: {_named(error)}."]
    place = _place(error)
    if place:
        said.append(f"It arose in {place}.")
    log = record_fault(log_file, error)
    if log is not None:
        said.append(f"Details, without any text of a run: {safe.line(str(log))}")
    else:
        said.append("The details could not be logged.")
    return Fault(Safe("\n".join(said)))


def words(error: BaseException) -> tuple[Safe, Safe]:
    """What happened and what can be done about it, for a notice.

    Only our own errors are quoted: the text of any other may hold text of a run.
    """
    if isinstance(error, RefoldError):
        return safe.line(str(error), _MESSAGE), safe.line(error.remedy, _MESSAGE)
    return _named(error), safe.EMPTY


def _named(error: BaseException) -> Safe:
    """The kind of the error, and its text where the text is ours."""
    name = safe.line(type(error).__name__)
    if isinstance(error, RefoldError):
        return Safe(f"{name}: {safe.line(str(error), _MESSAGE)}")
    if isinstance(error, OSError) and error.strerror:
        return Safe(f"{name}: {safe.line(error.strerror)}")
    return name


def _place(error: BaseException) -> Safe:
    """The innermost line of code, and the innermost one of ours where that is another."""
    if error.__traceback__ is None:
        return safe.EMPTY
    frames = list(walk_tb(error.__traceback__))
    own = [pair for pair in frames if pair[0].f_globals.get("__name__", "").startswith("refold.")]
    said = dict.fromkeys(_line(frame, number) for frame, number in (frames[-1], *own[-1:]))
    return Safe(", called from ".join(said))


def _line(frame: FrameType, number: int) -> Safe:
    code = frame.f_code
    return safe.line(f"{Path(code.co_filename).name}, line {number}, {code.co_name}")
