"""`refold doctor`: what is wrong with runs, directories and the system, each with its remedy."""

from __future__ import annotations

import argparse
from typing import Final

from refold.app.cli_exit import FINE, REFUSED
from refold.app.cli_print import Printer
from refold.app.doctor import Level, Report, look_over, report_json
from refold.app.lines import Cell, Role
from refold.app.present import units
from refold.app.safe import Safe, line
from refold.app.settings import Settings

_LOOKS: Final[dict[Level, tuple[str, Role]]] = {
    "fine": ("✓", "good"),
    "remark": ("·", "dim"),
    "warning": ("⚠", "warn"),
}
_AREA: Final = 10


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Look everything over and print it; 1 where there is a warning."""
    report = look_over(settings)
    if arguments.json:
        printer.json(report_json(report))
    else:
        _print(report, printer)
    return REFUSED if report.warnings else FINE


def _print(report: Report, printer: Printer) -> None:
    counts = ", ".join(f"{count:,} {status}" for status, count in report.statuses.items())
    printer.line(
        (
            Cell(Safe(units.plural(report.runs, "run")), "strong"),
            Cell(line(f": {counts}" if counts else "")),
        )
    )
    if report.problems:
        noticed = ", ".join(f"{code} in {count:,}" for code, count in report.problems.items())
        printer.text(line(f"noticed: {noticed}"), "dim")
    for check in report.checks:
        glyph, role = _LOOKS[check.level]
        printer.line(
            (
                Cell(Safe(f"{glyph} "), role),
                Cell(Safe(f"{check.area:{_AREA}}"), "dim"),
                Cell(line(check.sentence)),
            )
        )
        if check.remedy:
            printer.text(line(f"{'':{_AREA + 2}}{check.remedy}"), "dim")
    printer.text(
        Safe(f"{units.plural(report.warnings, 'warning')}" if report.warnings else "nothing to worry about"),
        "warn" if report.warnings else "good",
    )
