"""What the commands do with a run that is a directory of its own."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from refold.app.bundles import told_path
from refold.app.cli_exit import FINE
from refold.app.cli_print import Printer
from refold.app.cli_redact import count
from refold.app.cli_run import NoSuchPlace, WrongPlace, find_run
from refold.core.errors import CorruptJournal, NotPermitted, NotRegular, TooLarge, Unreadable
from refold.core.records import Json
from refold.core.store.files import is_directory
from refold.core.store.reader import RunReader
from refold.core.store.session_files import read_run
from refold.core.store.session_names import MARKS, is_run_directory

if TYPE_CHECKING:
    from refold.app.lines import Line
    from refold.app.present.rows import TimelineRows
    from refold.app.settings import Settings
    from refold.core.rivumi.events import Event, EventLog
    from refold.core.rivumi.reading import Reading
    from refold.core.rivumi.snapshot import Snapshot

_COLUMNS = 100
_LAST = 6
"""Events that stand below a state."""
_PLACE = re.compile(r"#?\d{1,20}")


def session_of(name: str, settings: Settings) -> Path | None:
    """The run directory that a text names, itself or by one of its files; None where it names something else.

    Raises:
        StoreError: there is nothing of that name, or several runs.
    """
    path = find_run(name, settings)
    if path.name in MARKS and not is_directory(path) and is_run_directory(path.parent):
        return path.parent
    return path if is_run_directory(path) else None


def events_to(log: EventLog, place: str | None, run: str) -> tuple[Event, ...]:
    """The events of a log up to a place, inclusive, in the order of the file.

    Raises:
        WrongPlace: the place is neither a number nor `#` and a number.
        NoSuchPlace: nothing stands there.
    """
    if place is None:
        return log.events
    if not _PLACE.fullmatch(place):
        raise WrongPlace(f"{place!r} is no place in a run", remedy="a sequence number, or '#LINE' for a line")
    number, by_line = int(place.removeprefix("#")), place.startswith("#")
    for at, event in enumerate(log.events):
        if number == (event.line if by_line else event.sequence):
            return log.events[: at + 1]
    if by_line:
        raise NoSuchPlace(f"{run}: no event stands on line {number}")
    numbers = sorted({event.sequence for event in log.events})
    below, above = [n for n in numbers if n < number], [n for n in numbers if n > number]
    near = "; there is no event at all"
    if below and above:
        near = f"; its neighbours are {below[-1]} and {above[0]}"
    elif numbers:
        near = f"; the last one is {below[-1]}" if below else f"; the first one is {above[0]}"
    raise NoSuchPlace(f"{run}: no event has sequence {number}{near}")


def print_state(
    arguments: argparse.Namespace, directory: Path, name: str, printer: Printer, settings: Settings
) -> int:
    """Print what the events of a run prove and what its manifest claims.

    Raises:
        CorruptJournal: a line before the place cannot be read, and the state is not to be salvaged.
        WrongPlace: the place is none.
        StoreError: the log cannot be read, or nothing stands at the place.
    """
    from refold.core.rivumi.events_state import events_state
    from refold.core.rivumi.reading import read_snapshot
    from refold.core.rivumi.state_json import run_json

    snapshot = read_run(directory)
    if snapshot.events.state not in {"read", "missing"}:
        part = snapshot.events
        kind = {"not_permitted": NotPermitted, "too_large": TooLarge, "unreadable": Unreadable}
        raise kind.get(part.state, NotRegular)(
            f"{directory / part.name}: {part.detail}", remedy="the state needs the event log"
        )
    reading = read_snapshot(snapshot)
    log = reading.log
    chosen = events_to(log, arguments.at, name)
    whole = len(chosen) == len(log.events)
    bad = log.bad[0] if log.bad else None
    if bad is not None and not arguments.salvage and (whole or bad.line < chosen[-1].line):
        raise CorruptJournal(f"line {bad.line}: {bad.reason}", line=bad.line)
    state = reading.state if whole else events_state(chosen)
    amiss = _amiss(snapshot, reading)
    if arguments.json:
        shown = run_json(snapshot.name, state, reading.manifest, compare=whole)
        answer: dict[str, Json] = {"run": name, "ok": True, "state": shown, "problems": list(amiss)}
        printer.json(answer)
    else:
        known = None if whole else chosen[-1].line
        external = snapshot.manifest.state == "missing" and not state.run_id
        _text(directory, known, amiss, printer, settings, is_external=external)
    return FINE


def _amiss(snapshot: Snapshot, reading: Reading) -> tuple[str, ...]:
    """Say what is wrong with the two files from which a state is read."""
    from refold.core.rivumi.reading import is_external

    said = []
    if snapshot.manifest.state != "missing" and reading.manifest is None:
        said.append(f"session.json cannot be read: {reading.manifest_problem}")
    elif reading.manifest is None and not is_external(snapshot, reading):
        said.append("session.json is missing: nothing tells what its own program believes")
    version = None if reading.manifest is None else reading.manifest.raw.get("schema_version")
    if version not in {None, 1}:
        said.append(f"session.json is of version {version}; what it says is read as version 1")
    if snapshot.events.state == "missing":
        said.append("events.jsonl is missing: nothing is proven")
    return tuple(said)


def _text(
    directory: Path,
    line_of_end: int | None,
    said: Sequence[str],
    printer: Printer,
    settings: Settings,
    *,
    is_external: bool,
) -> None:
    """Print the State pane, as for a journal, and the last events.

    Args:
        directory: The run.
        line_of_end: The line of the last event that counts; None for all of them.
        said: What has to be known about its files first.
        printer: Where to.
        settings: Of prices and of the cache.
        is_external: Neither its log nor a manifest names the run.
    """
    from refold.app.lines import Cell
    from refold.app.present.reading import reading_of
    from refold.app.safe import line

    width = printer.columns or _COLUMNS
    with RunReader.open(directory, cache=settings.cache_dir) as reader:
        timeline = reader.index_all()
        found = None if line_of_end is None else timeline.item_at_line(line_of_end)
        item = timeline.items - 1 if found is None else found
        reading = reading_of(reader)
        if printer.redactor is not None:
            from refold.app.present.lens import Lens

            reading.lens = Lens(reader, printer.redactor.allow)
        printer.line((Cell(line(directory.name), "strong"), Cell(line(f"  {told_path(directory)}"), "dim")))
        for text in said:
            printer.line((Cell(line(text), "problem"),))
        if is_external:
            printer.line((Cell(line("generation external: another program wrote it"), "dim"),))
        rows = reading.rows()
        lines = [*reading.state(item, width, prices=settings.prices or None), *_last(rows, item, width)]
        for each in (each for each in lines if each is not None):
            count(each, printer)
            printer.line(each)


def _last(rows: TimelineRows, item: int, width: int) -> Iterator[Line]:
    """Give the rows of the last events up to an item, under a heading."""
    from refold.app.lines import Cell
    from refold.app.safe import Safe

    if item >= 0:
        yield ()
        yield (Cell(Safe("Last events"), "strong"),)
        yield from (rows.line(at, width) for at in range(max(0, item + 1 - _LAST), item + 1))
