"""`refold trash` and `refold restore`: runs out of the way, and back."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from refold.app.cli_exit import FINE, REFUSED
from refold.app.cli_ls import read_runs
from refold.app.cli_print import Printer
from refold.app.cli_redact import redacted
from refold.app.cli_run import find_run
from refold.app.lines import Cell
from refold.app.present import units
from refold.app.safe import line
from refold.app.settings import Settings
from refold.app.trashing import Moved, Moving, fork_ids, is_due, kept_until, move, plans_for, trashed
from refold.core.errors import AmbiguousRun, RefoldError, RunNotFound
from refold.core.keeping import TRASH
from refold.core.pasted import pasted
from refold.core.records import Json
from refold.core.store.files import shown
from refold.core.store.trash_list import Entry, closed, restore
from refold.core.summary import RunSummary
from refold.core.trash import bytes_of, encodable, trash_json

_ID = 40


class NoRun(RefoldError):
    """No run was named."""


def trash(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Move runs to the trash, say what that would be, or list what lies there; 1 where a run stays.

    Raises:
        RefoldError: a run is not there, or none was named.
    """
    redacted(arguments, settings, printer)
    if arguments.list:
        return _list(settings, printer, as_json=arguments.json)
    if not arguments.runs:
        raise NoRun("name the runs to move", remedy="'refold trash --list' shows what was moved")
    paths = [find_run(run, settings) for run in arguments.runs]
    every = read_runs((), settings, time.time()).every()
    known = {str(Path(run.path).absolute()): run for run in every}
    runs = [known.get(str(path.absolute()), _unknown(path)) for path in paths]
    movings = list(plans_for(runs, fork_ids(every, runs)))
    if arguments.plan:
        return tell_plans(movings, printer, as_json=arguments.json)
    return tell_moved(list(move(movings)), settings, printer, as_json=arguments.json)


def put_back(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Put runs back, or list what lies in the trash.

    Raises:
        RefoldError: there is no such entry, there are several, or it cannot be put back.
    """
    redacted(arguments, settings, printer)
    if not arguments.ids:
        return _list(settings, printer, as_json=arguments.json)
    for entry in [find_entry(text, trashed(settings)) for text in arguments.ids]:
        path = restore(entry)
        if arguments.json:
            printer.json({"id": encodable(entry.id), "path": shown(path)})
        else:
            printer.text(line(f"{entry.id} is back: {path}"))
    return FINE


def find_entry(text: str, found: Sequence[Entry]) -> Entry:
    """Give the entry that a text names: by its own name, by id or name of the run, or by a start.

    Raises:
        RunNotFound: there is none.
        AmbiguousRun: there are several.
        NotPermitted: there is none that is seen, and a trash cannot be looked into.
    """
    for matches in (
        [entry for entry in found if entry.name == text],
        [entry for entry in found if entry.id == text],
        [entry for entry in found if entry.called.casefold() == text.casefold()],
        [entry for entry in found if entry.name.startswith(text)],
    ):
        if len(matches) == 1:
            return matches[0]
        if matches:
            names = tuple(entry.name for entry in matches)
            raise AmbiguousRun(f"{text!r} names {len(names)} in the trash: {', '.join(names[:8])}", names)
    shut = next((entry for entry in found if entry.state == "closed" and entry.name == TRASH), None)
    if shut is not None:
        raise closed(shut)
    raise RunNotFound(f"no {text!r} in the trash", remedy="'refold trash --list' shows what is there")


def tell_plans(movings: Sequence[Moving], printer: Printer, *, as_json: bool) -> int:
    """Print what moving runs would be; 1 where one of them stays."""
    for moving in movings:
        plan = moving.plan
        if as_json:
            printer.json(trash_json(plan))
            continue
        printer.line((Cell(line(plan.sentence), "problem" if plan.refused else "text"),))
        if not plan.refused:
            for part in plan.found.parts:
                printer.text(line(f"  {part.name}  {units.size(part.size)}"), "dim")
            printer.text(line(f"  to {plan.target.rpartition('/')[0]}"), "dim")
        for remark in plan.remarks:
            printer.text(line(f"  {remark}"), "warn")
    refused = sum(moving.plan.refused for moving in movings)
    if not as_json:
        size = units.size(bytes_of(moving.plan for moving in movings))
        printer.note(
            f"{units.plural(len(movings) - refused, 'run')} of {size} would move, {refused} would stay"
        )
    return REFUSED if refused else FINE


def tell_moved(results: Sequence[Moved], settings: Settings, printer: Printer, *, as_json: bool) -> int:
    """Print what came of plans; 1 where a run stays."""
    for moved in results:
        plan = moved.moving.plan
        if as_json:
            problem: Json = None if moved.error is None else encodable(str(moved.error))
            printer.json({**trash_json(plan), "moved": moved.error is None, "error": problem})
        elif moved.error is not None:
            printer.error(moved.error)
        else:
            known = any(str(root.path) == plan.found.root for root in settings.roots)
            command = pasted("refold", "restore", plan.id, *(() if known else ("--root", plan.found.root)))
            back = f"; to put it back: {command}" if command else ""
            printer.line((Cell(line(plan.id), "strong"), Cell(line(f" is in the trash{back}"))))
            if not moved.durable:
                printer.note("refold: moved, but the disk has not confirmed it")
    return REFUSED if any(moved.error for moved in results) else FINE


def _list(settings: Settings, printer: Printer, *, as_json: bool) -> int:
    found = trashed(settings)
    now = time.time()
    for entry in found:
        when = f"{entry.time[:16].replace('T', ' ')} UTC" if entry.time else "when is not known"
        if as_json:
            printer.json(entry_json(entry, kept_until(entry, settings)))
            continue
        printer.line(
            (
                Cell(line(entry.name, _ID), "strong"),
                *((Cell(line(f"  {entry.called}", _ID), "strong"),) if entry.called else ()),
                Cell(line(f"  {when}  {units.size(entry.bytes)}  ")),
                Cell(line(said_of(entry, settings, now)), "dim" if entry.state == "whole" else "warn"),
                Cell(line(f"  {printer.let_out(entry.prompt)}", 100), "dim"),
            )
        )
    if not found and not as_json:
        printer.note("the trash is empty")
    return FINE


def said_of(entry: Entry, settings: Settings, now: float) -> str:
    """Say in a few words what can be done with an entry."""
    odd = {
        "part": "a part never left: a restore puts the rest back",
        "unknown": "its manifest cannot be read: a restore puts back what is here",
        "newer": "a newer Refold put it there",
        "closed": f"cannot be looked into: {closed(entry).remedy}",
        "deleting": "its deletion was cut short: 'refold prune --trash' goes on with it",
    }
    if entry.state in odd:
        return odd[entry.state]
    if is_due(entry, settings, now):
        return "may be deleted"
    until = kept_until(entry, settings)
    return "" if until is None else f"kept until {until:%Y-%m-%d}"


def entry_json(entry: Entry, until: datetime | None) -> dict[str, Json]:
    """Give an entry as `refold trash --list --json` prints it."""
    return {
        "id": encodable(entry.id),
        "name": encodable(entry.name),
        "called": encodable(entry.called) or None,
        "state": entry.state,
        "path": encodable(entry.path),
        "home": encodable(entry.home),
        "time": entry.time or None,
        "kept_until": None if until is None else until.isoformat().replace("+00:00", "Z"),
        "bytes": entry.bytes,
        "status": encodable(entry.status),
        "prompt": encodable(entry.prompt),
    }


def _unknown(path: Path) -> RunSummary:
    """Stand for a run outside of all directories that are looked at."""
    return RunSummary(path.name.removesuffix(".json"), str(path.absolute()))
