"""What is decoded, held and written for one step of work, counted and not timed; run directories too."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
import tracemalloc
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests import generate
from tests.rivumi_cases import make

from refold.core.formats import exact, wire_decoder
from refold.core.formats.wire_quick import WireLine, read_wire, read_wire_lines
from refold.core.records import Message, MetaRecord, UserRecord
from refold.core.store.catalog import Catalog, Root
from refold.core.store.growing import Change
from refold.core.store.journal import JournalStore
from refold.core.store.reader import RunReader
from refold.core.summary import RunSummary
from refold.core.timeline import Timeline

KILOBYTE, MEGABYTE = 1 << 10, 1 << 20
SETTLED = 2.2


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the lines that were decoded."""
    sizes: list[int] = []

    def counting(line: bytes) -> WireLine | None:
        sizes.append(len(line))
        return read_wire(line)

    def counting_lines(lines: Sequence[bytes]) -> list[WireLine]:
        sizes.extend(map(len, lines))
        return read_wire_lines(lines)

    monkeypatch.setattr(wire_decoder, "read_wire", counting)
    monkeypatch.setattr(wire_decoder, "read_wire_lines", counting_lines)
    return sizes


def test_a_list_of_plain_runs_reads_no_line_the_slow_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate.small_runs(tmp_path, 10)
    slowly: list[bytes] = []
    monkeypatch.setattr(exact, "parse", slowly.append)
    catalog = Catalog((Root(tmp_path, "refold", "--root"),), cache=None)
    rows = {row.id: row for row in catalog.scan() if isinstance(row, RunSummary)}
    assert len(rows) == 10
    assert all(row.complete and row.prompt and row.model and row.turns for row in rows.values())
    assert not slowly


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The system calls that read, write or open, in order; reads with their bytes."""
    calls: list[str] = []
    pread, write, fsync, open_ = os.pread, os.write, os.fsync, os.open

    def counting_pread(fd: int, size: int, offset: int) -> bytes:
        data = pread(fd, size, offset)
        calls.append(f"read {len(data)}")
        return data

    def counting_write(fd: int, data: bytes) -> int:
        calls.append("write")
        return write(fd, data)

    def counting_fsync(fd: int) -> None:
        calls.append("fsync")
        fsync(fd)

    def counting_open(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        calls.append(f"open {os.fspath(path)}")
        return open_(path, flags, mode, dir_fd=dir_fd)

    for name, counting in (
        ("pread", counting_pread), ("write", counting_write),
        ("fsync", counting_fsync), ("open", counting_open),
    ):  # fmt: skip
        monkeypatch.setattr(os, name, counting)
    return calls


def read_of(calls: list[str]) -> int:
    """The bytes that were read."""
    return sum(int(call.split()[1]) for call in calls if call.startswith("read"))


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("decoded") / "run.json"
    generate.write(path, generate.journal(size=6 * MEGABYTE, ending="crashed"))
    return path


@pytest.fixture(scope="module")
def settled(journal: Path) -> Path:
    """The same, old enough for a cache to trust its times."""
    time.sleep(max(0.0, SETTLED - (time.time() - journal.stat().st_mtime)))
    return journal


@pytest.fixture
def grown(journal: Path, tmp_path: Path) -> Path:
    """A copy that may be appended to."""
    return Path(shutil.copy(journal, tmp_path / "run.json"))


def test_the_first_rows_decode_a_screenful_of_lines(journal: Path, decoded: list[int]) -> None:
    with RunReader.open(journal) as reader:
        while reader.timeline.rows < 40:
            reader.step(0.0)

    assert len(decoded) <= 128


def test_indexing_decodes_each_line_once(journal: Path, decoded: list[int]) -> None:
    with RunReader.open(journal) as reader:
        items = reader.index_all().items

    assert len(decoded) <= items + 4


def test_sums_turns_and_links_decode_nothing_and_read_nothing(
    journal: Path, decoded: list[int], asked: list[str]
) -> None:
    with RunReader.open(journal) as reader:
        timeline = reader.index_all()
        decoded.clear()
        asked.clear()
        for row in range(0, timeline.rows, 7):
            item = timeline.item_of(row)
            timeline.counters(item)
            timeline.turn(item)
            timeline.open_calls(item)
            timeline.link(row)
            timeline.next_turn(row, 1)

    assert decoded == []
    assert asked == []


def test_a_state_decodes_the_reply_of_its_turn_and_no_result(
    journal: Path, decoded: list[int], asked: list[str]
) -> None:
    with RunReader.open(journal) as reader:
        timeline = reader.index_all()
        reader.state_at(timeline.items - 1)
        for item in range(1, timeline.items, 11):
            decoded.clear()
            asked.clear()
            state = reader.state_at(item)

            assert len(decoded) <= 1
            assert len(asked) <= 1
            assert len(state.messages) >= 1
            assert len(decoded) <= 1


def test_what_was_looked_at_is_not_held(journal: Path) -> None:
    with RunReader.open(journal) as reader:
        timeline = reader.index_all()
        reader.record(1)
        tracemalloc.start()
        for item in range(1, timeline.items):
            reader.record(item)
        held, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert held <= 64 * KILOBYTE
    assert peak <= 4 * MEGABYTE


@pytest.mark.parametrize("records", [1, 30])
def test_growth_decodes_what_is_new(grown: Path, decoded: list[int], records: int) -> None:
    with RunReader.open(grown) as reader:
        reader.index_all()
        lines = list(generate.journal(records=records + 1, seed=5))[1:]
        decoded.clear()
        with grown.open("ab") as file:
            file.write(b"".join(lines))
        assert reader.poll() is Change.GREW
        reader.index_all()

    assert len(decoded) <= len(lines) + 1


def test_a_slice_ends_after_a_few_lines_or_a_piece_of_a_long_one(
    journal: Path, tmp_path: Path, asked: list[str]
) -> None:
    huge = tmp_path / "huge.json"
    generate.write(huge, generate.huge_record(8 * MEGABYTE))
    for path in (journal, huge):
        with RunReader.open(path) as reader:
            complete = False
            while not complete:
                items = reader.timeline.items
                asked.clear()
                complete = reader.step(0.0)

                # The line that had to be read, and a batch of those that came with it.
                assert reader.timeline.items - items <= 1 + 64
                assert read_of(asked) <= 512 * KILOBYTE


def test_an_unchanged_run_is_opened_again_from_its_ends(
    settled: Path, tmp_path: Path, decoded: list[int], asked: list[str]
) -> None:
    with RunReader.open(settled) as reader:
        items = reader.index_all().items
        assert reader.keep_index(tmp_path / "cache")
    decoded.clear()
    asked.clear()
    with RunReader.open(settled, cache=tmp_path / "cache") as reader:
        assert reader.index_all().items == items
        read = reader.bytes_read

    assert read <= 64 * KILOBYTE
    assert decoded == []


def test_a_grown_run_is_opened_again_with_what_is_new(
    grown: Path, tmp_path: Path, decoded: list[int]
) -> None:
    past = time.time() - 60
    os.utime(grown, (past, past))
    with RunReader.open(grown) as reader:
        reader.index_all()
        assert reader.keep_index(tmp_path / "cache")
    lines = list(generate.journal(records=21, seed=5))[1:]
    with grown.open("ab") as file:
        file.write(b"".join(lines))
    decoded.clear()
    with RunReader.open(grown, cache=tmp_path / "cache") as reader:
        reader.index_all()
        read = reader.bytes_read

    assert len(decoded) <= len(lines) + 1
    assert read <= 64 * KILOBYTE + 2 * sum(map(len, lines))


def test_an_append_is_one_write_and_one_fsync_at_any_size(tmp_path: Path, asked: list[str]) -> None:
    with JournalStore(tmp_path / "runs").create("run", MetaRecord(prompt="go")) as journal:
        for number in range(60):
            asked.clear()
            journal.append(UserRecord(Message("user", ({"type": "text", "text": "x" * number * 900},))))

            assert asked == ["write", "fsync"]


def test_a_run_that_grows_in_the_list_is_read_on_and_not_anew(
    grown: Path, asked: list[str], decoded: list[int]
) -> None:
    catalog = Catalog((Root(grown.parent, "refold", "test"),), cache=None)
    assert [item.id for item in catalog.scan() if isinstance(item, RunSummary) and item.complete] == ["run"]
    for seed in range(3):
        lines = list(generate.journal(records=5, seed=seed))[1:]
        with grown.open("ab") as file:
            file.write(b"".join(lines))
        asked.clear()
        decoded.clear()
        told = [item for item in catalog.refresh([grown]) if isinstance(item, RunSummary)]

        assert told
        # Not more than what is new, the last words, and the two ends that tell whether it is the same file.
        assert read_of(asked) <= 2 * sum(map(len, lines)) + 192 * KILOBYTE
        assert len(decoded) <= len(lines) + 16
    catalog.close()


@pytest.fixture
def session(tmp_path: Path) -> Iterator[tuple[Path, RunReader]]:
    """A run directory with a log of 2 MB, indexed to its end."""
    path = make("12-terminal-completed", tmp_path)
    last = json.loads((path / "events.jsonl").read_bytes().split(b"\n")[-2])
    with (path / "events.jsonl").open("ab") as file:
        file.write(events(last, 1, 1000))
    with RunReader.open(path) as reader:
        reader.index_all()
        yield path, reader


def events(last: dict[str, object], first: int, count: int) -> bytes:
    """Give lines of an event log that go on behind an event."""
    assert isinstance(last["sequence"], int)
    rows = [
        {
            **last,
            "event_type": "trace.note",
            "sequence": last["sequence"] + number,
            "data": {"text": "x" * 2000},
        }
        for number in range(first, first + count)
    ]
    return b"".join(json.dumps(row, separators=(",", ":"), sort_keys=True).encode() + b"\n" for row in rows)


def test_a_run_directory_shows_its_first_rows_after_a_bounded_read(
    session: tuple[Path, RunReader], asked: list[str]
) -> None:
    asked.clear()
    with RunReader.open(session[0]) as reader:
        while reader.timeline.rows < 10:
            reader.step(0.0)

    assert read_of(asked) <= 512 * KILOBYTE


def test_the_log_of_a_run_directory_is_read_once_and_then_only_where_it_grows(
    session: tuple[Path, RunReader], asked: list[str]
) -> None:
    path, reader = session
    log = path / "events.jsonl"
    asked.clear()
    with RunReader.open(path) as other:
        other.index_all()
    assert read_of(asked) <= log.stat().st_size * 1.05 + MEGABYTE

    more = events(json.loads(log.read_bytes().split(b"\n")[-2]), 1, 3)
    with log.open("ab") as file:
        file.write(more)
    asked.clear()
    assert reader.poll() is Change.GREW
    reader.index_all()
    assert read_of(asked) <= 2 * len(more) + 64 * KILOBYTE

    reader.poll()
    asked.clear()
    assert [reader.poll() for _ in range(50)] == [Change.SAME] * 50
    assert read_of(asked) == 0


def test_a_step_in_a_run_directory_reads_its_own_event(
    session: tuple[Path, RunReader], asked: list[str]
) -> None:
    _, reader = session
    items = reader.timeline.items
    for item in range(items // 2, items // 2 + 50):
        asked.clear()
        reader.raw(item, 700)
        reader.timeline.counters(item)

        assert read_of(asked) <= 700
        assert len(asked) == 1


def test_a_short_run_is_opened_and_read_once_for_its_row(
    tmp_path: Path, decoded: list[int], asked: list[str]
) -> None:
    generate.small_runs(tmp_path / "runs", 12)
    for path in (tmp_path / "runs").iterdir():
        if path.stat().st_size > 16 * KILOBYTE:
            path.unlink()  # it is shown before it is read in full
    runs = [path.read_bytes() for path in (tmp_path / "runs").iterdir()]
    asked.clear()
    catalog = Catalog((Root(tmp_path / "runs", "refold", "--root"),), cache=None)
    assert sum(row.complete for row in catalog.scan() if isinstance(row, RunSummary)) == len(runs) >= 8

    assert len([call for call in asked if call.startswith(f"open {tmp_path / 'runs'}/")]) == len(runs)
    assert read_of(asked) == sum(map(len, runs))
    assert len([call for call in asked if call.startswith("read")]) == len(runs)
    # Each line once, and again the last replies, in which the last words are looked for.
    assert len(decoded) <= sum(run.count(b"\n") for run in runs) + 2 * len(runs)


def test_the_item_of_a_far_row_is_searched_and_that_of_a_near_one_is_beside(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunReader.open(journal) as reader:
        timeline = reader.index_all()
    firsts = [timeline.first_row(item) for item in range(timeline.items)]
    asked: list[int] = []
    first_row = Timeline.first_row

    def counting(self: Timeline, item: int) -> int:
        asked.append(item)
        return first_row(self, item)

    monkeypatch.setattr(Timeline, "first_row", counting)
    rng = random.Random(4)
    steps = [1, -1, 3, -2, 40, -70, timeline.rows, -timeline.rows]
    row = 0
    for number in range(2000):
        step = steps[number % len(steps)]
        row = (row + rng.randrange(min(0, step), max(0, step) + 1)) % timeline.rows
        asked.clear()
        assert timeline.item_of(row) == bisect_right(firsts, row) - 1
        assert len(asked) <= 2 * (4 + timeline.items.bit_length())


def test_a_long_run_is_opened_for_appending_from_its_ends(grown: Path, asked: list[str]) -> None:
    with RunReader.open(grown) as reader:
        timeline = reader.index_all()
        last = timeline.last_seq
    grown.chmod(0o600)
    asked.clear()
    with JournalStore(grown.parent).open("run") as journal:
        assert journal.last_seq == last

    # Its head, for the version, and the end of its last record.
    assert read_of(asked) <= 64 * KILOBYTE
