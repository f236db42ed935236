"""`refold diff`: two runs, or one run at two points, side by side."""

from __future__ import annotations

import argparse
from typing import Final, NamedTuple

from refold.app.bundles import told_path
from refold.app.cli_exit import FINE, REFUSED
from refold.app.cli_print import Printer
from refold.app.cli_redact import redacted
from refold.app.cli_run import Target, find_run, hint_of, item_at, target
from refold.app.comparing import beside_parent
from refold.app.settings import Settings
from refold.core.compare import Field, counter_fields, fingerprint_fields, state_fields
from refold.core.errors import FoldError, RunNotFound
from refold.core.records import Json, MetaRecord
from refold.core.state import Counters
from refold.core.store.compare import (
    Comparison,
    Standing,
    common_messages,
    compare,
    standing_at,
)
from refold.core.store.reader import RunReader

_COLUMNS: Final = 160
_TABLE: Final = 100


class _Side(NamedTuple):
    """One of the two."""

    name: str
    place: str
    reader: RunReader
    stop: int | None


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Print where two runs part and what each did then.

    Returns:
        0 where they are the same, 1 where they differ.

    Raises:
        StoreError: one of them, or its place, is not there.
        WrongPlace: a place is none.
    """
    redacted(arguments, settings, printer)
    mine = target(arguments.run)
    theirs = target(arguments.other) if arguments.other else None
    if theirs is None:
        mine, theirs = _parent(mine, settings), mine
    with _open(mine, settings) as reader_a, _open(theirs, settings) as reader_b:
        a, b = _side(mine, reader_a), _side(theirs, reader_b)
        found = _compared(a, b)
        if arguments.json:
            printer.json(diff_json(a, b, found))
        else:
            _as_text(a, b, found, printer)
    return FINE if found.same else REFUSED


def _open(wanted: Target, settings: Settings) -> RunReader:
    path = find_run(wanted.run, settings)
    return RunReader.open(path, hint=hint_of(path, settings), cache=settings.cache_dir)


def _parent(wanted: Target, settings: Settings) -> Target:
    """Give the run that a run was forked from."""
    path = find_run(wanted.run, settings)
    found = beside_parent(path, hint_of(path, settings), settings)
    if found is None:
        raise RunNotFound(
            f"{wanted.run}: no parent of it is there", remedy="name two runs, or one run at two points"
        )
    return Target(str(found.a))


def _side(wanted: Target, reader: RunReader) -> _Side:
    if not wanted.place:
        return _Side(wanted.run, "", reader, None)
    item = item_at(reader.index_all(), wanted.place, wanted.run)
    return _Side(wanted.run, wanted.place, reader, item + 1)


def _compared(a: _Side, b: _Side) -> Comparison:
    for step in compare(a.reader, b.reader, a.stop, b.stop):
        if isinstance(step, Comparison):
            return step
    raise AssertionError("a comparison ends with its result")


def _standings(a: _Side, b: _Side, found: Comparison) -> tuple[Standing, Standing]:
    return standing_at(a.reader, found.stop_a - 1), standing_at(b.reader, found.stop_b - 1)


def _metas(a: _Side, b: _Side) -> tuple[MetaRecord, MetaRecord]:
    return a.reader.meta or MetaRecord(), b.reader.meta or MetaRecord()


def diff_json(a: _Side, b: _Side, found: Comparison) -> dict[str, Json]:
    """Give everything that was found, every key written out."""
    standing_a, standing_b = _standings(a, b, found)
    meta_a, meta_b = _metas(a, b)
    state: list[Json] | None = None
    if standing_a.state is not None and standing_b.state is not None:
        shared = common_messages(a.reader, found)
        state = [_field(one) for one in state_fields(standing_a.state, standing_b.state, shared)]
    return {
        "a": _run_json(a, found.stop_a, standing_a),
        "b": _run_json(b, found.stop_b, standing_b),
        "same": found.same,
        "common": found.common,
        "common_records": found.taken or found.common_a,
        "divergence": None
        if found.same
        else {
            "a": _place(a, found.common_a, found.stop_a),
            "b": _place(b, found.common_b, found.stop_b),
        },
        "aligned": [
            {
                "a": None if match.a is None else _place(a, match.a, found.stop_a),
                "b": None if match.b is None else _place(b, match.b, found.stop_b),
                "same": match.same,
            }
            for match in found.pairs
        ],
        "fingerprint": None
        if a.reader.session is not None or b.reader.session is not None
        else [_field(one) for one in fingerprint_fields(meta_a.fingerprint, meta_b.fingerprint)],
        "counters": [
            {**_field(one), "common": getattr(_common_counters(a, found), one.name)}
            for one in counter_fields(_counters(a, found.stop_a), _counters(b, found.stop_b))
        ],
        "states": state,
    }


def _run_json(side: _Side, stop: int, standing: Standing) -> dict[str, Json]:
    error = standing.error
    return {
        "run": side.name,
        "at": side.place or None,
        "id": side.reader.run_id,
        "path": str(told_path(side.reader.path)),
        "format": side.reader.format.name,
        "records": stop,
        "last_seq": standing.seq,
        "error_class": error.error_class if isinstance(error, FoldError) else None,
        "error": None if error is None else str(error),
    }


def _place(side: _Side, item: int, stop: int) -> dict[str, Json] | None:
    if item >= stop:
        return None
    timeline = side.reader.timeline
    return {"seq": timeline.seq(item), "line": timeline.span(item).line, "kind": timeline.kind(item)}


def _field(one: Field) -> dict[str, Json]:
    return {"field": one.name, "a": one.a, "b": one.b, "same": one.same}


def _counters(side: _Side, stop: int) -> Counters:
    return side.reader.timeline.counters(stop - 1) if stop else Counters()


def _common_counters(a: _Side, found: Comparison) -> Counters:
    return _counters(a, found.common_a)


def _as_text(a: _Side, b: _Side, found: Comparison, printer: Printer) -> None:
    from refold.app.lines import Cell
    from refold.app.present.compare import CompareRows, common_line, leaves, parting_words, state_lines
    from refold.app.present.reading import reading_of
    from refold.app.safe import Safe, line

    marks = (Cell(Safe("A  "), "user"), Cell(Safe("B  "), "fork"))
    for mark, side in zip(marks, (a, b), strict=True):
        at = f" at {side.place}" if side.place else ""
        name = Cell(line(f"{side.reader.run_id}{at}", 120), "strong")
        printer.line((mark, name))
        printer.line((Cell(line(f"   {told_path(side.reader.path)}"), "dim"),))
    printer.raw("\n")
    named = a.reader.session is not None and b.reader.session is not None
    printer.line(common_line(found, *_metas(a, b), named=named))
    if not found.same:
        printer.line((Cell(line(parting_words(found)), "accent"),))
        printer.raw("\n")
    rows = CompareRows(
        leaves(found, a.reader.timeline, b.reader.timeline),
        reading_of(a.reader).rows(),
        reading_of(b.reader).rows(),
        (),
        stacked=True,
    )
    width = printer.columns or _COLUMNS
    for index in range(1, len(rows)):
        printer.line(rows.line(index, width), cut=True)
    printer.raw("\n")
    shared = common_messages(a.reader, found)
    for row in state_lines(*_standings(a, b, found), shared, printer.columns or _TABLE):
        printer.line(row, cut=True)
