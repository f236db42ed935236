"""Where a fork may begin is marked beside every record and below the ruler, and nowhere else."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests import generate
from tests.damage import KINDS, damage
from tests.rivumi_cases import CASES, make

from refold.app.lines import plain
from refold.app.present.points import legal_columns, with_points
from refold.app.present.reading import reading_of
from refold.app.present.ruler import TimeScale, first_item_by_count, fraction_of_row, labels_by_count
from refold.core.store.reader import RunReader
from refold.core.timeline import Timeline

MARKS = {"between": "┤", "pending": "┆", "none": " "}


def truth(timeline: Timeline, item: int) -> str:
    if not timeline.is_legal(item):
        return "none"
    return "pending" if timeline.open_calls(item) else "between"


def check_rows(reader: RunReader) -> int:
    """Hold the mark beside every row against what is legal; give how many were marked."""
    timeline = reader.index_all()
    rows = reading_of(reader).rows()
    digits = max(3, len(str(timeline.last_seq or 0)))
    marked = 0
    for index in range(timeline.rows):
        row = timeline.row(index)
        wanted = MARKS["none"] if row.call >= 0 else MARKS[truth(timeline, row.item)]
        assert plain(rows.line(index, 100))[1 + digits] == wanted, (reader.path, index)
        marked += wanted != " "
    return marked


def check_ruler(timeline: Timeline) -> None:
    """Hold the ticks below a ruler against the columns in which its cursor would stand."""
    scale = TimeScale(timeline)
    for _ in scale.extend():
        pass
    between = [item for item in range(timeline.items) if truth(timeline, item) == "between"]
    for width in (1, 7, 60, 200):
        by_count = legal_columns(timeline, width, partial(first_item_by_count, timeline, width))
        places = [fraction_of_row(timeline, timeline.first_row(item)) for item in between]
        columns = {int(place * width) for place in places}
        ticked = {at for at, legal in enumerate(by_count) if legal}
        # Of a column with very many records only the last ones are looked at.
        assert ticked == columns if timeline.items <= width else ticked <= columns
        if scale.total:
            by_time = legal_columns(timeline, width, partial(scale.first_item, width))
            columns = {min(int(scale.fraction(item) * width), width - 1) for item in between}
            ticked = {at for at, legal in enumerate(by_time) if legal}
            assert ticked == columns if timeline.items <= 16 else ticked <= columns
        labels = labels_by_count(timeline, width)
        drawn = plain(with_points(labels, by_count))
        told = plain(labels)
        for column, legal in enumerate(by_count):
            label = told[column] if column < len(told) else " "
            shown = drawn[column] if column < len(drawn) else " "
            assert shown == (label if label != " " else "╵" if legal else " ")


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_the_marks_of_every_recorded_journal(version: str, journals: Path) -> None:
    marked = 0
    for path in sorted((journals / version).glob("*.json")):
        with RunReader.open(path, hint="fisk-ai") as reader:
            marked += check_rows(reader)
            check_ruler(reader.timeline)
    assert marked > 100


@pytest.mark.parametrize("case", CASES)
def test_the_marks_of_a_run_directory(case: str, tmp_path: Path) -> None:
    with RunReader.open(make(case, tmp_path), hint="rivumi") as reader:
        check_rows(reader)
        check_ruler(reader.timeline)


@pytest.mark.parametrize("kind", KINDS)
def test_the_marks_of_damaged_runs(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    generate.write(path, generate.journal(records=40, seed=3, bodies=generate.short_bodies(3)))
    path.write_bytes(damage(kind, 3, path.read_bytes()))
    with RunReader.open(path, hint="refold") as reader:
        check_rows(reader)
        check_ruler(reader.timeline)
