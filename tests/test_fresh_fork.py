"""A fork that nobody has gone on with: ready in every format, and its open calls did not run in it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from refold.app import demo
from refold.app.cli import main
from refold.app.present.reading import reading_of
from refold.app.present.view import View
from refold.core.store.lock import RunLock
from refold.core.store.reader import RunReader

NOW = datetime(2026, 7, 24, 12, 0, tzinfo=UTC)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    demo.make(tmp_path, NOW)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    main(list(words))
    return " ".join(capsys.readouterr().out.split())


def row(capsys: pytest.CaptureFixture[str], run: str) -> dict[str, str]:
    capsys.readouterr()
    main(["ls", run, "--json"])
    return dict(json.loads(capsys.readouterr().out.splitlines()[0]))


@pytest.mark.parametrize("more", [(), ("--prompt", "look at the night only")])
def test_a_fresh_fork_of_another_tools_run_is_ready_wherever_it_is_named(
    runs: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    assert main(["fork", "nightly-audit", "--at", "3", "--name", "again", *more]) == 0
    found = row(capsys, "again")
    assert found["status"] == "ready"
    assert "nothing was appended since" in found["rule"]
    assert "again ψ ready" in said(capsys, "why", "again")
    assert "It is a fork that nobody has gone on with yet." in said(capsys, "why", "again")
    assert "a fork that nobody has gone on with yet" in said(capsys, "state", "again")
    assert "again" not in said(capsys, "ls", "status:crashed")
    assert " again crashed" not in said(capsys, "prune", "--status", "crashed")


def test_what_was_appended_to_such_a_fork_ends_that(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fork", "nightly-audit", "--at", "3", "--name", "again"]) == 0
    path = runs / "fisk-ai/runs/again.json"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"seq":4,"proto')
    assert row(capsys, "again")["status"] == "crashed"
    assert "again ✗ crashed" in said(capsys, "why", "again")
    parent = (runs / "fisk-ai/runs/nightly-audit.json").read_bytes().splitlines(keepends=True)
    path.write_bytes(whole + parent[3])
    assert row(capsys, "again")["status"] == "suspended"
    assert "again ▮ suspended" in said(capsys, "why", "again")


def test_a_call_that_a_fork_begins_with_did_not_run_in_it(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fork", "refactor-imports", "--at", "20", "--name", "again"]) == 0
    told = "not run in this fork; its parent refactor-imports has the result at seq 21"
    why = said(capsys, "why", "again")
    assert f"run_tests (tests/export) still to be answered: {told}." in why
    assert "Pending 1 call" in why
    assert "look first" not in why
    assert "outcome unknown" not in why
    assert "again ψ 1 pending" in said(capsys, "ls", "again")
    plan = said(capsys, "resume", "again", "--plan")
    assert f"NOT RUN HERE {told}" in plan
    assert "it may have run" not in plan
    state = said(capsys, "state", "again")
    assert "outcome unknown" not in state
    assert "1 of 1 call so far" in state
    assert "no result yet: not run here" in said(capsys, "show", "again@20")
    # What changes something is still asked about: it would be done a second time.
    capsys.readouterr()
    main(["resume", "again", "--plan", "--json", "--agent", "tests.scripted_factory:agent"])
    answer = json.loads(capsys.readouterr().out)
    assert [call["verdict"] for call in answer["calls"]] == ["unknown"]
    assert any(told in reason["message"] for reason in answer["reasons"])


def test_a_parent_that_lost_the_result_is_said_to_have_none(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fork", "fix-date-parser", "--name", "at-end", "--at", "7"]) == 0
    flying = json.loads(_json(capsys, "why", "at-end"))["in_flight"]
    assert [each["outcome"] for each in flying] == [
        "not run in this fork; it may have run in its parent fix-date-parser, which has no result"
    ]


def test_of_a_parent_that_is_gone_or_another_run_now_nothing_is_said(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fork", "refactor-imports", "--at", "20", "--name", "again"]) == 0
    told = "not run in this fork; whether it ran in its parent refactor-imports is not known here"
    directory = runs / "refold/runs"
    (directory / "refactor-imports.json").rename(directory / "elsewhere.json")
    assert told in said(capsys, "why", "again")
    (directory / "refactor-imports.json").write_bytes((directory / "rename-notes.json").read_bytes())
    assert told in said(capsys, "why", "again")


def test_where_somebody_took_the_lock_the_call_may_have_run(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A call that was started and killed left no record: the lock file alone tells that somebody was here."""
    assert main(["fork", "refactor-imports", "--at", "20", "--name", "again"]) == 0
    RunLock.take(runs / "refold/runs/again.lock").release()
    why = said(capsys, "why", "again")
    assert "outcome unknown: it may have run without a result" in why
    assert "not run in this fork" not in why
    assert "OUTCOME UNKNOWN" in said(capsys, "resume", "again", "--plan")
    assert "1 of 1 call: outcome unknown" in said(capsys, "state", "again")


def _json(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    main([*words, "--json"])
    return capsys.readouterr().out


CALC = "7f3c2a9e4b1d4c0fa6e85d2b90c1e374"


def _forked_at(runs: Path, capsys: pytest.CaptureFixture[str], at: int) -> str:
    capsys.readouterr()
    assert main(["fork", CALC, "--at", str(at), "--json"]) == 0
    return str(json.loads(capsys.readouterr().out)["id"])


def test_a_fork_of_a_directory_says_what_was_started_before_it(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    child = _forked_at(runs, capsys, 14)
    before = f"its parent {CALC} had started it by seq 14: what it did outside the workspace stays done"
    why = said(capsys, "why", child)
    assert f"replace_text (calc.py) still to be answered: not run in this fork; {before}." in why
    assert "Pending 1 call" in why
    assert "waits for an approval" not in why
    plan = said(capsys, "resume", child, "--plan")
    assert "replace_text did not run in this fork: a resume abandons that" in plan
    assert f"replace_text: {before}" in plan
    event = json.loads((runs / "rivumi/runs" / child / "events.jsonl").read_text())
    assert event["data"]["calls_started"] == ["call_2"]


def test_a_fork_that_names_no_started_call_is_judged_by_its_point(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Forks that were made before the event named them."""
    child = _forked_at(runs, capsys, 14)
    log = runs / "rivumi/runs" / child / "events.jsonl"
    event = json.loads(log.read_text())
    del event["data"]["calls_started"]
    log.write_text(json.dumps(event) + "\n")
    assert f"its parent {CALC} had started it by seq 14" in said(capsys, "why", child)


def test_a_call_that_had_not_begun_is_not_said_to_have(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    child = _forked_at(runs, capsys, 12)
    why = said(capsys, "why", child)
    assert "replace_text (calc.py) still to be answered: not run in this fork." in why
    assert "had started it" not in why
    assert "had started it" not in said(capsys, "resume", child, "--plan")


def test_an_export_says_that_they_did_not_run_in_the_fork(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fork", "refactor-imports", "--at", "20", "--name", "again"]) == 0
    for run, told, not_told in (
        ("again", "1 call without a result: not run in this fork", "outcome unknown"),
        ("index-photos", "1 call without a result: outcome unknown", "not run in this fork"),
    ):
        capsys.readouterr()
        assert main(["export", run, "--format", "md", "-o", "-"]) == 0
        text = capsys.readouterr().out
        assert told in text
        assert not_told not in text


@pytest.mark.parametrize(
    ("run", "mark"),
    [("again", "· run_tests  tests/export"), ("fix-date-parser", "? replace_text")],
)
def test_the_conversation_doubts_only_what_may_have_run(runs: Path, run: str, mark: str) -> None:
    assert main(["fork", "refactor-imports", "--at", "20", "--name", "again"]) == 0
    with RunReader.open(runs / f"refold/runs/{run}.json") as reader:
        last = reader.index_all().items - 1
        lines = [line for line in reading_of(reader).conversation(last, 80, View()) if line is not None]
    assert mark in "\n".join("".join(cell.text for cell in line) for line in lines)


def test_a_plan_before_an_open_turn_says_what_stays_behind_also_where_the_point_is_named(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = "one result of that turn stays behind, a fork after seq 5 keeps it"
    assert left in said(capsys, "fork", "index-photos", "--plan")
    assert left in said(capsys, "fork", "index-photos", "--at", "3", "--plan")
    assert left not in said(capsys, "fork", "index-photos", "--at", "5", "--plan")
