"""Creating, opening, listing and loading runs: the promises of the store, one test each."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

import msgspec
import pytest
from tests.store_story import HOSTILE_IDS, META, fail_with, journal_store, names, records, user

from refold.core.errors import (
    InvalidRunId,
    NotRegular,
    RunExists,
    RunLocked,
    RunNotFound,
    StoreError,
    Unreadable,
    UnsupportedVersion,
    WriteFailed,
)
from refold.core.records import (
    MetaRecord,
    TerminalRecord,
)
from refold.core.repair import TornTail
from refold.core.store import journal as journal_module
from refold.core.store.journal import Journal, JournalStore


@pytest.fixture
def store(tmp_path: Path) -> JournalStore:
    return journal_store(tmp_path / "runs")


class TestCreate:
    def test_the_meta_record_is_completed_and_on_disk(self, store: JournalStore) -> None:
        with store.create("first", msgspec.structs.replace(META, seq=9, run_id="other")) as journal:
            assert journal.last_seq == 1
            assert journal.name_is_durable
            assert journal.run_id == "first"
            (meta,) = records(store.path_of("first"))
        assert isinstance(meta, MetaRecord)
        assert (meta.seq, meta.run_id, meta.version) == (1, "first", 2)
        assert meta.created == meta.time == "2026-03-01T12:00:00.000000Z"
        assert (meta.fingerprint, meta.prompt) == (META.fingerprint, "go")

    def test_what_the_caller_recorded_stands(self, store: JournalStore) -> None:
        given = msgspec.structs.replace(
            META, version=1, created="2020-01-01T00:00:00+03:00", time="2020-01-01T00:00:00Z"
        )
        store.create("a", given).close()
        (meta,) = records(store.path_of("a"))
        assert meta == msgspec.structs.replace(given, seq=1, run_id="a")

    def test_without_an_id_it_makes_one(self, store: JournalStore) -> None:
        with store.create(None, META) as journal:
            assert re.fullmatch("[0-9A-Za-z]{27}", journal.run_id)
        assert list(store.list()) == [journal.run_id]

    @pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
    def test_directory_and_files_are_private(self, store: JournalStore, umask: int) -> None:
        before = os.umask(umask)
        try:
            store.create("a", META).close()
        finally:
            os.umask(before)
        assert stat.S_IMODE(store.directory.stat().st_mode) == 0o700
        assert names(store.directory) == {"a.json", "a.lock"}
        for name in ("a.json", "a.lock"):
            assert stat.S_IMODE((store.directory / name).stat().st_mode) == 0o600

    def test_a_directory_that_is_there_keeps_its_mode(self, store: JournalStore) -> None:
        store.directory.mkdir()
        store.directory.chmod(0o755)
        store.create("a", META).close()
        assert stat.S_IMODE(store.directory.stat().st_mode) == 0o755

    def test_what_is_there_is_refused_and_left_alone(self, store: JournalStore, tmp_path: Path) -> None:
        store.create("a", META).close()
        before = store.path_of("a").read_bytes()
        (store.directory / "empty.json").touch()
        (store.directory / "link.json").symlink_to(tmp_path / "target")
        (store.directory / "directory.json").mkdir()
        for run_id in ("a", "empty", "link", "directory"):
            with pytest.raises(RunExists, match=run_id):
                store.create(run_id, META)
        assert store.path_of("a").read_bytes() == before
        assert (store.directory / "empty.json").stat().st_size == 0
        assert not (tmp_path / "target").exists()
        assert names(store.directory) == {"a.json", "a.lock", "empty.json", "link.json", "directory.json"}

    def test_the_loser_of_a_race_that_comes_after_the_winner_left_is_refused(
        self, store: JournalStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.create("a", META).close()
        before = store.path_of("a").read_bytes()
        monkeypatch.setattr(os.path, "lexists", lambda path: False)
        with pytest.raises(RunExists):
            store.create("a", META)
        assert store.path_of("a").read_bytes() == before
        store.open("a").close()

    def test_two_at_once_are_told_apart_by_the_lock(self, store: JournalStore) -> None:
        with store.create("a", META):
            store.path_of("a").rename(store.directory / "moved.json")
            with pytest.raises(RunLocked):
                store.create("a", META)

    @pytest.mark.parametrize(("call", "code"), [("write", errno.ENOSPC), ("fsync", errno.EIO)])
    def test_a_failure_leaves_no_run(
        self, store: JournalStore, monkeypatch: pytest.MonkeyPatch, call: str, code: int
    ) -> None:
        store.create("other", META).close()
        with monkeypatch.context() as patch:
            patch.setattr(os, call, fail_with(code))
            with pytest.raises(WriteFailed, match=errno.errorcode[code]):
                store.create("a", META)
        assert names(store.directory) == {"other.json", "other.lock", "a.lock"}
        store.create("a", META).close()

    def test_a_directory_that_fails_to_sync_leaves_no_run(
        self, store: JournalStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(journal_module, "fsync_directory", fail_with(errno.EIO))
            with pytest.raises(WriteFailed, match=r"EIO.*power failure"):
                store.create("a", META)
            assert names(store.directory) == {"a.lock"}
            patch.setattr(journal_module, "fsync_directory", lambda path: False)
            with store.create("a", META) as journal:
                assert not journal.name_is_durable

    def test_a_version_that_nobody_could_open_is_refused(self, store: JournalStore) -> None:
        with pytest.raises(UnsupportedVersion):
            store.create("a", msgspec.structs.replace(META, version=3))
        assert list(store.list()) == []

    def test_a_relative_directory_stays_where_it_was(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "elsewhere").mkdir()
        with JournalStore(Path("runs")).create("a", META) as journal:
            monkeypatch.chdir(tmp_path / "elsewhere")
            journal.append(user("x"))
        assert len(records(tmp_path / "runs" / "a.json")) == 2


class TestIds:
    @pytest.mark.parametrize("run_id", HOSTILE_IDS, ids=ascii)
    def test_a_text_that_is_no_id_never_becomes_a_path(
        self, store: JournalStore, tmp_path: Path, run_id: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        touched: list[object] = []
        monkeypatch.setattr(os, "open", lambda *arguments: touched.append(arguments))
        monkeypatch.setattr(os, "lstat", lambda *arguments: touched.append(arguments))
        with pytest.raises(InvalidRunId):
            store.create(run_id, META)
        for attempt in (store.open, store.load, store.path_of):
            with pytest.raises(InvalidRunId):
                attempt(run_id)
        monkeypatch.undo()
        assert touched == []
        assert names(tmp_path) == set()

    def test_the_list_is_sorted_and_holds_what_may_be_a_run(self, store: JournalStore) -> None:
        assert list(store.list()) == []
        for run_id in ("b", "a", "C"):
            store.create(run_id, META).close()
        for name in ("bad.json", "a.note.json", ".x.json", "-rf.json", "a.json~", "a.0.torn"):
            (store.directory / name).touch()
        (store.directory / "directory.json").mkdir()
        (store.directory / "link.json").symlink_to("nowhere")
        assert list(store.list()) == ["C", "a", "b", "bad", "link"]
        not_a_directory = JournalStore(store.path_of("a"))
        with pytest.raises(StoreError):
            list(not_a_directory.list())


class TestOpen:
    def test_a_run_that_is_not_there_leaves_no_lock_file(self, store: JournalStore) -> None:
        with pytest.raises(RunNotFound):
            store.open("a")
        store.create("a", META).close()
        with pytest.raises(RunNotFound):
            store.open("b")
        assert names(store.directory) == {"a.json", "a.lock"}

    def test_what_is_no_file_is_refused_without_blocking(self, store: JournalStore) -> None:
        store.create("target", META).close()
        os.mkfifo(store.directory / "pipe.json")
        (store.directory / "link.json").symlink_to("target.json")
        (store.directory / "directory.json").mkdir()
        for run_id in ("pipe", "link", "directory"):
            with pytest.raises(NotRegular):
                store.open(run_id)
            with pytest.raises(NotRegular):
                store.load(run_id)
            assert not (store.directory / f"{run_id}.lock").exists()

    def test_a_newer_run_is_not_appended_to(self, store: JournalStore) -> None:
        store.create("a", META).close()
        path = store.path_of("a")
        path.write_bytes(path.read_bytes().replace(b'"version":2', b'"version":99'))
        with pytest.raises(UnsupportedVersion, match="version 99"):
            store.open("a")
        with pytest.raises(UnsupportedVersion):
            store.load("a")
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(UnsupportedVersion, match="version 99"):
            store.open("a")

    @pytest.mark.parametrize("size", [1, 3_000, 70_000, 5_000_000])
    @pytest.mark.parametrize("torn", [0, 1, 200_000])
    def test_no_more_is_read_than_the_end(
        self, store: JournalStore, monkeypatch: pytest.MonkeyPatch, size: int, torn: int
    ) -> None:
        with store.create("a", META) as journal:
            for _ in range(20):
                journal.append(user("x" * 100_000))
            journal.append(user("y" * size))
        path = store.path_of("a")
        last = len(path.read_bytes().split(b"\n")[-2])
        with path.open("ab") as file:
            file.write(b"z" * torn)
        read: list[int] = []
        real = os.pread

        def counting(fd: int, count: int, offset: int) -> bytes:
            data = real(fd, count, offset)
            read.append(len(data))
            return data

        monkeypatch.setattr(os, "pread", counting)
        if torn:
            with pytest.raises(TornTail):
                store.open("a")
            # The torn bytes are read once to judge them, and once more to look for them in a side file.
            assert sum(read) <= last + 2 * torn + 65_536
        else:
            store.open("a").close()
            assert sum(read) <= last + 65_536

    def test_a_file_that_shrinks_while_it_is_read_is_not_misread(
        self, store: JournalStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with store.create("a", META) as journal:
            journal.append(user("x" * 100_000))
        monkeypatch.setattr(os, "pread", lambda fd, count, offset: b"")
        with pytest.raises(Unreadable, match="shorter"):
            store.open("a")


class TestLoad:
    def test_a_run_is_folded_and_nothing_is_locked_or_changed(self, store: JournalStore) -> None:
        with store.create("a", META) as journal:
            journal.append(user("more"))
            journal.append(TerminalRecord("suspended"))
            before = (store.path_of("a").read_bytes(), store.path_of("a").stat())
            lock = store.directory / "a.lock"
            lock_before = lock.stat()
            state = store.load("a")
            assert (state.run_id, state.last_seq, state.completed) == ("a", 3, False)
            after = (store.path_of("a").read_bytes(), store.path_of("a").stat())
            assert before[0] == after[0]
            assert before[1].st_mtime_ns == after[1].st_mtime_ns
            assert lock.stat().st_mtime_ns == lock_before.st_mtime_ns
        lock.unlink()
        assert store.load("a").last_seq == 3
        assert names(store.directory) == {"a.json"}

    def test_a_missing_run_is_not_found(self, store: JournalStore) -> None:
        with pytest.raises(RunNotFound):
            store.load("a")


def test_a_journal_is_its_own_context_manager(store: JournalStore) -> None:
    with store.create("a", META) as journal:
        assert isinstance(journal, Journal)
    with pytest.raises(ZeroDivisionError), store.open("a") as journal:
        _ = 1 // 0
    assert journal.closed
