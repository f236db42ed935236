r"""The run directories of one root, for agents that write such runs themselves (formats/rivumi.md 1 to 5).

After a crash `claim_and_validate_resume` takes a run over, or says why not and changes nothing:

    from refold.core import Check, SessionStore, Task, message, observation, usage

    checks = (Check("tests", ("pytest", "-q")),)
    task = Task(repository=repository, base_sha=commit, instruction="Fix add().", checks=checks)
    call = {"tool_call_id": "c1", "name": "write", "arguments": {"path": "calc.py"}}
    asked = {"tool_call_id": "c1", "name": "write", "effect": "modify"}
    store = SessionStore(root)

    with store.create(task, provider="openai", model="m", protocol="openai_chat", run_id="first") as run:
        run.prepare_workspace()
        run.emit("model.requested", {"step": 1}, state={"step": 1}, messages=[message("user", "Go.")])
        turn = message("assistant", None, [call])
        run.emit("model.completed", {"step": 1}, messages=[turn], state={"usage": usage(given=100, made=10)})
        run.emit("tool.requested", {**asked, "arguments": call["arguments"]})
        run.emit("tool.started", asked)  # it is on disk before the tool does anything
        (run.workspace / "calc.py").write_text("def add(a, b):\n    return a + b\n")
        result = observation("c1", "write", "written")
        run.emit("tool.completed", {**asked, "ok": True, "error": None}, messages=[result])

    with store.claim_and_validate_resume("first") as run:
        run.finish("completed", reason="verified", summary="Fixed.", changed_files=["calc.py"])
"""

from __future__ import annotations

import contextlib
import os
import stat
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

import msgspec

from refold.core.errors import (
    BadRecord,
    InvalidRunId,
    NotRegular,
    Refused,
    RunExists,
    RunLocked,
    StoreError,
    TooLarge,
)
from refold.core.records import Decision
from refold.core.repair import RepairPlan
from refold.core.rivumi.claim import SessionRefused, plan_claim
from refold.core.rivumi.draft import PROMPT, SessionManifest
from refold.core.rivumi.event_line import event_line
from refold.core.rivumi.snapshot import RESUME_LIMIT, Snapshot
from refold.core.rivumi.task import Task
from refold.core.sizes import sized
from refold.core.store.clock import utc_now
from refold.core.store.event_writer import EventWriter
from refold.core.store.files import (
    fsync_directory,
    open_error,
    open_regular,
    private_directory,
    read_range,
    replace_atomically,
    shown,
    status_of,
)
from refold.core.store.session_files import SIDE_LIMIT, read_run
from refold.core.store.session_lease import SessionWriterLease
from refold.core.store.session_names import LOCK, MANIFEST, is_run_name
from refold.core.store.session_run import Session
from refold.core.store.session_tail import plan_for_log, repair_log


class SessionStore:
    """The runs of one root, which is made, 0700, when the first run is created in it."""

    def __init__(self, root: Path, *, clock: Callable[[], datetime] = utc_now) -> None:
        self.root = root.absolute()
        self._clock = clock

    def path_of(self, run_id: str) -> Path:
        """Give the directory of a run, which need not exist.

        Raises:
            InvalidRunId: the text is not one safe name of a directory.
        """
        if not isinstance(run_id, str):
            raise InvalidRunId(str(run_id))
        if not is_run_name(run_id):
            raise InvalidRunId(run_id)
        return self.root / run_id

    def create(
        self,
        task: Task,
        *,
        provider: str,
        model: str,
        protocol: str,
        prompt_version: str = PROMPT,
        run_id: str = "",
    ) -> Session:
        """Begin a run: its request, its manifest and `run.created` are on disk on return.

        The manifest has the keys of the first generation, so that every original reads it. Where this fails
        nothing is left behind.

        Args:
            task: What it is to do.
            provider: Who runs the model.
            model: Which one.
            protocol: How it is spoken to, in the words of formats/rivumi.md 3.
            prompt_version: Which prompt the agent works with.
            run_id: Empty: a new one.

        Raises:
            InvalidRunId: the text is not one safe name of a directory.
            RunExists: there is something of that name.
            Refused: the run would lie inside the repository it works on.
            BadRecord: the originals would not take the task or the manifest.
            StoreError: something cannot be written.
        """
        run_id = run_id or uuid.uuid4().hex
        directory = self.path_of(run_id)
        task = task if task.task_id else msgspec.structs.replace(task, task_id=f"task-{run_id}")
        request = task.request()
        try:
            inside = directory.resolve().is_relative_to(Path(task.repository).resolve())
        except (OSError, RuntimeError, ValueError) as error:
            raise BadRecord(f"the repository is no path: {task.repository!a}: {error}") from error
        if inside:
            raise Refused(
                f"{shown(directory)}: inside the repository it works on", remedy="keep runs somewhere else"
            )
        manifest = SessionManifest.new(
            run_id=run_id,
            task_id=task.task_id,
            provider=provider,
            model=model,
            protocol=protocol,
            base_sha=task.base_sha,
            prompt_version=prompt_version,
        )
        created = {
            "provider": provider,
            "model": model,
            "prompt_version": prompt_version,
            "base_sha": task.base_sha,
        }
        event_line("run.created", created, run_id=run_id, task_id=task.task_id, sequence=0, now=self._clock())
        private_directory(self.root)
        _make(directory)
        with contextlib.ExitStack() as undo:
            undo.callback(_remove_again, directory)
            lease = undo.enter_context(SessionWriterLease.acquire(directory, clock=self._clock))
            replace_atomically(directory / "request.json", request)
            writer = EventWriter(lease)
            undo.callback(writer.close)
            manifest = lease.save(manifest.claimed(lease.token, self._clock()))
            session = Session(lease, writer, manifest, clock=self._clock)
            session.emit("run.created", created)
            undo.pop_all()
        return session

    def load(self, run_id: str) -> SessionManifest:
        """Give the manifest of a run as it lies there; nothing is locked.

        Raises:
            RunNotFound: there is none.
            BadRecord: it is no object.
            TooLarge: it is above what is read of a manifest.
            StoreError: it cannot be read.
        """
        path = self.path_of(run_id) / MANIFEST
        fd = open_regular(path)
        try:
            size = status_of(fd, path).st_size
            if size > SIDE_LIMIT:
                raise TooLarge(
                    f"{shown(path)}: {sized(size)}: a manifest above {sized(SIDE_LIMIT)} is not read",
                    remedy=f"look at what wrote it: its own program reads none above {sized(RESUME_LIMIT)}",
                )
            return SessionManifest.read(read_range(fd, 0, SIDE_LIMIT, path))
        finally:
            os.close(fd)

    def plan_repair(self, run_id: str) -> RepairPlan | None:
        """Say what the end of a log needs that a crash tore; None where it is whole. Nothing is written.

        Raises:
            StoreError: the log cannot be read.
        """
        return plan_for_log(self.path_of(run_id))

    def repair(self, run_id: str, plan: RepairPlan) -> None:
        """Carry out a plan: the torn bytes are safe in a file of their own before they are cut off.

        Raises:
            PlanOutdated: the log has changed since the plan was made; nothing was changed.
            RunLocked: somebody holds the run.
            StoreError: it cannot be written; the log ends as it did, or is whole.
        """
        repair_log(self.path_of(run_id), plan)

    def claim_and_validate_resume(
        self, run_id: str, *, decisions: Mapping[str, Decision] | None = None
    ) -> Session:
        """Take a run over, by the stricter verdict of its own program's and ours.

        What it writes once it accepts: the claim of the manifest; an event for each decided call; the
        question that nobody answered, abandoned; `session.resumed`. The first of them carries the reason of
        a repair where the manifest was one ahead. The time in which no process worked is not counted.

        Args:
            run_id: The full id.
            decisions: What became of the calls of which the files do not tell, by id. Ask without them
                first: the refusal names the calls, and what can be suggested.

        Raises:
            SessionUndecided: a decision is missing; nothing was written.
            SessionRefused: the run cannot go on, or somebody writes it; nothing was written.
            RunNotFound: there is no such run.
            BadRecord: a decision cannot be written; nothing was written.
            StoreError: something cannot be read or written.
        """
        directory = self.path_of(run_id)
        if not isinstance(decisions or {}, Mapping):
            raise BadRecord("decisions: no mapping from the ids of calls to decisions")
        decided = dict(decisions or {})
        if directory.is_symlink():
            raise NotRegular(f"{shown(directory)}: a symbolic link", remedy="name the directory itself")
        if not _is_file(directory / LOCK):
            # Judged without the lock first: a run that is refused does not even get a lock file.
            plan_claim(read_run(directory), decided)
        with contextlib.ExitStack() as undo:
            try:
                lease = SessionWriterLease.hold(directory, clock=self._clock)
                undo.callback(lease.release)
                session = self._taken(lease, read_run(lease.directory, who=_nobody), decided)
            except RunLocked as error:
                raise SessionRefused("busy", str(error), remedy=error.remedy) from error
            undo.pop_all()
        return session

    def _taken(
        self, lease: SessionWriterLease, snapshot: Snapshot, decisions: Mapping[str, Decision]
    ) -> Session:
        plan = plan_claim(snapshot, decisions)
        manifest = SessionManifest.read(snapshot.manifest.data).without_dead_time()
        pairs = Session.prepared(manifest.claimed(lease.token, self._clock()), plan, self._clock())
        lease.adopt(snapshot.manifest.data)
        writer = EventWriter(lease, last_sequence=plan.last_sequence, size=plan.size)
        try:
            lease.announce()
            claimed = lease.save(manifest.claimed(lease.token, self._clock()))
            session = Session(lease, writer, claimed, clock=self._clock, plan=plan)
            session.write(pairs)
        except BaseException:
            writer.close()
            raise
        return session


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _nobody(lock: Path) -> str:
    """Name no holder: the lock is ours."""
    return ""


def _make(directory: Path) -> None:
    try:
        directory.mkdir(0o700)
    except FileExistsError as error:
        raise RunExists(f"{shown(directory)}: already there", remedy="choose another id") from error
    except (OSError, ValueError) as error:
        raise open_error(directory, error) from error
    try:
        directory.chmod(0o700)
        fsync_directory(directory.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            directory.rmdir()
        raise open_error(directory, error) from error


def _remove_again(directory: Path) -> None:
    """Remove a directory that we made and nobody was told of; what others put there stays."""
    with contextlib.suppress(OSError, StoreError):
        for name in (MANIFEST, "events.jsonl", "request.json", ".writer.lock"):
            (directory / name).unlink(missing_ok=True)
        directory.rmdir()
