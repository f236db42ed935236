"""Every entry of a directory is a row: its status, what it says, and what is odd about it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from tests.listing import catalog, ids, listed, write_run
from tests.terminal.program import without_privileges

from refold.core.records import Decision
from refold.core.resume import ResumeRequest, plan_resume
from refold.core.status import STATUSES
from refold.core.store import list_cache
from refold.core.store.resume import read_facts
from refold.core.summary import RunSummary


@pytest.fixture(autouse=True)
def quick_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a file be old after a tenth of a second instead of two."""
    monkeypatch.setattr(list_cache, "_SETTLED_NS", 100_000_000)


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


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_a_row_can_be_resumed_where_some_answer_is_accepted(journals: Path, version: str) -> None:
    rows = listed(journals / version)
    assert rows
    for path, row in rows.items():
        if row.status in {"unreadable", "empty", "newer"} and not row.last_seq:
            assert not row.can_be_resumed
            continue
        facts = read_facts(Path(path), hint="fisk-ai")
        facts = msgspec.structs.replace(facts, now=msgspec.structs.replace(facts.saved, max_tokens=0))
        facts = msgspec.structs.replace(facts, effects={}, holder="")
        pending = facts.state.pending if facts.state is not None else None
        decided = {call.id: Decision("failed") for call in (pending.unanswered if pending else ())}
        request = ResumeRequest(force=True, reason="it may", repair=True, decisions=decided)
        against = [
            reason for reason in plan_resume(facts, request).reasons if reason.code != "max_iterations"
        ]
        assert row.can_be_resumed == (not against), (row.id, row.barred, against)
        assert not row.barred or row.barred in against[0].message


@pytest.mark.parametrize(
    ("name", "status", "word"),
    [
        ("v3/meta-only", "crashed", "without a terminal record"),
        ("v3/crashed-mid-tool-batch", "crashed", "no process is seen"),
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
