"""`refold ls`: the list of runs, as text or as one object a line."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from datetime import UTC
from functools import partial
from typing import TYPE_CHECKING, Final

from refold.app.cli_exit import FINE
from refold.app.cli_print import Printer
from refold.app.cli_redact import redacted
from refold.app.lines import Cell
from refold.app.log import record_fault
from refold.app.present import units
from refold.app.present.run_list import RunList, meant
from refold.app.safe import Safe, fit, line
from refold.app.settings import Settings
from refold.core.filter import Filter, parse_filter
from refold.core.prices import bill_json
from refold.core.store.catalog import Catalog
from refold.core.store.kept import KeptIndex
from refold.core.store.roots import RootReport
from refold.core.summary import RunSummary, bill_of, summary_json

if TYPE_CHECKING:
    from refold.app.present.runs import RunRows

_COLUMNS: Final = 200
_UNREAD: Final = frozenset({"missing", "not-permitted", "not-a-directory", "unreadable"})
"""The width of the list where there is no terminal."""


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Print the runs that a filter lets through, newest first."""
    return list_runs(arguments, settings, printer)


def list_runs(
    arguments: argparse.Namespace,
    settings: Settings,
    printer: Printer,
    *,
    others: str = "hidden by the filter",
) -> int:
    """Print the runs that a filter lets through, newest first, and what the others are."""
    redacted(arguments, settings, printer)
    now = time.time()
    zone = UTC if settings.utc else None
    runs, reports = _read(" ".join(map(_as_term, arguments.filter)), settings, now)
    if arguments.json:
        for index in range(len(runs)):
            row = summary_json(runs[index])
            if settings.prices:
                whole, inherited = bill_of(runs[index], settings.prices)
                row["cost"] = {**bill_json(whole), "inherited": inherited.amount}
            printer.json(row)
        return FINE
    if len(runs):
        from refold.app.present.runs import RunRows, chosen

        _print(RunRows(runs, chosen(settings.columns), lambda: now, zone, settings.prices), printer)
    if runs.hidden:
        printer.note(f"{units.plural(runs.hidden, 'run')} {others}{meant(runs)}")
    elif not runs.total:
        _nothing(reports, printer)
        return FINE
    for report in reports:
        if report.state in _UNREAD and report.root.origin != "default":
            printer.note(f"{report.root.path}: {report.detail}")
    return FINE


def print_ids(filter_text: str, settings: Settings, printer: Printer) -> int:
    """Print the ids of the runs that a filter lets through, newest first."""
    runs, _ = _read(filter_text, settings, time.time())
    for index in range(len(runs)):
        printer.raw(f"{line(runs[index].id)}\n")
    return FINE


def read_runs(words: Sequence[str], settings: Settings, now: float) -> RunList:
    """Read all runs, and show those that the words of a filter let through, newest first."""
    return _read(" ".join(map(_as_term, words)), settings, now)[0]


def _read(filter_text: str, settings: Settings, now: float) -> tuple[RunList, tuple[RootReport, ...]]:
    """Read all runs, narrowed by a filter, and what was found in each directory."""
    wanted = parse_filter(filter_text, now, zone=UTC if settings.utc else None)
    runs = RunList()
    catalog = Catalog(
        settings.roots, cache=settings.cache_dir, fault=partial(record_fault, settings.log_file)
    )
    kept = KeptIndex(settings.notes_dir, settings.cache_dir)
    kept.look_at_all()
    for item in catalog.scan():
        if isinstance(item, RunSummary) and item.complete:
            runs.put(kept.joined(item))
    catalog.close()
    kept.save()
    _narrow(runs, wanted)
    return runs, catalog.roots_report()


def _as_term(word: str) -> str:
    """A word of the shell as a term of the filter: what the shell took the quotes from is still one term."""
    if '"' in word or not any(character.isspace() for character in word):
        return word
    key, colon, value = word.partition(":")
    if colon and key.lstrip("-").isalpha():
        return f'{key}:"{value}"'
    return f'-"{word[1:]}"' if word.startswith("-") else f'"{word}"'


def _narrow(runs: RunList, wanted: Filter) -> None:
    _finish(runs.narrow(wanted))
    if wanted.text:
        from refold.app.text_search import TextSearch

        search = TextSearch()
        search.begin(wanted.text)
        _finish(search.steps(runs.candidates()))
        _finish(runs.narrow(wanted, search.hits))


def _finish(steps: Iterator[object]) -> None:
    for _ in steps:
        pass


def _print(rows: RunRows, printer: Printer) -> None:
    width = printer.columns or _COLUMNS
    head = "".join(
        fit(column.label, column.width, column.align) + " " * column.gap for column in rows.columns(width)
    )
    printer.line((Cell(Safe(head), "dim"),), cut=True)
    for index in range(len(rows)):
        printer.line(rows.line(index, width), cut=True)


def _nothing(reports: Sequence[RootReport], printer: Printer) -> None:
    printer.note("no runs here. Looked in:")
    for report in reports:
        printer.note(f"  {report.root.path}: {report.detail}")
    printer.note("'refold demo' makes some to look at; --root DIR looks in another directory.")
