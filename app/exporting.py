"""A run written out in one format: what the command line and the dialog share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from refold.app.lines import Rows
from refold.app.safe import line
from refold.core.redact import explain
from refold.core.store.export import Source, as_text
from refold.core.store.export_target import refuse_target, write_file

if TYPE_CHECKING:
    from refold.app.settings import Settings
    from refold.core.redact import Redactor
    from refold.core.store.reader import RunReader


Draw: TypeAlias = Callable[[Source], str]
"""Gives the picture of a run: `app.picturing`, with the screen that it is taken of."""

Put: TypeAlias = Callable[[Path, Callable[[int], None]], None]
"""Makes a file by what is put into a descriptor."""


class Format(NamedTuple):
    """One format, for whoever chooses."""

    name: str
    ending: str
    what: str
    counts: str = ""
    """What else is to be said of the number of secrets that were replaced in it."""


_ONCE: Final = "one that the file repeats is counted once"
_IN_EACH: Final = "counted in each file of the run that holds it"

FORMATS: Final = (
    Format("md", "md", "Markdown: every text of the run in a fence that it cannot end"),
    Format("html", "html", "one page with folds and a search, nothing from elsewhere", _ONCE),
    Format("json", "export.json", "one object: run, records, findings, state", _ONCE),
    Format("jsonl", "jsonl", "the records as the file spells them, a line each"),
    Format("cast", "cast", "asciicast: the rows appear at the recorded pace"),
    Format("svg", "svg", "a picture of the screen of the run"),
    Format("bundle", "refold-bundle", "the files of the run, for `refold open` elsewhere", _IN_EACH),
)


def refuse(reader: RunReader, out: Path | None, settings: Settings) -> None:
    """Refuse what cannot be, before anything is read.

    Raises:
        Refused: the file would replace or become a run.
        StoreError: the directory is not there.
    """
    if out is not None:
        roots = (root.path for root in (*settings.roots, *settings.conversations))
        refuse_target(out, reader.path, roots, settings.own_places)


def ending_of(file: Path) -> tuple[Format, str] | None:
    """Give the format that the name of a file speaks of, and its ending; None where it is none of ours."""
    name = file.name.lower()
    for each in FORMATS:
        for ending in (f".{each.ending}", f".{each.ending.rpartition('.')[2]}"):
            if name.endswith(ending) and name != ending:
                return each, file.name[-len(ending) :]
    return None


def write(name: str, source: Source, out: Path, draw: Draw, put: Put = write_file) -> None:
    """Make a file of a run, whole or not at all.

    Args:
        name: the format.
        source: the run.
        out: the file.
        draw: what draws the picture of the run.
        put: makes the file: `write_file`, which replaces one, or `write_new_file`, which does not.

    Raises:
        NameTaken: the file is there, and is not to be replaced.
        WriteFailed: the disk did not take it.
        StoreError: the run cannot be read, or the file not be made.
    """
    if name == "bundle":
        from refold.core.store.bundle_writing import write_bundle

        put(out, lambda fd: write_bundle(fd, source, datetime.now(UTC)))
    else:
        put(out, as_text(text_of(name, source, draw, ascii_text=False)))


def told(redactor: Redactor, name: str) -> str:
    """Say how many secrets were replaced in files of a format, and what counts as one."""
    if not redactor.on:
        return "nothing was redacted: what is secret in the run is in the export"
    more = next(each.counts for each in FORMATS if each.name == name)
    return "; ".join(filter(None, (explain(redactor.counts), more if redactor.total else "")))


def default_place(settings: Settings) -> Path:
    """Give the directory that exports go to unless another is named; never one that holds runs. Blocks."""
    try:
        here = Path.cwd()
    except OSError:
        return Path.home()
    return here if not _is_within(here, [root.path for root in settings.roots]) else Path.home()


def _is_within(place: Path, roots: Sequence[Path]) -> bool:
    real = place.resolve()
    return any(real.is_relative_to(root.resolve()) for root in roots)


def text_of(name: str, source: Source, draw: Draw, *, ascii_text: bool) -> Iterator[str]:
    """Give an export as text; only what writes this format is imported."""
    if name == "md":
        from refold.core.export.markdown import markdown

        return markdown(source.counted_head(), source.entries())
    if name == "html":
        from refold.core.export.html import html

        return html(source.counted_head(), source.entries())
    if name == "json":
        from refold.core.export.json_text import json_object

        return json_object(source.counted_head(), source.outlines(), source.spelled, source.end_json)
    if name == "jsonl":
        from refold.core.export.json_text import json_lines

        return json_lines(source.outlines(), source.spelled, ascii_text=ascii_text)
    return iter((draw(source),)) if name == "svg" else _played(source)


def _played(source: Source) -> Iterator[str]:
    from refold.app.present.drawing import SharedRows, cast

    reader: RunReader = source.reader
    timeline = reader.timeline
    title = line(f"refold · {source.redactor.text(reader.run_id)}")
    count = timeline.first_row(source.items)
    rows = SharedRows(_rows(source), count, source.redactor.text)
    return cast(title, rows, timeline, source.items, timeline.first_seconds)


def _rows(source: Source) -> Rows:
    """Give the rows that the screen would show, made of redacted records."""
    from refold.core.rivumi.timeline import EventTimeline

    reader, timeline = source.reader, source.reader.timeline
    if isinstance(timeline, EventTimeline):
        from refold.app.present.session_rows import SessionRows
        from refold.core.formats.rivumi import EventDecoder

        prompt = source.counted_head().prompt
        return SessionRows(timeline, source.glimpse, EventDecoder(), prompt=prompt)
    from refold.app.present.rows import TimelineRows

    return TimelineRows(timeline, source.glimpse, reader.decoder)
