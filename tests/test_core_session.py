"""Run directories that we write: their form, the lease, the fence, and what a failing disk leaves."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.rivumi_cases import BASE, DATA, canonical
from tests.session_story import (
    FIRST,
    START,
    Failing,
    ask,
    begin,
    end,
    events_of,
    kinds_of,
    manifest_of,
    start,
    store,
    task,
    wait,
)
from tests.store_story import HOSTILE_IDS, names

from refold import core
from refold.core.errors import (
    BadRecord,
    InvalidRunId,
    JournalClosed,
    LeaseLost,
    NotRegular,
    Refused,
    RunExists,
    RunLocked,
    RunNotFound,
    StoreError,
    TooLarge,
    WriteFailed,
)
from refold.core.repair import PlanOutdated
from refold.core.rivumi.claim import SessionRefused
from refold.core.rivumi.items import approval_record, check_outcome, message
from refold.core.rivumi.replay import replay_bytes
from refold.core.rivumi.task import Check, Task
from refold.core.rivumi.verdict import verdict
from refold.core.store import files
from refold.core.store import session as session_module
from refold.core.store.session import SessionStore
from refold.core.store.session_files import read_run
from refold.core.store.session_lease import SessionWriterLease
from refold.core.store.session_run import Session

LOCK_LINE = re.compile(rb"pid=(\d+) token=([0-9a-f]{32})\n")
HOLDER = """
import sys
from pathlib import Path
from refold.core.store.session_lease import SessionWriterLease
with SessionWriterLease.acquire(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def runs(tmp_path: Path) -> SessionStore:
    return store(tmp_path)


@pytest.fixture
def session(runs: SessionStore) -> Iterator[Session]:
    with begin(runs) as made:
        yield made


def at_most_one_ahead(run: Path) -> int:
    """Check the pair of files and give how far the manifest is ahead."""
    events = events_of(run)
    assert [event["sequence"] for event in events] == list(range(len(events)))
    ahead = manifest_of(run)["last_event_sequence"] - (len(events) - 1)
    assert ahead in {0, 1}
    return int(ahead)


class TestForm:
    def test_a_new_run_lies_there_as_every_original_expects_it(self, runs: SessionStore) -> None:
        repository = runs.root.parent / "repository"
        with runs.create(task(repository), provider="p", model="m", protocol="scripted") as made:
            run = made.directory
            assert re.fullmatch("[0-9a-f]{32}", made.run_id)
            assert run == runs.path_of(made.run_id)
            assert names(run) == {"request.json", "session.json", "events.jsonl", ".writer.lock"}
            assert {stat.S_IMODE((run / name).stat().st_mode) for name in names(run)} == {0o600}
            assert stat.S_IMODE(run.stat().st_mode) == 0o700
            lock = LOCK_LINE.fullmatch((run / ".writer.lock").read_bytes())
            assert lock is not None
            assert (int(lock[1]), lock[2].decode()) == (os.getpid(), made.token)
        manifest = manifest_of(run)
        assert set(manifest) == FIRST
        assert (run / "session.json").read_bytes() == canonical(manifest)
        assert manifest["active_writer_token"] == made.token
        assert manifest["task_id"] == json.loads((run / "request.json").read_bytes())["task_id"]
        (event,) = events_of(run)
        assert (event["event_type"], event["sequence"], event["data"]["base_sha"]) == ("run.created", 0, BASE)

    def test_a_whole_run_folds_and_both_originals_take_it(self, session: Session) -> None:
        run = session.directory
        ask(session)
        start(session)
        end(session)
        found = verdict(read_run(run, who=lambda lock: ""), now=None)
        assert (found.outcome, found.original.code, found.replay.code) == ("accept", "ok", "ok")
        assert replay_bytes((run / "events.jsonl").read_bytes()).event_count == 7
        assert manifest_of(run)["last_event_sequence"] == session.last_sequence == 6
        assert set(manifest_of(run)) == FIRST

    def test_it_ends_with_its_result(self, session: Session) -> None:
        run = session.directory
        session.emit(
            "verification.completed",
            {"name": "t", "argv": ["true"], "ok": True, "exit_code": 0, "duration_seconds": 0.5},
            checks=[check_outcome("t", ["true"], ok=True, exit_code=0, seconds=0.5)],
        )
        session.finish("completed", reason="verified", summary="Done.", changed_files=["calc.py"])
        assert session.closed
        assert kinds_of(run)[-1] == "run.completed"
        manifest = manifest_of(run)
        assert (manifest["phase"], manifest["terminal"]) == ("completed", True)
        assert manifest["active_started_at"] is None
        result = json.loads((run / "result.json").read_bytes())
        assert result["terminal_reason"] == "verified"
        assert (
            result["verification"]
            == manifest["verification"]
            == json.loads((run / "verification.json").read_bytes())
        )
        assert result["usage"]["total_tokens"] == 0
        assert all(Path(path).is_file() for path in result["artifacts"].values())
        assert verdict(read_run(run)).original.code == "terminal"

    @pytest.mark.parametrize(
        "run_id", [name for name in HOSTILE_IDS if name not in {"", "a\n", "a" * 129, "-rf"}]
    )
    def test_a_name_that_leads_elsewhere_is_refused(self, runs: SessionStore, run_id: str) -> None:
        with pytest.raises(InvalidRunId):
            begin(runs, run_id)
        with pytest.raises(InvalidRunId):
            runs.claim_and_validate_resume(run_id)
        assert not runs.root.exists()

    def test_nothing_is_made_twice_or_inside_the_repository(
        self, session: Session, runs: SessionStore
    ) -> None:
        before = (session.directory / "session.json").read_bytes()
        with pytest.raises(RunExists):
            begin(runs)
        assert (session.directory / "session.json").read_bytes() == before
        inside = SessionStore(runs.root.parent / "repository" / "runs")
        with pytest.raises(Refused, match="inside the repository"):
            inside.create(task(inside.root.parent), provider="p", model="m", protocol="s")
        assert not inside.root.exists()

    def test_the_workspace_is_a_clone_at_the_commit(self, tmp_path: Path) -> None:
        repository = tmp_path / "repository"
        bundle = DATA / "source-repo.bundle"
        subprocess.run(["git", "clone", "-q", "-n", bundle, repository], check=True, capture_output=True)
        runs = store(tmp_path)
        with runs.create(
            task(repository), provider="p", model="m", protocol="scripted", run_id="run"
        ) as made:
            place = made.prepare_workspace()
            assert (place / "calc.py").exists()
            assert made.manifest.phase == "running"
            with pytest.raises(Refused, match="already there"):
                made.prepare_workspace()
            made.emit("hook.completed")
        with runs.claim_and_validate_resume("run") as again:
            assert kinds_of(again.directory)[1:] == [
                "workspace.prepared",
                "hook.completed",
                "session.resumed",
            ]

    def test_the_example_of_its_documentation_runs(self, tmp_path: Path) -> None:
        repository = tmp_path / "repository"
        bundle = DATA / "source-repo.bundle"
        subprocess.run(["git", "clone", "-q", "-n", bundle, repository], check=True, capture_output=True)
        assert session_module.__doc__ is not None
        example = session_module.__doc__.partition(":\n\n")[2]
        names = {"repository": str(repository), "commit": BASE, "root": tmp_path / "runs"}
        exec(textwrap.dedent(example), names)
        run = tmp_path / "runs" / "first"
        assert manifest_of(run)["phase"] == "completed"
        assert set(manifest_of(run)) == FIRST
        assert kinds_of(run)[-2:] == ["session.resumed", "run.completed"]
        assert verdict(read_run(run)).replay.ok

    def test_a_repository_that_is_not_there_is_said(self, runs: SessionStore) -> None:
        with runs.create(task(runs.root.parent / "nowhere"), provider="p", model="m", protocol="s") as made:
            with pytest.raises(Refused, match="git: "):
                made.prepare_workspace()
            assert made.emit("run.error", {"error_type": "Refused", "error": "no repository"}) == 1

    def test_the_names_are_at_hand(self) -> None:
        for name in (
            "SessionStore",
            "Session",
            "SessionWriterLease",
            "EventWriter",
            "SessionUndecided",
            "Task",
        ):
            assert getattr(core, name).__name__ == name


class TestEvents:
    def test_what_changes_is_on_disk_before_the_event_and_what_follows_after_it(
        self, session: Session
    ) -> None:
        ask(session)
        wait(session)
        assert manifest_of(session.directory)["active_started_at"] is None
        request = manifest_of(session.directory)["pending_action"]
        session.emit(
            "approval.resolved",
            {"action_id": "c1", "decision": "allow_session"},
            state={"phase": "running", "granted_effects": ["modify"]},
            approvals=[approval_record(request, "allow_session", START)],
        )
        (audit,) = manifest_of(session.directory)["approval_history"]
        assert (audit["request"], audit["decided_at"]) == (request, "2026-03-01T12:00:00Z")
        session.emit("tool.started", {"tool_call_id": "c1"}, then={"pending_action": None})
        assert manifest_of(session.directory)["pending_action"]["action_id"] == "c1"
        end(session)
        assert manifest_of(session.directory)["pending_action"] is None
        assert manifest_of(session.directory)["messages"][-1]["ok"] is True

    def test_what_cannot_be_written_changes_nothing(self, session: Session) -> None:
        before = {name: (session.directory / name).read_bytes() for name in ("session.json", "events.jsonl")}
        for wrong in (
            lambda: session.emit("x", {"text": "\udc80"}),
            lambda: session.emit("x", {"text": "a\0"}),
            lambda: session.emit("x", state={"phase": "asleep"}),
            lambda: session.emit("x", then={"step": -1}),
            lambda: session.emit("x", messages=[{"role": "user"}]),
            lambda: session.checkpoint(state={"run_id": "y"}),
        ):
            with pytest.raises(BadRecord):
                wrong()
        with pytest.raises(TooLarge):
            session.emit("x", messages=[message("user", "x" * (17 << 20))])
        assert {name: (session.directory / name).read_bytes() for name in before} == before
        assert session.emit("x") == 2

    def test_a_checkpoint_is_a_sign_of_life(self, session: Session) -> None:
        before = manifest_of(session.directory)
        session.checkpoint()
        session.checkpoint(state={"repeat_count": 2}, messages=[message("user", "more")])
        after = manifest_of(session.directory)
        assert after["writer_heartbeat_at"] > before["writer_heartbeat_at"]
        assert (after["repeat_count"], len(after["messages"])) == (2, 1)
        assert after["last_event_sequence"] == before["last_event_sequence"] == 1

    def test_threads_get_a_sequence_each(self, session: Session) -> None:
        def work() -> None:
            for _ in range(10):
                session.emit("tool.completed", {"tool_call_id": threading.current_thread().name})

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert session.last_sequence == 41
        assert at_most_one_ahead(session.directory) == 0

    def test_each_event_writes_one_manifest_and_reads_none(
        self, session: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session.checkpoint(messages=[message("user", "x" * 4000) for _ in range(50)])
        written, calls = [0], []
        write, opened = os.write, os.open

        def counted_write(fd: int, data: Any) -> int:
            written[0] += (done := write(fd, data))
            return done

        def counted_open(path: Any, flags: int, *rest: Any, **options: Any) -> int:
            calls.append((Path(path).name, flags))
            return opened(path, flags, *rest, **options)

        def never(*arguments: object) -> bytes:
            raise AssertionError("something was read")

        monkeypatch.setattr(os, "write", counted_write)
        monkeypatch.setattr(os, "open", counted_open)
        monkeypatch.setattr(os, "read", never)
        monkeypatch.setattr(os, "pread", never)
        for number in range(40):
            written[0] = 0
            session.emit("hook.completed", {"number": number}, messages=[message("user", "é" * 100)])
            size = (session.directory / "session.json").lstat().st_size
            assert size <= written[0] <= 2 * size
        assert not [name for name, flags in calls if name == "session.json"]
        assert len([name for name, flags in calls if name.startswith(".session.json.")]) == 40


class TestLease:
    def test_a_second_process_waits_outside(self, runs: SessionStore) -> None:
        begin(runs).close()
        run = runs.path_of("run")
        command = [sys.executable, "-c", HOLDER, str(run)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "held\n"
            before = (run / "session.json").read_bytes()
            with pytest.raises(RunLocked):
                SessionWriterLease.acquire(run)
            with pytest.raises(SessionRefused) as refused:
                runs.claim_and_validate_resume("run")
            assert refused.value.code == "busy"
            assert (run / "session.json").read_bytes() == before
            child.communicate("")
        runs.claim_and_validate_resume("run").close()

    def test_one_process_holds_it_once(self, session: Session, runs: SessionStore) -> None:
        with pytest.raises(RunLocked):
            SessionWriterLease.acquire(session.directory)
        with pytest.raises(SessionRefused, match="already locked"):
            runs.claim_and_validate_resume("run")

    def test_a_value_of_an_earlier_lease_is_refused(self, session: Session, runs: SessionStore) -> None:
        old = session.manifest
        session.close()
        with pytest.raises(JournalClosed):
            session.emit("x")
        with runs.claim_and_validate_resume("run") as again:
            assert again.token != session.token
            with pytest.raises(LeaseLost, match="another lease"):
                again._lease.save(old)
            before = (again.directory / "session.json").read_bytes()
            assert again.emit("x") == 3
            assert before != (again.directory / "session.json").read_bytes()

    def test_a_writer_whose_lock_was_removed_stops(self, session: Session, runs: SessionStore) -> None:
        (session.directory / ".writer.lock").unlink()
        # The log is locked as well, so nobody of ours gets in beside it.
        with pytest.raises(SessionRefused, match="already locked"):
            runs.claim_and_validate_resume("run")
        with pytest.raises(LeaseLost, match="removed or replaced"):
            session.emit("x")
        assert session.closed
        assert at_most_one_ahead(session.directory) == 0

    @pytest.mark.parametrize("how", ["replaced", "edited", "same size", "removed", "link"])
    def test_a_manifest_of_somebody_else_stops_it(self, session: Session, how: str) -> None:
        path = session.directory / "session.json"
        theirs = path.read_bytes().replace(session.token.encode(), b"f" * 32)
        if how == "replaced":
            files.replace_atomically(path, theirs)
        elif how == "edited":
            path.write_bytes(theirs + b" ")
        elif how == "same size":
            path.write_bytes(theirs)
        else:
            path.unlink()
            if how == "link":
                (session.directory / "other").write_bytes(theirs)
                path.symlink_to("other")
        log = (session.directory / "events.jsonl").read_bytes()
        with pytest.raises(LeaseLost, match="nothing was written"):
            session.emit("x")
        assert (session.directory / "events.jsonl").read_bytes() == log
        assert session.closed

    @pytest.mark.parametrize("how", ["linked", "touched", "mode"])
    def test_a_backup_does_not_stop_it(self, session: Session, how: str) -> None:
        path = session.directory / "session.json"
        if how == "linked":
            os.link(path, session.directory / "backup")
        elif how == "touched":
            os.utime(path, ns=(1, 1))
        else:
            path.chmod(0o640)
        assert session.emit("x") == 2
        assert session.emit("y") == 3

    @pytest.mark.parametrize("how", ["longer", "replaced", "removed"])
    def test_a_log_of_somebody_else_stops_it(self, session: Session, how: str) -> None:
        path, manifest = session.directory / "events.jsonl", (session.directory / "session.json").read_bytes()
        data = path.read_bytes()
        if how == "longer":
            path.write_bytes(data + data[: data.index(b"\n") + 1])
        else:
            path.unlink()
            if how == "replaced":
                path.write_bytes(data)
        with pytest.raises(LeaseLost):
            session.emit("x")
        assert session.closed
        assert (session.directory / "session.json").read_bytes() == manifest

    def test_a_forked_child_cannot_write(self, session: Session) -> None:
        before = (session.directory / "session.json").read_bytes()
        child = os.fork()
        if child == 0:
            try:
                session.emit("x")
            except StoreError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert (session.directory / "session.json").read_bytes() == before
        assert session.emit("x") == 2

    @pytest.mark.parametrize("name", [".writer.lock", "session.json", "events.jsonl", "request.json"])
    @pytest.mark.parametrize("kind", ["link", "pipe"])
    def test_no_link_and_no_pipe_is_followed(self, runs: SessionStore, name: str, kind: str) -> None:
        begin(runs).close()
        run = runs.path_of("run")
        target = run.parent.parent / "target"
        (run / name).rename(target)
        if kind == "link":
            (run / name).symlink_to(target)
        else:
            os.mkfifo(run / name)
        before = target.read_bytes(), names(run)
        with pytest.raises(SessionRefused):
            runs.claim_and_validate_resume("run")
        assert (target.read_bytes(), names(run)) == before
        if name == ".writer.lock":
            with pytest.raises(StoreError):
                SessionWriterLease.acquire(run)
            assert target.read_bytes() == before[0]

    def test_a_directory_behind_a_link_or_nowhere_is_refused(self, runs: SessionStore) -> None:
        begin(runs).close()
        runs.path_of("other").symlink_to("run")
        with pytest.raises(NotRegular):
            runs.claim_and_validate_resume("other")
        with pytest.raises(NotRegular):
            SessionWriterLease.acquire(runs.path_of("other"))
        for make in (
            lambda: SessionWriterLease.acquire(runs.path_of("none")),
            lambda: runs.claim_and_validate_resume("none"),
        ):
            with pytest.raises(RunNotFound):
                make()
        assert not runs.path_of("none").exists()


def _emit_some(session: Session, count: int) -> str:
    """Emit so many events, or give why it cannot go on."""
    try:
        for _ in range(count):
            session.emit("hook.completed", messages=[message("user", "x")])
    except WriteFailed as error:
        return str(error)
    return ""


RACER = """
import sys
from pathlib import Path
from refold.core.errors import StoreError
from refold.core.rivumi.claim import SessionRefused
from refold.core.store.session import SessionStore
store = SessionStore(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
written = 0
while written < 5:
    try:
        with store.claim_and_validate_resume("run") as session:
            session.emit("hook.completed", {"by": sys.argv[2]})
            written += 1
    except SessionRefused as refused:
        assert refused.code == "busy", refused
"""


def test_processes_that_want_the_same_run_take_turns(runs: SessionStore) -> None:
    begin(runs).close()
    children = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(runs.root), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        _, said = child.communicate(timeout=120)
        assert (child.returncode, said) == (0, "")
    run = runs.path_of("run")
    assert at_most_one_ahead(run) == 0
    kinds = kinds_of(run)
    assert (kinds.count("session.resumed"), kinds.count("hook.completed")) == (15, 15)
    assert kinds[2:] == ["session.resumed", "hook.completed"] * 15


class TestFailingDisk:
    @pytest.mark.parametrize(
        ("call", "code", "short"),
        [("write", errno.ENOSPC, False), ("write", errno.ENOSPC, True), ("fsync", errno.EIO, False)],
    )
    def test_a_failure_at_any_call_loses_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int, short: bool
    ) -> None:
        for number in range(1, 40):
            runs = store(tmp_path / str(number))
            made = begin(runs)
            run = made.directory
            failing = Failing(call, number, code, short=short)
            with monkeypatch.context() as patched:
                patched.setattr(os, call, failing)
                said = _emit_some(made, 4)
            if not failing.failed:
                assert number > 8
                break
            assert errno.errorcode[code] in said
            assert made.closed
            at_most_one_ahead(run)
            assert len(events_of(run)) - 1 in {made.last_sequence, made.last_sequence + 1}
            with pytest.raises(JournalClosed):
                made.emit("x")
            with runs.claim_and_validate_resume("run") as again:
                again.emit("hook.completed")
            assert at_most_one_ahead(run) == 0
            assert not [name for name in names(run) if name.startswith(".session.json.")]
        else:
            pytest.fail("it never came to an end")

    def test_a_short_write_goes_on(self, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
        write = os.write
        monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
        assert session.emit("hook.completed", {"text": "é" * 50}) == 2
        assert at_most_one_ahead(session.directory) == 0

    def test_a_run_that_cannot_be_begun_leaves_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        repository = task(tmp_path / "repository")
        for number in range(1, 40):
            runs = store(tmp_path / str(number))
            failing = Failing("fsync", number, errno.ENOSPC)
            with monkeypatch.context() as patched:
                patched.setattr(os, "fsync", failing)
                with contextlib.suppress(StoreError):
                    runs.create(repository, provider="p", model="m", protocol="s", run_id="run").close()
            if not failing.failed:
                assert number > 6
                return
            assert not runs.root.exists() or names(runs.root) == set()
            shutil.rmtree(tmp_path / str(number), ignore_errors=True)
        pytest.fail("it never came to an end")


class TestTornLog:
    def torn(self, runs: SessionStore, keep: int) -> Path:
        """A run whose last event is on disk in part: its manifest is one ahead."""
        begin(runs).close()
        run = runs.path_of("run")
        data = (run / "events.jsonl").read_bytes()
        last = data.rindex(b"\n", 0, -1) + 1
        (run / "events.jsonl").write_bytes(data[: last + keep] if keep >= 0 else data[:keep])
        return run

    @pytest.mark.parametrize("keep", [1, 40, -2, -1])
    def test_it_is_put_right_when_told_to(self, runs: SessionStore, keep: int) -> None:
        run = self.torn(runs, keep)
        with pytest.raises(SessionRefused):
            runs.claim_and_validate_resume("run")
        before = (run / "events.jsonl").read_bytes()
        plan = runs.plan_repair("run")
        assert plan is not None
        assert (run / "events.jsonl").read_bytes() == before
        runs.repair("run", plan)
        kept = (run / "events.jsonl").read_bytes()
        if plan.action == "cut":
            side_file = run / plan.side_file
            assert kept + side_file.read_bytes() == before
            assert stat.S_IMODE(side_file.stat().st_mode) == 0o600
        else:
            assert kept == before + b"\n"
        assert runs.plan_repair("run") is None
        with runs.claim_and_validate_resume("run") as session:
            assert bool(session.repaired) == (plan.action == "cut")
        assert at_most_one_ahead(run) == 0

    def test_an_old_plan_is_refused(self, runs: SessionStore) -> None:
        run = self.torn(runs, 10)
        plan = runs.plan_repair("run")
        assert plan is not None
        with (run / "events.jsonl").open("ab") as log:
            log.write(b"x")
        before = (run / "events.jsonl").read_bytes()
        with pytest.raises(PlanOutdated):
            runs.repair("run", plan)
        assert (run / "events.jsonl").read_bytes() == before

    def test_damage_further_up_is_not_its_business(self, runs: SessionStore) -> None:
        run = self.torn(runs, 0)
        with (run / "events.jsonl").open("ab") as log:
            log.write(b"{broken\n")
        assert runs.plan_repair("run") is None


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda run: run.emit("x", [1]), "data: a list, not a mapping"),
        (lambda run: run.emit("x", "text"), "data: a str, not a mapping"),
        (lambda run: run.emit("x", {"a": Path("/")}), "cannot be written as JSON"),
        (lambda run: run.emit("x", {}, state=[1]), "state: a list, not a mapping"),
        (lambda run: run.emit("x", {}, then=[1]), "then: a list, not a mapping"),
        (lambda run: run.emit("x", {}, messages=5), "lists of items"),
        (lambda run: run.checkpoint(state=3), "state: a int, not a mapping"),
        (lambda run: run.finish("completed", reason="verified", error="boom"), "error: "),
        (lambda run: run.finish("completed", reason="verified", changed_files="a.py"), "changed_files: "),
    ],
)
def test_what_has_the_wrong_type_is_refused_in_words_and_nothing_is_written(
    tmp_path: Path, wrong: Callable[[Any], object], words: str
) -> None:
    with SessionStore(tmp_path).create(
        Task(repository="/r", base_sha="c" * 40, instruction="x", checks=(Check("a", ("b",)),)),
        provider="p",
        model="m",
        protocol="openai_chat",
        run_id="typed",
    ) as run:
        before = {path.name: path.read_bytes() for path in run.directory.iterdir()}
        with pytest.raises(BadRecord, match=words):
            wrong(run)
        assert {path.name: path.read_bytes() for path in run.directory.iterdir()} == before
        assert not run.closed


def test_a_task_of_paths_is_refused_in_words(tmp_path: Path) -> None:
    checks = (Check("a", ("b",)),)
    task = Task(repository=tmp_path, base_sha="c" * 40, instruction="x", checks=checks)  # type: ignore[arg-type]
    with pytest.raises(BadRecord, match="task: repository: a PosixPath, not a text"):
        task.request()


def test_a_manifest_above_the_limit_is_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "huge").mkdir()
    with (tmp_path / "huge" / "session.json").open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(TooLarge, match=r"67\.1 MB: a manifest above 67\.1 MB is not read"):
        SessionStore(tmp_path).load("huge")
