"""Forks of run directories, made with git: what the original answers, what the new run is, and failures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.rivumi_cases import BASE, DATA, EDGES, edit, expected, make

from refold.core.errors import InvalidRunId, RefoldError, Refused, RunExists, StoreError
from refold.core.fork import NoForkHere
from refold.core.repair import PlanOutdated
from refold.core.rivumi.fork import SessionForkPlan, plan_session_fork, session_fork_json
from refold.core.rivumi.manifest import FIRST_FIELDS
from refold.core.rivumi.original import replay_of_original, resume_of_original
from refold.core.rivumi.verdict import verdict
from refold.core.store.compare import Comparison, compare
from refold.core.store.files import replace_atomically
from refold.core.store.fork import Forked
from refold.core.store.notes import NotesStore
from refold.core.store.reader import RunReader
from refold.core.store.session import SessionStore
from refold.core.store.session_files import read_run
from refold.core.store.session_fork import carry_out_session, plan_session_at, sweep_sessions
from refold.core.store.session_origin import fork_origin

PATCH = """diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
"""


def git(*words: str, at: Path | None = None) -> str:
    done = subprocess.run(["git", *words], cwd=at, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("source") / "calc"
    git("clone", "-q", str(DATA / "source-repo.bundle"), str(place))
    return place


def case(name: str, root: Path, repository: Path) -> Path:
    """Give a copy of a fixture whose request names a repository that is there."""
    run = make(name, root / "runs")
    edit(run / "request.json", lambda value: value.update(repository=str(repository)))
    return run


def fork(run: Path, at: int, **more: Any) -> tuple[SessionForkPlan, Forked]:
    plan = plan_session_at(run, at, **more)
    return plan, carry_out_session(plan)


def manifest_of(run: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((run / "session.json").read_bytes())
    return value


def names(root: Path) -> set[str]:
    return {path.name for path in root.iterdir()}


def bytes_of(run: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in sorted(run.rglob("*")) if path.is_file())
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@pytest.mark.parametrize(
    ("edge", "name", "at"),
    [("fork_at_tool_started", "04-tail-tool-started", 14), ("fork_after_gap", "28-sequence-gap", 6)],
)
def test_forks_where_the_original_does(
    edge: str, name: str, at: int, tmp_path: Path, repository: Path
) -> None:
    run = case(name, tmp_path, repository)
    plan, made = fork(run, at)
    row = EDGES[edge]
    assert row["error"] is None
    assert plan.comes == row["events_included"]
    event = json.loads((made.path / "events.jsonl").read_bytes())
    assert event["data"]["fork_point_event_type"] == row.get("fork_point_event_type", plan.point_type)
    assert event["data"]["side_effects_replayed"] is False


@pytest.mark.parametrize(
    ("edge", "name", "at", "ours"),
    [
        ("fork_missing_seq", "12-terminal-completed", 999, NoForkHere),
        ("fork_bad_id", "12-terminal-completed", 11, InvalidRunId),
        ("fork_repo_missing", "12-terminal-completed", 11, NoForkHere),
    ],
)
def test_refuses_where_the_original_does(
    edge: str, name: str, at: int, ours: type[RefoldError], tmp_path: Path, repository: Path
) -> None:
    run = case(name, tmp_path, repository)
    child = "../x" if edge == "fork_bad_id" else None
    if edge == "fork_repo_missing":
        edit(run / "request.json", lambda value: value.update(repository=str(tmp_path / "away")))
    before = names(run.parent)
    # Of a repository that is missing the original lets the bare error of the system escape.
    assert EDGES[edge]["error"] is not None
    with pytest.raises(ours):
        plan_session_at(run, at, child=child)
    assert names(run.parent) == before


@pytest.mark.parametrize(
    ("edge", "name"), [("fork_torn_tail", "22-torn-tail"), ("fork_before_duplicate", "18-duplicate-sequence")]
)
def test_damage_after_the_point_does_not_matter(
    edge: str, name: str, tmp_path: Path, repository: Path
) -> None:
    # The original reads the whole log first and refuses; what lies behind the point is no part of the fork.
    assert EDGES[edge]["error_class"] == "ReplayValidationError"
    run = case(name, tmp_path, repository)
    plan, made = fork(run, 1)
    assert plan.comes == 2
    assert resume_of_original(read_run(made.path)).ok


def test_damage_before_the_point_refuses(tmp_path: Path, repository: Path) -> None:
    run = case("18-duplicate-sequence", tmp_path, repository)
    with pytest.raises(NoForkHere) as caught:
        plan_session_at(run, 6)
    assert (caught.value.code, caught.value.nearest) == ("damaged", 4)


def test_every_point_gives_a_run_that_every_generation_reads(tmp_path: Path, repository: Path) -> None:
    run = case("12-terminal-completed", tmp_path, repository)
    snapshot = read_run(run)
    for at in range(23):
        plan = plan_session_fork(snapshot, at, path=str(run), child="x", mark="0" * 8)
        assert plan.manifest.keys == frozenset(FIRST_FIELDS)
        told = plan.manifest.encode() + plan.request
        later = b"provider_metadata", b"item_type", b"enabled_skills", b"attachments", b"max_total_tokens"
        assert not [name for name in later if name in told]


def test_a_fork_between_turns_goes_on(tmp_path: Path, repository: Path) -> None:
    run = case("12-terminal-completed", tmp_path, repository)
    before = bytes_of(run)
    notes = NotesStore(tmp_path / "notes")
    plan = plan_session_at(run, 9, child="second", reason="try again")
    made = carry_out_session(plan, notes=notes)
    assert bytes_of(run) == before
    assert names(run.parent) == {run.name, "second"}
    old, new = manifest_of(run), manifest_of(made.path)
    assert [new[key] for key in ("provider_name", "model_id", "protocol", "base_sha")] == [
        old[key] for key in ("provider_name", "model_id", "protocol", "base_sha")
    ]
    assert new["step"] == 1
    assert len(new["messages"]) == 4
    assert new["messages"][-1]["tool_call_id"] == "call_read_1"
    assert (plan.point, plan.turns, plan.tree) == ("between", 1, "unchanged")
    assert git("rev-parse", "HEAD", at=made.path / "workspace") == BASE
    assert git("status", "--porcelain", at=made.path / "workspace") == ""
    origin = fork_origin(made.path)
    assert origin is not None
    assert (origin.run_id, origin.seq) == (run.name, 9)
    noted = notes.read(made.path).forked_from
    assert noted is not None
    assert (noted.run_id, noted.seq, noted.reason) == (run.name, 9, "try again")
    snapshot = read_run(made.path)
    assert verdict(snapshot).outcome == "accept"
    assert resume_of_original(snapshot).ok
    assert replay_of_original(snapshot).ok
    with SessionStore(run.parent).claim_and_validate_resume("second") as session:
        assert session.last_sequence == 1


@pytest.mark.parametrize("swapped", [False, True])
def test_a_fork_and_its_parent_are_compared_from_where_they_part(
    swapped: bool, tmp_path: Path, repository: Path
) -> None:
    """The log of the fork begins anew: its first event stands for all that it took."""
    run = case("12-terminal-completed", tmp_path, repository)
    _, made = fork(run, 8)
    with SessionStore(made.path.parent).claim_and_validate_resume(made.run_id) as again:
        again.emit("model.requested", {"step": 2}, state={"step": 2})
    pair = (made.path, run) if swapped else (run, made.path)
    with RunReader.open(pair[0]) as a, RunReader.open(pair[1]) as b:
        *_, found = compare(a, b)
        assert isinstance(found, Comparison)
        parent, child = (b, a) if swapped else (a, b)
        common = (found.common_b, found.common_a) if swapped else (found.common_a, found.common_b)
        assert (found.common, found.taken, common) == (8, 9, (9, 1))
        assert len(found.pairs) >= parent.timeline.items - 9
        assert not found.same
        asked = next(match for match in found.pairs if match.a is not None and match.b is not None)
        assert asked.said
        assert child.timeline.items == 3
    with (
        RunReader.open(run) as a,
        RunReader.open(case("12-terminal-completed", tmp_path / "x", repository)) as b,
    ):
        *_, other = compare(a, b)
        assert isinstance(other, Comparison)
        assert other.taken == 0


def test_a_call_that_is_open_is_abandoned_not_left_without_an_answer(
    tmp_path: Path, repository: Path
) -> None:
    run = case("04-tail-tool-started", tmp_path, repository)
    plan, made = fork(run, 14)
    assert [(call.id, call.started) for call in plan.pending] == [("call_edit_1", True)]
    assert manifest_of(made.path)["pending_action"]["run_id"] == plan.child
    snapshot = read_run(made.path)
    # The parent is refused for good; its fork goes on.
    assert not resume_of_original(read_run(run)).ok
    assert resume_of_original(snapshot).ok
    assert verdict(snapshot).outcome == "accept"
    with SessionStore(run.parent).claim_and_validate_resume(plan.child) as session:
        last = session.manifest.messages[-1]
    assert isinstance(last, dict)
    assert (last["tool_call_id"], last["ok"]) == ("call_edit_1", False)


def test_a_recorded_patch_gives_the_edits_up_to_the_end(tmp_path: Path, repository: Path) -> None:
    run = case("12-terminal-completed", tmp_path, repository)
    (run / "changes.patch").write_text(PATCH)
    plan, made = fork(run, 21)
    assert plan.tree == "patched"
    assert "a + b" in (made.path / "workspace" / "calc.py").read_text()
    assert any("patch applied" in note for note in plan.notes)
    # After an edit, and before the check that the patch was recorded after: nobody can say.
    between = plan_session_at(run, 16)
    assert between.tree == "base"
    assert any("NOT in it: replace_text" in note for note in between.notes)
    assert session_fork_json(between)["tree"] == "base"


@pytest.mark.parametrize("patch", ["no patch at all", PATCH.replace("calc.py", "../calc.py")])
def test_a_patch_that_does_not_fit_leaves_nothing(patch: str, tmp_path: Path, repository: Path) -> None:
    run = case("12-terminal-completed", tmp_path, repository)
    (run / "changes.patch").write_text(patch)
    with pytest.raises(Refused):
        fork(run, 22)
    assert names(run.parent) == {run.name}


def test_a_prompt_follows_the_conversation(tmp_path: Path, repository: Path) -> None:
    run = case("12-terminal-completed", tmp_path, repository)
    _, made = fork(run, 9, prompt="Try another way.")
    assert manifest_of(made.path)["messages"][-1]["content"] == "Try another way."
    with pytest.raises(NoForkHere) as caught:
        plan_session_at(run, 11, prompt="Try another way.")
    assert caught.value.code == "prompt_pending"


def test_an_unknown_commit_leaves_nothing(tmp_path: Path, repository: Path) -> None:
    run = case("12-terminal-completed", tmp_path, repository)
    for name in ("session.json", "request.json"):
        edit(run / name, lambda value: value.update(base_sha="1" * 40))
    with pytest.raises(Refused, match="git"):
        fork(run, 9)
    assert names(run.parent) == {run.name}


@pytest.mark.parametrize("word", ["--upload-pack=touch x", "ext::sh -c x", "relative", ""])
def test_a_repository_is_a_directory_by_its_full_path(word: str, tmp_path: Path, repository: Path) -> None:
    run = case("12-terminal-completed", tmp_path, repository)
    edit(run / "request.json", lambda value: value.update(repository=word))
    with pytest.raises(NoForkHere):
        plan_session_at(run, 9)


def test_surroundings_lend_git_nothing(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = case("12-terminal-completed", tmp_path, repository)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'core.hookspath=/x'")
    _, made = fork(run, 9)
    assert (made.path / "workspace" / "calc.py").exists()
    assert not (tmp_path / "elsewhere").exists()


def test_a_linked_workspace_of_the_parent_is_not_looked_at(tmp_path: Path, repository: Path) -> None:
    run = case("03-running-clean", tmp_path, repository)
    (run / "workspace").rename(tmp_path / "other")
    (run / "workspace").symlink_to(tmp_path / "other")
    _, made = fork(run, 3)
    assert (run / "workspace").is_symlink()
    assert not (made.path / "workspace").is_symlink()


@pytest.mark.parametrize("name", ["37-external-cli-run", "02-manifest-only-no-events"])
def test_says_why_not(name: str, tmp_path: Path, repository: Path) -> None:
    run = make(name, tmp_path)
    with pytest.raises((NoForkHere, StoreError)):
        plan_session_at(run, 0)
    assert expected(name)


def test_a_plan_of_another_log_is_outdated(tmp_path: Path, repository: Path) -> None:
    run = case("03-running-clean", tmp_path, repository)
    plan = plan_session_at(run, 3)
    data = (run / "events.jsonl").read_bytes()
    (run / "events.jsonl").write_bytes(data.replace(b"call_read_1", b"call_read_2").replace(b"step", b"stop"))
    with pytest.raises(PlanOutdated):
        carry_out_session(plan)
    assert names(run.parent) == {run.name}


def test_all_of_a_fork_is_on_disk_before_it_has_its_name(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = case("04-tail-tool-started", tmp_path, repository)
    done: list[str] = []
    sync, rename = os.sync, Path.rename

    def synced() -> None:
        (building,) = (path for path in run.parent.iterdir() if path.name.startswith("."))
        done.append(f"sync {sorted(path.name for path in building.iterdir())}")
        sync()

    def renamed(path: Path, target: Path) -> Path:
        done.append(f"rename {target.name}")
        return rename(path, target)

    monkeypatch.setattr(os, "sync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    fork(run, 14, child="child")
    parts = ["events.jsonl", "request.json", "session.json", "workspace"]
    assert done[-2:] == [f"sync {parts}", "rename child"]


def test_an_id_that_is_taken_is_left_alone(tmp_path: Path, repository: Path) -> None:
    run = case("03-running-clean", tmp_path, repository)
    plan = plan_session_at(run, 3, child="taken")
    (run.parent / "taken").mkdir()
    with pytest.raises(RunExists):
        carry_out_session(plan)
    assert names(run.parent) == {run.name, "taken"}


def test_a_full_disk_leaves_nothing(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = case("03-running-clean", tmp_path, repository)
    plan = plan_session_at(run, 3)
    write, written = replace_atomically, []

    def full(path: Path, data: bytes) -> None:
        written.append(path.name)
        if len(written) == 3:
            raise OSError(28, "No space left on device")
        write(path, data)

    monkeypatch.setattr("refold.core.store.session_fork.replace_atomically", full)
    with pytest.raises(StoreError, match="No space left"):
        carry_out_session(plan)
    assert written == ["request.json", "events.jsonl", "session.json"]
    assert names(run.parent) == {run.name}


_KILLED = """
import os, signal, sys
from pathlib import Path
from refold.core.store import session_fork
at = int(sys.argv[2])
def dying(call):
    def wrapped(*words, **more):
        global at
        if at == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        at -= 1
        return call(*words, **more)
    return wrapped
for name in ("replace_atomically", "clone", "fsync_directory"):
    setattr(session_fork, name, dying(getattr(session_fork, name)))
session_fork.carry_out_session(session_fork.plan_session_at(Path(sys.argv[1]), 3, child="child"))
"""


@pytest.mark.parametrize("step", range(6))
def test_a_kill_leaves_no_half_fork(step: int, tmp_path: Path, repository: Path) -> None:
    run = case("03-running-clean", tmp_path, repository)
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, str(run), str(step)], check=False, capture_output=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    seen = {name for name in names(run.parent) if not name.startswith(".")}
    if step < 5:
        assert seen == {run.name}
        for left in run.parent.glob(".fork-*"):
            os.utime(left, (time.time() - 60,) * 2)
        assert sweep_sessions(run.parent) == 1
    else:
        # It has its name: it is whole.
        assert verdict(read_run(run.parent / "child")).outcome == "accept"
    assert names(run.parent) == seen


def test_the_event_is_one_that_all_readers_take(tmp_path: Path, repository: Path) -> None:
    run = case("12-terminal-completed", tmp_path, repository)
    plan = plan_session_at(run, 9, reason="because\u2028of \ud800".encode("utf-8", "replace").decode())
    line = plan.event(datetime(2026, 1, 1, tzinfo=UTC))
    assert line.count(b"\n") == 1
    assert json.loads(line)["data"]["source_run_id"] == run.name


def test_a_fork_of_a_fork_keeps_what_both_prove(tmp_path: Path, repository: Path) -> None:
    run = case("12-terminal-completed", tmp_path, repository)
    _, first = fork(run, 9, child="first")
    _, second = fork(first.path, 0, child="second")
    assert manifest_of(second.path)["messages"] == manifest_of(first.path)["messages"]
    origin = fork_origin(second.path)
    assert origin is not None
    assert origin.run_id == "first"
