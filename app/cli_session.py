"""What the commands do with a run that is a directory of its own."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from refold.app.cli_exit import FINE
from refold.app.cli_print import Printer
from refold.app.cli_run import NoSuchPlace, WrongPlace, find_run
from refold.core.errors import CorruptJournal, NotPermitted, NotRegular, TooLarge, Unreadable
from refold.core.records import Json
from refold.core.store.session_files import read_run
from refold.core.store.session_names import MARKS, is_run_directory

if TYPE_CHECKING:
    from refold.app.settings import Settings
    from refold.core.rivumi.events import Event, EventLog
    from refold.core.rivumi.events_state import EventsState
    from refold.core.rivumi.manifest import Manifest
    from refold.core.rivumi.reading import Reading
    from refold.core.rivumi.snapshot import Snapshot

_PLACE = re.compile(r"#?\d{1,20}")


def session_of(name: str, settings: Settings) -> Path | None:
    """The run directory that a text names, itself or by one of its files; None where it names something else.

    Raises:
        StoreError: there is nothing of that name, or several runs.
    """
    path = find_run(name, settings)
    if path.name in MARKS and not path.is_dir() and is_run_directory(path.parent):
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


def print_state(arguments: argparse.Namespace, directory: Path, name: str, printer: Printer) -> int:
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
        _text(snapshot, directory, state, reading.manifest, amiss, printer, compare=whole)
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
    snapshot: Snapshot,
    directory: Path,
    state: EventsState,
    manifest: Manifest | None,
    amiss: Sequence[str],
    printer: Printer,
    *,
    compare: bool,
) -> None:
    from refold.app.lines import Cell, Role
    from refold.app.safe import line
    from refold.core.rivumi.events_state import differences

    def row(label: str, text: str, role: Role = "text") -> None:
        printer.line((Cell(line(f"{label:<14}"), "dim"), Cell(line(text), role)))

    printer.line((Cell(line(snapshot.name), "strong"), Cell(line(f"  {directory}"), "dim")))
    for problem in amiss:
        row("problem", problem, "problem")
    if manifest is not None:
        row("generation", manifest.generation)
    elif snapshot.manifest.state == "missing" and not state.run_id:
        row("generation", "external")
    row("phase", state.phase)
    row("model", f"{state.provider} {state.model}".strip() or "unknown")
    row("step", str(state.step))
    row("tokens", f"{state.tokens.input} in, {state.tokens.cached} cached, {state.tokens.output} out")
    row("last sequence", str(state.last_sequence))
    for call in state.open_calls:
        row("open", f"{call.name} {call.id}, started at {call.started}, no end recorded", "problem")
    if state.waiting is not None:
        row("waiting", f"{state.waiting.name} {state.waiting.id}".strip(), "warn")
    for check in state.checks:
        row("check", f"{check.name}: {check.state}", "problem" if check.ok is False else "text")
    for one in differences(state, manifest) if manifest is not None and compare else ():
        row("manifest", one.text, "warn")
