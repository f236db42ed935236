"""The list of runs: every entry a row, newest first, the same with a cache, told only when it changes."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import generate
from tests.terminal.program import without_privileges

from refold.core.status import STATUSES
from refold.core.store import list_cache
from refold.core.store.catalog import Catalog, Gone, Item, Progress, Root
from refold.core.store.packed_rows import pack, unpack
from refold.core.store.reader import RunReader
from refold.core.store.roots import packed
from refold.core.summary import RunSummary

OLD = 1_700_000_000


def write_run(directory: Path, run_id: str, *, age: int = 0, **how: object) -> Path:
    """Write a small run whose mtime lies `age` seconds before a fixed time."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{run_id}.json"
    if "size" not in how:
        how.setdefault("records", 3)
    generate.write(path, generate.journal(run_id=run_id, **how))  # type: ignore[arg-type]
    os.utime(path, (OLD - age, OLD - age))
    return path


def catalog(*directories: Path, cache: Path | None = None) -> Catalog:
    return Catalog([Root(directory, "refold", "--root") for directory in directories], cache=cache)


def rows(items: Iterator[Item]) -> dict[str, RunSummary]:
    return {item.path: item for item in items if isinstance(item, RunSummary)}


def ids(items: Iterator[Item]) -> list[str]:
    return [item.id for item in items if isinstance(item, RunSummary) and item.complete]


def listed(*directories: Path, cache: Path | None = None) -> dict[str, RunSummary]:
    found = catalog(*directories, cache=cache)
    told = rows(found.scan())
    found.close()
    return told


@pytest.fixture(autouse=True)
def quick_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a file be old after a tenth of a second instead of two."""
    monkeypatch.setattr(list_cache, "_SETTLED_NS", 100_000_000)


def settle(*directories: Path) -> None:
    """Wait until what was written just now may be remembered."""
    newest = max(path.lstat().st_ctime for directory in directories for path in directory.iterdir())
    time.sleep(max(0.0, newest + 0.12 - time.time()))


# The recorded journals


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_every_recorded_journal_is_a_row(journals: Path, version: str) -> None:
    expected = json.loads((journals / version / "expected.json").read_bytes())
    told = {row.id: row for row in listed(journals / version).values()}
    assert set(told) == {path.stem for path in (journals / version).glob("*.json")}
    for run_id, row in told.items():
        assert row.status in STATUSES
        assert row.rule
        answer = expected.get(run_id, {"ok": False})
        if not answer["ok"]:
            continue
        counters = {"llm_calls": 0, **answer["state"].get("counters", {})}
        assert row.complete
        if not row.problems:
            assert row.turns == counters["llm_calls"]
            assert row.tokens == sum(count for name, count in counters.items() if name.endswith("_tokens"))
        assert row.status not in {"unreadable", "empty", "running", "ready"}


@pytest.mark.parametrize(
    ("name", "status", "word"),
    [
        ("v3/meta-only", "crashed", "without a terminal record"),
        ("v3/crashed-mid-tool-batch", "crashed", "no holder seen"),
        ("v3/suspended-at-boundary", "suspended", "suspended"),
        ("v3/suspended-resumed-crashed", "crashed", "follow"),
        ("v3/completed-two-tools", "completed", "completed"),
        ("v2/records-after-completed", "completed", "1 record follows it"),
        ("v3/error-llm-call", "failed", "error"),
        ("v2/budget-exhausted", "budget", "budget"),
        ("v3/max-iterations", "max-iterations", "iterations"),
        ("v3/unknown-terminal-reason", "failed", "reason"),
        ("v3/version-4", "newer", "version 4"),
        ("v2/version-4", "newer", "version 4"),
        ("v3/empty-file", "empty", "no records"),
        ("v3/whitespace-only", "empty", "no records"),
        ("v3/no-meta-first", "unreadable", "first record is assistant"),
        ("v3/torn-first-line", "unreadable", "torn"),
        ("v3/meta-without-payload", "unreadable", "first record"),
        ("v3/torn-tail-partial", "crashed", "a torn record follows"),
        ("v3/utf8-bom", "crashed", "without a terminal record"),
        ("v3/expected", "unreadable", "first record"),
    ],
)
def test_the_status_of_recorded_journals(
    journals: Path, tmp_path: Path, name: str, status: str, word: str
) -> None:
    shutil.copy(journals / f"{name}.json", tmp_path)
    (row,) = listed(tmp_path).values()
    assert (row.status, word in row.rule) == (status, True), row.rule


def test_a_row_says_what_the_run_is_about(journals: Path, tmp_path: Path) -> None:
    shutil.copy(journals / "v3" / "crashed-mid-tool-batch.json", tmp_path)
    (row,) = listed(tmp_path).values()
    assert row.format == "fisk-ai"
    assert row.provider_version == "fisk-ai v3"
    assert row.model == "claude-opus-4-8"
    assert row.prompt == "summarise the PAYMENTS stream"
    assert row.in_flight == ("consumer_ls",)
    assert row.tools == ("consumer_ls", "stream_info")
    assert row.last_words == "Let me look at the stream and its consumers."
    assert (row.turns, row.calls, row.errors, row.problems, row.damaged) == (1, 2, 0, (), 0)
    assert row.updated == pytest.approx((tmp_path / "crashed-mid-tool-batch.json").stat().st_mtime, abs=1e-6)


def test_damage_is_counted_and_a_torn_tail_only_named(journals: Path, tmp_path: Path) -> None:
    for name in ("torn-tail-partial", "two-records-one-line", "seq-gap", "run-id-mismatch"):
        shutil.copy(journals / "v3" / f"{name}.json", tmp_path)
    told = {row.id: row for row in listed(tmp_path).values()}
    assert [told["torn-tail-partial"].problems, told["torn-tail-partial"].damaged] == [("E_TORN_TAIL",), 0]
    assert told["torn-tail-partial"].torn
    assert told["two-records-one-line"].problems == ("E_GLUED",)
    assert told["two-records-one-line"].damaged == 1
    assert "E_SEQ_GAP" not in told["seq-gap"].problems
    assert told["run-id-mismatch"].problems == ("E_FOREIGN_RUN",)


def test_a_fork_to_which_nothing_was_added_is_ready(tmp_path: Path) -> None:
    path = write_run(tmp_path, "child", ending="crashed", records=8)
    lines = path.read_bytes().split(b"\n")[:-1]
    lineage = b',"forked_from":{"run_id":"parent","seq":4,"prefix_sha256":"","reason":"try again"}}}'
    meta = lines[0].removesuffix(b"}}") + lineage
    path.write_bytes(b"\n".join([meta, *lines[1:4], b""]))
    (row,) = listed(tmp_path).values()
    assert (row.status, row.fork_of) == ("ready", "parent")
    path.write_bytes(b"\n".join([meta, *lines[1:6], b""]))
    (row,) = listed(tmp_path).values()
    assert (row.status, row.fork_of) == ("crashed", "parent")


def test_a_long_prompt_is_kept_as_far_as_a_list_can_want_it(tmp_path: Path) -> None:
    write_run(tmp_path, "long", prompt="x" * 200_000)
    (row,) = listed(tmp_path).values()
    assert row.prompt == "x" * 65_536


# What else lies there


def test_nothing_with_the_name_of_a_run_is_hidden(tmp_path: Path) -> None:
    write_run(tmp_path, "good")
    write_run(tmp_path, "no id at all")
    write_run(tmp_path, "good.notes")
    (tmp_path / "directory.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "link.json").symlink_to("good.json")
    (tmp_path / "loop.json").symlink_to("loop.json")
    (tmp_path / ".json").write_bytes(b"")
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.json"))).write_bytes(b"")
    for name in ("good.lock", "good.12.torn", "good.json~", ".good.json.abc.tmp", "good.json.gz", "README"):
        (tmp_path / name).write_bytes(b"")
    told = {row.id: row for row in listed(tmp_path).values()}
    assert set(told) == {
        "good", "no id at all", "good.notes", "directory", "pipe", "link", "loop", "", "caf\udce9",
    }  # fmt: skip
    for run_id, word in {
        "directory": "a directory",
        "pipe": "a named pipe",
        "link": "a symbolic link",
    }.items():
        assert told[run_id].status == "unreadable"
        assert word in told[run_id].rule
        assert told[run_id].problems == ("E_NOT_REGULAR",)
    for run_id in ("no id at all", "good.notes"):
        assert told[run_id].status == "completed"
        assert told[run_id].rule.endswith("its name is no run id")
        assert told[run_id].note
    assert told["caf\udce9"].status == "empty"
    assert told["good"].note == ""


def test_what_may_not_be_read_is_a_row_with_its_reason(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", "closed").chmod(0)
    write_run(tmp_path / "runs", "open", age=5)
    (tmp_path / "shut").mkdir(mode=0)
    script = (
        "import sys; from pathlib import Path; from refold.core.store.catalog import *\n"
        "from refold.core.summary import RunSummary\n"
        "found = Catalog([Root(Path(p), 'refold', '--root') for p in sys.argv[1:]], cache=None)\n"
        "for row in found.scan():\n"
        "    if isinstance(row, RunSummary): print(row.id, row.status, *row.problems, row.rule)\n"
        "print([report.state for report in found.roots_report()])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "runs"), str(tmp_path / "shut")],
        preexec_fn=without_privileges,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "closed unreadable E_PERM not permitted to read it",
        "open completed a terminal record says completed",
        "['runs', 'not-permitted']",
    ]


def test_five_thousand_empty_files_cost_no_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5000):
        os.close(os.open(f"{tmp_path}/stub-{number}.json", os.O_CREAT | os.O_WRONLY, 0o600))
    write_run(tmp_path, "good")
    opened: list[str] = []
    open_ = os.open

    def counting(path: str, flags: int) -> int:
        opened.append(path)
        return open_(path, flags)

    monkeypatch.setattr(os, "open", counting)
    started = time.process_time()
    told = listed(tmp_path)
    assert time.process_time() - started < 2
    assert len(told) == 5001
    assert {Path(os.fspath(path)).name for path in opened} == {tmp_path.name, "good.json"}


def test_files_that_vanish_while_they_are_listed_are_passed_over(tmp_path: Path) -> None:
    paths = [write_run(tmp_path, f"run-{number}", age=number) for number in range(6)]
    scan = catalog(tmp_path).scan()
    first = next(item for item in scan if isinstance(item, RunSummary))
    for path in paths[1:]:
        path.unlink()
    assert first.id == "run-0"
    assert ids(scan) == []


# Order, pieces, previews


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


# Directories


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


# Changes


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


# Who holds a run


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


# The cache


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Some runs that were written long enough ago to be remembered."""
    directory = tmp_path / "runs"
    for number in range(12):
        write_run(directory, f"run-{number}", age=7 * number, style=generate.STYLES[number % 3])
    write_run(directory, "a name that is none", prompt="核对 \U0001f600")
    (directory / "stub.json").touch()
    (directory / "directory.json").mkdir()
    (directory / "run-3.lock").touch()
    Path(os.fsdecode(os.fsencode(directory) + b"/caf\xe9.json")).write_bytes(b"")
    settle(directory)
    return directory


def test_the_cache_is_private_and_spares_the_reading(store: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    old = os.umask(0)
    try:
        cold = listed(store, cache=cache)
    finally:
        os.umask(old)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in cache.iterdir()] == [0o600]
    inode = (cache / "list.cache").stat().st_ino
    for path in store.glob("run-*.json"):
        path.chmod(0o600)
    assert listed(store, cache=cache) == cold == listed(store)
    assert (cache / "list.cache").stat().st_ino != inode


def test_a_cached_list_is_the_list(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cold = listed(store, cache=tmp_path / "cache")
    monkeypatch.setattr(
        "refold.core.store.catalog.RunReader.open", lambda *_, **__: pytest.fail("a run was read")
    )
    # A name that is no Unicode cannot be kept; its file is empty and costs nothing.
    assert listed(store, cache=tmp_path / "cache") == cold


def test_every_change_is_seen_through_the_cache(store: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    listed(store, cache=cache)
    grown, replaced, edited, removed = (store / f"run-{number}.json" for number in (1, 2, 3, 4))
    with grown.open("ab") as file:
        file.write(b"torn")
    other = write_run(tmp_path / "other", "run-2", records=12)
    os.utime(other, ns=(replaced.stat().st_mtime_ns,) * 2)
    other.replace(replaced)
    before = edited.stat()
    edited.write_bytes(edited.read_bytes().replace(b"claude-opus-4-8", b"claude-opus-9-9"))
    os.utime(edited, ns=(before.st_atime_ns, before.st_mtime_ns))
    removed.unlink()
    write_run(store, "run-new")
    assert listed(store, cache=cache) == listed(store)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_cache_is_a_miss(store: Path, tmp_path: Path, data: st.DataObject) -> None:
    file = tmp_path / "cache" / "list.cache"
    if not file.exists():
        listed(store, cache=tmp_path / "cache")
        shutil.copy(file, tmp_path / "good")
    good = (tmp_path / "good").read_bytes()
    place = data.draw(st.integers(0, len(good) - 1))
    damage = data.draw(st.sampled_from(["cut", "flip", "insert", "zero"]))
    bad = {
        "cut": good[:place],
        "flip": good[:place] + bytes([good[place] ^ 0x41]) + good[place + 1 :],
        "insert": good[:place] + b"\xc1garbage" + good[place:],
        "zero": good[:place] + bytes(len(good) - place),
    }[damage]
    file.write_bytes(bad)
    assert listed(store, cache=tmp_path / "cache") == listed(store)


@pytest.mark.parametrize("content", [b"", b"refold list 0 0.0.0\n", b"\0" * 5000, b"no cache"])
def test_a_strange_file_in_its_place_is_a_miss(store: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "list.cache").write_bytes(content)
    assert listed(store, cache=tmp_path / "cache") == listed(store)
    assert (tmp_path / "cache" / "list.cache").read_bytes() != content


def test_where_nothing_can_be_kept_the_list_is_the_same(store: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "list.cache")
    assert listed(store, cache=tmp_path / "file") == listed(store)
    (tmp_path / "taken" / "list.cache").mkdir(parents=True)
    assert listed(store, cache=tmp_path / "taken") == listed(store)
    assert listed(store, cache=tmp_path) == listed(store)


def test_a_row_read_too_soon_after_a_change_is_not_kept(tmp_path: Path) -> None:
    path = write_run(tmp_path / "runs", "young")
    os.utime(path)
    listed(tmp_path / "runs", cache=tmp_path / "cache")
    kept = list(list_cache.load(tmp_path / "cache", {str(tmp_path / "runs"): path.stat().st_dev}))
    assert [page.rows for found in kept if found is not None for page in [found[1]]] == [[None]]


def test_two_lists_that_share_a_cache_keep_the_work_of_both(store: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    write_run(tmp_path / "more", "one")
    settle(tmp_path / "more")
    first, second = catalog(store, cache=cache), catalog(tmp_path / "more", cache=cache)
    scans = [first.scan(), second.scan()]
    while scans:
        scans = [scan for scan in scans if next(scan, None) is not None]
    devices = {str(path): path.stat().st_dev for path in (store, tmp_path / "more")}
    directories = {found[0] for found in list_cache.load(cache, devices) if found is not None}
    assert directories == set(devices)


def test_a_list_given_up_early_takes_over_what_another_has_read(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    mine = catalog(store, cache=cache)
    scan = mine.scan()
    next(item for item in scan if isinstance(item, RunSummary))
    whole = listed(store, cache=cache)
    del scan
    mine.close()
    monkeypatch.setattr(
        "refold.core.store.catalog.RunReader.open", lambda *_, **__: pytest.fail("a run was read")
    )
    assert listed(store, cache=cache) == whole


def test_runs_that_are_gone_leave_the_cache(store: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    listed(store, cache=cache)
    found = catalog(store, cache=cache)
    list(found.scan())
    for path in store.glob("run-1*.json"):
        path.unlink()
        list(found.refresh([path]))
    write_run(store, "other")
    list(found.refresh([store / "other.json"]))
    found.close()
    kept = [found[1] for found in list_cache.load(cache, {str(store): store.stat().st_dev}) if found]
    names = {name for page in kept for name in page.names}
    assert names == {path.name for path in store.glob("*.json")} - {"caf\udce9.json"}
    assert listed(store, cache=cache) == listed(store)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ROW = st.builds(
    RunSummary,
    id=st.just(""),
    path=st.just(""),
    format=TEXT,
    status=st.sampled_from(STATUSES),
    rule=TEXT,
    model=TEXT,
    prompt=TEXT,
    turns=st.integers(0, 2**62),
    tokens=st.integers(0, 2**62),
    torn=st.booleans(),
    problems=st.lists(TEXT, max_size=3).map(tuple),
    tools=st.lists(TEXT, max_size=3).map(tuple),
)


@given(st.lists(st.none() | ROW, max_size=12))
def test_rows_survive_their_packing(found: Sequence[RunSummary | None]) -> None:
    names = "/".join(f"run-{number}.json" for number in range(len(found)))
    stamps = packed([*range(len(found)), *(number * 10**9 for number in range(len(found)))])
    again = unpack(pack(found), "/runs/", names, stamps)
    for number, (before, after) in enumerate(zip(found, again, strict=True)):
        if before is None or after is None:
            assert before is after
            continue
        assert (after.id, after.path) == (f"run-{number}", f"/runs/run-{number}.json")
        assert (after.size, after.updated) == (number, float(number))
        for name in ("format", "status", "rule", "turns", "tokens", "torn", "problems", "tools", "complete"):
            assert getattr(after, name) == getattr(before, name)


def test_a_time_beyond_counting_wraps_around() -> None:
    assert list(packed([2**63 - 1, 2**63, -(2**63), -(2**63) - 1])) == [
        2**63 - 1,
        -(2**63),
        -(2**63),
        2**63 - 1,
    ]


# Two calls at a time, and a system that refuses


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
    open_ = RunReader.open

    def counting(path: Path, *, hint: str, cache: Path | None) -> RunReader:
        opened.append(path.stem)
        return open_(path, hint=hint, cache=cache)

    monkeypatch.setattr("refold.core.store.catalog.RunReader.open", counting)
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


def test_no_more_than_two_growing_runs_stay_open(tmp_path: Path) -> None:
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
