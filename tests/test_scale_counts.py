"""What grows with what: bytes read, files opened and memory held, counted and not timed."""

from __future__ import annotations

import os
import random
import shutil
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import generate
from tests.rivumi_cases import make

from refold.core.store.catalog import Catalog, Root
from refold.core.store.growing import Change
from refold.core.store.reader import RunReader
from refold.core.summary import RunSummary

MEGABYTE = 1 << 20
SIZE = 24 * MEGABYTE
RUNS = 300


class Counted:
    """What was asked of the system since the last `reset`."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Count from nothing again."""
        self.bytes = 0
        self.reads = 0
        self.opened: list[str] = []


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    count = Counted()
    pread, read, open_ = os.pread, os.read, os.open

    def counting_pread(fd: int, size: int, offset: int) -> bytes:
        data = pread(fd, size, offset)
        count.bytes += len(data)
        count.reads += 1
        return data

    def counting_read(fd: int, size: int) -> bytes:
        data = read(fd, size)
        count.bytes += len(data)
        count.reads += 1
        return data

    def counting_open(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        count.opened.append(os.fspath(path))
        return open_(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "pread", counting_pread)
    monkeypatch.setattr(os, "read", counting_read)
    monkeypatch.setattr(os, "open", counting_open)
    return count


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("big") / "big.json"
    generate.write(path, generate.journal(size=SIZE, run_id="big"))
    return path


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("many") / "runs"
    generate.runs(directory, RUNS, size=20_000)
    time.sleep(
        2.2
    )  # a file that changed this instant is read again: its time stamp may not tell the next change
    return directory


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[tuple[Path, RunReader]]:
    """A run of 4 MB, indexed to its end, that a writer may go on with."""
    path = tmp_path / "growing.json"
    generate.write(path, generate.journal(size=4 * MEGABYTE, ending="crashed"))
    with RunReader.open(path) as reader:
        reader.index_all()
        yield path, reader


def test_the_first_rows_cost_a_bounded_read(big: Path, counted: Counted) -> None:
    with RunReader.open(big) as reader:
        assert not reader.step(0.0)
        # What came with the first line is taken with it: one line alone would be painted, and nothing seen.
        assert reader.timeline.rows >= 10
    assert counted.bytes <= 512 * 1024


def test_the_end_can_be_shown_before_the_index_is_there(big: Path, counted: Counted) -> None:
    with RunReader.open(big) as reader:
        assert reader.tail_timeline().rows >= 1
    assert counted.bytes <= 512 * 1024


def test_indexing_reads_each_byte_about_once(big: Path, counted: Counted) -> None:
    with RunReader.open(big) as reader:
        reader.index_all()

    assert SIZE <= counted.bytes <= SIZE * 1.05 + MEGABYTE


@pytest.mark.parametrize("records", [1, 7, 40])
def test_growth_reads_what_is_new(growing: tuple[Path, RunReader], counted: Counted, records: int) -> None:
    path, reader = growing
    before = reader.timeline.rows
    lines = list(generate.journal(records=records + 1, seed=5, size=None))[1:]
    appended = b"".join(lines)
    with path.open("ab") as file:
        file.write(appended)
    counted.reset()

    assert reader.poll() is Change.GREW
    while not reader.step(1.0):
        pass

    assert reader.timeline.rows > before
    assert counted.bytes <= 2 * len(appended) + 64 * 1024


def test_growth_byte_by_byte_is_not_read_over_and_over(
    growing: tuple[Path, RunReader], counted: Counted
) -> None:
    path, reader = growing
    line = list(generate.journal(records=4, seed=6))[1]
    pieces = [line[n : n + 64] for n in range(0, len(line), 64)]
    counted.reset()
    with path.open("ab", buffering=0) as file:
        for piece in pieces:
            file.write(piece)
            reader.poll()
            reader.step(1.0)

    assert counted.bytes <= 8192 * len(pieces) + 64 * 1024


def test_a_look_at_an_unchanged_file_reads_nothing(growing: tuple[Path, RunReader], counted: Counted) -> None:
    _, reader = growing
    reader.poll()
    counted.reset()

    assert [reader.poll() for _ in range(100)] == [Change.SAME] * 100
    assert counted.bytes == 0
    assert counted.opened == []


def test_a_state_reads_its_own_turn_and_not_the_run(big: Path, counted: Counted) -> None:
    rng = random.Random(3)
    with RunReader.open(big) as reader:
        timeline = reader.index_all()
        items = [rng.randrange(1, timeline.items) for _ in range(60)]
        taken = []
        for item in items:
            counted.reset()
            state = reader.state_at(item)
            taken.append(counted.bytes)

            assert state.counters.llm_calls >= 1

    assert sorted(taken)[len(taken) // 2] <= 128 * 1024
    assert max(taken) <= 2 * MEGABYTE


def test_a_payload_is_read_as_far_as_it_is_wanted(big: Path, counted: Counted) -> None:
    with RunReader.open(big) as reader:
        timeline = reader.index_all()
        counted.reset()
        for item in range(timeline.items // 2, timeline.items // 2 + 40):
            reader.raw(item, 700)

    assert counted.bytes <= 40 * 700


def test_the_index_holds_no_payload(big: Path) -> None:
    with RunReader.open(big) as reader:
        reader.step(0.0)
        tracemalloc.start()
        timeline = reader.index_all()
        held, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        assert held <= 2 * MEGABYTE + 200 * timeline.items
        assert peak <= 12 * MEGABYTE


def test_a_huge_record_is_never_held_whole(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    generate.write(path, generate.huge_record(30 * MEGABYTE))
    with RunReader.open(path) as reader:
        tracemalloc.start()
        reader.index_all()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        assert reader.timeline.items == 5
        assert reader.timeline.findings == ()
        assert peak <= 8 * MEGABYTE


def _rows(catalog: Catalog) -> dict[str, RunSummary]:
    return {item.path: item for item in catalog.scan() if isinstance(item, RunSummary)}


def test_a_warm_list_opens_no_run(many: Path, tmp_path: Path, counted: Counted) -> None:
    roots = (Root(many, "refold", "test"),)
    first = Catalog(roots, cache=tmp_path / "cache")
    cold = _rows(first)
    first.close()
    counted.reset()

    warm = _rows(Catalog(roots, cache=tmp_path / "cache"))

    assert len(cold) == RUNS
    assert warm == cold
    assert [path for path in counted.opened if path.startswith(f"{many}/")] == []


def test_the_first_screenful_opens_a_screenful(many: Path, counted: Counted) -> None:
    seen: set[str] = set()
    for item in Catalog((Root(many, "refold", "test"),), cache=None).scan():
        if isinstance(item, RunSummary):
            seen.add(item.path)
        if len(seen) == 50:
            break

    assert len([path for path in counted.opened if path.startswith(str(many))]) <= 60


def test_one_changed_run_is_one_opened_run(many: Path, tmp_path: Path, counted: Counted) -> None:
    roots = (Root(many, "refold", "test"),)
    catalog = Catalog(roots, cache=tmp_path / "cache")
    _rows(catalog)
    path = sorted(many.glob("*.json"))[RUNS // 2]
    with path.open("ab") as file:
        file.write(b"\n")
    counted.reset()

    told = [item.path for item in catalog.refresh([many]) if isinstance(item, RunSummary)]

    assert told == [str(path)]
    assert set(counted.opened) & set(map(str, many.iterdir())) == {str(path)}


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As many runs that are directories, of the same bytes: a manifest, a request and a log."""
    store = tmp_path_factory.mktemp("directories") / "runs"
    first = make("12-terminal-completed", store)
    shutil.rmtree(first / "workspace")
    for number in range(1, RUNS):
        shutil.copytree(first, store / f"run-{number}")
    time.sleep(2.2)
    return store


def test_run_directories_cost_a_small_multiple_of_journals(
    directories: Path, tmp_path: Path, counted: Counted
) -> None:
    roots = (Root(directories, "rivumi", "test"),)
    first = Catalog(roots, cache=tmp_path / "cache")
    cold = _rows(first)
    first.close()
    read = ("session.json", "request.json", "events.jsonl")
    size = sum(path.stat().st_size for path in directories.rglob("*") if path.name in read)

    assert len(cold) == RUNS
    assert len([path for path in counted.opened if path.startswith(f"{directories}/")]) <= 3 * RUNS
    assert counted.bytes <= 1.01 * size + MEGABYTE

    counted.reset()
    warm = _rows(Catalog(roots, cache=tmp_path / "cache"))

    assert warm == cold
    assert [path for path in counted.opened if path.startswith(f"{directories}/")] == []


def test_one_changed_run_directory_is_the_one_that_is_read(directories: Path, counted: Counted) -> None:
    catalog = Catalog((Root(directories, "rivumi", "test"),), cache=None)
    _rows(catalog)
    counted.reset()
    assert [item for item in catalog.refresh_holders() if isinstance(item, RunSummary)] == []
    assert [path for path in counted.opened if path.startswith(f"{directories}/")] == []
    run = directories / "run-7"
    (run / "session.json").write_bytes((run / "session.json").read_bytes() + b" ")
    os.utime(run)

    told = [item.path for item in catalog.refresh_holders() if isinstance(item, RunSummary)]

    assert told == [str(run)]
    read = [Path(path) for path in counted.opened if path.startswith(f"{directories}/")]
    assert {path.parent for path in read} == {run}
