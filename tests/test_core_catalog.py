"""The list of runs: newest first, in small pieces, told only when it changes; who holds a run."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import generate
from tests.listing import OLD, catalog, ids, listed, rows, settle, write_run

from refold.core.store import list_cache
from refold.core.store.catalog import Gone, Progress
from refold.core.summary import RunSummary


@pytest.fixture(autouse=True)
def quick_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a file be old after a tenth of a second instead of two."""
    monkeypatch.setattr(list_cache, "_SETTLED_NS", 100_000_000)


def test_the_newest_comes_first_whatever_directory_it_is_in(tmp_path: Path) -> None:
    for number in range(12):
        write_run(tmp_path / ("a" if number % 3 else "b"), f"run-{number:02}", age=100 * number)
    wanted = [f"run-{number:02}" for number in range(12)]
    assert ids(catalog(tmp_path / "a", tmp_path / "b").scan()) == wanted
    settle(tmp_path / "a", tmp_path / "b")
    listed(tmp_path / "a", tmp_path / "b", cache=tmp_path / "cache")
    assert ids(catalog(tmp_path / "a", tmp_path / "b", cache=tmp_path / "cache").scan()) == wanted


def test_a_long_run_has_a_row_before_it_is_read(tmp_path: Path) -> None:
    write_run(tmp_path, "long", size=3 << 20, ending="suspended")
    write_run(tmp_path, "short", age=9)
    told = [item for item in catalog(tmp_path).scan() if isinstance(item, RunSummary)]
    assert [(row.id, row.complete) for row in told] == [("long", False), ("short", True), ("long", True)]
    early, late = told[0], told[2]
    for name in ("status", "rule", "model", "created", "prompt", "updated", "size", "last_seq", "format"):
        assert getattr(early, name) == getattr(late, name)
    assert early.turns == 0
    assert late.turns > 100


@pytest.mark.parametrize("ending", generate.ENDINGS)
@pytest.mark.parametrize("style", generate.STYLES)
def test_a_preview_says_the_same_as_the_whole_run(
    tmp_path: Path, ending: generate.Ending, style: generate.Style
) -> None:
    write_run(tmp_path, "run", size=300_000, ending=ending, style=style)
    early, late = (item for item in catalog(tmp_path).scan() if isinstance(item, RunSummary))
    assert (early.status, early.rule, early.in_flight) == (late.status, late.rule, late.in_flight)


def test_one_step_is_a_small_piece_of_work(tmp_path: Path) -> None:
    for number in range(600):
        write_run(tmp_path, f"run-{number}", age=number)
    write_run(tmp_path, "long", size=6 << 20)
    scan = catalog(tmp_path).scan()
    steps: list[float] = []
    while True:
        started = time.process_time()
        item = next(scan, None)
        steps.append(time.process_time() - started)
        if item is None:
            break
    steps.sort()
    assert len(steps) > 600
    assert steps[int(len(steps) * 0.98)] < 0.006


def test_progress_says_how_much_is_left(tmp_path: Path) -> None:
    write_run(tmp_path, "long", size=3 << 20)
    write_run(tmp_path, "short", age=3)
    seen = [item for item in catalog(tmp_path).scan() if isinstance(item, Progress) and item.total]
    assert {item.total for item in seen} == {2}
    assert max(item.done for item in seen) == 1


def test_a_scan_that_was_given_up_goes_on_where_it_stopped(tmp_path: Path) -> None:
    for number in range(8):
        write_run(tmp_path, f"run-{number}", age=number)
    found = catalog(tmp_path)
    scan = found.scan()
    first = [next(item.id for item in scan if isinstance(item, RunSummary)) for _ in range(3)]
    del scan
    assert first + ids(found.scan()) == [f"run-{number}" for number in range(8)]
    assert ids(found.scan()) == []


def test_a_directory_named_twice_is_read_once(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", "one")
    (tmp_path / "link").symlink_to("runs")
    found = catalog(tmp_path / "runs", tmp_path / "link", tmp_path / "runs" / ".." / "runs")
    assert ids(found.scan()) == ["one"]
    assert [report.state for report in found.roots_report()] == ["runs", "same", "same"]


def test_one_id_in_two_directories_is_two_rows(tmp_path: Path) -> None:
    paths = {str(write_run(tmp_path / name, "one")) for name in ("a", "b")}
    assert set(listed(tmp_path / "a", tmp_path / "b")) == paths


def test_every_directory_says_what_is_in_it(tmp_path: Path) -> None:
    write_run(tmp_path / "full", "one")
    (tmp_path / "empty").mkdir()
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "one.json.gz").touch()
    (tmp_path / "file").touch()
    found = catalog(*(tmp_path / name for name in ("missing", "empty", "full", "others", "file")))
    assert [report.state for report in found.roots_report()] == ["unseen"] * 5
    assert ids(found.scan()) == ["one"]
    reports = found.roots_report()
    assert [report.state for report in reports] == ["missing", "empty", "runs", "empty", "not-a-directory"]
    assert [report.root.path.name for report in reports] == ["missing", "empty", "full", "others", "file"]
    assert reports[2].detail == "1 run"
    assert "1 other file" in reports[3].detail
    assert all(report.detail for report in reports)


def test_a_directory_that_comes_and_goes_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "runs"
    found = catalog(path)
    assert list(found.scan()) == []
    write_run(path, "one")
    assert ids(found.scan()) == ["one"]
    path.rename(tmp_path / "away")
    assert [item for item in found.scan() if isinstance(item, Gone)] == [Gone(str(path / "one.json"))]
    assert found.roots_report()[0].state == "missing"
    (tmp_path / "away").rename(path)
    assert ids(found.scan()) == ["one"]


def test_only_what_has_changed_is_told_again(tmp_path: Path) -> None:
    paths = [write_run(tmp_path, f"run-{number}", age=number) for number in range(5)]
    found = catalog(tmp_path)
    before = rows(found.scan())
    with paths[3].open("ab") as file:
        file.write(b'{"seq":')
    paths[4].unlink()
    write_run(tmp_path, "new")
    told = [item for item in found.scan() if not isinstance(item, Progress)]
    assert Gone(str(paths[4])) in told
    changed = {item.id: item for item in told if isinstance(item, RunSummary)}
    assert set(changed) == {"run-3", "new"}
    assert changed["run-3"].torn
    assert not before[str(paths[3])].torn


def test_a_watcher_names_what_to_look_at(tmp_path: Path) -> None:
    directory = tmp_path / "runs"
    first, second = (write_run(directory, name) for name in ("first", "second"))
    (tmp_path / "link").symlink_to("runs")
    found = catalog(tmp_path / "link")
    assert len(rows(found.scan())) == 2
    with first.open("ab") as file:
        file.write(b"torn")
    third = write_run(directory, "third")
    second.unlink()
    nothing = [directory / "README", tmp_path / "elsewhere.json", directory / "x.json~", tmp_path]
    told = list(found.refresh([*nothing, first, str(second), third]))
    shown = {str(tmp_path / "link" / f"{name}.json") for name in ("first", "third")}
    assert set(rows(iter(told))) == shown
    assert [item for item in told if isinstance(item, Gone)] == [Gone(str(tmp_path / "link" / "second.json"))]
    assert list(found.refresh([second, *nothing])) == []
    third.unlink()
    assert Gone(str(tmp_path / "link" / "third.json")) in list(found.refresh([directory]))


def test_a_look_at_an_unchanged_run_tells_nothing(tmp_path: Path) -> None:
    path = write_run(tmp_path, "one")
    settle(tmp_path)
    found = catalog(tmp_path)
    assert len(rows(found.scan())) == 1
    assert list(found.refresh([path, tmp_path / "one.lock"])) == []


def test_an_edit_within_one_tick_of_the_clock_is_not_missed(tmp_path: Path) -> None:
    path = write_run(tmp_path, "one")
    found = catalog(tmp_path)
    (row,) = rows(found.scan()).values()
    path.write_bytes(path.read_bytes().replace(b"claude-opus-4-8", b"claude-opus-9-9"))
    os.utime(path, (OLD, OLD))
    (changed,) = rows(found.scan()).values()
    assert (row.model, changed.model) == ("claude-opus-4-8", "claude-opus-9-9")
    assert (row.size, row.updated) == (changed.size, changed.updated)


def test_a_growing_run_is_read_on_and_not_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_run(tmp_path, "long", size=4 << 20, ending="crashed")
    os.utime(path)
    found = catalog(tmp_path)
    before = rows(found.scan())[str(path)]
    read: list[int] = []
    pread = os.pread

    def counting(fd: int, size: int, offset: int) -> bytes:
        data = pread(fd, size, offset)
        read.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counting)
    for number in range(3):
        with path.open("ab") as file:
            file.write(b'{"seq":%d,"protocol":"refold.v1.session.terminal",' % (before.last_seq + 1 + number))
            file.write(b'"terminal":{"reason":"suspended"}}\n')
        row = rows(found.refresh([path]))[str(path)]
        assert (row.status, row.last_seq, row.turns) == (
            "suspended",
            before.last_seq + 1 + number,
            before.turns,
        )
    assert sum(read) < 1 << 20
    path.write_bytes(path.read_bytes()[: 2 << 20])
    assert rows(found.refresh([path]))[str(path)].turns < before.turns
    found.close()


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    write_run(tmp_path / "runs", "held", ending="crashed")
    write_run(tmp_path / "runs", "free", ending="crashed", age=5)
    script = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'a')\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "runs" / "held.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    yield child
    child.kill()
    child.communicate()


def test_a_held_run_is_running_until_its_writer_dies(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    found = catalog(tmp_path / "runs", cache=tmp_path / "cache")
    told = {row.id: row.status for row in rows(found.scan()).values()}
    assert told == {"held": "running", "free": "crashed"}
    assert list(found.refresh_holders()) == []
    settle(tmp_path / "runs")
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    (row,) = rows(found.refresh_holders()).values()
    assert (row.id, row.status) == ("held", "crashed")
    assert list(found.refresh_holders()) == []
    found.close()


def test_a_cached_row_does_not_remember_who_held_the_run(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    settle(tmp_path / "runs")
    assert len(listed(tmp_path / "runs", cache=tmp_path / "cache")) == 2
    holder.kill()
    holder.wait()
    told = listed(tmp_path / "runs", cache=tmp_path / "cache")
    assert {row.status for row in told.values()} == {"crashed"}


def test_a_lock_taken_later_is_noticed_by_its_file_and_by_asking(tmp_path: Path) -> None:
    path = write_run(tmp_path, "one", ending="crashed")
    found = catalog(tmp_path)
    assert [row.status for row in rows(found.scan()).values()] == ["crashed"]
    with (tmp_path / "one.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert [row.status for row in rows(found.refresh([tmp_path / "one.lock"])).values()] == ["running"]
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert [row.status for row in rows(found.refresh_holders()).values()] == ["crashed"]
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert [row.status for row in rows(found.refresh_holders()).values()] == ["running"]
    with path.open("a") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        assert list(found.refresh_holders()) == []
    assert [row.status for row in rows(found.refresh_holders()).values()] == ["crashed"]


def test_an_empty_file_that_is_held_is_a_run_that_begins(tmp_path: Path) -> None:
    with (tmp_path / "new.json").open("a") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        (row,) = listed(tmp_path).values()
    assert row.status == "running"
