"""What is said of the original's resume and replay, against what the original did say."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.rivumi_cases import BASE, CASES, DATA, EDGES, apply, edit, expected, make, same_words

from refold.core.rivumi.original import Original, replay_of_original, resume_of_original
from refold.core.rivumi.replay import ReplayRefused, replay, replay_bytes
from refold.core.rivumi.snapshot import Part, Snapshot, Workspace
from refold.core.store.session_files import read_run, read_workspace

RESUME = {
    "01-created-no-workspace": "workspace",
    "02-manifest-only-no-events": "events_missing",
    "04-tail-tool-started": "in_flight_side_effect",
    "05-tail-verification-started": "in_flight_side_effect",
    "09-manifest-behind-one": "sequence_mismatch",
    "11-manifest-ahead-two": "sequence_mismatch",
    "12-terminal-completed": "terminal",
    "14-terminal-cancelled": "terminal",
    "15-terminal-flag-no-run-event": "terminal",
    "18-duplicate-sequence": "not_contiguous",
    "20-run-id-drift": "run_id",
    "21-task-id-drift": "task_id",
    "22-torn-tail": "invalid_event",
    "24-invalid-json-interior": "invalid_event",
    "28-sequence-gap": "not_contiguous",
    "29-out-of-order": "not_contiguous",
    "30-request-base-sha-mismatch": "request_base_sha",
    "34-forked-run": "manifest_schema",
    "37-external-cli-run": "manifest_missing",
}
"""Formats/rivumi.md 10; what is missing is ok."""
RESUME_FIXTURES = {"32-extra-manifest-field": "manifest_schema"}
REPLAY = {
    "02-manifest-only-no-events": "unreadable",
    "18-duplicate-sequence": "duplicate",
    "20-run-id-drift": "run_id",
    "22-torn-tail": "partial_final_line",
    "24-invalid-json-interior": "line_not_json",
    "26-nul-text": "nul",
}
STAND_ALONE = {
    "busy",
    "10001_events",
    "fork_at_tool_started",
    "fork_missing_seq",
    "fork_torn_tail",
    "fork_before_duplicate",
    "fork_after_gap",
    "fork_bad_id",
    "fork_repo_missing",
}
"""Rows of edge-results.json that are no edit of case 03."""


def agrees(ours: Original, theirs: dict[str, Any]) -> None:
    assert ours.ok == theirs["ok"]
    assert ours.error_class == theirs.get("error_class", "")
    if ours.ok:
        assert ours.code == "ok"
    elif not theirs.get("uncaught"):
        assert same_words(ours.error, theirs["error"])
    if "uncaught" in theirs:
        assert ours.uncaught
    for name, value in (
        ("rewritten", theirs.get("session_json_rewritten")),
        ("repaired", theirs.get("repaired_manifest_ahead")),
        ("last_sequence", theirs.get("last_event_sequence")),
    ):
        assert value is None or getattr(ours, name) == value


@pytest.mark.parametrize("case", CASES)
def test_every_fixture_is_answered_as_the_original_did(case: str, tmp_path: Path) -> None:
    snapshot = read_run(make(case, tmp_path))
    theirs = expected(case)
    resume = resume_of_original(snapshot)
    agrees(resume, theirs["resume_with_workspace"])
    assert resume.code == {**RESUME, **RESUME_FIXTURES}.get(case, "ok")
    if "resume_with_workspace_allow_terminal" in theirs:
        agrees(
            resume_of_original(snapshot, allow_terminal=True), theirs["resume_with_workspace_allow_terminal"]
        )
    again = replay_of_original(snapshot)
    agrees(again, theirs["replay"])
    assert again.code == REPLAY.get(case, "ok")


@pytest.mark.parametrize("edge", sorted(set(EDGES) - STAND_ALONE))
def test_every_single_edit_is_answered_as_the_original_did(edge: str, tmp_path: Path) -> None:
    run = make("03-running-clean", tmp_path)
    apply(edge, run)
    snapshot = read_run(run)
    agrees(resume_of_original(snapshot), EDGES[edge]["resume"])
    agrees(replay_of_original(snapshot), EDGES[edge]["replay"])


def test_a_held_run_is_busy(tmp_path: Path) -> None:
    snapshot = read_run(make("03-running-clean", tmp_path), who=lambda path: "process 7")
    answer = resume_of_original(snapshot)
    assert (answer.code, answer.error_class, answer.uncaught) == ("busy", "SessionBusyError", True)
    assert same_words(answer.error, EDGES["busy"]["error"])
    assert not answer.rewritten


def test_more_than_ten_thousand_events_are_refused() -> None:
    events: list[dict[str, object]] = [{"sequence": i, "event_type": "x"} for i in range(10_001)]
    with pytest.raises(ReplayRefused, match=EDGES["10001_events"]["result"]) as refused:
        replay(events)
    assert refused.value.code == "too_many"
    assert replay(events[:-1]).event_count == 10_000


@pytest.mark.parametrize("case", [case for case in CASES if expected(case)["replay"]["ok"]])
def test_the_canonical_replay_is_the_original_to_the_byte(case: str) -> None:
    theirs = expected(case)["replay"]
    state = replay_bytes((DATA / case / "events.jsonl").read_bytes())
    made = state.canonical()
    assert made == (DATA / case / "expected-replay.canonical.json").read_bytes()
    assert hashlib.sha256(made).hexdigest() == theirs["canonical_sha256"]
    value = state.value()
    del value["timeline"]
    assert value == theirs["state"]
    assert len(state.timeline) == theirs["timeline_len"]


def test_the_clone_that_git_makes_is_read_as_git_reads_it(tmp_path: Path) -> None:
    bundle = DATA / "source-repo.bundle"
    clone = tmp_path / "workspace"
    subprocess.run(["git", "clone", "-q", bundle, clone], check=True, capture_output=True)
    git = ["git", "-C", str(clone)]
    subprocess.run([*git, "checkout", "-q", "--detach", BASE], check=True)
    assert read_workspace(clone) == Workspace("git", BASE)
    subprocess.run([*git, "checkout", "-q", "-b", "work/one"], check=True)
    assert read_workspace(clone) == Workspace("git", BASE)
    subprocess.run([*git, "pack-refs", "--all"], check=True)
    assert not (clone / ".git" / "refs" / "heads" / "work" / "one").exists()
    assert read_workspace(clone) == Workspace("git", BASE)


def _with(part: str, value: Part, tmp_path: Path) -> Snapshot:
    return msgspec.structs.replace(read_run(make("03-running-clean", tmp_path)), **{part: value})


@pytest.mark.parametrize(
    ("part", "value", "code", "ok"),
    [
        ("manifest", Part("session.json", "read", b"{}", 17 << 20), "manifest_too_large", False),
        ("manifest", Part("session.json", "too_large"), "manifest_too_large", False),
        ("manifest", Part("session.json", "read", b"\xff", 1), "manifest_json", False),
        ("manifest", Part("session.json", "read", b"[" * 99_999, 9), "manifest_json", False),
        ("manifest", Part("session.json", "not_permitted"), "manifest_json", False),
        ("manifest", Part("session.json", "link", target="missing"), "manifest_missing", False),
        ("manifest", Part("session.json", "link", target="outside"), "link_outside", None),
        ("request", Part("request.json", "not_regular", detail="a named pipe"), "blocks", None),
        ("request", Part("request.json", "not_regular", detail="a directory"), "request_json", False),
        ("request", Part("request.json", "read", b"[]", 2), "request_schema", False),
        ("events", Part("events.jsonl", "read", b"", 17 << 20), "events_too_large", False),
        ("events", Part("events.jsonl", "not_permitted"), "invalid_event", False),
        ("workspace", Workspace("unknown"), "git_elsewhere", None),
        ("workspace", Workspace("not_directory"), "workspace", False),
        ("workspace", Workspace("git", ""), "workspace", False),
        ("lock", "other", "lock", False),
    ],
)
def test_what_else_can_lie_there(part: str, value: Part, code: str, ok: bool | None, tmp_path: Path) -> None:
    answer = resume_of_original(_with(part, value, tmp_path))
    assert (answer.code, answer.ok) == (code, ok)


def test_a_log_that_is_no_file_of_the_run_is_not_replayed(tmp_path: Path) -> None:
    elsewhere = Part("events.jsonl", "link", target="outside")
    assert replay_of_original(_with("events", elsewhere, tmp_path)).code == "link_outside"


def test_another_task_in_the_request_is_refused(tmp_path: Path) -> None:
    run = make("03-running-clean", tmp_path)
    edit(run / "request.json", lambda o: o.update(task_id="other"))
    assert resume_of_original(read_run(run)).code == "request_task_id"
    edit(run / "request.json", lambda o: o.pop("task_id"))
    assert resume_of_original(read_run(run)).code == "request_task_id"


def test_the_index_of_the_fixtures_names_them_all() -> None:
    assert sorted(json.loads((DATA / "index.json").read_bytes())) == CASES
    assert len(CASES) == 28
