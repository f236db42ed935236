"""A search over all runs finds the same with and without an index, whatever happened to the runs between."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.search_story import (
    build,
    hits,
    hits_in,
    journal,
    look,
    reach,
    record,
    session,
    settle,
    steps,
    told,
)

from refold.core.search_hits import Hit
from refold.core.search_text import SCOPES
from refold.core.store import search_database, search_index, search_source
from refold.core.store.files import open_regular
from refold.core.store.search_database import IndexProblem
from refold.core.store.search_index import open_index, open_to_build

KINDS = ("user", "assistant", "call", "tool_result", "terminal")
WORDS = (
    "ledger",
    "Invoice",
    "no such file",
    "read_file",
    "naïve café",
    "日本語",
    "x",
    "ledgers",
    "9f",
    "Ωmega",
)
TEXT = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
TEXTS = st.lists(st.tuples(st.sampled_from(KINDS), TEXT), max_size=5)
QUERIES = (
    "ledger",
    "ledger*",
    '"such file"',
    "result:invoice",
    "x",
    "read_file ledger",
    "本",
    "CAFE\u0301",
    "ω*",
)
CHANGES = ("grow", "rewrite", "same size", "cut", "remove", "replace", "torn", "touch", "session", "nothing")


def change(directory: Path, what: str, text: str, number: int) -> None:
    """Do something to one run, or add one."""
    runs = sorted(directory.glob("*.json"))
    path = runs[number % len(runs)] if runs else directory / "new.json"
    before = path.read_bytes() if runs else b""
    match what:
        case "grow":
            with path.open("ab") as file:
                file.write(record(90 + number, "assistant", text))
        case "rewrite":
            journal(path, [("tool_result", text)])
        case "same size" if before:
            path.write_bytes(before.replace(b"ledger", b"qedger").replace(b"x", b"y"))
        case "cut":
            path.write_bytes(before[: before.rfind(b"\n", 0, -1) + 1])
        case "remove" if before:
            path.unlink()
        case "replace":
            path.with_suffix(".tmp").write_bytes(before + record(70, "user", text))
            path.with_suffix(".tmp").replace(path)
        case "torn":
            with path.open("ab") as file:
                file.write(record(80, "user", text)[:-9])
        case "touch" if before:
            os.utime(path)
        case "session":
            name = directory / f"s{number}"
            if not name.exists():
                session(name, [text, "x"], [("user", text), ("tool", "ledger")])
        case _:
            return
    if path.exists():
        settle(path, number)


@settings(max_examples=25)
@given(
    stores=st.lists(TEXTS, min_size=1, max_size=4),
    changes=st.lists(st.tuples(st.sampled_from(CHANGES), TEXT, st.integers(0, 9)), max_size=4),
    taken=st.integers(0, 6),
    limit=st.sampled_from([1, 2, 1000]),
)
def test_results_are_the_same_with_and_without(
    stores: list[list[tuple[str, str]]], changes: list[tuple[str, str, int]], taken: int, limit: int
) -> None:
    with tempfile.TemporaryDirectory() as made:
        runs, cache = Path(made) / "runs", Path(made) / "cache"
        runs.mkdir()
        for at, texts in enumerate(stores):
            journal(runs / f"r{at}.json", texts, age=at)
        session(runs / "dir", ["ledger x"], [("assistant", "naïve café"), ("tool", "no such file")], age=2)
        with open_to_build(cache) as index:
            # An index that is not finished yet is one, too.
            steps(index.build(look(runs)), taken)
            for what, text, number in [("nothing", "", 0), *changes]:
                change(runs, what, text, number)
                for query in QUERIES:
                    plain = hits(runs, query, limit=limit)
                    assert hits(runs, query, index, limit) == plain, (what, query)
            for _ in index.build(look(runs)):
                pass
            for query in QUERIES:
                assert hits(runs, query, index, limit) == hits(runs, query, limit=limit), query
        with open_index(cache) or pytest.fail("no index") as other:
            for query in QUERIES:
                assert hits(runs, query, other, limit) == hits(runs, query, limit=limit), query


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    directory = tmp_path / "runs"
    directory.mkdir()
    for at in range(12):
        texts = [("user", f"prompt {at}"), ("tool_result", "ledger " * (at + 1)), ("assistant", "done")]
        journal(directory / f"run{at:02}.json", texts, age=at)
    session(directory / "dir", ["an event of a ledger"], [("assistant", "a message")], age=20)
    return directory


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_the_fixtures_are_found_alike(project: Path, tmp_path: Path) -> None:
    directory = tmp_path / "all"
    directory.mkdir()
    for at, path in enumerate(sorted((project / "tests/data/fisk-ai").rglob("*.json"))):
        if path.is_file() and not path.is_symlink():
            shutil.copy(path, directory / f"{at:03}-{path.stem}.json")
    for path in sorted((project / "tests/data/rivumi").iterdir()):
        if path.is_dir():
            shutil.copytree(path, directory / path.name, symlinks=True)
    for path in directory.rglob("*"):
        if path.is_file():
            settle(path)
    queries = (
        "calc",
        "toolu_01a",
        "payments",
        "argument:read_file",
        '"return a"',
        "e*",
        "1 204",
        "completed",
    )
    plain = {query: hits(directory, query) for query in queries}
    build(directory, tmp_path / "cache")
    with open_index(tmp_path / "cache") or pytest.fail("no index") as index:
        for query in queries:
            assert plain[query], query
            assert hits(directory, query, index) == plain[query], query


def test_runs_nested_in_runs_are_searched(runs: Path) -> None:
    place = runs / "dir"
    for depth in range(3):
        (place / "subagents").mkdir(0o700)
        place = session(place / "subagents" / f"agent{depth}", [f"said at depth{depth}"], [])
    assert [Path(hit.run).name for hit in hits(runs, "depth2")] == ["agent2"]
    assert len(hits(runs, "depth*")) == 3


def test_a_message_that_an_event_shows_is_not_told_twice(runs: Path) -> None:
    said = [("tool", "the very same line"), ("tool", "same, not quite")]
    session(runs / "twice", ["the very same line"], said)
    assert [hit.kind for hit in hits(runs, "very same")] == ["tool.completed"]
    assert {hit.kind for hit in hits(runs, "same")} == {"tool.completed", "message tool"}


def test_hits_are_best_first_and_of_equals_the_newer(runs: Path) -> None:
    found = hits(runs, "done")
    assert [Path(hit.run).stem for hit in found[:3]] == ["run00", "run01", "run02"]
    scores = [hit.score for hit in hits(runs, "ledger")]
    assert scores == sorted(scores, reverse=True)
    assert hits(runs, "done")[0].scopes == ("answer",)
    assert {hit.kind for hit in hits(runs, "message")} == {"message assistant"}


def test_what_is_wanted_is_that_of_the_newest_runs(runs: Path, cache: Path) -> None:
    build(runs, cache)
    with open_index(cache) or pytest.fail("no index") as index:
        for using in (None, index):
            said = told(runs, "ledger", using, limit=3)
            assert {Path(hit.run).stem for hit in hits_in(said, 3)} == {"run00", "run01", "run02"}
            assert sum(isinstance(one, Hit) for one in said) == 3


def test_common_words_are_looked_for_run_by_run(
    runs: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refold.core.store.search._FEW", 5)
    build(runs, cache)
    with open_index(cache) or pytest.fail("no index") as index:
        assert hits(runs, "ledger", index) == hits(runs, "ledger")
        assert len(hits(runs, "ledger", index)) == 13


def test_only_new_bytes_are_read(runs: Path, cache: Path) -> None:
    whole = (
        sum(path.stat().st_size for path in runs.glob("*.json")) + (runs / "dir/events.jsonl").stat().st_size
    )
    assert build(runs, cache) == whole
    assert build(runs, cache) == 0
    more = record(50, "assistant", "something new")
    with (runs / "run03.json").open("ab") as file:
        file.write(more)
    settle(runs / "run03.json")
    assert build(runs, cache) == len(more)
    with open_index(cache) or pytest.fail("no index") as index:
        said = told(runs, '"something new"', index)
        assert [hit.seq for hit in hits_in(said)] == [50]
        assert reach(said).unindexed == 0


def test_a_search_in_the_index_opens_no_run_without_a_hit(
    runs: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(runs, cache)
    opened: list[Path] = []

    def counted(path: Path) -> int:
        opened.append(path)
        return open_regular(path)

    for module in ("search_index", "search_scan"):
        monkeypatch.setattr(f"refold.core.store.{module}.open_regular", counted)
    with open_index(cache) or pytest.fail("no index") as index:
        opened.clear()
        assert len(hits(runs, "prompt:7", index)) == 1
        assert hits(runs, "nowhere", index) == []
        assert [path.name for path in opened] == ["run07.json"]


def test_a_torn_tail_is_searched_by_reading_it_alone(runs: Path, cache: Path) -> None:
    path = runs / "run05.json"
    with path.open("ab") as file:
        file.write(b'{"seq":9,"user":{"message":{"content":"half a senten')
    settle(path)
    build(runs, cache)
    with open_index(cache) or pytest.fail("no index") as index:
        said = told(runs, "senten", index)
        (hit,) = hits_in(said)
        assert (hit.kind, reach(said).unindexed) == ("damage", 1)


def test_the_index_is_kept_from_others(runs: Path, cache: Path) -> None:
    build(runs, cache)
    assert cache.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in cache.iterdir()} == {0o600}


def test_what_vanished_gives_its_room_back(runs: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_index, "_MOST_DEAD", 100)
    build(runs, cache)
    for path in sorted(runs.glob("*.json"))[2:]:
        path.unlink()
    build(runs, cache)
    build(runs, cache)
    database = sqlite3.connect(cache / search_database.NAME)
    assert database.execute("SELECT count(*) FROM source WHERE NOT alive").fetchone() == (0,)
    database.close()
    with open_index(cache) or pytest.fail("no index") as index:
        assert hits(runs, "ledger", index) == hits(runs, "ledger")


def test_one_process_writes(runs: Path, cache: Path) -> None:
    with open_to_build(cache) as first:
        steps(first.build(look(runs)), 2)
        with pytest.raises(IndexProblem, match="another Refold"):
            open_to_build(cache)
        with open_index(cache) or pytest.fail("no index") as other:
            assert not other.may_build
            assert hits(runs, "ledger", other) == hits(runs, "ledger")


WRITER = """
import sys
from pathlib import Path
from tests.search_story import build, hits
from refold.core.store.search_database import IndexProblem
from refold.core.store.search_index import open_index
runs, cache = Path(sys.argv[1]), Path(sys.argv[2])
for turn in range(6):
    try:
        build(runs, cache)
    except IndexProblem as problem:
        assert "another Refold" in str(problem), problem
    index = open_index(cache)
    if index is not None:
        with index:
            assert hits(runs, "ledger", index) == hits(runs, "ledger"), turn
print("well")
"""


def test_two_processes_at_once_do_not_disturb_each_other(runs: Path, cache: Path, project: Path) -> None:
    for number in range(4):
        with (runs / f"run{number:02}.json").open("ab") as file:
            file.write(record(60 + number, "user", "ledger of another"))
    children = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(runs), str(cache)],
            cwd=project,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for child in children:
        out, error = child.communicate(timeout=60)
        assert (child.returncode, out, error) == (0, "well\n", "")


def test_what_another_process_adds_meanwhile_is_told_once(
    runs: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(runs, cache)
    with open_index(cache) or pytest.fail("no index") as index:
        with (runs / "run02.json").open("ab") as file:
            file.write(record(40, "user", "ledger once more"))
        settle(runs / "run02.json", 2)
        build(runs, cache)
        # The moment between learning what is indexed and asking for the places.
        monkeypatch.setattr(index, "refresh", lambda: None)
        assert hits(runs, "ledger", index) == hits(runs, "ledger")


KILLED = """
import sys
from pathlib import Path
from tests.search_story import build, record
runs, cache = Path(sys.argv[1]), Path(sys.argv[2])
print("begun", flush=True)
for seq in range(100, 100_000):
    with (runs / f"run{seq % 12:02}.json").open("ab") as file:
        file.write(record(seq, "user", f"ledger number {seq}"))
    build(runs, cache)
"""


def test_a_process_that_is_killed_leaves_an_index_that_counts(runs: Path, cache: Path, project: Path) -> None:
    for seconds in (0.05, 0.21, 0.4):
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(runs), str(cache)], cwd=project, stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        with child:
            child.stdout.readline()
            time.sleep(seconds)
            child.kill()
        index = open_index(cache)
        if index is not None:
            with index:
                assert hits(runs, "ledger", index) == hits(runs, "ledger")
    build(runs, cache)
    with open_index(cache) or pytest.fail("no index") as whole:
        said = told(runs, "ledger", whole)
        assert (hits_in(said), reach(said).problem) == (hits(runs, "ledger"), "")


def _garbage(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)


def _half(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + b"\xa5" * (len(data) // 2))


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _rules(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("UPDATE rules SET text = '0 of another'")
    database.commit()
    database.close()


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


@pytest.mark.parametrize("damage", [_garbage, _half, _empty, _rules, _link])
def test_an_index_of_no_use_is_said_to_be_and_begun_anew(runs: Path, cache: Path, damage: object) -> None:
    build(runs, cache)
    for name in ("-wal", "-shm"):
        (cache / f"{search_database.NAME}{name}").unlink(missing_ok=True)
    assert callable(damage)
    damage(cache / search_database.NAME)
    problem = ""
    try:
        index = open_index(cache)
        if index is None:
            problem = "no index"
        else:
            with index:
                said = told(runs, "ledger", index)
                problem = reach(said).problem
                assert hits_in(said) == hits(runs, "ledger")
    except IndexProblem as error:
        problem = str(error)
    assert "index" in problem or search_database.NAME in problem
    build(runs, cache)
    with open_index(cache) or pytest.fail("no index") as index:
        said = told(runs, "ledger", index)
        assert (reach(said).problem, reach(said).unindexed) == ("", 0)
        assert hits_in(said) == hits(runs, "ledger")


def test_older_formats_are_removed_and_newer_ones_left_alone(runs: Path, cache: Path) -> None:
    cache.mkdir(0o700)
    (cache / "search-1.db").write_text("old")
    (cache / "search-99.db").write_text("new")
    build(runs, cache)
    assert {path.name for path in cache.iterdir()} >= {"search-2.db", "search-99.db"}
    assert not (cache / "search-1.db").exists()


READ_ONLY = """
import os, sys
from pathlib import Path
from refold.core.store.search_database import IndexProblem
from refold.core.store.search_index import open_to_build
os.setgid(65534), os.setuid(65534)
try:
    open_to_build(Path(sys.argv[1]))
except IndexProblem as problem:
    print(problem)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user to become")
def test_a_cache_that_cannot_be_written_is_said_to_be(tmp_path: Path, project: Path) -> None:
    with tempfile.TemporaryDirectory() as open_to_all:
        place = Path(open_to_all)
        place.chmod(0o755)
        (place / "cache").mkdir(0o755)
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(place / "cache")],
            cwd=project, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.stdout.startswith("the cache cannot be written: "), done.stderr


def test_no_writable_cache_is_needed_to_have_one_directory(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(IndexProblem, match="cannot be written"):
        open_to_build(tmp_path / "cache")
    assert open_index(tmp_path / "cache") is None


def test_runs_that_cannot_be_read_hold_nothing(runs: Path, cache: Path) -> None:
    path = runs / "run01.json"
    sources = look(runs)
    path.unlink()
    os.mkfifo(path)
    assert all(hit.file != str(path) for hit in hits(runs, "ledger"))
    with open_to_build(cache) as index:
        for _ in index.build(sources):
            pass
        assert hits(runs, "ledger", index) == hits(runs, "ledger")


def test_a_line_longer_than_a_piece_is_found_whole(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    long = "word " * 200_000
    journal(runs / "long.json", [("tool_result", f"first {long} last"), ("user", "after")])
    assert len(hits(runs, "first last")) == 1
    assert [hit.seq for hit in hits(runs, "after")] == [3]
    build(runs, tmp_path / "cache")
    with open_index(tmp_path / "cache") or pytest.fail("no index") as index:
        for query in ("first last", "after", "word"):
            assert hits(runs, query, index) == hits(runs, query)


def test_of_a_line_above_the_longest_the_beginning_is_found_and_all_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_source, "PIECE", 64)
    monkeypatch.setattr(search_source, "LONGEST", 500)
    runs = tmp_path / "runs"
    runs.mkdir()
    long = f"first {'word ' * 200}last"
    path = journal(runs / "long.json", [("user", "before"), ("tool_result", long), ("user", "after")])
    data = path.read_bytes()
    fd = os.open(path, os.O_RDONLY)
    try:
        blocks = list(search_source.read_blocks(fd, 0))
    finally:
        os.close(fd)
    assert [block.end for block in blocks] == [*(block.start for block in blocks[1:]), len(data)]
    lines = [data[start : start + len(line)] == line for block in blocks for start, line in block.lines()]
    assert lines == [True] * 4
    build(runs, tmp_path / "cache")
    with open_index(tmp_path / "cache") or pytest.fail("no index") as index:
        assert reach(told(runs, "after", index)).unindexed == 0
        for query in ("first", "after", "before", "last"):
            assert hits(runs, query, index) == hits(runs, query)
        assert [hit.seq for hit in hits(runs, "after", index)] == [4]
        assert (len(hits(runs, "first")), len(hits(runs, "last"))) == (1, 0)


@pytest.mark.parametrize("longest", [1, 6, 7, 8, 13, 14, 15, 20, 29, 30, 31])
def test_no_line_is_lost_or_moved_by_a_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, longest: int
) -> None:
    monkeypatch.setattr(search_source, "PIECE", 7)
    monkeypatch.setattr(search_source, "LONGEST", max(7, longest))
    data = b"".join(bytes([97 + n % 26]) * n + b"\n" for n in range(40)) + b"z" * 33
    path = tmp_path / "file"
    path.write_bytes(data)
    fd = os.open(path, os.O_RDONLY)
    try:
        blocks = list(search_source.read_blocks(fd, 0))
        assert [block.end for block in blocks] == [*(block.start for block in blocks[1:]), len(data)]
        found = [pair for block in blocks for pair in block.lines()]
        assert all(search_source.read_line_at(fd, start) == line for start, line in found)
        assert [line[:7] for _, line in found] == [line[:7] for line in data.split(b"\n") if line]
        assert not blocks[-1].is_whole
    finally:
        os.close(fd)


def test_a_manifest_that_was_indexed_halfway_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, cache = tmp_path / "runs", tmp_path / "cache"
    runs.mkdir()
    said = [("user", f"ledger {number}") for number in range(9_000)]
    session(runs / "one", ["ledger"], said)
    with open_to_build(cache) as index:
        building = index.build(look(runs))
        while next(building):
            pass
        assert hits(runs, "ledger", index) == hits(runs, "ledger")
        building.close()  # type: ignore[attr-defined]
        assert hits(runs, "ledger", index) == hits(runs, "ledger")
    build(runs, cache)
    with open_index(cache) or pytest.fail("no index") as index:
        said_now = told(runs, "ledger", index)
        assert reach(said_now).unindexed == 0
        assert hits_in(said_now) == hits(runs, "ledger")


def test_blocks_are_the_lines_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_source, "PIECE", 7)
    data = b"one\n\ntwo three four\nfive\n" + b"x" * 20 + b"\nno end"
    path = tmp_path / "file"
    path.write_bytes(data)
    fd = os.open(path, os.O_RDONLY)
    try:
        blocks = list(search_source.read_blocks(fd, 0))
        assert b"".join(block.data for block in blocks) == data
        assert [data[start : start + len(line)] for block in blocks for start, line in block.lines()] == [
            line for line in data.split(b"\n") if line
        ]
        assert [block.is_whole for block in blocks] == [True] * (len(blocks) - 1) + [False]
        assert search_source.read_line_at(fd, 5) == b"two three four"
        assert search_source.read_line_at(fd, len(data) - 6) == b"no end"
    finally:
        os.close(fd)
    assert SCOPES == ("prompt", "answer", "argument", "result")
