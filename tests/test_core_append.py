"""Appending to a run: order, repetition, one writer, and what is left when the system fails."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from tests.store_story import META, fail_with, journal_store, records, user

from refold.core.errors import (
    BadRecord,
    JournalClosed,
    LockUnsure,
    RunExists,
    RunLocked,
    SequenceConflict,
    SequenceGap,
    StoreError,
    WriteFailed,
)
from refold.core.formats.journal import FISK_AI, NATIVE
from refold.core.records import (
    AssistantRecord,
    IncompleteRecord,
    Json,
    Message,
    MetaRecord,
    Record,
    TerminalRecord,
    ToolResultRecord,
    UnknownRecord,
    UserRecord,
)
from refold.core.repair import TornTail
from refold.core.store import journal as journal_module
from refold.core.store.clock import SystemStamps, stamp_of
from refold.core.store.journal import JournalStore
from refold.core.store.lock import holder_of


@pytest.fixture
def store(tmp_path: Path) -> JournalStore:
    return journal_store(tmp_path / "runs")


class TestAppend:
    def test_records_follow_each_other_line_by_line(self, store: JournalStore) -> None:
        block: Json = {"type": "tool_use", "id": "t1", "name": "ls", "input": {"a": [1, 2.5, None]}}
        with store.create("a", META) as journal:
            assert (
                journal.append(AssistantRecord(Message("assistant", (block,)), stop_reason="tool_use")) == 2
            )
            assert (
                journal.append(ToolResultRecord("t1", {"type": "tool_result", "tool_use_id": "t1"}, seq=3))
                == 3
            )
            assert journal.append(user("line\nbreak \u2028 é \x1b")) == 4
            assert journal.append(TerminalRecord("suspended", time="2026-01-01T00:00:00Z")) == 5
            assert journal.last_seq == 5
        written = records(store.path_of("a"))
        assert [record.seq for record in written] == [1, 2, 3, 4, 5]
        assert [record.time for record in written[1:4]] == [
            f"2026-03-01T12:00:00.{tick:06}Z" for tick in (1, 2, 3)
        ]
        assert written[4].time == "2026-01-01T00:00:00Z"
        assert isinstance(written[3], UserRecord)
        assert written[3].message == user("line\nbreak \u2028 é \x1b").message

    def test_the_system_clock_is_written_as_any_other(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stamps = SystemStamps()
        for nanoseconds in (0, 999, 1_000, 1_767_225_599_999_999_999, 1_767_225_600_000_000_000, 5, 10**18):
            monkeypatch.setattr(time, "time_ns", lambda now=nanoseconds: now)
            moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=nanoseconds // 1000)
            assert stamps() == stamp_of(moment)

    def test_a_record_has_the_time_of_its_append(self, tmp_path: Path) -> None:
        before = stamp_of(datetime.now(UTC))
        with JournalStore(tmp_path).create("a", META) as journal:
            journal.append(user("x"))
        times = [record.time or "" for record in records(tmp_path / "a.json")]
        assert before <= times[0] <= times[1] <= stamp_of(datetime.now(UTC))

    def test_opening_goes_on_where_it_ended(self, store: JournalStore) -> None:
        store.create("a", META).close()
        for expected in (2, 3):
            with store.open("a") as journal:
                assert journal.last_seq == expected - 1
                assert journal.repaired is None
                assert journal.append(user(str(expected))) == expected

    def test_a_gap_is_refused_and_the_next_one_is_not(self, store: JournalStore) -> None:
        with store.create("a", META) as journal:
            with pytest.raises(SequenceGap, match="record seq gap: seq 3 skips ahead of 1"):
                journal.append(user("x", 3))
            assert journal.append(user("x", 2)) == 2

    def test_the_same_record_again_is_not_written_again(self, store: JournalStore) -> None:
        with store.create("a", META) as journal:
            for number in range(2, 60):
                journal.append(user(f"text {number}"))
            before = store.path_of("a").read_bytes()
            for number in (59, 30, 2):
                assert journal.append(user(f"text {number}", number)) == number
            assert journal.append(msgspec.structs.replace(META, seq=1)) == 1
            assert journal.append(records(store.path_of("a"))[4]) == 5
            assert journal.last_seq == 59
        assert store.path_of("a").read_bytes() == before

    @pytest.mark.parametrize(
        "record",
        [
            user("other", 3),
            TerminalRecord("suspended", seq=3),
            user("first", 3),
            user("second", -1),
            msgspec.structs.replace(META, seq=1, prompt="other"),
            msgspec.structs.replace(META, seq=2),
        ],
    )
    def test_other_content_at_a_sequence_that_is_taken_is_refused(
        self, store: JournalStore, record: Record
    ) -> None:
        with store.create("a", META) as journal:
            for text in ("first", "second", "third"):
                journal.append(user(text))
            before = store.path_of("a").read_bytes()
            with pytest.raises(SequenceConflict, match=r"other content|one meta"):
                journal.append(record)
            assert journal.append(user("second", 3)) == 3
        assert store.path_of("a").read_bytes() == before

    def test_a_repeated_record_is_found_behind_damage_but_not_beyond_the_limit(
        self, store: JournalStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with store.create("a", META) as journal:
            for text in ("first", "second", "third", "fourth"):
                journal.append(user(text))
        path = store.path_of("a")
        lines = path.read_bytes().split(b"\n")
        lines[3] = b"damage"
        path.write_bytes(b"\n".join(lines))
        with store.open("a") as journal:
            assert journal.append(user("second", 3)) == 3
            with pytest.raises(SequenceConflict):
                journal.append(user("third", 4))
            monkeypatch.setattr(journal_module, "LOOK_BACK", 100)
            assert journal.append(user("fourth", 5)) == 5
            with pytest.raises(SequenceConflict):
                journal.append(user("second", 3))

    def test_a_record_without_time_is_the_same_record(self, store: JournalStore) -> None:
        store.create("a", META).close()
        line = NATIVE.encode(user("x", 2))
        assert b"time" not in line
        with store.path_of("a").open("ab") as file:
            file.write(line)
        with store.open("a") as journal:
            assert journal.append(user("x", 2)) == 2

    def test_the_first_record_is_meta_and_no_other_is(self, store: JournalStore) -> None:
        with store.create("a", META) as journal:
            with pytest.raises(SequenceConflict, match="duplicate meta at seq 2"):
                journal.append(META)
            journal.append(user("x"))
        (store.directory / "empty.json").touch()
        with store.open("empty") as journal:
            assert journal.last_seq == 0
            with pytest.raises(SequenceGap, match="must be a meta record"):
                journal.append(user("x"))
            with pytest.raises(SequenceGap):
                journal.append(user("x", 2))
            assert journal.append(META) == 1
            assert journal.append(user("x")) == 2
        first = records(store.directory / "empty.json")[0]
        assert isinstance(first, MetaRecord)
        assert first.run_id == "empty"

    def test_only_an_empty_file_is_begun(self, store: JournalStore) -> None:
        with store.begin("a", META), pytest.raises(RunExists):
            store.begin("a", META)
        with pytest.raises(RunExists):
            store.create("a", META)
        empty = store.path_of("empty")
        empty.touch()
        with pytest.raises(RunExists):
            store.create("empty", META)
        with store.open("empty"), pytest.raises(RunLocked):
            store.begin("empty", META)
        assert empty.read_bytes() == b""
        with store.begin("empty", META) as journal:
            assert journal.append(user("x")) == 2
        first = records(empty)[0]
        assert isinstance(first, MetaRecord)
        assert first.run_id == "empty"
        store.path_of("link").symlink_to(store.directory / "target")
        (store.directory / "target").touch()
        with pytest.raises(RunExists):
            store.begin("link", META)

    def test_one_that_begins_meanwhile_wins(
        self, store: JournalStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.directory.mkdir()
        store.path_of("a").touch()

        def quicker(path: Path) -> bool:
            with store.open("a") as journal:
                journal.append(META)
            return True

        monkeypatch.setattr(journal_module, "_is_empty", quicker)
        with pytest.raises(RunExists):
            store.begin("a", META)
        assert len(records(store.path_of("a"))) == 1
        store.open("a").close()

    @pytest.mark.parametrize(
        "record",
        [UnknownRecord("refold.v1.session.checkpoint"), IncompleteRecord("user"), UnknownRecord("x", seq=1)],
    )
    def test_only_the_five_kinds_are_written(self, store: JournalStore, record: Record) -> None:
        with store.create("a", META) as journal:
            with pytest.raises(BadRecord):
                journal.append(record)
            assert journal.append(user("x")) == 2

    def test_what_we_could_not_read_again_is_not_written(self, store: JournalStore) -> None:
        deep: Json = "x"
        for _ in range(300):
            deep = [deep]
        with store.create("a", META) as journal:
            before = store.path_of("a").read_bytes()
            for content in (deep, 10**30, float("nan"), "\ud800"):
                try:
                    journal.append(ToolResultRecord("t1", {"content": content}))
                except BadRecord:
                    assert store.path_of("a").read_bytes() == before
                else:
                    before = store.path_of("a").read_bytes()
                    records(store.path_of("a"))
            journal.append(user("x"))
        assert records(store.path_of("a"))[-1].seq == journal.last_seq

    def test_a_format_that_breaks_a_line_is_refused(
        self, store: JournalStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with store.create("a", META) as journal:
            before = store.path_of("a").read_bytes()
            for line in (b"{}\n{}\n", b"{}", b""):
                with monkeypatch.context() as patch:
                    patch.setattr(NATIVE, "plain_line", lambda record, version, line=line: line)
                    with pytest.raises(BadRecord, match="one line"):
                        journal.append(user("x"))
            monkeypatch.setattr(NATIVE, "plain_line", lambda record, version: None)
            for line in (b"{}\n{}\n", b"{}", b""):
                monkeypatch.setattr(NATIVE, "encode", lambda record, version=None, line=line: line)
                with pytest.raises(BadRecord, match="one line"):
                    journal.append(user("x"))
            monkeypatch.setattr(NATIVE, "encode", lambda record, version=None: b"[1]\n")
            with pytest.raises(BadRecord):
                journal.append(user("x"))
            assert store.path_of("a").read_bytes() == before

    def test_threads_take_turns(self, store: JournalStore) -> None:
        with store.create("a", META) as journal:
            threads = [
                threading.Thread(target=lambda: [journal.append(user("x" * 5000)) for _ in range(20)])
                for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert [record.seq for record in records(store.path_of("a"))] == list(range(1, 82))

    def test_closing_waits_for_the_append_that_is_under_way(
        self, store: JournalStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        journal = store.create("a", META)
        syncing, go_on = threading.Event(), threading.Event()
        real = os.fsync

        def slow(fd: int) -> None:
            syncing.set()
            assert go_on.wait(10)
            real(fd)

        monkeypatch.setattr(os, "fsync", slow)
        appending = threading.Thread(target=journal.append, args=(user("x"),))
        closing = threading.Thread(target=journal.close)
        appending.start()
        assert syncing.wait(10)
        closing.start()
        closing.join(0.05)
        assert closing.is_alive()
        assert not journal.closed
        go_on.set()
        appending.join()
        closing.join()
        assert journal.closed
        assert len(records(store.path_of("a"))) == 2

    def test_a_closed_journal_takes_nothing(self, store: JournalStore) -> None:
        journal = store.create("a", META)
        assert not journal.closed
        journal.close()
        journal.close()
        assert journal.closed
        with pytest.raises(JournalClosed) as caught:
            journal.append(user("x"))
        assert caught.value.remedy

    def test_a_run_of_another_program_is_written_in_its_own_version(self, tmp_path: Path) -> None:
        store = JournalStore(tmp_path, FISK_AI)
        call: Json = {"type": "text", "text": "hi"}
        with store.create("old", msgspec.structs.replace(META, version=2)) as journal:
            journal.append(AssistantRecord(Message("assistant", (call,))))
        with store.open("old") as journal:
            journal.append(user("more"))
        lines = (tmp_path / "old.json").read_bytes().split(b"\n")
        assert b'"assistant":{"iteration":0,"message":{"content":[' in lines[1]
        assert b'"user":{"message":{"content":[' in lines[2]
        assert b'"time"' not in lines[0] + lines[1] + lines[2]
        with pytest.raises(StoreError):
            JournalStore(tmp_path, FISK_AI).open("older")


class TestFailures:
    @pytest.mark.parametrize("left", [0, 1, 40])
    def test_a_failed_write_leaves_nothing_and_closes(
        self, store: JournalStore, monkeypatch: pytest.MonkeyPatch, left: int
    ) -> None:
        journal = store.create("a", META)
        before = store.path_of("a").read_bytes()
        real = os.write
        answers = iter([left] if left else [])

        def short(fd: int, data: memoryview) -> int:
            for size in answers:
                return real(fd, data[:size])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", short)
            with pytest.raises(WriteFailed, match=r"No space left on device \(ENOSPC\)") as caught:
                journal.append(user("x"))
        assert str(store.path_of("a")) in str(caught.value)
        assert store.path_of("a").read_bytes() == before
        with pytest.raises(JournalClosed):
            journal.append(user("x"))
        with store.open("a") as journal:
            assert journal.append(user("x")) == 2

    def test_what_cannot_be_cut_off_is_repaired_on_the_next_open(
        self, store: JournalStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        journal = store.create("a", META)
        real = os.write

        def short(fd: int, data: memoryview) -> int:
            monkeypatch.setattr(os, "write", fail_with(errno.EIO))
            return real(fd, data[:30])

        with monkeypatch.context() as patch:
            patch.setattr(os, "ftruncate", fail_with(errno.EIO))
            monkeypatch.setattr(os, "write", short)
            with pytest.raises(WriteFailed, match="a part may be left"):
                journal.append(user("x"))
        monkeypatch.undo()
        with pytest.raises(TornTail) as caught:
            store.open("a")
        assert caught.value.plan.torn_bytes == 30
        with store.open("a", repair=caught.value.plan) as journal:
            assert journal.append(user("x")) == 2
        assert len(records(store.path_of("a"))) == 2

    def test_a_failed_sync_closes_and_is_not_tried_again(
        self, store: JournalStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        journal = store.create("a", META)
        synced: list[int] = []

        def fail(fd: int) -> None:
            synced.append(fd)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            with pytest.raises(WriteFailed, match="durability is unknown"):
                journal.append(user("x"))
        assert len(synced) == 1
        assert journal.closed
        assert journal.last_seq == 1
        with store.open("a") as journal:
            assert journal.append(user("y")) == journal.last_seq

    def test_an_interrupted_append_closes(self, store: JournalStore, monkeypatch: pytest.MonkeyPatch) -> None:
        journal = store.create("a", META)

        def interrupt(fd: int) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", interrupt)
            with pytest.raises(KeyboardInterrupt):
                journal.append(user("x"))
        assert journal.closed
        store.open("a").close()

    def test_a_file_size_limit_cuts_a_real_write_short_at_every_byte(self, tmp_path: Path) -> None:
        code = """
import resource, sys
from pathlib import Path
from refold.core.errors import WriteFailed
from refold.core.records import Message, MetaRecord, UserRecord
from refold.core.store.journal import JournalStore
store = JournalStore(Path(sys.argv[1]))
store.create("a", MetaRecord(prompt="go")).close()
path = store.path_of("a")
before = path.read_bytes()
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
record = UserRecord(Message("user", ({"type": "text", "text": "hello"},)))
tries = 0
while True:
    journal = store.open("a")
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + tries, hard))
    try:
        journal.append(record)
        break
    except WriteFailed as error:
        assert "EFBIG" in str(error), error
        assert "nothing of it is in the file" in str(error), error
        assert path.read_bytes() == before
        tries += 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
print(tries, path.stat().st_size - len(before))
"""
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        tries, length = map(int, done.stdout.split())
        assert tries == length > 100


class TestOneWriter:
    def test_a_second_open_is_refused_in_this_process_and_in_others(self, store: JournalStore) -> None:
        with store.create("a", META) as journal:
            with pytest.raises(RunLocked):
                store.open("a")
            holder = holder_of(store.path_of("a"))
            assert holder is not None
            assert holder.pid == os.getpid()
            code = """
import sys
from pathlib import Path
from refold.core.errors import RunLocked
from refold.core.store.journal import JournalStore
try:
    JournalStore(Path(sys.argv[1])).open("a")
except RunLocked as error:
    print(error)
"""
            done = subprocess.run(
                [sys.executable, "-c", code, str(store.directory)], capture_output=True, text=True, check=True
            )
            assert f"run is already locked by process {os.getpid()} (" in done.stdout
            assert str(store.directory / "a.lock") in done.stdout
            journal.append(user("x"))
        store.open("a").close()

    def test_a_removed_lock_file_never_makes_two_writers(self, store: JournalStore) -> None:
        first = store.create("a", META)
        (store.directory / "a.lock").unlink()
        with pytest.raises(RunLocked, match=re.escape("a.json")):
            store.open("a")
        before = store.path_of("a").read_bytes()
        with pytest.raises(RunLocked, match="lock file was removed or replaced"):
            first.append(user("x"))
        assert first.closed
        assert store.path_of("a").read_bytes() == before
        with store.open("a") as second:
            assert second.append(user("x")) == 2

    def test_a_replaced_or_changed_file_is_noticed_before_a_write(self, store: JournalStore) -> None:
        path = store.path_of("a")
        journal = store.create("a", META)
        copy = path.read_bytes()
        path.unlink()
        path.write_bytes(copy)
        with pytest.raises(WriteFailed, match="removed or replaced"):
            journal.append(user("x"))
        for change in (b"", copy + b"{"):
            path.write_bytes(copy)
            journal = store.open("a")
            path.write_bytes(change)
            with pytest.raises(WriteFailed, match=f"it has {len(change)} bytes, not {len(copy)}"):
                journal.append(user("x"))
            assert path.read_bytes() == change
            assert journal.closed

    def test_a_file_that_is_replaced_while_it_is_opened_is_refused(
        self, store: JournalStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.create("a", META).close()
        path = store.path_of("a")
        real = fcntl.flock
        locked: list[int] = []

        def swap(fd: int, operation: int) -> None:
            real(fd, operation)
            locked.append(fd)
            if len(locked) == 2:
                copy = path.read_bytes()
                path.unlink()
                path.write_bytes(copy)

        monkeypatch.setattr(fcntl, "flock", swap)
        with pytest.raises(RunLocked, match="being replaced"):
            store.open("a")

    def test_a_disk_without_locks_is_not_written_to(
        self, store: JournalStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.create("a", META).close()
        monkeypatch.setattr(fcntl, "flock", fail_with(errno.ENOLCK))
        with pytest.raises(LockUnsure):
            store.open("a")
        with pytest.raises(LockUnsure):
            store.create("b", META)
        assert not store.path_of("b").exists()

    def test_a_forked_child_cannot_append_and_does_not_keep_the_lock(self, tmp_path: Path) -> None:
        code = """
import os, sys
from pathlib import Path
from refold.core.errors import JournalClosed
from refold.core.records import MetaRecord, TerminalRecord
from refold.core.store.journal import JournalStore
store = JournalStore(Path(sys.argv[1]))
journal = store.create("a", MetaRecord())
read, write = os.pipe()
if os.fork() == 0:
    os.close(write)
    try:
        journal.append(TerminalRecord("completed"))
    except JournalClosed:
        print("refused", flush=True)
    journal.close()
    os.read(read, 1)
    os._exit(0)
journal.append(TerminalRecord("suspended"))
journal.close()
store.open("a").close()
os.close(write)
print(os.waitpid(-1, 0)[1])
"""
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert done.stdout.split() == ["refused", "0"], done.stderr
