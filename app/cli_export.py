"""`refold export`: a run written out to be shared, without what looks like a secret."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from refold.app.cli_exit import FINE
from refold.app.cli_print import OutputFailed, Printer, is_terminal
from refold.app.cli_run import item_at, open_run, target
from refold.app.exporting import refuse, text_of, write
from refold.app.present.units import plural
from refold.app.settings import Settings
from refold.core.errors import RefoldError, Refused
from refold.core.redact import Redactor, explain
from refold.core.store.export import Source, gathered


class NeedsFile(RefoldError):
    """The format is not text: it has to go into a file."""


class WholeRunsOnly(RefoldError):
    """The format takes no part of a run."""


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Write a run out in one format.

    Raises:
        NeedsFile: a bundle was asked for without a file.
        WholeRunsOnly: a bundle was asked for of the records up to some place.
        Refused: the file is a run, or would be taken for one, or Refold only looks.
        StoreError: the run cannot be read, or the file not be written.
    """
    wanted = target(arguments.run)
    out = None if arguments.output in (None, "-") else Path(arguments.output)
    if out and settings.read_only:
        raise Refused("export: refused with --read-only", remedy="leave --read-only out, or --output")
    if out is None and arguments.format == "bundle":
        raise NeedsFile("a bundle is not text", remedy="name a file with -o FILE")
    if wanted.place and arguments.format == "bundle":
        raise WholeRunsOnly(
            f"a bundle holds the whole run, and {arguments.run} names a part of it",
            remedy=f"leave @{wanted.place} out, export it as jsonl, or fork it there and export the fork",
        )
    redactor = Redactor(on=not arguments.no_redact, allow=settings.allow)
    with open_run(wanted.run, settings) as reader:
        refuse(reader, out, settings)
        timeline = reader.index_all()
        last = item_at(timeline, wanted.place, wanted.run) if wanted.place else None
        source = Source(reader, redactor, last)
        draw = partial(_drawn, settings, last)
        if out is None:
            on_terminal = is_terminal(sys.stdout)
            _to_output(text_of(arguments.format, source, draw, ascii_text=on_terminal), printer)
        else:
            write(arguments.format, source, out, draw)
        damaged = timeline.findings
    printer.note(f"refold: {_told(redactor)}")
    if any(finding.severity == "error" for finding in damaged):
        printer.note(f"refold: the run is damaged: {plural(len(damaged), 'finding')} marked in the export")
    return FINE


def _drawn(settings: Settings, item: int | None, source: Source) -> str:
    """Draw the screen at a record, or as it would open; only now Textual is imported."""
    from refold.app.picturing import picture
    from refold.app.screens.standing import AS_PRINTED

    row = None if item is None else source.reader.timeline.first_row(item)
    return picture(source, AS_PRINTED._replace(row=row), settings)


def _told(redactor: Redactor) -> str:
    if not redactor.on:
        return "nothing was redacted: what is secret in the run is in the export"
    said = explain(redactor.counts)
    hint = "--no-redact keeps them" if redactor.total else "look through it before you share it"
    return f"{said}; {hint}"


def _to_output(pieces: Iterable[str], printer: Printer) -> None:
    """Write UTF-8 to standard output, whatever the locale calls its encoding."""
    printer.flush()
    stream = getattr(sys.stdout, "buffer", None)
    try:
        for data in gathered(pieces):
            if stream is None:
                sys.stdout.write(data.decode())
            else:
                stream.write(data)
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        raise OutputFailed(error) from error
