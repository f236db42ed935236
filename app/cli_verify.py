"""`refold verify`: what is wrong with runs, printed like a linter."""

from __future__ import annotations

import argparse
from collections import Counter

from refold.app.bundles import told_path
from refold.app.cli_exit import FINE, NOT_FOUND, REFUSED, exit_code
from refold.app.cli_print import Printer
from refold.app.cli_redact import redacted
from refold.app.cli_run import open_run
from refold.app.lines import Cell, Role
from refold.app.present.units import plural
from refold.app.safe import Safe, line
from refold.app.seen_before import ANY_LENGTH, rewritten_in
from refold.app.settings import Settings
from refold.core.errors import NotPermitted, NotRegular, RefoldError
from refold.core.findings import CODES, Allowed, Finding, finding_json
from refold.core.store.examining import examine

_ROLES: dict[str, Role] = {"error": "problem", "warning": "warn", "info": "dim"}


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Print the findings of each run; 1 where one is an error or a warning, 3 where a run cannot be read."""
    redacted(arguments, settings, printer)
    counts: Counter[str] = Counter()
    worst = FINE
    unread = 0
    for name in arguments.runs:
        try:
            with open_run(name, settings) as reader:
                path = str(told_path(reader.path))
                rewritten = rewritten_in(reader, settings, longest=ANY_LENGTH, accept=arguments.accept)
                for finding in examine(reader, rewritten):
                    counts[finding.severity] += 1
                    if finding.severity != "info":
                        worst = max(worst, REFUSED)
                    if arguments.json:
                        printer.json(finding_json(name, finding))
                    else:
                        _print(finding, path, printer)
        except RefoldError as error:
            worst = max(worst, exit_code(error), NOT_FOUND)
            unread += 1
            closed = _unopened(error)
            if arguments.json and closed is not None:
                printer.json(finding_json(name, closed))
            else:
                printer.error(error)
    if not arguments.json:
        _total(len(arguments.runs), unread, counts, printer)
    return worst


def _print(finding: Finding, path: str, printer: Printer) -> None:
    role = _ROLES[finding.severity]
    file = f"{path}/{finding.file}" if finding.file else path
    where = f"{file}:{finding.line}:{finding.start}: "
    printer.line(
        (
            Cell(line(where), "dim"),
            Cell(Safe(f"{finding.severity} {finding.code}"), role),
            Cell(line(f": {finding.message}")),
            Cell(line(f" ({finding.remedy})" if finding.remedy else ""), "dim"),
        )
    )


def _unopened(error: RefoldError) -> Finding | None:
    """The finding that stands for a run which is there and cannot be opened."""
    if isinstance(error, NotRegular):
        code = "E_NOT_REGULAR"
    elif isinstance(error, NotPermitted):
        code = "E_PERM"
    else:
        return None
    return Finding(code, CODES[code].severity, None, 0, 0, 0, str(error), error.remedy, Allowed(view=False))


def _total(runs: int, unread: int, counts: Counter[str], printer: Printer) -> None:
    said = [plural(counts[severity], severity) for severity in ("error", "warning") if counts[severity]]
    if counts["info"]:
        said.append(plural(counts["info"], "remark"))
    if unread:
        said.append(f"{unread} could not be read")
    printer.text(Safe(f"{plural(runs, 'run')}: {', '.join(said) or 'nothing to report'}"), "dim")
