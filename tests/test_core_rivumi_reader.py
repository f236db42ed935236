"""A run directory open for reading: bounded, growing, with whatever lies in the place of its files."""

from __future__ import annotations

import json
import os
import time
import tracemalloc
from pathlib import Path

import pytest
from tests.rivumi_cases import CASES, canonical, make

from refold.app.cli import main
from refold.core.errors import CorruptJournal, NotRegular
from refold.core.store.examining import examine
from refold.core.store.growing import Change
from refold.core.store.reader import RunReader
from refold.core.store.session_reader import SessionReader

FINDINGS = {
    "01-created-no-workspace": {"E_WORKSPACE"},
    "02-manifest-only-no-events": {"E_MISSING", "E_MANIFEST_AHEAD", "E_WORKSPACE"},
    "03-running-clean": set(),
    "04-tail-tool-started": {"E_UNCERTAIN_EFFECT"},
    "05-tail-verification-started": {"E_UNCERTAIN_EFFECT"},
    "06-manifest-ahead-one": {"E_MANIFEST_AHEAD"},
    "08-tail-tool-completed-dangling": {"E_DANGLING"},
    "09-manifest-behind-one": {"E_MANIFEST_BEHIND"},
    "11-manifest-ahead-two": {"E_MANIFEST_AHEAD"},
    "12-terminal-completed": set(),
    "14-terminal-cancelled": set(),
    "15-terminal-flag-no-run-event": set(),
    "16-pending-approval": set(),
    "18-duplicate-sequence": {"E_SEQ_DUP"},
    "20-run-id-drift": {"E_FOREIGN_RUN"},
    "21-task-id-drift": {"E_FOREIGN_RUN"},
    "22-torn-tail": {"E_TORN_TAIL", "E_MANIFEST_AHEAD"},
    "24-invalid-json-interior": {"E_BAD_JSON", "E_SEQ_GAP"},
    "25-oversized-text": set(),
    "26-nul-text": set(),
    "28-sequence-gap": {"E_SEQ_GAP"},
    "29-out-of-order": {"E_SEQ_GAP", "E_SEQ_BACK"},
    "30-request-base-sha-mismatch": {"E_REQUEST"},
    "32-extra-manifest-field": {"E_BAD_MANIFEST"},
    "34-forked-run": {"E_BAD_MANIFEST"},
    "35-copied-directory": {"E_FOREIGN_RUN"},
    "36-event-catalog": set(),
    "37-external-cli-run": set(),
}
"""What `verify` finds in each fixture, with its workspace beside it."""


def opened(path: Path) -> SessionReader:
    reader = RunReader.open(path)
    assert reader.session is not None
    return reader.session


def event(seq: int, kind: str = "hook.completed", **data: object) -> bytes:
    made = {"data": data, "event_type": kind, "run_id": "r", "sequence": seq}
    return canonical(made) + b"\n"


def bare(directory: Path, log: bytes | None) -> Path:
    """A run of which nothing is there but a request and perhaps a log."""
    run = directory / "r"
    run.mkdir()
    (run / "request.json").write_bytes(b"{}")
    if log is not None:
        (run / "events.jsonl").write_bytes(log)
    return run


def test_the_table_names_every_fixture() -> None:
    assert sorted(FINDINGS) == CASES


@pytest.mark.parametrize("case", CASES)
def test_findings(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make(case, tmp_path)
    with RunReader.open(run) as reader:
        found = list(examine(reader))
    assert {finding.code for finding in found} == FINDINGS[case]
    assert all(finding.remedy and finding.message for finding in found)
    bad = any(finding.severity != "info" for finding in found)
    assert main(["verify", "--json", str(run)]) == (1 if bad else 0)
    printed = [json.loads(row) for row in capsys.readouterr().out.split("\n") if row]
    assert [row["code"] for row in printed] == [finding.code for finding in found]


@pytest.mark.parametrize("case", CASES)
def test_a_fixture_opens_and_says_where_each_event_stands(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make(case, tmp_path)
    log = run / "events.jsonl"
    data = log.read_bytes() if log.exists() else b""
    with opened(run) as reader:
        timeline = reader.index_all()
        assert [reader.raw(item) for item in range(timeline.items)] == [
            row for row in data.split(b"\n") if row
        ]
        assert bool(reader.log_problem) is not log.exists()
        assert (reader.manifest is None) is not (run / "session.json").exists()
        assert reader.request is not None
        for item in range(timeline.items):
            if reader.timeline.type_of(item):
                assert reader.event(item).sequence == timeline.seq(item)
    assert main(["show", str(run)]) == 0
    assert main(["show", "--json", str(run)]) == 0
    rows = [json.loads(row) for row in capsys.readouterr().out.split("\n") if row.startswith("{")]
    assert [row["seq"] for row in rows] == [timeline.seq(item) for item in range(timeline.items)]


def test_one_event_in_full_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make("12-terminal-completed", tmp_path)
    assert main(["show", f"{run}@22"]) == 0
    out = capsys.readouterr().out
    assert "run.completed" in out
    assert "+    return a + b" in out
    assert main(["show", f"{run}@99"]) == 3
    assert "the last one is 22" in capsys.readouterr().err


def test_the_state_at_a_sequence_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make("16-pending-approval", tmp_path)
    assert main(["state", "--json", f"{run}@7"]) == 0
    state = json.loads(capsys.readouterr().out)["state"]
    assert state["events"]["last_sequence"] == 7
    assert [call["id"] for call in state["events"]["open_calls"]] == ["call_read_1"]
    assert main(["state", "--json", str(run)]) == 0
    state = json.loads(capsys.readouterr().out)["state"]
    assert (state["events"]["phase"], state["events"]["open_calls"]) == ("waiting_approval", [])
    assert state["manifest"]["pending_action"]["action_id"] == "call_edit_1"
    assert state["differences"] == []


def test_what_cannot_be_a_run(tmp_path: Path) -> None:
    with pytest.raises(NotRegular):
        RunReader.open(tmp_path)
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(NotRegular):
        RunReader.open(tmp_path / "pipe.json")


def test_a_directory_has_no_messages_to_fold(tmp_path: Path) -> None:
    with opened(make("03-running-clean", tmp_path)) as reader:
        reader.index_all()
        with pytest.raises(CorruptJournal, match="directory"):
            reader.state_at(0)


@pytest.mark.parametrize("what", ["missing", "pipe", "directory", "link out", "link to nothing"])
def test_whatever_lies_in_the_place_of_the_log(what: str, tmp_path: Path) -> None:
    run = make("03-running-clean", tmp_path)
    log = run / "events.jsonl"
    log.rename(tmp_path / "elsewhere")
    if what == "pipe":
        os.mkfifo(log)
    elif what == "directory":
        log.mkdir()
    elif what == "link out":
        log.symlink_to(tmp_path / "elsewhere")
    elif what == "link to nothing":
        log.symlink_to("nowhere")
    with opened(run) as reader:
        assert reader.index_all().items == 0
        assert "events.jsonl" in reader.log_problem
        assert reader.manifest is not None
        codes = {finding.code for finding in examine(reader)}
        assert codes & {"E_MISSING", "E_NOT_REGULAR"}
        assert reader.poll() is Change.SAME
        # The log comes into its place: it is read.
        if what == "directory":
            log.rmdir()
        elif what != "missing":
            log.unlink()
        (tmp_path / "elsewhere").rename(log)
        assert reader.poll() is Change.REPLACED


def test_a_log_behind_a_link_inside_the_run_is_read(tmp_path: Path) -> None:
    run = make("03-running-clean", tmp_path)
    (run / "events.jsonl").rename(run / "kept.jsonl")
    (run / "events.jsonl").symlink_to("kept.jsonl")
    with opened(run) as reader:
        assert reader.index_all().items == 10
        assert "E_NOT_REGULAR" in {finding.code for finding in examine(reader)}


@pytest.mark.parametrize("data", [b"", b"{", b'{"a":1', b"[1]", b"\xff\xfe", b"null", b"\0" * 50])
def test_a_manifest_that_cannot_be_read_is_said(data: bytes, tmp_path: Path) -> None:
    run = make("03-running-clean", tmp_path)
    (run / "session.json").write_bytes(data)
    with opened(run) as reader:
        assert reader.index_all().items == 10
        assert reader.manifest is None
        assert reader.manifest_problem
        assert "E_BAD_MANIFEST" in {finding.code for finding in examine(reader)}


def test_it_grows_and_its_manifest_is_replaced(tmp_path: Path) -> None:
    run = make("03-running-clean", tmp_path)
    log = run / "events.jsonl"
    whole = log.read_bytes()
    rows = whole.split(b"\n")
    log.write_bytes(b"\n".join(rows[:4]) + b"\n")
    with opened(run) as reader:
        reader.index_all()
        assert reader.timeline.items == 4
        assert reader.poll() is Change.SAME
        with log.open("ab") as file:
            file.write(rows[4] + b"\n" + rows[5][:30])
        assert reader.poll() is Change.GREW
        reader.index_all()
        assert reader.timeline.torn is not None
        assert reader.timeline.items == 6
        with log.open("ab") as file:
            file.write(rows[5][30:] + b"\n")
        assert reader.poll() is Change.GREW
        reader.index_all()
        assert reader.timeline.torn is None
        assert reader.timeline.type_of(5) == json.loads(rows[5])["event_type"]
        step = reader.manifest.step if reader.manifest is not None else -1
        manifest = json.loads((run / "session.json").read_bytes())
        (run / "new").write_bytes(canonical({**manifest, "step": step + 7}))
        (run / "new").replace(run / "session.json")
        assert reader.poll() is Change.GREW
        assert reader.manifest is not None
        assert reader.manifest.step == step + 7
        assert reader.poll() is Change.SAME
        log.write_bytes(whole[:100])
        assert reader.poll() is Change.SHRANK


def test_a_run_that_vanishes(tmp_path: Path) -> None:
    run = bare(tmp_path, event(0))
    with opened(run) as reader:
        reader.index_all()
        run.rename(tmp_path / "gone")
        assert reader.poll() is Change.GONE
        assert reader.raw(0) == event(0)[:-1]


MOST = 2**63 - 1
OVER = b"".join(
    event(seq, "model.completed", usage={"input_tokens": MOST, "output_tokens": MOST}) for seq in range(3)
)
"""Each number is one that its own program takes; their sum is none that 64 bits hold."""


@pytest.mark.parametrize(
    "log",
    [
        b"",
        b"\n\n",
        b"\xef\xbb\xbf" + event(0),
        b"\0" * 9,
        b"\n".join([b"[" * 9000] * 3),
        OVER + event(3),
        event(0).replace(b'"data"', b'"created_at":' + b"9" * 400 + b',"data"'),
    ],
)
def test_odd_logs_open(log: bytes, tmp_path: Path) -> None:
    with opened(bare(tmp_path, log)) as reader:
        timeline = reader.index_all()
        assert [timeline.kind(item) for item in range(timeline.items)].count("event") == log.count(b"hook")
        list(examine(reader))


def test_one_huge_event_costs_no_more_memory_than_a_small_one(tmp_path: Path) -> None:
    run = bare(tmp_path, event(0, "tool.completed", preview="x" * 10_000_000, ok=True) + event(1))
    with opened(run) as reader:
        tracemalloc.start()
        try:
            steps = 1
            while not reader.step(0.001):
                steps += 1
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 8_000_000
        assert steps > 1
        assert reader.timeline.items == 2
        assert reader.timeline.type_of(0) == "tool.completed"
        assert [finding.code for finding in reader.timeline.findings] == ["E_OVERSIZE"]
        assert len(reader.raw(0, 500)) == 500
        assert reader.bytes_read < 40_000_000


def test_a_log_beyond_what_its_own_program_reads(tmp_path: Path) -> None:
    rows = [event(at, "tool.completed", preview="x" * 4000, ok=True) for at in range(4200)]
    run = bare(tmp_path, b"".join(rows))
    with opened(run) as reader:
        begun = time.perf_counter()
        reader.step(0.003)
        first = time.perf_counter() - begun
        assert reader.timeline.items > 0
        assert first < 0.5
        assert reader.index_all().items == 4200
        assert reader.timeline.state_at(4199).last_sequence == 4199
        window = reader.tail_timeline()
        assert window.seq(window.items - 1) == 4199
        found = [finding for finding in examine(reader) if finding.code == "E_OVERSIZE"]
        assert "reads no more than 16.8 MB" in found[0].message


def test_nested_runs_are_found_by_name_alone(tmp_path: Path) -> None:
    run = make("03-running-clean", tmp_path)
    inner = make("12-terminal-completed", run / "subagents")
    (run / "subagents" / "empty").mkdir()
    (run / "subagents" / "link").symlink_to(inner)
    with opened(run) as reader:
        assert reader.inner_runs() == ("12-terminal-completed",)
        assert reader.inner("12-terminal-completed") == inner
        for name in ("", ".", "..", "../subagents/12-terminal-completed", "empty", "link", "nul\0"):
            assert reader.inner(name) is None
    with opened(inner) as reader:
        assert reader.index_all().items == 23


def test_looking_changes_nothing(tmp_path: Path) -> None:
    run = make("16-pending-approval", tmp_path)

    def state() -> dict[Path, tuple[int, bytes]]:
        files = [path for path in run.rglob("*") if path.is_file()]
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    before = state()
    with opened(run) as reader:
        reader.index_all()
        list(examine(reader))
        reader.patch()
        reader.poll()
    assert state() == before
