"""`refold ls`: the list of runs, as text or as one object a line."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Final

from refold.app import safe
from refold.app.cli_exit import FINE
from refold.app.cli_print import Printer
from refold.app.lines import Cell, Line, Role
from refold.app.present import units
from refold.app.present.status import status_cell
from refold.app.safe import Safe
from refold.app.settings import Settings
from refold.core.filter import Filter, parse_filter
from refold.core.store.catalog import Catalog
from refold.core.store.roots import RootReport
from refold.core.summary import RunSummary, summary_json

_LONGEST_ID: Final = 40
_LONGEST_MODEL: Final = 16
_LONGEST_PROMPT: Final = 400
_STATUS: Final = 16


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Print the runs that a filter lets through, newest first."""
    now = time.time()
    wanted = parse_filter(" ".join(map(_quoted, arguments.filter)), now)
    catalog = Catalog(settings.roots, cache=settings.cache_dir)
    rows: dict[str, RunSummary] = {}
    for item in catalog.scan():
        if isinstance(item, RunSummary) and item.complete:
            rows[item.path] = item
    catalog.close()
    newest = sorted(rows.values(), key=lambda row: (-row.updated, row.path))
    shown = [row for row in newest if _passes(row, wanted)]
    if arguments.json:
        for row in shown:
            printer.json(summary_json(row))
        return FINE
    if shown:
        _table(shown, now, printer)
    hidden = len(newest) - len(shown)
    if hidden:
        printer.note(f"{units.plural(hidden, 'run')} hidden by the filter")
    elif not newest:
        _nothing(catalog.roots_report(), printer)
    return FINE


def _quoted(word: str) -> str:
    """A word of the shell as a term of the filter: what the shell took the quotes from is still one term."""
    if '"' in word or not any(character.isspace() for character in word):
        return word
    key, colon, value = word.partition(":")
    if colon and key.lstrip("-").isalpha():
        return f'{key}:"{value}"'
    return f'-"{word[1:]}"' if word.startswith("-") else f'"{word}"'


def _passes(row: RunSummary, wanted: Filter) -> bool:
    return wanted.matches(row)


def _table(rows: Sequence[RunSummary], now: float, printer: Printer) -> None:
    ids = [safe.line(row.id, _LONGEST_ID) for row in rows]
    models = [safe.line(row.model, _LONGEST_MODEL) for row in rows]
    id_width = max(map(safe.width, (*ids, "Run")))
    model_width = max(map(safe.width, (*models, "Model")))
    head = f"{'Status':{_STATUS}} {'Run':{id_width}}  {'Agent':8} {'Model':{model_width}} "
    head += f"{'Turns':>6}{'Calls':>6}{'Err':>5}{'Tokens':>8}  {'Updated':9} Prompt"
    printer.line((Cell(Safe(head), "dim"),), cut=True)
    for row, run_id, model in zip(rows, ids, models, strict=True):
        printer.line(_line(row, safe.fit(run_id, id_width), safe.fit(model, model_width), now), cut=True)


def _line(row: RunSummary, run_id: Safe, model: Safe, now: float) -> Line:
    status = status_cell(row.status)
    errors: Role = "problem" if row.errors else "dim"
    return (
        Cell(safe.fit(status.text, _STATUS), status.role),
        Cell(Safe(f" {run_id}  "), "strong"),
        Cell(Safe(f"{safe.fit(safe.line(row.format), 8)} {model} "), "dim"),
        Cell(Safe(f"{row.turns:>6}{row.calls:>6}")),
        Cell(Safe(f"{row.errors:>5}"), errors),
        Cell(Safe(f"{units.short(row.tokens):>8}  {units.ago(now - row.updated):9} ")),
        *_badges(row),
        Cell(safe.line(row.prompt, _LONGEST_PROMPT)),
    )


def _badges(row: RunSummary) -> Line:
    badges: list[Cell] = []
    if row.fork_of:
        badges.append(Cell(Safe("ψ "), "fork"))
    if row.damaged:
        badges.append(Cell(Safe(f"⚠ {row.damaged} damaged  "), "problem"))
    if row.torn:
        badges.append(Cell(Safe("torn tail  "), "warn"))
    if row.in_flight:
        badges.append(Cell(Safe(f"{len(row.in_flight)} in flight  "), "warn"))
    if row.note:
        badges.append(Cell(safe.line(f"{row.note}  ", 200), "problem"))
    return tuple(badges)


def _nothing(reports: Sequence[RootReport], printer: Printer) -> None:
    printer.note("no runs here. Looked in:")
    for report in reports:
        printer.note(f"  {report.root.path}: {report.detail}")
    printer.note("'refold demo' makes some to look at; --root DIR looks in another directory.")
