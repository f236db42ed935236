"""`refold export`: a run written out to be shared, without what looks like a secret."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from refold.app.cli_exit import FINE
from refold.app.cli_print import OutputFailed, Printer, is_terminal
from refold.app.cli_run import item_at, open_run, target
from refold.app.exporting import FORMATS, ending_of, refuse, text_of, told, write
from refold.app.present.units import plural
from refold.app.settings import Settings
from refold.core.errors import RefoldError, Refused
from refold.core.redact import Redactor
from refold.core.store.export import Source, gathered
from refold.core.store.export_target import NameTaken, refuse_taken, write_file, write_new_file
from refold.core.store.files import shown


class NeedsFile(RefoldError):
    """The format is not text: it has to go into a file."""


class NeedsFormat(RefoldError):
    """No format was named, and the name of the file speaks of none."""


class WholeRunsOnly(RefoldError):
    """The format takes no part of a run."""


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Write a run out in one format.

    Raises:
        NeedsFile: a bundle was asked for without a file.
        NeedsFormat: neither an option nor the name of the file says which format.
        WholeRunsOnly: a bundle was asked for of the records up to some place.
        NameTaken: the file is there, and is not to be replaced.
        Refused: the file is a run, or would be taken for one, or Refold only looks.
        StoreError: the run cannot be read, or the file not be written.
    """
    wanted = target(arguments.run)
    out = None if arguments.output in (None, "-") else Path(arguments.output)
    if out and settings.read_only:
        raise Refused("export: refused with --read-only", remedy="leave --read-only out, or --output")
    name = arguments.format or _format_of(out)
    if out is None and name == "bundle":
        raise NeedsFile("a bundle is not text", remedy="name a file with -o FILE")
    if wanted.place and name == "bundle":
        raise WholeRunsOnly(
            f"a bundle holds the whole run, and {arguments.run} names a part of it",
            remedy=f"leave @{wanted.place} out, export it as jsonl, or fork it there and export the fork",
        )
    redactor = Redactor(on=not arguments.no_redact, allow=settings.allow)
    with open_run(wanted.run, settings) as reader:
        refuse(reader, out, settings)
        if out is not None and not arguments.force:
            _refuse_taken(out)
        timeline = reader.index_all()
        last = item_at(timeline, wanted.place, wanted.run) if wanted.place else None
        source = Source(reader, redactor, last)
        draw = partial(_drawn, settings, last)
        if out is None:
            on_terminal = is_terminal(sys.stdout)
            _to_output(text_of(name, source, draw, ascii_text=on_terminal), printer)
        else:
            write(name, source, out, draw, write_file if arguments.force else write_new_file)
        damaged = timeline.findings
    if out is not None:
        printer.note(f"refold: {shown(out)}: written as {name}{_why(out, name, arguments.format)}")
    printer.note(f"refold: {_told(redactor, name)}")
    if any(finding.severity == "error" for finding in damaged):
        printer.note(f"refold: the run is damaged: {plural(len(damaged), 'finding')} marked in the export")
    return FINE


def _format_of(out: Path | None) -> str:
    """Give the format that the name of a file speaks of; Markdown for what goes to standard output."""
    if out is None:
        return "md"
    found = ending_of(out)
    if found is None:
        if os.path.isdir(out):  # noqa: PTH112 - it never raises
            raise NeedsFormat(f"{shown(out)}: this is a directory", remedy="name a file in it")
        endings = ", ".join(f".{each.ending.rpartition('.')[2]}" for each in FORMATS)
        raise NeedsFormat(
            f"{shown(out)}: its ending names no format", remedy=f"add --format, or one of {endings}"
        )
    return found[0].name


def _refuse_taken(out: Path) -> None:
    try:
        refuse_taken(out)
    except NameTaken as error:
        raise NameTaken(str(error), remedy="choose another name, or replace it with --force") from error


def _why(out: Path, name: str, asked: str | None) -> str:
    """Say where the format comes from, where that may surprise."""
    if not asked:
        return ", as its name says"
    found = ending_of(out)
    return f", though it is called {found[0].name}" if found is not None and found[0].name != name else ""


def _drawn(settings: Settings, item: int | None, source: Source) -> str:
    """Draw the screen at a record, or as it would open; only now Textual is imported."""
    from refold.app.picturing import picture
    from refold.app.screens.standing import AS_PRINTED

    row = None if item is None else source.reader.timeline.first_row(item)
    return picture(source, AS_PRINTED._replace(row=row), settings)


def _told(redactor: Redactor, name: str) -> str:
    hint = "--no-redact keeps them" if redactor.total else "look through it before you share it"
    return f"{told(redactor, name)}; {hint}" if redactor.on else told(redactor, name)


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
