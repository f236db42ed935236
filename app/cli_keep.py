"""`refold note`, `tag`, `star` and `name`: what a person keeps about a run; the run itself is not touched."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from refold.app.cli_exit import FINE
from refold.app.cli_print import Printer
from refold.app.cli_redact import redacted
from refold.app.cli_run import Target, find_run, hint_of, item_at, target
from refold.app.lines import Cell, Role
from refold.app.naming import doubts, naming_here
from refold.app.present.kept import NOTED, kept_cells
from refold.app.safe import Safe, line
from refold.app.settings import Settings
from refold.core.errors import StoreError
from refold.core.keeping import BadNote
from refold.core.records import Json
from refold.core.store.keep import (
    Change,
    State,
    noting,
    noting_record,
    record_sha256,
    starring,
    state_of,
    tagging,
)
from refold.core.store.notes import Notes, NotesStore
from refold.core.store.reader import RunReader


def note(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Write, take away or print the note on a run or on one of its records.

    Raises:
        RefoldError: it cannot be a note, the run or record is not there, or the notes cannot be written.
    """
    text = " ".join(arguments.text)
    _require_said(arguments.text, clear=arguments.clear, what="a note")
    _require_one(text, clear=arguments.clear, what="a text")
    wanted = target(arguments.run)
    path = find_run(wanted.run, settings)
    change = None
    if text or arguments.clear:
        change = _record(wanted, path, settings, text) if wanted.place else noting(text)
    return _answer(arguments, path, change, settings, printer, place=wanted.place)


def tag(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Add tags to a run and take others away, or print them.

    Raises:
        RefoldError: one cannot be a tag, the run is not there, or the notes cannot be written.
    """
    add = [word.removeprefix("+") for word in arguments.tags if not word.startswith("-")]
    remove = [word[1:] for word in arguments.tags if word.startswith("-")]
    change = tagging(add, remove, anew=arguments.clear) if arguments.tags or arguments.clear else None
    return _answer(arguments, find_run(arguments.run, settings), change, settings, printer)


def star(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Put a star on runs, or take it away.

    Raises:
        RefoldError: a run is not there, or the notes cannot be written.
    """
    for path in [find_run(run, settings) for run in arguments.runs]:
        _answer(arguments, path, starring(on=not arguments.off), settings, printer)
    return FINE


def name(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Give a run a name, take it away, or print it.

    Raises:
        RefoldError: it cannot be a name, or is the id of another run; the run is not there, or the notes
            cannot be written.
    """
    given = " ".join(arguments.name)
    _require_said(arguments.name, clear=arguments.clear, what="a name")
    _require_one(given, clear=arguments.clear, what="a name")
    path = find_run(arguments.run, settings)
    change = naming_here(given, path, settings) if given or arguments.clear else None
    code = _answer(arguments, path, change, settings, printer)
    if given:
        for doubt in doubts(given, path, settings):
            printer.note(f"refold: {doubt}")
    return code


def _require_said(words: Sequence[str], *, clear: bool, what: str) -> None:
    if words and not clear and not "".join(words).strip():
        raise BadNote(f"{what} needs at least one character", remedy=f"--clear takes {what} away")


def _require_one(text: str, *, clear: bool, what: str) -> None:
    if text and clear:
        raise BadNote(f"--clear takes {what} away: leave out the one or the other")


def _record(wanted: Target, path: Path, settings: Settings, text: str) -> Change:
    with RunReader.open(path, hint=hint_of(path, settings), cache=settings.cache_dir) as reader:
        reader.index_all()
        item = item_at(reader.timeline, wanted.place, wanted.run)
        seq = reader.timeline.seq(item)
        if seq is None or reader.timeline.item_at(seq) != item:
            raise BadNote(
                f"{wanted.run}: only a record with a number of its own carries a note",
                remedy="note the run, and name the line in the text",
            )
        return noting_record(seq, record_sha256(reader, item), text)


def _answer(
    arguments: argparse.Namespace,
    path: Path,
    change: Change | None,
    settings: Settings,
    printer: Printer,
    *,
    place: str = "",
) -> int:
    redacted(arguments, settings, printer)
    store = NotesStore(settings.notes_dir)
    trouble = store.trouble(path)
    notes = store.read(path) if change is None else store.update(path, change)
    if trouble:
        aside = "" if change is None else "; the file was put aside as it was, with the ending .damaged"
        printer.note(f"refold: {store.path_of(path)}: {trouble}{aside}")
    states = _states(path, notes, settings)
    if arguments.json:
        printer.json(_object(path, notes, states))
        return FINE
    if change is None and notes.kept.trouble:
        printer.note(f"refold: {notes.kept.trouble}")
    for row in _lines(path, notes, states, place):
        printer.line(row)
    return FINE


def _states(path: Path, notes: Notes, settings: Settings) -> list[State | None]:
    """Say of each note on a record whether it still speaks of it; None where the run cannot be read."""
    if not notes.records:
        return []
    try:
        with RunReader.open(path, hint=hint_of(path, settings), cache=settings.cache_dir) as reader:
            reader.index_all()
            return [state_of(reader, each) for each in notes.records]
    except StoreError:
        return [None] * len(notes.records)


def _object(path: Path, notes: Notes, states: list[State | None]) -> dict[str, Json]:
    kept = notes.kept
    records: list[Json] = [
        {"seq": each.seq, "note": each.text, "state": state}
        for each, state in zip(notes.records, states, strict=True)
    ]
    return {
        "id": path.name.removesuffix(".json"),
        "path": str(path),
        "star": kept.star,
        "tags": list(kept.tags),
        "name": kept.name or None,
        "note": kept.note or None,
        "records": records,
    }


_SAID = {"changed": "the record has changed: ", "missing": "the record is not there any more: "}


def _lines(path: Path, notes: Notes, states: list[State | None], place: str) -> Iterator[tuple[Cell, ...]]:
    """Say what is kept now: of the run, or of the one record that was named."""
    if not place:
        head = Cell(line(path.name.removesuffix(".json")), "strong")
        said = list(kept_cells(notes.kept, name=True)) or [Cell(Safe("nothing is noted"), "dim")]
        yield (head, Cell(Safe("  ")), *said)
    for each, state in zip(notes.records, states, strict=True):
        if place in ("", str(each.seq)):
            role: Role = "warn" if state in _SAID else "text"
            lead = Cell(Safe(f"  {NOTED} {each.seq}  "), "accent")
            yield (lead, Cell(line(f"{_SAID.get(state or '', '')}{each.text}"), role))
