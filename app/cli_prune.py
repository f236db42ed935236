"""`refold prune`: moves what a rule names to the trash, or empties it; first it only says so."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from refold.app.cli_exit import FINE, REFUSED
from refold.app.cli_ls import read_runs
from refold.app.cli_print import Printer
from refold.app.cli_redact import redacted
from refold.app.cli_trash import entry_json
from refold.app.lines import Cell
from refold.app.present import units
from refold.app.safe import Safe, line
from refold.app.settings import Settings
from refold.app.trashing import Moved, Moving, is_due, kept_until, leftovers, move, plans_for, trashed
from refold.core.errors import RefoldError
from refold.core.prune import BadRule, PrunePlan, Rule, bytes_of, plan_prune, seconds_of
from refold.core.records import Json
from refold.core.store.notes import NotesStore
from refold.core.store.trash_list import Entry, closed, delete_all
from refold.core.trash import bytes_of as sum_of
from refold.core.trash import encodable, trash_json


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Print what a rule would do, and do it where that is said; 1 where a run that was to go stays.

    Raises:
        RefoldError: the rule is none.
    """
    redacted(arguments, settings, printer)
    if arguments.trash:
        return _empty(arguments, settings, printer)
    rule = Rule(
        seconds_of(arguments.older_than) if arguments.older_than else 0.0,
        bytes_of(arguments.larger_than) if arguments.larger_than else 0,
        starred=not arguments.keep_starred,
        noted=arguments.with_notes,
    )
    words = [*arguments.filter, *([f"status:{arguments.status}"] if arguments.status else [])]
    if not words and not rule.older_than and not rule.larger_than:
        raise BadRule(
            "say which runs: all of them is no rule",
            remedy="for example --older-than 30d, --larger-than 1GB, --status completed, or a filter",
        )
    now = time.time()
    runs = read_runs(words, settings, now)
    plan = plan_prune(runs.shown(), runs.every(), rule, now)
    forks = {taken.run.id: taken.forks for taken in plan.taken}
    movings = list(plans_for([taken.run for taken in plan.taken], forks))
    results = list(move(movings)) if arguments.yes else None
    if arguments.json:
        printer.json(_object(plan, movings, results))
    else:
        _print(plan, movings, results, now, printer)
    stay = any(moved.error for moved in results) if results is not None else False
    return REFUSED if stay else FINE


def _object(plan: PrunePlan, movings: Sequence[Moving], results: Sequence[Moved] | None) -> dict[str, Json]:
    errors = [moved.error for moved in results] if results is not None else [None] * len(movings)
    runs: list[Json] = [
        {
            **trash_json(moving.plan),
            "moved": results is not None and error is None,
            "error": None if error is None else encodable(str(error)),
        }
        for moving, error in zip(movings, errors, strict=True)
    ]
    spared: list[Json] = [
        {"id": encodable(each.run.id), "path": encodable(each.run.path), "why": each.why}
        for each in plan.spared
    ]
    return {
        "done": results is not None,
        "bytes": sum_of(moving.plan for moving in movings),
        "runs": runs,
        "spared": spared,
    }


def _print(
    plan: PrunePlan, movings: Sequence[Moving], results: Sequence[Moved] | None, now: float, printer: Printer
) -> None:
    errors: list[RefoldError | None] = [None] * len(movings)
    if results is not None:
        errors = [moved.error for moved in results]
    for moving, error in zip(movings, errors, strict=True):
        found, row = moving.plan.found, moving.run
        stays = error is not None or moving.plan.refused
        said = f"  {row.status}  {units.ago(now - row.updated)}  {units.size(found.bytes)}"
        printer.line((Cell(line(row.kept.name or row.id), "strong"), Cell(line(said), "dim")))
        if stays:
            printer.text(line(f"  stays: {error or moving.plan.sentence}"), "problem")
        for remark in moving.plan.remarks:
            printer.text(line(f"  {remark}"), "warn")
    for each in plan.spared:
        printer.line(
            (Cell(line(each.run.kept.name or each.run.id)), Cell(line(f"  spared: {each.why}"), "dim"))
        )
    size = units.size(
        sum_of(moving.plan for moving, error in zip(movings, errors, strict=True) if error is None)
    )
    count = units.plural(sum(error is None and not moving.plan.refused
                             for moving, error in zip(movings, errors, strict=True)), "run")  # fmt: skip
    if results is None:
        printer.note(f"{count}, {size}, would move to the trash; nothing was moved: --yes does it")
    else:
        printer.note(f"{count}, {size}, moved to the trash; 'refold restore ID' puts one back")


def _empty(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Delete for good what lies in the trash for long enough; 1 where something of it stays."""
    now = time.time()
    older = seconds_of(arguments.older_than) if arguments.older_than else None
    lying = trashed(settings)
    going = [entry for entry in lying if _is_meant(entry, older, settings, now)]
    left = leftovers(settings, now)
    errors: dict[str, RefoldError] = {entry.path: closed(entry) for entry in lying if entry.state == "closed"}
    if arguments.yes:
        notes = NotesStore(settings.notes_dir)
        errors |= delete_all(left) | delete_all(going, notes)
    gone = [entry for entry in going if entry.path not in errors]
    size = sum(entry.bytes for entry in gone)
    if arguments.json:

        def done(entry: Entry) -> dict[str, Json]:
            error = errors.get(entry.path)
            deleted = arguments.yes and error is None
            return {"deleted": deleted, "error": None if error is None else encodable(str(error))}

        rows: list[Json] = [
            {**entry_json(entry, kept_until(entry, settings)), **done(entry)} for entry in going
        ]
        rest: list[Json] = [{"path": encodable(entry.path), **done(entry)} for entry in left]
        printer.json({"done": arguments.yes, "bytes": size, "entries": rows, "leftovers": rest})
    else:
        for entry in going:
            said = f"  {entry.time[:10]}  {units.size(entry.bytes)}  {entry.status}"
            printer.line((Cell(line(entry.name), "strong"), Cell(line(said), "dim")))
            if entry.path in errors:
                printer.text(Safe("  stays, whole or in part"), "problem")
        for entry in left:
            printer.line(
                (Cell(line(entry.path), "strong"), Cell(Safe("  left behind, nothing in it"), "dim"))
            )
        count = units.plural(len(gone), "run")
        if left:
            swept = sum(entry.path not in errors for entry in left)
            count = f"{count} and {units.plural(swept, 'empty directory', 'empty directories')}"
        happens = "deleted for good" if arguments.yes else "would be deleted for good; --yes does it"
        printer.note(f"{count}, {units.size(size)}, {happens}")
    for problem in errors.values():
        printer.error(problem)
    return REFUSED if errors else FINE


def _is_meant(entry: Entry, older: float | None, settings: Settings, now: float) -> bool:
    if older is None or entry.state == "deleting":
        return is_due(entry, settings, now)
    until = kept_until(entry, settings)
    moved = None if until is None else until.timestamp() - settings.trash_days * 86_400
    return moved is not None and now - moved >= older
