"""The runs of a run's own agents between its rows: read beside it, indented, and as deep as they go."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from refold.app.lines import Cell, Line
from refold.app.present import units
from refold.app.present.layout import BLANK, cell, fit, flow
from refold.app.present.status import status_cell
from refold.app.present.view import View
from refold.app.safe import Safe
from refold.core.errors import RefoldError
from refold.core.store.reader import RunReader

if TYPE_CHECKING:
    from refold.app.present.reading import Reading

_FOLDED: Final = 12
"""Rows of one run that are shown before the reader asks for more."""
_UNFOLDED: Final = 1_000
_LONGEST: Final = 4 << 20
"""Bytes of a run that is shown here."""
_DEEPEST: Final = 5
_MOST_RUNS: Final = 50
_SLICE: Final = 0.002


def nested_lines(
    paths: Sequence[Path], width: int, view: View, *, redacted: bool = False, depth: int = 1
) -> Generator[Line | None, None, None]:
    """Give the rows of runs, each under its name; None where work was done but no line is ready.

    Args:
        paths: The runs.
        width: Cells of a line.
        view: What the reader has unfolded.
        redacted: Show them without their secrets.
        depth: How deep they lie in the run that is open.
    """
    for path in paths[:_MOST_RUNS]:
        yield BLANK
        try:
            with RunReader.open(path) as reader:
                yield from _run(reader, width, view, redacted=redacted, depth=depth)
        except RefoldError as error:
            yield from flow((cell(f"▸ {path.name}  ", "strong"), cell(str(error), "problem", 400)), width, 2)
    if len(paths) > _MOST_RUNS:
        yield (cell(f"⋯ {units.plural(len(paths) - _MOST_RUNS, 'more run')}", "dim"),)


def _run(
    reader: RunReader, width: int, view: View, *, redacted: bool, depth: int
) -> Generator[Line | None, None, None]:
    name = cell(reader.run_id, "strong", 120)
    if reader.size > _LONGEST:
        said = f"  {units.size(reader.size)}: too long to be shown here, open it"
        yield from flow((cell("▸ ", "meta"), name, cell(said, "dim")), width, 2)
        return
    while not reader.step(_SLICE):
        yield None
    from refold.app.present.reading import reading_of

    reading = reading_of(reader)
    if redacted:
        from refold.app.present.lens import Lens

        reading.lens = Lens(reader)
    yield _title(reading, name, width)
    yield from _rows(reading, width, view, redacted=redacted, depth=depth)


def _title(reading: Reading, name: Cell, width: int) -> Line:
    top = reading.top(held=False)
    shown = status_cell(top.status or "unreadable")
    counts = f"  {units.plural(top.turns or 0, 'turn')} · {units.plural(top.calls or 0, 'call')}"
    counts += f" · {units.short(top.tokens or 0)} tokens"
    return fit(
        (cell("▾ ", "meta"), name, Cell(Safe("  "), "text"), shown, cell(counts, "dim")),
        width,
    )


def _rows(
    reading: Reading, width: int, view: View, *, redacted: bool, depth: int
) -> Generator[Line | None, None, None]:
    rows = reading.rows()
    most = _UNFOLDED if view.unfolded else _FOLDED
    edge = cell("│ ", "meta")
    seen: set[Path] = set()
    for index in range(min(most, len(rows))):
        yield (edge, *rows.line(index, max(20, width - 2)))
        paths = [path for path in reading.inner(index) if path not in seen]
        seen.update(paths)
        if paths and depth >= _DEEPEST:
            many = units.plural(len(paths), "run")
            said = f"⋯ {many} nested deeper: open {reading.reader.run_id} to see them"
            yield from ((edge, *line) for line in flow((cell(said, "warn", 200),), max(10, width - 2)))
        elif paths:
            inner = nested_lines(paths, max(20, width - 2), view, redacted=redacted, depth=depth + 1)
            yield from (None if line is None else (edge, *line) for line in inner)
    if len(rows) > most:
        more = f"⋯ {units.plural(len(rows) - most, 'more row')}"
        unfold = "" if view.unfolded else f"  ({view.unfold_key} shows them)"
        yield (edge, cell(f"{more}{unfold}", "dim"))
