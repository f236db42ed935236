"""The end of a journal: what is planned, and that nothing is changed, glued or lost by it."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.core.errors import (
    CorruptJournal,
    FoldError,
    RefoldError,
    TooLarge,
    UnsupportedVersion,
    WriteFailed,
)
from refold.core.formats.journal import FISK_AI, NATIVE, JournalFormat
from refold.core.journal_text import fold_bytes
from refold.core.records import (
    AssistantRecord,
    Fingerprint,
    Json,
    Message,
    MetaRecord,
    Record,
    TerminalRecord,
    ToolResultRecord,
    UserRecord,
)
from refold.core.repair import (
    BLANK_LIMIT,
    JournalFile,
    PlanOutdated,
    RepairPlan,
    Tail,
    TailLine,
    TornTail,
    plan_repair,
    side_file_name,
)
from refold.core.state import RunState
from refold.core.store import tail as tail_module
from refold.core.store.journal import JournalStore
from refold.core.store.tail import lines_backwards

DATA = Path(__file__).parent / "data" / "fisk-ai"
TIME = "2026-03-01T12:00:00.000000Z"
CALL: Json = {"type": "tool_use", "id": "t1", "name": "run", "input": {"path": "ü/\u2028", "n": 1.0}}
RESULT: Json = {"tool_use_id": "t1", "is_error": False, "content": [{"text": "é\n", "type": "text"}]}
RECORDS: tuple[Record, ...] = (
    MetaRecord(2, "run", TIME, Fingerprint("m", "5" * 64, "7" * 64, "off", 9, 9), "go → ", seq=1, time=TIME),
    AssistantRecord(Message("assistant", (CALL,)), 0, "tool_use", 5, 6, 7, 8, seq=2, time=TIME),
    ToolResultRecord("t1", RESULT, remote=True, seq=3, time=TIME),
    UserRecord(Message("user", ({"type": "text", "text": "\x1b[31m <&> 𝄞"},)), seq=4, time=TIME),
    TerminalRecord("suspended", "why\u2029", seq=5, time=TIME),
)
LINES = tuple(NATIVE.encode(record) for record in RECORDS)


def user(text: str) -> UserRecord:
    return UserRecord(Message("user", ({"type": "text", "text": text},)))


def plan_of(data: bytes, format_: JournalFormat = NATIVE, path: str = "/runs/run.json") -> Tail:
    lines: list[TailLine] = []
    offset, pieces = 0, data.split(b"\n")
    for number, piece in enumerate(pieces):
        ended = number < len(pieces) - 1
        if piece or ended:
            lines.append(TailLine(offset, piece, ended))
        offset += len(piece) + 1
    return plan_repair(JournalFile(path, 1, 2, len(data)), reversed(lines), format_.decoder(data))


def repaired(data: bytes, plan: RepairPlan | None) -> bytes:
    if plan is None:
        return data
    return data + b"\n" if plan.action == "complete" else data[: plan.keep]


def folded(data: bytes, hint: str = "refold") -> RunState | tuple[str, str]:
    try:
        return fold_bytes(data, hint=hint)
    except FoldError as error:
        return error.error_class, str(error)


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of journals, none of which has to survive a power failure."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


class TestPlan:
    @pytest.mark.parametrize(
        ("end", "action", "reason"),
        [
            (b"", None, ""),
            (b"\n \n\t\n", None, ""),
            ("\u00a0\u2028\n".encode(), None, ""),
            (b'{"seq":3,"proto', "cut", "written in part"),
            (b"garbage\n", "cut", "the last line is no record ("),
            (b"[1,2]\n", "cut", "the last line is no record ("),
            (b'{"seq":"3"}', "cut", "written in part"),
            (b"\xff\xfe", "cut", "written in part"),
            (b"\0", "cut", "the file ends in 1 NUL bytes"),
            (b"\0" * 5000, "cut", "the file ends in 5000 NUL bytes"),
            (LINES[2][:40] + b"\0" * 12 + b"\n", "cut", "the file ends in 12 NUL bytes"),
            (b"\n\n" + LINES[2][:40], "cut", "written in part"),
            (LINES[2][:-1], "complete", "the last record has no newline"),
            (LINES[2][:-1] + b" \r", "complete", "the last record has no newline"),
            (b"  ", "complete", "the last line has no newline"),
            ("\n\u00a0".encode(), "complete", "the last line has no newline"),
        ],
    )
    def test_the_table_of_torn_ends(self, end: bytes, action: str | None, reason: str) -> None:
        good = LINES[0] + LINES[1]
        data = good + end
        tail = plan_of(data)
        assert not tail.empty
        assert tail.last_seq == (3 if LINES[2][:-1] in end else 2)
        plan = tail.plan
        if action is None:
            assert plan is None
            return
        assert plan is not None
        assert plan.action == action
        assert reason in plan.sentence
        assert plan.last_seq == tail.last_seq
        assert plan.file == JournalFile("/runs/run.json", 1, 2, len(data))
        if action == "cut":
            assert plan.keep == len(good) + (2 if end.startswith(b"\n\n") else 0)
            assert plan.torn_bytes == len(data) - plan.keep
            assert plan.side_file == f"run.{plan.keep}.torn"
            assert plan.side_file in plan.sentence
            assert f"{plan.torn_bytes} bytes after seq 2" in plan.sentence
            assert plan.code == "E_TORN_TAIL"
        else:
            assert (plan.keep, plan.torn_bytes, plan.side_file) == (len(data), 0, "")
            assert plan.code == "E_NO_FINAL_NL"
        assert folded(repaired(data, plan)) == folded(data)

    @pytest.mark.parametrize(
        ("data", "text"),
        [
            (LINES[0] + b"garbage\ngarbage\n", "a line before the last one"),
            (LINES[0] + b"garbage\n\n", "a line before the last one"),
            (LINES[0] + b"garbage\n  ", "a line before the last one"),
            (LINES[0] + b"garbage\n" + LINES[1][:50], "a line before the last one"),
            (LINES[0] + b"{}\n", "unknown record protocol '' at seq 0"),
            (
                LINES[0] + b'{"seq":2,"protocol":"refold.v1.session.user"}\n',
                "user record with no payload at seq 2",
            ),
            (LINES[0] + b"\n" * (BLANK_LIMIT + 1), f"{BLANK_LIMIT} bytes of blank lines"),
            (LINES[0] + b" " * (BLANK_LIMIT + 1), f"{BLANK_LIMIT} bytes of blank lines"),
        ],
    )
    def test_deeper_damage_is_not_repaired(self, data: bytes, text: str) -> None:
        with pytest.raises(CorruptJournal, match=text):
            plan_of(data)

    def test_a_whole_record_too_deep_for_us_is_not_cut(self) -> None:
        deep = (
            b'{"seq":2,"protocol":"refold.v1.session.tool_result","tool_result":{"tool_use_id":"t","result":'
        )
        whole = deep + b"[" * 300 + b"]" * 300 + b"}}"
        with pytest.raises(CorruptJournal, match=r"deep|nest"):
            plan_of(LINES[0] + whole + b"\n")
        half = plan_of(LINES[0] + whole[:-4]).plan
        assert half is not None
        assert half.action == "cut"

    @pytest.mark.parametrize("data", [b"", b"\n", b" \n\n"])
    def test_a_journal_without_a_record_is_empty_and_clean(self, data: bytes) -> None:
        assert plan_of(data) == Tail(empty=True, last_seq=0, plan=None)

    @pytest.mark.parametrize("data", [LINES[0][:-2], b"{", b"\0\0", b"garbage\n", b"\n{"])
    def test_a_lone_torn_line_is_cut_to_nothing_and_said_to_be_so(self, data: bytes) -> None:
        tail = plan_of(data)
        assert (tail.empty, tail.last_seq) == (True, 0)
        assert tail.plan is not None
        assert tail.plan.keep == (1 if data.startswith(b"\n") else 0)
        if tail.plan.keep == 0:
            assert "there is no whole record" in tail.plan.sentence
            assert f"all {len(data)} bytes" in tail.plan.sentence
            assert "begins again with its meta record" in tail.plan.sentence
        else:
            assert "1 bytes at the end will be kept" in tail.plan.sentence
        assert folded(repaired(data, tail.plan)) == folded(data) == ("empty", "no records")

    def test_a_meta_record_of_seq_zero_is_a_record(self) -> None:
        line = LINES[0].replace(b'"seq":1', b'"seq":0')
        assert plan_of(line) == Tail(empty=False, last_seq=0, plan=None)

    def test_a_plan_is_bound_to_the_bytes_and_the_file(self) -> None:
        first, second = plan_of(LINES[0] + b"aaa").plan, plan_of(LINES[0] + b"aab").plan
        assert first is not None
        assert second is not None
        assert first != second
        assert plan_of(LINES[0] + b"aaa").plan == first
        assert plan_of(LINES[0] + b"aaa", path="/other/run.json").plan != first
        with pytest.raises(AttributeError):
            first.keep = 0  # type: ignore[misc]

    def test_the_error_says_where_what_and_what_to_do(self) -> None:
        plan = plan_of(LINES[0] + b"aaa").plan
        assert plan is not None
        error = TornTail(plan)
        assert error.plan is plan
        assert str(error) == f"/runs/run.json: {plan.sentence}"
        assert "stays beside the run" in error.remedy

    def test_side_files_of_one_place_are_numbered(self) -> None:
        assert side_file_name("/runs/a-b.json", 17) == "a-b.17.torn"
        assert side_file_name("a-b.json", 17, 2) == "a-b.17.2.torn"

    @given(
        st.integers(0, len(LINES)),
        st.lists(
            st.sampled_from(
                [b"", b" ", b"x", b"{}", b"null", b"\0\0", "\u00a0".encode(), *(line[:-1] for line in LINES)]
            )
            | st.builds(lambda line, cut: line[:cut], st.sampled_from(LINES), st.integers(1, 300))
            | st.binary(max_size=8),
            max_size=3,
        ),
        st.booleans(),
    )
    @settings(max_examples=400, deadline=None)
    def test_no_repair_ever_changes_the_state(self, count: int, end: list[bytes], ended: bool) -> None:
        data = b"".join(LINES[:count]) + b"\n".join(end) + b"\n" * ended
        try:
            tail = plan_of(data)
        except CorruptJournal:
            assert isinstance(folded(data), tuple)
            return
        after = repaired(data, tail.plan)
        assert folded(after) == folded(data)
        assert plan_of(after) == Tail(tail.empty, tail.last_seq, None)
        assert not after or after.endswith(b"\n")


def _fixtures() -> list[tuple[str, str]]:
    return [
        (version, path.stem)
        for version in ("v2", "v3")
        for path in sorted((DATA / version).glob("*.json"))
        if path.stem != "expected"
    ]


@pytest.mark.parametrize(("version", "run_id"), _fixtures())
def test_a_recorded_run_ends_as_the_original_says(version: str, run_id: str) -> None:
    data = (DATA / version / f"{run_id}.json").read_bytes()
    expected: dict[str, Any] = json.loads((DATA / version / "expected.json").read_text())[run_id]
    state = folded(data, "fisk-ai")
    if not FISK_AI.decoder(data).readable:
        return
    try:
        tail = plan_of(data, FISK_AI)
    except CorruptJournal:
        # We may refuse what the original opens, but only where the run does not fold anyhow.
        assert isinstance(state, tuple)
        return
    if (version, run_id) == ("v2", "version-3"):
        # Version 3 with blocks of version 2: we read it as what it says it is (contracts.md, "Versions").
        assert (tail.last_seq, expected["last_seq_on_open"]) == (1, 2)
    elif "last_seq_on_open" in expected:
        assert tail.last_seq == expected["last_seq_on_open"]
    assert folded(repaired(data, tail.plan), "fisk-ai") == state


class TestReading:
    @given(st.lists(st.sampled_from([b"", b"x", b"y" * 3, b"z" * 40]), max_size=12), st.integers(1, 9))
    @settings(max_examples=150, deadline=None)
    def test_lines_come_backwards_whatever_the_size_of_a_piece(self, pieces: list[bytes], step: int) -> None:
        data = b"\n".join(pieces)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tail_module, "_FIRST_PIECE", step)
            patch.setattr(tail_module, "_LAST_PIECE", step + 2)
            patch.setattr(os, "pread", lambda fd, count, offset: data[offset : offset + count])
            got = list(lines_backwards(0, len(data), Path("x")))
        split = io.BytesIO(data).readlines()
        assert [line.data + b"\n" * line.ended for line in reversed(got)] == split
        assert [line.start for line in reversed(got)] == [
            len(b"".join(split[:number])) for number in range(len(split))
        ]

    def test_a_line_without_end_is_given_up(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tail_module, "LINE_LIMIT", 100_000)
        (tmp_path / "run.json").write_bytes(LINES[0] + b"\0" * 200_000)
        with pytest.raises(TooLarge):
            JournalStore(tmp_path).open("run")


class TestCarryOut:
    @pytest.mark.usefixtures("unsynced")
    @pytest.mark.parametrize("number", range(len(LINES)), ids=[type(each).__name__ for each in RECORDS])
    @pytest.mark.parametrize("newline", [b"", b"\n"], ids=["cut", "cut and ended"])
    def test_two_appends_after_any_torn_byte_lose_nothing(
        self, tmp_path: Path, number: int, newline: bytes
    ) -> None:
        store = JournalStore(tmp_path)
        path = tmp_path / "run.json"
        good, line = b"".join(LINES[:number]), LINES[number]
        for cut in range(len(line)):
            torn = line[:cut] + newline
            path.write_bytes(good + torn)
            whole = cut == len(line) - 1
            if cut == 0 or (whole and newline):
                journal = store.open("run")
                assert journal.repaired is None
            else:
                with pytest.raises(TornTail) as caught:
                    store.open("run")
                plan = caught.value.plan
                assert path.read_bytes() == good + torn
                journal = store.open("run", repair=plan)
                assert journal.repaired == plan
                assert whole or (tmp_path / plan.side_file).read_bytes() == torn
            kept = number + whole
            with journal:
                assert journal.last_seq == kept
                if not kept:
                    journal.append(RECORDS[0])
                    kept = 1
                assert journal.append(user("first")) == kept + 1
                assert journal.append(user("second")) == kept + 2
            assert store.load("run").last_seq == kept + 2
            data = path.read_bytes()
            lines = [each for each in io.BytesIO(data).readlines() if each != b"\n"]
            assert tuple(lines[:kept]) == LINES[:kept]
            decoder = NATIVE.decoder(data)
            assert [decoder.record(each).seq for each in lines] == list(range(1, kept + 3))
            for side_file in tmp_path.glob("*.torn"):
                side_file.unlink()

    def test_torn_bytes_are_kept_private_and_safe_before_they_are_cut(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        steps: list[str] = []
        real_fsync, real_cut = os.fsync, os.ftruncate

        def fsync(fd: int) -> None:
            steps.append(f"sync {named[os.fstat(fd).st_ino]}")
            real_fsync(fd)

        def cut(fd: int, size: int) -> None:
            steps.append("cut")
            real_cut(fd, size)

        path = tmp_path / "run.json"
        path.write_bytes(LINES[0] + LINES[1][:50])
        store = JournalStore(tmp_path)
        with pytest.raises(TornTail) as caught:
            store.open("run")

        class Named(dict[int, str]):
            def __missing__(self, inode: int) -> str:
                self.update((entry.stat().st_ino, entry.name) for entry in (tmp_path, *tmp_path.iterdir()))
                return self.get(inode, "?")

        named = Named()
        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(os, "ftruncate", cut)
        before = os.umask(0)
        try:
            store.open("run", repair=caught.value.plan).close()
        finally:
            os.umask(before)
        side_file = f"run.{len(LINES[0])}.torn"
        assert steps == [f"sync {side_file}", f"sync {tmp_path.name}", "cut", "sync run.json"]
        assert stat.S_IMODE((tmp_path / side_file).stat().st_mode) == 0o600
        assert (tmp_path / side_file).read_bytes() == LINES[1][:50]
        assert path.read_bytes() == LINES[0]
        assert list(store.list()) == ["run"]

    def test_a_second_tear_at_the_same_place_gets_a_file_of_its_own(self, tmp_path: Path) -> None:
        store = JournalStore(tmp_path)
        path = tmp_path / "run.json"
        for torn in (b"one", b"two", b"three", b"two"):
            path.write_bytes(LINES[0] + torn)
            with pytest.raises(TornTail) as caught:
                store.open("run")
            store.open("run", repair=caught.value.plan).close()
        place = len(LINES[0])
        kept = {entry.name: entry.read_bytes() for entry in tmp_path.glob("*.torn")}
        assert kept == {
            f"run.{place}.torn": b"one",
            f"run.{place}.2.torn": b"two",
            f"run.{place}.3.torn": b"three",
        }

    def test_what_lies_at_the_place_of_the_side_file_is_left_alone(self, tmp_path: Path) -> None:
        place = len(LINES[0])
        (tmp_path / f"run.{place}.torn").symlink_to(tmp_path / "target")
        (tmp_path / f"run.{place}.2.torn").mkdir()
        (tmp_path / "run.json").write_bytes(LINES[0] + b"torn")
        store = JournalStore(tmp_path)
        with pytest.raises(TornTail) as caught:
            store.open("run")
        assert caught.value.plan.side_file == f"run.{place}.3.torn"
        store.open("run", repair=caught.value.plan).close()
        assert not (tmp_path / "target").exists()
        assert (tmp_path / f"run.{place}.3.torn").read_bytes() == b"torn"

    @pytest.mark.parametrize(
        "after",
        [
            LINES[0] + b"tern",
            LINES[0] + b"torn!",
            LINES[0] + b"tor",
            LINES[0],
            LINES[0] + LINES[1],
            LINES[0] + LINES[1][:-1],
            LINES[0][:-1] + b" torn",
            b"torn",
            b"",
        ],
    )
    def test_a_plan_for_other_bytes_is_refused_and_nothing_is_changed(
        self, tmp_path: Path, after: bytes
    ) -> None:
        path = tmp_path / "run.json"
        path.write_bytes(LINES[0] + b"torn")
        store = JournalStore(tmp_path)
        with pytest.raises(TornTail) as caught:
            store.open("run")
        path.write_bytes(after)
        with pytest.raises(PlanOutdated):
            store.open("run", repair=caught.value.plan)
        assert path.read_bytes() == after
        assert list(tmp_path.glob("*.torn")) == []
        # The refused open holds nothing.
        path.write_bytes(LINES[0])
        store.open("run").close()

    def test_a_plan_for_another_file_of_the_same_bytes_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "run.json"
        path.write_bytes(LINES[0] + b"torn")
        store = JournalStore(tmp_path)
        with pytest.raises(TornTail) as caught:
            store.open("run")
        (tmp_path / "new").write_bytes(LINES[0] + b"torn")
        (tmp_path / "new").rename(path)
        with pytest.raises(PlanOutdated):
            store.open("run", repair=caught.value.plan)
        (tmp_path / "other.json").write_bytes(LINES[0] + b"torn")
        with pytest.raises(PlanOutdated):
            store.open("other", repair=caught.value.plan)

    def test_a_side_file_that_appears_meanwhile_is_not_overwritten(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "run.json"
        path.write_bytes(LINES[0] + b"torn")
        store = JournalStore(tmp_path)
        with pytest.raises(TornTail) as caught:
            store.open("run")
        side_path = tmp_path / caught.value.plan.side_file
        side_path.write_bytes(b"other")
        monkeypatch.setattr(os.path, "lexists", lambda path: False)
        with pytest.raises(PlanOutdated, match="other content"):
            store.open("run", repair=caught.value.plan)
        assert side_path.read_bytes() == b"other"
        assert path.read_bytes() == LINES[0] + b"torn"

    @pytest.mark.parametrize(
        ("call", "code", "text"),
        [
            ("write", errno.ENOSPC, "could not be kept"),
            ("fsync", errno.EIO, "could not be kept"),
            ("ftruncate", errno.EIO, "could not be cut"),
        ],
    )
    def test_a_failure_leaves_the_torn_bytes_where_they_are(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int, text: str
    ) -> None:
        path = tmp_path / "run.json"
        path.write_bytes(LINES[0] + b"torn")
        store = JournalStore(tmp_path)
        with pytest.raises(TornTail) as caught:
            store.open("run")

        def fail(*arguments: object) -> int:
            raise OSError(code, os.strerror(code))

        with monkeypatch.context() as patch:
            patch.setattr(os, call, fail)
            with pytest.raises(WriteFailed, match=f"{text}.*{errno.errorcode[code]}"):
                store.open("run", repair=caught.value.plan)
        assert path.read_bytes() == LINES[0] + b"torn"
        kept = [entry.read_bytes() for entry in tmp_path.glob("*.torn")]
        assert kept == ([b"torn"] if call == "ftruncate" else [])
        store.open("run", repair=caught.value.plan).close()
        assert path.read_bytes() == LINES[0]
        assert [entry.read_bytes() for entry in tmp_path.glob("*.torn")] == [b"torn"]

    def test_a_newline_that_cannot_be_added_changes_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "run.json"
        path.write_bytes(LINES[0][:-1])
        store = JournalStore(tmp_path)
        with pytest.raises(TornTail) as caught:
            store.open("run")

        def interrupt(fd: int, data: memoryview) -> int:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", interrupt)
            with pytest.raises(KeyboardInterrupt):
                store.open("run", repair=caught.value.plan)
        assert path.read_bytes() == LINES[0][:-1]
        store.open("run", repair=caught.value.plan).close()
        assert path.read_bytes() == LINES[0]

    def test_an_interrupted_side_file_is_taken_away(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "run.json"
        path.write_bytes(LINES[0] + b"torn")
        store = JournalStore(tmp_path)
        with pytest.raises(TornTail) as caught:
            store.open("run")

        def interrupt(fd: int, data: memoryview) -> int:
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "write", interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.open("run", repair=caught.value.plan)
        assert list(tmp_path.glob("*.torn")) == []

    def test_a_newer_run_is_not_repaired(self, tmp_path: Path) -> None:
        path = tmp_path / "run.json"
        path.write_bytes(LINES[0].replace(b'"version":2', b'"version":3') + b"torn")
        with pytest.raises(UnsupportedVersion):
            JournalStore(tmp_path).open("run")

    def test_every_refusal_lets_go_of_the_run(self, tmp_path: Path) -> None:
        store = JournalStore(tmp_path)
        path = tmp_path / "run.json"
        for data in (
            LINES[0] + b"torn",
            LINES[0] + b"x\nx\n",
            LINES[0].replace(b'"version":2', b'"version":3'),
        ):
            path.write_bytes(data)
            with pytest.raises(RefoldError):
                store.open("run")
            path.write_bytes(LINES[0])
            store.open("run").close()
