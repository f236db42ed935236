"""Locks: one holder at a time, freed by death, seen without being taken."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from refold.core.errors import LockUnsure, NotPermitted, NotRegular, RunLocked, RunNotFound
from refold.core.store import lock as lock_module
from refold.core.store.lock import Holder, RunLock, holder_of, locked_inodes

HOLD = """
import sys, time
from pathlib import Path
from refold.core.store.lock import RunLock
lock = RunLock.take(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""

# Each round, all children try at the same moment; whoever got it keeps it until all have tried.
RACE = """
import multiprocessing, os, sys
from pathlib import Path
from refold.core.errors import RunLocked
from refold.core.store.lock import RunLock

def compete(number, path, rounds, barrier, wins):
    for turn in range(rounds):
        barrier.wait()
        if number == 0 and turn % 3 == 2:
            path.unlink(missing_ok=True)
        lock = None
        try:
            lock = RunLock.take(path)
        except RunLocked:
            pass
        barrier.wait()
        if lock is not None and lock.still_ours():
            wins[turn * 4 + number] = 1
        barrier.wait()
        if lock is not None:
            lock.release()

context = multiprocessing.get_context("fork")
path, rounds = Path(sys.argv[1]), int(sys.argv[2])
barrier, wins = context.Barrier(4), context.Array("i", rounds * 4)
children = [context.Process(target=compete, args=(n, path, rounds, barrier, wins)) for n in range(4)]
for child in children: child.start()
for child in children: child.join()
assert all(child.exitcode == 0 for child in children)
print(*(sum(wins[turn * 4 : turn * 4 + 4]) for turn in range(rounds)))
"""

INHERIT = """
import os, subprocess, sys
from pathlib import Path
from refold.core.store.lock import RunLock
path = Path(sys.argv[1])
lock = RunLock.take(path)
read, write = os.pipe()
there, told = os.pipe()
child = os.fork()
if child == 0:
    os.close(write)
    os.write(1, b"held" if lock.held else b"dropped")
    os.write(told, b".")
    os.read(read, 1)
    os._exit(0)
os.read(there, 1)
other = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
lock._file.close()  # as when the process dies: nothing unlocks on the way
again = RunLock.take(path)
print(" taken again")
other.kill()
os.close(write)
os.waitpid(child, 0)
"""


@contextmanager
def holding(path: Path) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        yield child
    finally:
        child.kill()
        child.wait()


def run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


needs_proc = pytest.mark.skipif(not Path("/proc/locks").exists(), reason="no /proc/locks here")


def test_a_lock_is_private_and_stays_when_it_is_released(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    before = os.umask(0)
    try:
        lock = RunLock.take(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_size == 0
    assert lock.held
    assert lock.still_ours()
    lock.release()
    lock.release()
    assert not lock.held
    assert not lock.still_ours()
    assert path.exists()
    RunLock.take(path).release()


def test_a_second_holder_in_this_process_is_refused(tmp_path: Path) -> None:
    lock = RunLock.take(tmp_path / "a.lock")
    with pytest.raises(RunLocked, match=f"process {os.getpid()} "):
        RunLock.take(tmp_path / "a.lock")
    lock.release()
    RunLock.take(tmp_path / "a.lock").release()


def test_the_program_that_wrote_the_format_first_sees_our_lock(tmp_path: Path) -> None:
    lock = RunLock.take(tmp_path / "a.lock")
    with (tmp_path / "a.lock").open("rb+") as file:
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lock.release()
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(RunLocked):
            RunLock.take(tmp_path / "a.lock")


def test_death_frees_a_lock_and_the_left_file_means_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with holding(path) as child:
        with pytest.raises(RunLocked, match=rf"process {child.pid} \(") as caught:
            RunLock.take(path)
        assert str(path) in str(caught.value)
        assert caught.value.remedy
    path.write_text("1\n")
    RunLock.take(path).release()
    assert path.read_text() == "1\n"


def test_exactly_one_of_four_wins_and_never_two_when_the_file_is_removed(tmp_path: Path) -> None:
    wins = [int(word) for word in run(RACE, str(tmp_path / "a.lock"), "150").split()]
    assert len(wins) == 150
    assert all(count == 1 for turn, count in enumerate(wins) if turn % 3 != 2), wins
    # A file removed in the middle of a round leaves the loser of the path behind: it may notice too late
    # to win, but two who both hold the path are never there.
    assert all(count <= 1 for count in wins), wins


def test_neither_a_forked_child_nor_a_started_program_keeps_the_lock(tmp_path: Path) -> None:
    assert run(INHERIT, str(tmp_path / "a.lock")) == "dropped taken again"


def test_a_release_frees_the_lock_although_a_program_has_its_descriptor(tmp_path: Path) -> None:
    lock = RunLock.take(tmp_path / "a.lock")
    other = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[lock.fileno()])
    lock.release()
    RunLock.take(tmp_path / "a.lock").release()
    other.communicate()


def test_a_lock_file_that_was_replaced_is_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    lock = RunLock.take(path)
    path.unlink()
    assert not lock.still_ours()
    path.touch()
    assert not lock.still_ours()
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    assert not lock.still_ours()


def test_a_lock_file_that_changes_under_our_hands_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.lock"
    real = fcntl.flock
    swaps = iter([True, True, False])

    def swap_then_lock(fd: int, operation: int) -> None:
        if operation & fcntl.LOCK_EX and next(swaps, False):
            path.unlink()
            path.touch()
        real(fd, operation)

    monkeypatch.setattr(fcntl, "flock", swap_then_lock)
    lock = RunLock.take(path)
    assert lock.still_ours()
    assert next(swaps, None) is None
    monkeypatch.setattr(lock_module.RunLock, "still_ours", lambda self: False)
    lock.release()
    with pytest.raises(RunLocked, match="replaced all the time"):
        RunLock.take(path)


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_not_taken_for_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(fd: int, operation: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(LockUnsure, match=os.strerror(code)):
        RunLock.take(tmp_path / "a.lock")


def test_what_is_no_file_is_refused_as_a_lock_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.lock")
    (tmp_path / "directory.lock").mkdir()
    (tmp_path / "target").touch()
    (tmp_path / "link.lock").symlink_to(tmp_path / "target")
    started = time.monotonic()
    for name in ("pipe", "directory", "link"):
        with pytest.raises(NotRegular):
            RunLock.take(tmp_path / f"{name}.lock")
    assert time.monotonic() - started < 10
    with pytest.raises(RunNotFound):
        RunLock.take(tmp_path / "nowhere" / "a.lock")


def test_a_lock_file_that_cannot_be_made_private_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, mode: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "fchmod", refuse)
    before = os.umask(0o777)
    try:
        with pytest.raises(NotPermitted, match="cannot be kept from others"):
            RunLock.take(tmp_path / "a.lock")
    finally:
        os.umask(before)


def test_a_lock_file_that_comes_and_goes_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "_create_lock_file", lambda path: None)
    with pytest.raises(RunLocked, match="comes and goes"):
        RunLock.take(tmp_path / "a.lock")


@needs_proc
def test_locked_inodes_are_exclusive_flocks_and_looking_takes_none(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    shared = tmp_path / "shared.lock"
    with holding(path), shared.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        inodes = locked_inodes()
        assert inodes is not None
        assert path.stat().st_ino in inodes
        assert shared.stat().st_ino not in inodes
    inodes = locked_inodes()
    assert inodes is not None
    assert path.stat().st_ino not in inodes


def test_the_table_of_locks_is_read_word_by_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "_PROC", tmp_path)
    assert locked_inodes() is None
    (tmp_path / "locks").write_text(
        "1: FLOCK  ADVISORY  WRITE 10 08:01:111 0 EOF\n"
        "1: -> FLOCK  ADVISORY  WRITE 11 08:01:222 0 EOF\n"
        "2: POSIX  ADVISORY  WRITE 12 08:01:333 0 EOF\n"
        "3: FLOCK  ADVISORY  READ  13 08:01:444 0 EOF\n"
        "4: OFDLCK ADVISORY  WRITE -1 08:01:555 0 EOF\n"
        "5: FLOCK  MANDATORY WRITE 14 fe:00:666 0 EOF\n"
        "6: FLOCK  ADVISORY  WRITE 15 <none>:0 0 EOF\n"
        "7: FLOCK  ADVISORY  WRITE 16 nonsense\n"
        "8: FLOCK\n\n"
    )
    assert locked_inodes() == frozenset({111, 666, 0})


@needs_proc
def test_the_holder_is_found_by_any_of_its_files_and_quickly(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    (tmp_path / "b.lock").touch()
    with holding(path) as child, path.open("rb"):
        (tmp_path / "link").symlink_to(path)
        for paths in ((path,), (tmp_path / "b.lock", path), (tmp_path / "gone", path), (tmp_path / "link",)):
            started = time.monotonic()
            holder = holder_of(*paths)
            assert time.monotonic() - started < 5
            assert holder is not None
            assert holder.pid == child.pid
            assert sys.executable in holder.command
        assert holder_of(tmp_path / "b.lock") is None
        assert holder_of(tmp_path / "gone", tmp_path / "with\0nul") is None
        assert holder_of(path, seconds=-1) is None
    assert holder_of(path) is None


def test_a_walk_over_processes_survives_what_comes_and_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "a.lock"
    lock.touch()
    processes = tmp_path / "proc"
    monkeypatch.setattr(lock_module, "_PROC", processes)
    assert holder_of(lock) is None
    for pid, information in (
        (7, "pos:\t0\nlock:\t1: FLOCK  ADVISORY  WRITE 7 08:01:1 0 EOF\n"),
        (9, "pos:\t0\nflags:\t02\n"),
        (10, "lock:\t1: POSIX  ADVISORY  WRITE 10 08:01:1 0 EOF\n"),
        (11, "lock:\t1: FLOCK  ADVISORY  READ 11 08:01:1 0 EOF\n"),
    ):
        (processes / str(pid) / "fd").mkdir(parents=True)
        (processes / str(pid) / "fdinfo").mkdir()
        (processes / str(pid) / "fd" / "0").symlink_to("socket:[1]")
        (processes / str(pid) / "fd" / "1").symlink_to(tmp_path / "gone")
        (processes / str(pid) / "fd" / "2").symlink_to(lock)
        (processes / str(pid) / "fd" / "3").symlink_to(lock)
        (processes / str(pid) / "fdinfo" / "3").write_text(information)
    (processes / "8").mkdir()
    (processes / "self").symlink_to("7")
    assert holder_of(lock) == Holder(7, "")
    (processes / "7" / "cmdline").write_bytes(b"agent\0--name\0\xff" + b"x" * 1000)
    holder = holder_of(lock)
    assert holder is not None
    assert holder.command.startswith("agent --name \\xffxxx")
    assert len(holder.command) == 200


def test_a_lock_that_cannot_be_unlocked_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = RunLock.take(tmp_path / "a.lock")
    flock = fcntl.flock

    def failing(fd: int, how: int) -> None:
        if how == fcntl.LOCK_UN:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        flock(fd, how)

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", failing)
        lock.release()
    assert not lock.held
    RunLock.take(tmp_path / "a.lock").release()
