"""What a search over all runs gives: hits with the line around them, and their order."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Final, NamedTuple

from refold.core.search_record import Document
from refold.core.search_text import Query, Scope

LIMIT: Final = 1000
"""So many hits are kept, those of the newest runs; more words find fewer."""
_BEFORE: Final = 60
_SHOWN: Final = 300
_READ: Final = 1 << 20
"""Characters of one text that are read for the line to show."""


class Hit(NamedTuple):
    """One record, or one message of a manifest, that a query found."""

    run: str
    """The path of the run."""
    file: str
    """The file that holds it."""
    hint: str
    """The format to assume where the bytes do not tell."""
    kind: str
    """assistant, tool_result, tool.completed, message user, damage …"""
    seq: int | None
    """The number that the record carries; None where it has none."""
    start: int
    """The byte at which its line begins; of a manifest or request the number of the message, from 0."""
    scopes: tuple[Scope, ...]
    """Where the words stand."""
    score: float
    text: str
    """The line around the first of the words, cut to what a screen shows."""
    updated_ns: int
    """When the run was written last, in nanoseconds since 1970."""
    number: int
    """The place of the file among those of the run."""

    @property
    def place(self) -> tuple[int, str, int, int]:
        """Where it stands among all that could be found, newest run first."""
        return (-self.updated_ns, self.run, self.number, self.start)

    @property
    def is_of_log(self) -> bool:
        """Whether it is a line of a journal or of an event log, and so a row of the run."""
        return not self.kind.startswith(("message", "request"))


def ranked(hits: Iterable[Hit], limit: int = LIMIT) -> list[Hit]:
    """Give the hits that are kept, best first; of equals the newer one.

    Which ones are kept depends on where they stand alone: the first ones from the newest run on. A message of
    a manifest that shows the same line as an event of its run is left out.
    """
    kept = sorted(hits, key=attrgetter("place"))[:limit]
    shown = {(hit.run, hit.text) for hit in kept if hit.is_of_log}
    kept = [hit for hit in kept if hit.is_of_log or (hit.run, hit.text) not in shown]
    # Both sorts keep the order of equals: the newest run first, and in it what came last.
    kept.sort(key=lambda hit: (hit.place[0], hit.run, -hit.number, -hit.start))
    kept.sort(key=attrgetter("score"), reverse=True)
    return kept


def shown_text(query: Query, document: Document, scopes: tuple[Scope, ...]) -> str:
    """Give the line of a document that shows best why it was found."""
    for scope in scopes:
        for text in document.texts.get(scope, ()):
            place = query.place(text[:_READ])
            if place is not None:
                return _cut(text[place[0] : place[1]].strip("\r\n"), query)
    first = next((text for scope in scopes for text in document.texts.get(scope, ())), "")
    return _cut(first[:_SHOWN].partition("\n")[0], query)


def _cut(line: str, query: Query) -> str:
    line = line.strip()
    found = query.marks.search(line)
    start = max(0, found.start() - _BEFORE) if found is not None and len(line) > _SHOWN else 0
    # A line that fits from the end on is shown to its end.
    start = max(0, min(start, len(line) - _SHOWN))
    shown = line[start : start + _SHOWN]
    return f"{'…' if start else ''}{shown}{'…' if start + _SHOWN < len(line) else ''}"
