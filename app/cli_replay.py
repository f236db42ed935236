"""`refold replay`: the event log of a run, as its own program reduces it and as we read it."""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from refold.app.cli_exit import FINE, exit_code
from refold.app.cli_print import OutputFailed, Printer
from refold.app.cli_redact import redacted
from refold.app.cli_session import session_of
from refold.app.lines import Cell, Role
from refold.app.safe import line
from refold.core.errors import NotRegular, RunNotFound
from refold.core.records import Json
from refold.core.rivumi.events_state import EventsState
from refold.core.rivumi.reading import read_snapshot
from refold.core.rivumi.replay import ReplayRefused, ReplayState, replay_bytes
from refold.core.rivumi.state_json import calls_json, events_json
from refold.core.rivumi.told import told
from refold.core.store.session_files import read_run

if TYPE_CHECKING:
    from refold.app.settings import Settings
    from refold.core.rivumi.events import Event
    from refold.core.rivumi.snapshot import Part

_LONGEST = 4000
_ROLES: dict[str, Role] = {
    "run": "strong",
    "session": "strong",
    "model": "assistant",
    "tool": "call",
    "approval": "accent",
    "verification": "good",
}


class NoEventLog(NotRegular):
    """The run is one file: there is no event log to replay."""


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Print the replay of a run."""
    if not arguments.canonical:
        redacted(arguments, settings, printer)
    directory = session_of(arguments.run, settings)
    if directory is None:
        raise NoEventLog(
            f"{arguments.run}: this run has no event log", remedy="print its records with refold show"
        )
    if arguments.canonical:
        return _canonical(directory, printer)
    snapshot = read_run(directory)
    reading = read_snapshot(snapshot)
    try:
        data = _bytes(snapshot.events, directory)
    except (NotRegular, RunNotFound) as error:
        if arguments.json:
            said: dict[str, Json] = {
                "error_class": error.error_class,
                "code": "unreadable",
                "error": str(error),
            }
            printer.json({"run": arguments.run, "ok": False, **said})
        raise
    try:
        state = replay_bytes(data)
        digest = hashlib.sha256(state.canonical()).hexdigest()
    except ReplayRefused as refused:
        if arguments.json:
            printer.json({"run": arguments.run, "ok": False, **_why(refused)})
        else:
            _rows(reading.log.events, printer)
            printer.error(refused, arguments.run)
        return exit_code(refused)
    if arguments.json:
        printer.json(_json(arguments.run, state, digest, reading.state))
    else:
        _rows(reading.log.events, printer)
        text = f"{state.event_count} events · {reading.state.phase} · sha256 {digest}"
        printer.line((Cell(line(text), "dim"),))
    return FINE


def _bytes(part: Part, directory: Path) -> bytes:
    if part.state != "read":
        raise (RunNotFound if part.state == "missing" else NotRegular)(
            f"{directory / part.name}: {part.detail or part.state}", remedy="a replay needs the event log"
        )
    return part.data


def _canonical(directory: Path, printer: Printer) -> int:
    """Print the canonical JSON to the byte, without a line end."""
    state = replay_bytes(_bytes(read_run(directory).events, directory))
    text = state.canonical()
    printer.flush()
    if sys.stdout.isatty():
        # Raw text of a run could steer the terminal; the value is the same with every such character escaped.
        printer.json(state.value())
        printer.note("refold: escaped for the terminal; the exact bytes go to a file or a pipe")
        return FINE
    try:
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
    except OSError as error:
        raise OutputFailed(error) from error
    return FINE


def _json(run: str, state: ReplayState, digest: str, events: EventsState) -> dict[str, object]:
    return {
        "run": run,
        "ok": True,
        "replay": state.value(),
        "sha256": digest,
        "events": events_json(events),
        "calls": calls_json(events),
    }


def _why(refused: ReplayRefused) -> dict[str, Json]:
    return {"error_class": refused.error_class, "code": refused.code, "error": str(refused)}


def _rows(events: tuple[Event, ...], printer: Printer) -> None:
    """One event a line, in the order of the file."""
    wide = len(str(max((event.sequence for event in events), default=0)))
    kinds = max((len(event.event_type) for event in events), default=0)
    for event in events:
        role = _ROLES.get(event.event_type.partition(".")[0], "text")
        kind = line(event.event_type)
        printer.line(
            (
                Cell(line(f"{event.sequence:>{wide}}  "), "dim"),
                Cell(kind, role),
                Cell(line(" " * (min(kinds, 40) - len(kind) + 2)), "text"),
                Cell(line(told(event), _LONGEST), "text"),
            ),
            cut=True,
        )
