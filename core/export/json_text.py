"""A run as JSON: one object, or one record a line as the file spells it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from refold.core.export.entries import Entry, Head
from refold.core.records import Json

_NOT_PLAIN: Final = re.compile("[^\x00-\x7e]")
_HALVES: Final = re.compile("[\ud800-\udfff]")

Spelled = Callable[[Entry], Iterator[str] | Entry]
"""Gives the JSON text of a record in pieces, redacted; where it is no JSON the entry with its text."""


def json_object(
    head: Head, entries: Iterable[Entry], spelled: Spelled, end: Callable[[], dict[str, Json]]
) -> Iterator[str]:
    """Give one object piece by piece, all of it ASCII.

    Args:
        head: the facts.
        entries: the records, without what stands in them.
        spelled: the text of a record.
        end: what is known only when all records were written: state, findings, what was redacted.
    """
    facts = {**msgspec.to_builtins(head), "counters": msgspec.to_builtins(head.counters)}
    yield '{"run":' + _dumps(facts) + ',"records":['
    for number, entry in enumerate(entries):
        if number:
            yield ","
        yield "\n" + _dumps(_row(entry))[:-1]
        text = spelled(entry)
        if isinstance(text, Entry):
            yield ', "record": null, "raw": ' + _dumps(text.text) + f', "left": {text.left}}}'
            continue
        yield ', "record": '
        for piece in text:
            yield ascii_only(piece)
        yield ', "raw": null, "left": 0}'
    yield "\n]"
    for name, value in end().items():
        yield f",\n{_dumps(name)}: {_dumps(value)}"
    yield "}\n"


def json_lines(entries: Iterable[Entry], spelled: Spelled, *, ascii_text: bool = False) -> Iterator[str]:
    """Give every record on its line as the file spells it; damage becomes an object that says so."""
    for entry in entries:
        text = spelled(entry)
        if isinstance(text, Entry):
            damage = {**_row(entry), "raw": text.text, "left": text.left}
            yield _dumps({"refold_damage": damage}) + "\n"
            continue
        for piece in text:
            yield ascii_only(piece) if ascii_text else _HALVES.sub(_escaped, piece)
        yield "\n"


def ascii_only(text: str) -> str:
    """Give the same JSON in ASCII without DEL: only strings can hold anything else."""
    return text if text.isascii() and "\x7f" not in text else _NOT_PLAIN.sub(_escaped, text)


def _dumps(value: Json) -> str:
    return json.dumps(value).replace("\x7f", r"\u007f")


def _escaped(found: re.Match[str]) -> str:
    return _dumps(found[0])[1:-1]


def _row(entry: Entry) -> dict[str, Json]:
    return {
        "link": entry.link,
        "seq": entry.seq,
        "kind": entry.kind,
        "line": entry.line,
        "start": entry.start,
        "end": entry.end,
        "turn": entry.turn,
        "seconds": entry.seconds,
        "is_error": entry.is_error,
        "recovered": entry.recovered,
        "problems": [{"code": each.code, "message": each.message} for each in entry.problems],
    }
