"""An index that another version of the program kept is never read as one of this version."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec
import pytest
from tests import generate

from refold.core import columns
from refold.core.rivumi import timeline_builder as rivumi
from refold.core.rivumi.history import KeptHistory
from refold.core.store import index_cache
from refold.core.store.growing import Change
from refold.core.store.reader import RunReader
from refold.core.timeline_builder import Snapshot
from refold.core.timeline_fold import IndexFold

FORM = "54b8befcac3111c9"
"""Of what is kept under the layout of that number; another form takes the next number, here and there."""
NUMBER = 9


def form() -> str:
    """Give the check sum of the form of what is kept: its fields, their types, and the columns."""
    parts = (Snapshot, IndexFold, columns.PackedColumns, rivumi._Kept, rivumi._Sums, KeptHistory)
    structs = (index_cache._Entry, *parts)
    fields = [
        (each.__name__, [(field.encode_name, str(field.type)) for field in msgspec.structs.fields(each)])
        for each in structs
    ]
    told = repr((fields, [*columns._BY_ITEM.items()], [*columns._BY_TURN.items()], [*columns._WIDER.items()]))
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def test_the_layout_has_another_number_since_the_form_of_what_is_kept_is_another() -> None:
    assert (index_cache.LAYOUT.split("/")[1], form()) == (str(NUMBER), FORM)


def test_what_an_earlier_layout_kept_is_a_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = index_cache.Place(7, 8, 0, index_cache.SMALLEST, 1, b"", b"")
    now = index_cache.LAYOUT
    for number in range(1, NUMBER):
        with monkeypatch.context() as patch:
            patch.setattr(index_cache, "LAYOUT", now.replace(f"/{NUMBER}/", f"/{number}/"))
            assert index_cache.save(tmp_path, place, b"\x90")
        assert index_cache.load(tmp_path, 7, 8) is None
    assert index_cache.save(tmp_path, place, b"\x90")
    assert index_cache.load(tmp_path, 7, 8) is not None


def test_no_bit_of_what_is_kept_flips_unseen(tmp_path: Path) -> None:
    place = index_cache.Place(7, 8, 0, index_cache.SMALLEST, 1, b"head", b"foot")
    snapshot = msgspec.msgpack.encode([*range(40), "text"])
    assert index_cache.save(tmp_path, place, snapshot)
    (kept,) = (tmp_path / index_cache.DIRECTORY).iterdir()
    whole = kept.read_bytes()
    for bit in range(len(whole) * 8):
        spoiled = bytearray(whole)
        spoiled[bit // 8] ^= 1 << bit % 8
        kept.write_bytes(spoiled)
        assert index_cache.load(tmp_path, 7, 8) is None, bit
    kept.write_bytes(whole)
    found = index_cache.load(tmp_path, 7, 8)
    assert found is not None
    assert (found[0], bytes(found[1])) == (place, snapshot)


def test_a_reopened_index_is_copied_one_column_a_step_once_lines_are_appended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_cache, "SMALLEST", 1)
    path, cache = tmp_path / "run.json", tmp_path / "cache"
    *lines, last = generate.journal(records=40, run_id="run")
    path.write_bytes(b"".join(lines))
    os.utime(path, (1, 1))
    with RunReader.open(path, cache=cache) as reader:
        reader.index_all()
        assert reader.keep_index(cache)
    with RunReader.open(path, cache=cache) as reader:
        assert reader.step(0.0)
        # Who only looks pays nothing.
        assert views(reader) == 20
        with path.open("ab") as file:
            file.write(last)
        assert reader.poll() is Change.GREW
        left = [views(reader)]
        while not reader.step(0.0):
            left.append(views(reader))
        assert left[:21] == [*range(20, -1, -1)]
        assert reader.timeline.items == len(lines) + 1
        with RunReader.open(path) as anew:
            assert anew.index_all().columns.packed() == reader.timeline.columns.packed()


def views(reader: RunReader) -> int:
    """Say how many columns were not copied yet."""
    return sum(isinstance(column, memoryview) for column in reader.timeline.columns.arrays())
