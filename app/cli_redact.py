"""What printing leaves out: text that goes into a pipe or a file has no secrets, unless they are asked for.

On a terminal a run is shown as the full screen shows it, and JSON is what a program counts on, byte for byte:
both are redacted when told to.
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, Final

from refold.app.cli_print import Printer, is_terminal
from refold.app.lines import Line
from refold.app.settings import Settings

if TYPE_CHECKING:
    from refold.core.redact import Redactor


_PLACEHOLDER: Final = re.compile(r"\[redacted: ([a-z ]+)\]")


def redacted(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> Redactor | None:
    """Give what the output of a command goes through, and let the printer use it; None for none."""
    asked: bool | None = getattr(arguments, "redact", None)
    if asked is None:
        asked = not arguments.json and not is_terminal(sys.stdout)
    if not asked:
        return None
    from refold.core.redact import Redactor

    printer.redactor = Redactor(allow=settings.allow)
    return printer.redactor


def redacted_progress(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> Redactor | None:
    """Give what the progress of a run on standard error goes through; `redacted` says it of the output."""
    found = redacted(arguments, settings, printer)
    asked: bool | None = getattr(arguments, "redact", None)
    if found is not None or asked is False or (asked is None and is_terminal(sys.stderr)):
        return found
    from refold.core.redact import Redactor

    printer.aside_redactor = Redactor(allow=settings.allow)
    return printer.aside_redactor


def count(row: Line, printer: Printer) -> None:
    """Count what was left out of a row before it was cut to its width."""
    if printer.redactor is not None:
        said = "".join(cell.text for cell in row)
        printer.redactor.counts.update(_PLACEHOLDER.findall(said))


def tell(printer: Printer) -> None:
    """Say on standard error how much was left out, where anything was."""
    redactor = printer.redactor or printer.aside_redactor
    if redactor is not None and redactor.total:
        from refold.core.redact import explain

        printer.note(f"refold: {explain(redactor.counts)}; --no-redact keeps them")
