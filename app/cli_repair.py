"""`refold repair`: puts right what a crash left behind the last record of a run, and back."""

from __future__ import annotations

import argparse
from pathlib import Path

from refold.app.agents import PROGRAM, spelled
from refold.app.cli_exit import FINE, REFUSED
from refold.app.cli_print import Printer
from refold.app.cli_redact import redacted
from refold.app.cli_run import open_run
from refold.app.lines import Cell
from refold.app.present import units
from refold.app.safe import Safe, line
from refold.app.settings import Settings
from refold.core.errors import FoldError
from refold.core.records import Json
from refold.core.repair import RepairPlan
from refold.core.store.notes import NotesStore
from refold.core.store.repair import plan_for, repair, undo


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Repair the end of a run, or print what a repair would do; 1 where the damage is deeper.

    Raises:
        FoldError: the damage is deeper than a torn tail; not raised for a plan.
        Refused: there is nothing that could be put back.
        StoreError: the run is not there, held by a process, or cannot be written.
    """
    redacted(arguments, settings, printer)
    with open_run(arguments.run, settings) as reader:
        path, format_name = reader.path.absolute(), reader.format.name
        if not arguments.undo:
            try:
                plan = plan_for(reader)
            except FoldError as error:
                if not arguments.plan or not arguments.json:
                    raise
                reason: Json = {"code": error.error_class, "message": str(error)}
                printer.json({"outcome": "refuse", "reasons": [reason], **_answer(arguments.run, path, None)})
                return REFUSED
    if arguments.undo:
        return _undo(arguments, path, settings, printer)
    if plan is not None and not arguments.plan:
        noted = repair(plan, format_name, notes=NotesStore(settings.notes_dir))
        if not noted:
            printer.note("refold: repaired, but that could not be noted")
    if arguments.json:
        before: dict[str, Json] = {"outcome": "accept", "reasons": []} if arguments.plan else {}
        printer.json({**before, **_answer(arguments.run, path, plan)})
    else:
        _print(path, arguments.run, plan, printer, done=not arguments.plan)
    return FINE


def _undo(arguments: argparse.Namespace, path: Path, settings: Settings, printer: Printer) -> int:
    undone = undo(path, notes=NotesStore(settings.notes_dir))
    if arguments.json:
        answer = _answer(arguments.run, path, None)
        answer |= {"action": "undo", "side_file": undone.side_file, "torn_bytes": undone.torn_bytes}
        printer.json(answer)
    else:
        size = units.size(undone.torn_bytes)
        printer.text(line(f"{path.name}: {size} from {undone.side_file} are back at the end"))
    return FINE


def _answer(name: str, path: Path, plan: RepairPlan | None) -> dict[str, Json]:
    return {
        "run": name,
        "path": str(path),
        "action": "none" if plan is None else plan.action,
        "code": None if plan is None else plan.code,
        "keep": None if plan is None else plan.keep,
        "torn_bytes": 0 if plan is None else plan.torn_bytes,
        "last_seq": None if plan is None else plan.last_seq,
        "side_file": None if plan is None else plan.side_file or None,
    }


def _print(path: Path, run: str, plan: RepairPlan | None, printer: Printer, *, done: bool) -> None:
    name = Cell(line(path.name), "strong")
    if plan is None:
        printer.line((name, Cell(Safe(": the end is clean, nothing to repair"))))
        verify = spelled((PROGRAM, "verify", run))
        printer.note(f"refold: only the end was looked at; {verify} looks at every record")
        return
    printer.line((name, Cell(line(f": {plan.sentence}"))))
    if done:
        undone = spelled((PROGRAM, "repair", run, "--undo"))
        back = f"; {undone} puts them back" if plan.action == "cut" else ""
        printer.text(line(f"done{back}"), "dim")
