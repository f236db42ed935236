"""`refold show`: the records of a run, one a line, or one record in full."""

from __future__ import annotations

import argparse
import json
import re

from refold.app.bundles import told_path
from refold.app.cli_exit import FINE, exit_code
from refold.app.cli_print import Printer
from refold.app.cli_redact import count, redacted
from refold.app.cli_run import item_at, open_run, target
from refold.app.forking import notes_of
from refold.app.lines import Cell
from refold.app.present.reading import Reading, reading_of
from refold.app.present.record import View
from refold.app.present.units import plural, short
from refold.app.safe import line
from refold.app.settings import Settings
from refold.core.blocks import read_blocks
from refold.core.errors import BadRecord, RefoldError
from refold.core.links import link
from refold.core.records import AssistantRecord, Json, ToolResultRecord
from refold.core.store.reader import RunReader

_NOTHING = "the file holds no records"
_COLUMNS = 160
_RECORD_COLUMNS = 100
_VIEW = View(thinking=True, unfolded=True, thinking_key="")
"""Everything unfolded, and no word of keys: nobody can press one on paper."""


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Print each run or record; the largest exit code counts."""
    worst = FINE
    redacted(arguments, settings, printer)
    for number, name in enumerate(arguments.runs):
        wanted = target(name)
        try:
            with open_run(wanted.run, settings) as reader:
                timeline = reader.index_all()
                item = item_at(timeline, wanted.place, wanted.run) if wanted.place else None
                if number and not arguments.json:
                    printer.raw("\n")
                if arguments.json:
                    _print_json(reader, item, wanted.run, printer)
                elif item is None:
                    _print_rows(_reading(reader, settings, printer), printer)
                else:
                    _print_record(_reading(reader, settings, printer), item, printer)
        except RefoldError as error:
            printer.error(error)
            worst = max(worst, exit_code(error))
    return worst


def _reading(reader: RunReader, settings: Settings, printer: Printer) -> Reading:
    """Join the run to its rows; what leaves without secrets is read without them."""
    reading = reading_of(reader)
    reading.kept = notes_of(settings).read(reader.path).kept
    if printer.redactor is not None:
        from refold.app.present.lens import Lens

        reading.lens = Lens(reader, printer.redactor.allow)
    return reading


def _print_rows(reading: Reading, printer: Printer) -> None:
    reader = reading.reader
    top = reading.top(held=False)
    facts = [top.format, top.model]
    if top.turns is not None:
        facts += [plural(top.turns, "turn"), plural(top.calls, "call"), f"{short(top.tokens)} tokens"]
    printer.line(
        (Cell(line(reader.run_id), "strong"), Cell(line("  " + " · ".join(filter(None, facts))), "dim")),
        cut=True,
    )
    printer.line((Cell(line(str(told_path(reader.path))), "dim"),))
    if not reader.timeline.items:
        printer.note(f"refold: {_NOTHING if reader.session is None else reading.nothing}")
    rows = reading.rows()
    width = printer.columns or _COLUMNS
    for index in range(len(rows)):
        row = rows.line(index, width)
        count(row, printer)
        printer.line(row)


def _print_record(reading: Reading, item: int, printer: Printer) -> None:
    first = reading.timeline.first_row(item)
    for row in reading.record(first, printer.columns or _RECORD_COLUMNS, _VIEW):
        printer.line(row)
    if printer.redactor is not None and reading.lens is not None:
        printer.redactor.counts += reading.lens.counts


def _print_json(reader: RunReader, item: int | None, name: str, printer: Printer) -> None:
    if item is not None:
        printer.raw(_record_as_json(reader, item, name, printer) + "\n")
        return
    for each in range(reader.timeline.items):
        printer.json(row_json(reader, each, name))


def row_json(reader: RunReader, item: int, name: str) -> dict[str, Json]:
    """What is known of one record, or of one damaged stretch, without its text."""
    timeline = reader.timeline
    span = timeline.span(item)
    try:
        record = reader.record(item)
    except BadRecord:
        record = None
    calls: list[Json] = []
    tokens = 0
    if reader.session is not None:
        from refold.app.session_json import event_json

        return event_json(reader.session, item, name)
    if isinstance(record, AssistantRecord):
        calls = [
            {"id": b.id, "name": b.name} for b in read_blocks(record.message.content) if b.kind == "call"
        ]
        tokens = record.in_tokens + record.out_tokens + record.cache_read_tokens + record.cache_create_tokens
    return {
        "run": name,
        "link": link(name, timeline.seq(item), span.line),
        "seq": timeline.seq(item),
        "line": span.line,
        "start": span.start,
        "end": span.end,
        "kind": timeline.kind(item),
        "turn": timeline.turn(item),
        "time": None if record is None else record.time,
        "tokens": tokens,
        "calls": calls,
        "answers": record.tool_use_id if isinstance(record, ToolResultRecord) else None,
        "is_error": timeline.is_error(item),
        "recovered": timeline.is_recovered(item),
        "problems": [finding.code for finding in timeline.findings_at(item)],
    }


def _record_as_json(reader: RunReader, item: int, name: str, printer: Printer) -> str:
    """The object of a row, with the record as the file spells it: numbers, order, repeated keys."""
    row = row_json(reader, item, name)
    raw = reader.raw(item)
    if printer.redactor is not None:
        raw = printer.redactor.line(raw)
    text = json_of(raw)
    if text is None:
        row["record"] = None
        row["raw"] = raw.decode(errors="surrogateescape")
        return json.dumps(row, separators=(",", ":"))
    return json.dumps(row, separators=(",", ":"))[:-1] + f',"record":{text},"raw":null}}'


def json_of(raw: bytes) -> str | None:
    """The same JSON in ASCII, or None where the bytes are no JSON: only strings can hold anything else."""
    try:
        text = raw.decode()
        # Numbers stay text: none is too large for that.
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    # Outside of strings a tab or carriage return is white space; inside one it may not stand.
    text = text.strip().replace("\t", " ").replace("\r", " ")
    return re.sub("[^ -~]", lambda found: json.dumps(found[0])[1:-1], text)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
