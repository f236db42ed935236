"""A row summed up without an index is the row that the index gives; what is unusual is left to the index."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import generate
from tests.damage import KINDS, damage
from tests.generate import ENDINGS, STYLES, Ending, Style

from refold.core.store.reader import RunReader
from refold.core.store.roots import look
from refold.core.store.summarise import summarise, summarise_usual
from refold.core.summary import RunSummary

FIXTURES = Path(__file__).parent / "data" / "fisk-ai"
JOURNALS = sorted(path for path in FIXTURES.glob("v?/*.json") if path.name != "expected.json")


def both(path: Path) -> tuple[RunSummary | None, RunSummary]:
    """Give the row without an index, None where there is none, and the one that the index gives."""
    found = look(str(path))
    assert found is not None
    with RunReader.open(path, hint="fisk-ai") as reader:
        reader.index_all()
        return summarise_usual(found, hint="fisk-ai"), summarise(found, reader)


def lines_of(style: Style, ending: Ending = "suspended", records: int = 24, seed: int = 4) -> list[bytes]:
    return list(generate.journal(records=records, seed=seed, style=style, ending=ending, run_id="run"))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("ending", ENDINGS)
def test_the_row_of_a_good_run(style: Style, ending: Ending, tmp_path: Path) -> None:
    for records in (4, 9, 60):
        path = tmp_path / "run.json"
        path.write_bytes(b"".join(lines_of(style, ending, records)))
        quick, exact = both(path)
        assert quick == exact


@pytest.mark.parametrize("style", STYLES)
def test_small_runs_need_no_index(style: Style, tmp_path: Path) -> None:
    for path in generate.small_runs(tmp_path, 200, style=style):
        quick, exact = both(path)
        assert quick == exact


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_damaged_run_is_left_to_the_index_or_has_the_same_row(
    style: Style, kind: str, tmp_path: Path
) -> None:
    whole = b"".join(lines_of(style))
    path = tmp_path / "run.json"
    for seed in range(6):
        path.write_bytes(damage(kind, seed, whole))
        quick, exact = both(path)
        assert quick is None or quick == exact, seed


@pytest.mark.parametrize("journal", JOURNALS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_runs_that_the_original_wrote(journal: Path, tmp_path: Path) -> None:
    for name in ("run-1", journal.stem):
        path = tmp_path / f"{name}.json"
        path.write_bytes(journal.read_bytes())
        quick, exact = both(path)
        assert quick is None or quick == exact


def test_a_run_that_is_torn_foreign_or_grows_is_left_to_the_index(tmp_path: Path) -> None:
    data = b"".join(lines_of("native"))
    path = tmp_path / "run.json"
    for cut in range(1, 300):
        path.write_bytes(data[:-cut])
        quick, exact = both(path)
        assert quick is None or (quick == exact and data[:-cut].endswith(b"\n"))
    other = tmp_path / "other.json"
    other.write_bytes(data)
    assert both(other)[0] is None
    path.write_bytes(data)
    found = look(str(path))
    os.truncate(path, len(data) - 10)
    assert found is not None
    assert summarise_usual(found, hint="refold") is None


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_lines_in_any_order_dropped_or_twice(tmp_path: Path, data: st.DataObject) -> None:
    """Whatever a row says without an index, the index says too."""
    style = data.draw(st.sampled_from(STYLES))
    records = data.draw(st.sampled_from([4, 6, 12]))
    lines = lines_of(style, data.draw(st.sampled_from(ENDINGS)), records)
    changed = [*lines]
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(changed) - 1))
        how = data.draw(st.sampled_from(["drop", "twice", "swap", "number", "other"]))
        if how == "drop":
            del changed[place]
        elif how == "twice":
            changed.insert(place, changed[place])
        elif how == "swap":
            other = data.draw(st.integers(0, len(changed) - 1))
            changed[place], changed[other] = changed[other], changed[place]
        elif how == "other":
            changed[place] = data.draw(st.sampled_from(lines))
        else:
            before, _, after = changed[place].partition(b",")
            number = data.draw(st.integers(0, 30))
            changed[place] = before.partition(b":")[0] + b":%d," % number + after
        if not changed:
            break
    # Renumbered, most of these are still in their order, and only what they say is odd.
    if data.draw(st.booleans()):
        changed = [b'{"seq":%d,' % number + line.partition(b",")[2] for number, line in enumerate(changed, 1)]
    path = tmp_path / "run.json"
    path.write_bytes(b"".join(changed) or b"\n")
    quick, exact = both(path)
    assert quick is None or quick == exact
