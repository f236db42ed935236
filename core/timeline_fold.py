"""What the index remembers between two lines, and the time of a record as a number."""

from __future__ import annotations

from datetime import datetime

import msgspec

RESULTS = "results"
"""The role of a message of results that can still grow."""
_NAN = float("nan")
_STEM, _FRACTION, _REST = (
    len("2026-03-04T09:15:"),
    len("2026-03-04T09:15:30."),
    len("2026-03-04T09:15:30.123"),
)
_SECOND = 1_000_000
_SECONDS = {f"{number:02}.": number * _SECOND for number in range(60)}
_MILLISECONDS = dict(zip(map("{:03}".format, range(1000)), range(0, _SECOND, 1000), strict=True))
_MICROSECONDS = {"Z": 0} | {f"{text}Z": number for number, text in enumerate(_MILLISECONDS)}
"""How a writer spells them; as microseconds."""


class IndexFold(msgspec.Struct):
    """What the builder must remember between two lines."""

    first: bool = True
    """No record that the strict fold would read has been seen."""
    has_meta: bool = False
    last_seq: int = -1
    """Of the strict fold."""
    seen_seq: int = -1
    """Of any row, recovered ones included."""
    assistant: int = -1
    """The item of the open assistant turn; -1 where none is open."""
    waiting: dict[str, list[int]] = {}
    """The calls of the open turn that have no result: id to ordinals."""
    answered: set[str] = set()
    """The ids of the open turn that have a result, those of unknown calls included."""
    left: int = 0
    """How many calls of the open turn have no result."""
    last_role: str = "user"
    """The role of the last message; `RESULTS` while the results message of the open turn can grow."""
    iteration: int | None = None
    completed: bool = False
    """The last terminal record says completed and nothing followed it yet."""
    suspect: tuple[int, int, str] | None = None
    """An unreadable last line: first item after it, line number, reason."""
    llm: int = 0
    """The last entry of the column of this name; those below likewise."""
    results: int = 0
    remote: int = 0
    calls: int = 0
    errors: int = 0
    in_tokens: int = 0
    out_tokens: int = 0
    cache_read: int = 0
    cache_create: int = 0
    messages: int = 1

    def copy(self) -> IndexFold:
        """Give the same, to be gone back to."""
        return msgspec.structs.replace(self, waiting=dict(self.waiting), answered=set(self.answered))


def posix(text: str) -> float:
    """Give a recorded RFC 3339 time as a POSIX time stamp; NaN where it is none."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.timestamp() if moment.tzinfo is not None else _NAN
    except (ValueError, OverflowError, OSError):
        return _NAN


class Clock:
    """Reads times one after the other: those of one minute differ by their seconds only."""

    def __init__(self) -> None:
        self._minute = ""
        self._start = 0
        """When it began, in microseconds."""

    def read(self, text: str) -> float:
        """Give the same as `posix`."""
        try:
            # Looked up, digits need no check: what is not in the tables is no usual time.
            past = _SECONDS[text[_STEM:_FRACTION]] + _MILLISECONDS[text[_FRACTION:_REST]]
            past += _MICROSECONDS[text[_REST:]]
        except KeyError:
            return posix(text)
        minute = text[:_STEM]
        if minute != self._minute:
            start = posix(f"{minute}00Z")
            if start != start:
                return posix(text)
            self._minute, self._start = minute, round(start) * _SECOND
        return (self._start + past) / _SECOND
