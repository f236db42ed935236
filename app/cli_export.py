"""`refold export`: a run written out to be shared, without what looks like a secret."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from refold.app.cli_exit import FINE
from refold.app.cli_print import OutputFailed, Printer, is_terminal
from refold.app.cli_run import item_at, open_run, target
from refold.app.lines import Rows
from refold.app.present.units import plural
from refold.app.safe import line
from refold.app.settings import Settings
from refold.core.errors import RefoldError, Refused
from refold.core.redact import Redactor, explain
from refold.core.store.export import Source, gathered, refuse_target, write_file, write_text
from refold.core.store.reader import RunReader

FORMATS: Final = ("md", "html", "json", "jsonl", "cast", "svg", "bundle")


class NeedsFile(RefoldError):
    """The format is not text: it has to go into a file."""


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Write a run out in one format.

    Raises:
        NeedsFile: a bundle was asked for without a file.
        Refused: the file is a run, or would be taken for one.
        StoreError: the run cannot be read, or the file not be written.
    """
    wanted = target(arguments.run)
    out = None if arguments.output in (None, "-") else Path(arguments.output)
    if out is None and arguments.format == "bundle":
        raise NeedsFile("a bundle is not text", remedy="name a file with -o FILE")
    redactor = Redactor(on=not arguments.no_redact, allow=settings.allow)
    with open_run(wanted.run, settings) as reader:
        if reader.session is not None and arguments.format == "bundle":
            raise Refused(
                f"{reader.run_id}: a run directory does not fit into a bundle",
                remedy="pack the directory itself, or export it as jsonl",
            )
        if out is not None:
            refuse_target(out, reader.path, (root.path for root in settings.roots))
        timeline = reader.index_all()
        last = item_at(timeline, wanted.place, wanted.run) if wanted.place else None
        source = Source(reader, redactor, last)
        if out is None:
            on_terminal = is_terminal(sys.stdout)
            _to_output(text_of(arguments.format, source, ascii_text=on_terminal), printer)
        elif arguments.format == "bundle":
            from refold.core.store.bundle import write_bundle

            write_file(out, lambda fd: write_bundle(fd, source, datetime.now(UTC)))
        else:
            write_text(out, text_of(arguments.format, source, ascii_text=False))
        damaged = timeline.findings
    printer.note(f"refold: {_told(redactor)}")
    if any(finding.severity == "error" for finding in damaged):
        printer.note(f"refold: the run is damaged: {plural(len(damaged), 'finding')} marked in the export")
    return FINE


def _told(redactor: Redactor) -> str:
    if not redactor.on:
        return "nothing was redacted: what is secret in the run is in the export"
    said = explain(redactor.counts)
    hint = "--no-redact keeps them" if redactor.total else "look through it before you share it"
    return f"{said}; {hint}"


def text_of(name: str, source: Source, *, ascii_text: bool) -> Iterator[str]:
    """Give an export as text; only what writes this format is imported."""
    if name == "md":
        from refold.core.export.markdown import markdown

        return markdown(source.head(), source.entries())
    if name == "html":
        from refold.core.export.html import html

        return html(source.head(), source.entries())
    if name == "json":
        from refold.core.export.json_text import json_object

        return json_object(source.head(), source.entries(), source.spelled, source.end_json)
    if name == "jsonl":
        from refold.core.export.json_text import json_lines

        return json_lines(source.entries(), source.spelled, ascii_text=ascii_text)
    return _drawn(name, source)


def _drawn(name: str, source: Source) -> Iterator[str]:
    from refold.app.present.drawing import SharedRows, cast, svg

    reader: RunReader = source.reader
    timeline = reader.timeline
    title = line(f"refold · {source.redactor.text(reader.run_id)}")
    count = timeline.first_row(source.items)
    rows = SharedRows(_rows(source), count, source.redactor.text)
    if name == "svg":
        return svg(title, rows)
    return cast(title, rows, timeline, source.items, timeline.first_seconds)


def _rows(source: Source) -> Rows:
    """Give the rows that the screen would show, made of redacted records."""
    from refold.core.rivumi.timeline import EventTimeline

    reader, timeline = source.reader, source.reader.timeline
    if isinstance(timeline, EventTimeline):
        from refold.app.present.session_rows import SessionRows
        from refold.core.formats.rivumi import EventDecoder

        prompt = source.head().prompt
        return SessionRows(timeline, source.glimpse, EventDecoder(), prompt=prompt)
    from refold.app.present.rows import TimelineRows

    return TimelineRows(timeline, source.glimpse, reader.decoder)


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
