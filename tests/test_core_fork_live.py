"""Forks beside a writer, beside another forker, and after one that was killed: real processes, real locks."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests import generate

from refold.core.errors import RunExists
from refold.core.fork import NoForkHere
from refold.core.formats.journal import FISK_AI
from refold.core.journal_text import fold_bytes
from refold.core.store.fork import carry_out, plan_at
from refold.core.store.journal import JournalStore
from refold.core.store.lock import RunLock, holder_of, locked_inodes
from refold.core.store.new_run import sweep
from refold.core.store.notes import NotesStore
from refold.core.store.reader import RunReader

WRITER = """
import fcntl, os, sys, time
path, lock_path = sys.argv[1:]
lock = os.open(lock_path, os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
out = os.open(path, os.O_WRONLY | os.O_APPEND)
line = '{"seq":%d,"protocol":"refold.v1.session.user","user":{"message":{"content":[{"text":"'
line += "x" * 150 + '","type":"text"}],"role":"user"}}}\\n'
seq = int(open(path).read().splitlines()[-1].split(",")[0].split(":")[1])
print("ready", flush=True)
slowest, refused, begun, first = 0.0, 0, time.perf_counter(), seq
os.set_blocking(0, False)
while True:
    seq += 1
    before = time.perf_counter()
    os.write(out, (line % seq).encode())
    # Whoever looks at a run may lock neither of its files, not for a moment.
    probe = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        refused += 1
    os.close(probe)
    slowest = max(slowest, time.perf_counter() - before)
    try:
        if os.read(0, 1) == b"":
            break
    except BlockingIOError:
        pass
    time.sleep(max(0.0, begun + (seq - first) / 1000 - time.perf_counter()))
print(seq - first, refused, slowest, flush=True)
"""

FORKER = """
import sys
from pathlib import Path
from refold.core.errors import RunExists
from refold.core.store.fork import carry_out, plan_at
from refold.core.store.reader import RunReader
reader = RunReader.open(Path(sys.argv[1]))
reader.index_all()
print("ready", flush=True)
for number in sys.stdin:
    plan = plan_at(reader, 6, child=f"child-{number.strip()}", reason=sys.argv[2])
    try:
        made = carry_out(plan)
    except RunExists as error:
        print("exists", error, flush=True)
    else:
        print("made", made.path.name, flush=True)
"""


def parent_of(directory: Path, style: generate.Style = "native") -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / "parent.json"
    generate.write(path, generate.journal(records=12, style=style, run_id="parent", ending="crashed"))
    return path


def child(code: str, *arguments: str) -> subprocess.Popen[str]:
    started = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "ready\n"
    return started


def open_files() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names, not paths


def test_a_fork_of_a_run_that_is_being_written(tmp_path: Path) -> None:
    path = parent_of(tmp_path)
    writer = child(WRITER, str(path), str(path.with_suffix(".lock")))
    forks: list[Path] = []
    until = time.monotonic() + 2.0
    with RunReader.open(path) as reader:
        while time.monotonic() < until or len(forks) < 20:
            reader.index_all()
            timeline = reader.timeline
            item = timeline.legal_item(timeline.items - 1)
            assert item is not None
            forks.append(carry_out(plan_at(reader, item)).path)
            assert holder_of(path.with_suffix(".lock")) is not None
    out, _ = writer.communicate("")
    written, refused, slowest = out.split()
    assert int(written) > 500
    assert int(refused) == 0
    assert float(slowest) < 0.5
    data = path.read_bytes()
    for fork in forks:
        head, _, rest = fork.read_bytes().partition(b"\n")
        prefix = data[: data.index(b"\n") + 1] + rest
        assert data.startswith(prefix)
        assert hashlib.sha256(prefix).hexdigest().encode() in head
        assert fold_bytes(head + b"\n" + rest).last_seq == rest.count(b"\n") + 1
    assert len({len(fork.read_bytes()) for fork in forks}) > 5


def test_a_fork_neither_takes_nor_keeps_anything(tmp_path: Path) -> None:
    path = parent_of(tmp_path, "fisk-ai-v3")
    before = (path.read_bytes(), path.stat())
    notes = NotesStore(tmp_path / "notes")
    lock = RunLock.take(path.with_suffix(".lock"))
    try:
        with RunReader.open(path) as reader:
            reader.index_all()
            carry_out(plan_at(reader, 5, child="first"), notes=notes)
            files = open_files()
            for number in range(20):
                made = carry_out(plan_at(reader, 5 + number % 3, child=f"child-{number}"), notes=notes)
                with pytest.raises(RunExists):
                    carry_out(plan_at(reader, 5, child="first"), notes=notes)
                with pytest.raises(NoForkHere):
                    plan_at(reader, 5, child="parent")
                held = locked_inodes()
                assert held is None or made.path.stat().st_ino not in held
            assert open_files() == files
            assert lock.still_ours()
    finally:
        lock.release()
    after = path.stat()
    assert path.read_bytes() == before[0]
    assert (after.st_mtime_ns, after.st_ctime_ns, after.st_mode) == (
        before[1].st_mtime_ns,
        before[1].st_ctime_ns,
        before[1].st_mode,
    )
    with JournalStore(tmp_path, FISK_AI).open("child-3") as journal:
        assert journal.last_seq == 6
    assert not [*tmp_path.glob(".*")]


def test_of_two_forkers_one_wins(tmp_path: Path) -> None:
    path = parent_of(tmp_path)
    races = 200
    forkers = [child(FORKER, str(path), name) for name in ("left", "right")]
    lost = 0
    for number in range(races):
        for forker in forkers:
            assert forker.stdin is not None
            forker.stdin.write(f"{number}\n")
            forker.stdin.flush()
        answers = [forker.stdout.readline().split() for forker in forkers if forker.stdout is not None]
        assert sorted(answer[0] for answer in answers) == ["exists", "made"]
        winner = ("left", "right")[[answer[0] for answer in answers].index("made")]
        lost += winner == "right"
        text = (tmp_path / f"child-{number}.json").read_bytes()
        assert f'"reason":"{winner}"'.encode() in text.split(b"\n")[0]
        assert fold_bytes(text).last_seq == 7
    for forker in forkers:
        forker.communicate()
        assert forker.returncode == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(
        [*(f"child-{number}.json" for number in range(races)), "parent.json"]
    )


def leftover(path: Path, age: float = 100.0) -> Path:
    path.write_bytes(b"half of a fork")
    moment = time.time() - age
    os.utime(path, (moment, moment))
    return path


def test_the_next_fork_sweeps_up_what_a_killed_one_left(tmp_path: Path) -> None:
    path = parent_of(tmp_path)
    half = "0123456789abcdef.fork"
    swept = leftover(tmp_path / f".killed.{half}")
    young = leftover(tmp_path / f".young.{half}", age=0.0)
    held = leftover(tmp_path / f".held.{half}")
    other_names = [
        leftover(tmp_path / name)
        for name in (f"killed.{half}", ".killed.fork", f".killed.{half}.json", f"..{half}", ".k.0123.fork")
    ]
    (tmp_path / f".link.{half}").symlink_to(swept)
    (tmp_path / f".directory.{half}").mkdir()
    os.mkfifo(tmp_path / f".pipe.{half}")
    whole = tmp_path / "whole.json"
    twice = leftover(tmp_path / f".whole.{half}")
    os.link(twice, whole)
    holder = child(
        "import fcntl, os, sys\nfd = os.open(sys.argv[1], os.O_RDWR)\nfcntl.flock(fd, fcntl.LOCK_EX)\n"
        "print('ready', flush=True)\nsys.stdin.read()",
        str(held),
    )
    before = {file.name for file in tmp_path.iterdir()}
    with RunReader.open(path) as reader:
        reader.index_all()
        assert {file.name for file in tmp_path.iterdir()} == before
        carry_out(plan_at(reader, 5, child="next"))
    assert not swept.exists()
    assert not twice.exists()
    assert whole.read_bytes() == b"half of a fork"
    assert {file.name for file in tmp_path.iterdir()} == before - {swept.name, twice.name} | {"next.json"}
    assert all(file.exists() for file in (young, held, *other_names))
    holder.communicate()
    assert sweep(tmp_path) == 1
    assert not held.exists()
    assert sweep(tmp_path / "missing") == 0


def test_where_nothing_can_be_locked_age_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(fd: int, how: int) -> None:
        raise OSError(37, "No locks available")

    old = leftover(tmp_path / ".old.0123456789abcdef.fork", age=4000.0)
    recent = leftover(tmp_path / ".recent.0123456789abcdef.fork", age=2000.0)
    monkeypatch.setattr(fcntl, "flock", flock)
    assert sweep(tmp_path) == 1
    assert (old.exists(), recent.exists()) == (False, True)
    path = parent_of(tmp_path / "runs")
    with RunReader.open(path) as reader:
        reader.index_all()
        assert carry_out(plan_at(reader, 5)).durable
