"""The list while files come and go under it, and while the system refuses."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.listing import catalog, ids, listed, rows, settle, write_run
from tests.terminal.program import without_privileges

from refold.core.formats import Decoder
from refold.core.formats.journal import JournalFormat
from refold.core.store import list_cache
from refold.core.store.catalog import Catalog, Gone, Progress, Root
from refold.core.store.reader import RunReader
from refold.core.summary import RunSummary


@pytest.fixture(autouse=True)
def quick_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a file be old after a tenth of a second instead of two."""
    monkeypatch.setattr(list_cache, "_SETTLED_NS", 100_000_000)


def test_what_was_asked_for_is_not_told_in_its_old_form_afterwards(tmp_path: Path) -> None:
    paths = [write_run(tmp_path, f"run-{number}", age=number) for number in range(6)]
    settle(tmp_path)
    listed(tmp_path, cache=tmp_path / "cache")
    found = catalog(tmp_path, cache=tmp_path / "cache")
    scan = found.scan()
    assert next(item.id for item in scan if isinstance(item, RunSummary)) == "run-0"
    with paths[3].open("ab") as file:
        file.write(b"torn")
    paths[4].unlink()
    late = write_run(tmp_path, "late")
    asked = list(found.refresh([paths[3], paths[4], late]))
    assert set(rows(iter(asked))) == {str(paths[3]), str(late)}
    told = rows(scan)
    assert set(told) == {str(path) for path in (paths[1], paths[2], paths[4], paths[5])}
    assert [item for item in found.scan() if isinstance(item, Gone)] == [Gone(str(paths[4]))]


def test_a_run_that_is_read_or_gone_meanwhile_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [write_run(tmp_path, f"run-{number}", age=number) for number in range(6)]
    paths.append(write_run(tmp_path, "long", size=2 << 20))
    settle(tmp_path)
    found = catalog(tmp_path)
    scan = found.scan()
    first = next(item for item in scan if isinstance(item, RunSummary))
    assert {row.id for row in rows(found.refresh([paths[1], paths[6]])).values()} == {"run-1", "long"}
    paths[2].unlink()
    assert list(found.refresh([paths[2]])) == []
    opened: list[str] = []
    open_ = os.open

    def counting(path: str, flags: int) -> int:
        opened.append(Path(path).stem)
        return open_(path, flags)

    monkeypatch.setattr(os, "open", counting)
    assert len(rows(scan)) == 4 - (first.id in {"run-0", "run-3"})
    assert set(opened) == {"run-0", "run-3", "run-4", "run-5"} - {first.id}


def test_a_run_that_comes_while_the_directory_is_read_is_not_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path, "one")
    found = catalog(tmp_path)
    assert len(rows(found.scan())) == 1
    monkeypatch.setattr("refold.core.store.roots.STRETCH", 1)
    scan = found.scan()
    assert isinstance(next(scan), Progress)
    late = write_run(tmp_path, "late")
    assert set(rows(found.refresh([late]))) == {str(late)}
    assert [item for item in scan if not isinstance(item, Progress)] == []


class Entries:
    """A directory as the system may give it: with an end too soon, or with entries that are gone already."""

    def __init__(self, real: Iterator[os.DirEntry[str]], *, vanish: str = "", breaks: bool = False) -> None:
        self._all = sorted(real, key=lambda entry: entry.name)
        self._vanish = vanish
        self._breaks = breaks

    def __enter__(self) -> Iterator[os.DirEntry[str]]:
        return self._entries()

    def __exit__(self, *_: object) -> None:
        return None

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        if self._vanish:
            Path(self._vanish).unlink()
        yield from self._all
        if self._breaks:
            raise OSError(5, "Input/output error")


def test_a_file_that_vanishes_before_it_is_looked_at_is_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [write_run(tmp_path, f"run-{number}") for number in range(3)]
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda fd: Entries(scandir(fd), vanish=str(paths[1])))
    assert set(listed(tmp_path)) == {str(paths[0]), str(paths[2])}


def test_a_directory_that_breaks_off_says_so_and_shows_what_it_gave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        write_run(tmp_path, f"run-{number}", age=number)
    scandir = os.scandir
    monkeypatch.setattr("refold.core.store.roots.STRETCH", 3)
    monkeypatch.setattr(os, "scandir", lambda fd: Entries(scandir(fd), breaks=True))
    found = catalog(tmp_path)
    assert ids(found.scan()) == ["run-0", "run-1", "run-2"]
    (report,) = found.roots_report()
    assert (report.state, report.runs) == ("unreadable", 3)
    assert report.detail == "the directory was read in part: input/output error"


def test_names_that_may_be_listed_but_not_looked_at_are_rows(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", "one")
    script = (
        "import sys; from pathlib import Path; from refold.core.store.catalog import *\n"
        "from refold.core.summary import RunSummary\n"
        "found = Catalog([Root(Path(sys.argv[1]), 'refold', '--root')], cache=None)\n"
        "told = [*found.scan(), *found.refresh([Path(sys.argv[1]) / 'one.json'])]\n"
        "for row in told:\n"
        "    if isinstance(row, RunSummary): print(row.id, row.status, *row.problems, row.rule)\n"
    )
    (tmp_path / "runs").chmod(0o400)
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "runs")],
        preexec_fn=without_privileges,
        capture_output=True,
        text=True,
        check=True,
    )
    (tmp_path / "runs").chmod(0o700)
    line = done.stdout.splitlines()[0]
    assert line.startswith("one unreadable E_PERM it cannot be looked at: ")


@pytest.mark.parametrize("size", [1, 40_000])
def test_a_disk_that_answers_with_an_error_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    path = write_run(tmp_path, "one", size=size)

    def failing(_fd: int, _size: int, _offset: int) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "pread", failing)
    found = catalog(tmp_path)
    (row,) = rows(found.scan()).values()
    assert (row.status, row.problems, row.complete) == ("unreadable", (), True)
    assert "nput/output error" in row.rule
    monkeypatch.undo()
    assert rows(found.scan())[str(path)].status == "completed"


@pytest.mark.parametrize("size", [1, 40_000, 200_000])
def test_a_fault_of_our_own_with_one_run_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    for name in ("one", "two", "three"):
        write_run(tmp_path, name, size=size)
    decoder = JournalFormat.decoder

    def failing(kind: JournalFormat, head: bytes) -> Decoder:
        if b'"run_id":"two"' in head:
            raise OverflowError("int too big to convert")
        return decoder(kind, head)

    monkeypatch.setattr(JournalFormat, "decoder", failing)
    faults: list[Exception] = []
    found = Catalog([Root(tmp_path, "refold", "--root")], cache=None, fault=faults.append)
    told = {row.id: row for row in rows(found.scan()).values()}
    assert [type(fault) for fault in faults] == [OverflowError]
    assert {name: row.status for name, row in told.items()} == {
        "one": "completed", "two": "unreadable", "three": "completed",
    }  # fmt: skip
    assert told["two"].rule == "a fault in refold: OverflowError while reading it"


def test_a_directory_that_becomes_another_name_of_one_is_dropped(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "one")
    write_run(tmp_path / "b", "two")
    found = catalog(tmp_path / "a", tmp_path / "b")
    assert len(rows(found.scan())) == 2
    shutil.rmtree(tmp_path / "b")
    (tmp_path / "b").symlink_to("a")
    assert [item for item in found.scan() if not isinstance(item, Progress)] == [
        Gone(str(tmp_path / "b" / "two.json"))
    ]


def test_long_runs_keep_their_index_for_the_one_who_opens_them(tmp_path: Path) -> None:
    path = write_run(tmp_path / "runs", "long", size=2 << 20)
    settle(tmp_path / "runs")
    (row,) = {row for row in listed(tmp_path / "runs", cache=tmp_path / "cache").values() if row.complete}
    with RunReader.open(path, cache=tmp_path / "cache") as reader:
        assert reader.timeline.turn(reader.timeline.items - 1) == row.turns


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_no_more_than_two_growing_runs_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_cache, "_SETTLED_NS", 10**12)  # however long it takes to write them here
    for number in range(4):
        write_run(tmp_path, f"run-{number}", size=2 << 20)
    before = open_files()
    found = catalog(tmp_path)
    assert len(rows(found.scan())) == 4
    assert open_files() == before + 2
    found.close()
    assert open_files() == before


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'"text":"one more thing"', "one more thing"),
        (b'"text":"   "', "Done: the ledger is closed."),
        (b'"text":"' + b"x" * 300_000 + b'"', "Done: the ledger is closed."),
        (b'"text":"' + b"x" * 3000 + b'"', "x" * 500),
    ],
)
def test_the_last_words_are_the_last_that_can_be_read(tmp_path: Path, line: bytes, words: str) -> None:
    path = write_run(tmp_path, "one", ending="crashed")
    with path.open("ab") as file:
        file.write(
            b'{"seq":3,"protocol":"refold.v1.session.assistant","assistant":{"iteration":1,"message":{"content":'
            b'[{%b,"type":"text"}],"role":"assistant"},"in_tokens":1,"out_tokens":1}}\n' % line
        )
    (row,) = (row for row in listed(tmp_path).values() if row.complete)
    assert row.last_words == words
    path.write_bytes(path.read_bytes().split(b"\n")[0] + b"\n")
    assert listed(tmp_path)[str(path)].last_words == ""
