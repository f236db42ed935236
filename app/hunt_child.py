"""The process that looks for a regular expression, or for words, in the records of a run.

An expression can take longer than anybody waits, on few characters, and nothing can stop it from another
thread. Here an alarm does, after a second on one record. Words are found as by the search of all runs: for
that records are taken apart, and a large one takes longer than a screen may wait.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Final, TypeAlias

import msgspec

from refold.app.own_child import Parent
from refold.core.errors import StoreError
from refold.core.records import Json
from refold.core.search_record import read_line
from refold.core.search_text import QueryError, parse_query
from refold.core.store.files import open_regular
from refold.core.store.search_source import LONGEST as LINE
from refold.core.texts import Crowded, decoded, readable_texts

LIMIT: Final = 1.0
"""Seconds that an expression may take on one record."""
LONGEST: Final = 8 << 20
"""Of a record above this many bytes the beginning is searched."""
_KEPT: Final = 4
"""So many different texts of one record are told, to be marked where they stand."""
_SHOWN: Final = 200


class Task(msgspec.Struct, frozen=True):
    """What is said first."""

    file: str
    device: int
    inode: int
    expression: str | None = None
    words: str | None = None
    """A query of the search of all runs, where there is no expression."""


class Spans(msgspec.Struct, frozen=True):
    """Records to look at: item, first byte, and the byte after the last."""

    spans: list[tuple[int, int, int]]


class Matches(msgspec.Struct, frozen=True):
    """What was found in them."""

    found: list[tuple[int, list[str]]] = []
    """The items that match, and what an expression matched in each."""
    slow: int | None = None
    """The item on which it took too long; nothing after it was looked at."""
    problem: str = ""
    """Why nothing can be looked for."""


_Finds: TypeAlias = "Callable[[int, int, int], list[str] | None]"
"""Looks at a record in an open file, from its first byte to behind its last; None where it is no match."""


class _TooLong(Exception):
    """An alarm went off."""


def compiled(expression: str) -> re.Pattern[str]:
    """Understand an expression: case does not matter, `^` and `$` stand at the ends of lines.

    Raises:
        ValueError: it is none, or it matches nothing at all, which stands everywhere.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pattern = re.compile(expression, re.IGNORECASE | re.MULTILINE)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"/{expression}/ is no regular expression: {error}") from error
    if pattern.search("") is not None:
        raise ValueError(f"/{expression}/ matches where nothing stands, and so everywhere")
    return pattern


def main() -> None:
    """Look for the process that started this one."""
    parent = Parent()
    task = msgspec.convert(parent.hear(), Task)
    signal.signal(signal.SIGALRM, _ring)
    problem = ""
    fd = -1
    finds: _Finds = _nothing
    try:
        signal.setitimer(signal.ITIMER_REAL, LIMIT)
        finds = _by_words(task.words or "") if task.expression is None else _by_expression(task.expression)
    except (ValueError, QueryError) as error:
        problem = str(error)
    except _TooLong:
        problem = f"/{task.expression}/ takes too long to be understood"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if not problem:
        try:
            fd = open_regular(Path(task.file))
            found = os.fstat(fd)
            if (found.st_dev, found.st_ino) != (task.device, task.inode):
                problem = "the file of the run was replaced"
        except (StoreError, OSError) as error:
            problem = str(error)
    _say(parent, Matches(problem=problem))
    while not problem:
        _say(parent, _look(fd, finds, msgspec.convert(parent.hear(), Spans)))
    parent.hear()


def _nothing(fd: int, start: int, end: int) -> None:
    del fd, start, end


def _by_words(words: str) -> _Finds:
    """Give what finds the records that a query of the search of all runs finds.

    Raises:
        QueryError: there is no word in it.
    """
    query = parse_query(words)

    def finds(fd: int, start: int, end: int) -> list[str] | None:
        line = os.pread(fd, min(end - start, LINE), start)
        return [] if query.possible(line) and query.match(read_line(line).texts) is not None else None

    return finds


def _by_expression(expression: str) -> _Finds:
    """Give what finds the records that an expression matches, each within the time that it has.

    Raises:
        ValueError: it is none.
    """
    pattern = compiled(expression)

    def finds(fd: int, start: int, end: int) -> list[str] | None:
        data = os.pread(fd, min(end - start, LONGEST), start)
        signal.setitimer(signal.ITIMER_REAL, LIMIT)
        texts = _matches(pattern, data)
        signal.setitimer(signal.ITIMER_REAL, 0)
        return texts or None

    return finds


def _look(fd: int, finds: _Finds, task: Spans) -> Matches:
    found: list[tuple[int, list[str]]] = []
    item = -1
    try:
        for item, start, end in task.spans:
            texts = finds(fd, start, end)
            if texts is not None:
                found.append((item, texts))
    except _TooLong:
        return Matches(found, slow=item)
    except OSError as error:
        return Matches(found, problem=f"the run cannot be read: {error.strerror or error}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return Matches(found)


def _matches(pattern: re.Pattern[str], data: bytes) -> list[str]:
    """Give some of what an expression matches in a record, each once; empty where it matches nothing."""
    kept: dict[str, None] = {}
    for text in _texts(data):
        for match in pattern.finditer(text):
            if match.start() == match.end():
                continue
            line = match[0].strip("\n").partition("\n")[0][:_SHOWN]
            kept[line or match[0][:1]] = None
            if len(kept) >= _KEPT:
                return list(kept)
    return list(kept)


def _texts(data: bytes) -> Iterator[str]:
    try:
        value = decoded(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, Crowded):
        yield data.decode("utf-8", "replace")
    else:
        yield from readable_texts(value)


def _ring(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise _TooLong


def _say(parent: Parent, said: Matches) -> None:
    plain: Json = msgspec.to_builtins(said)
    parent.tell(plain)


if __name__ == "__main__":
    main()
    sys.exit(0)
