"""One run directory, open for writing: the manifest that is to come, then the line of the event.

The order is that of the original (formats/rivumi.md 2): the manifest with sequence n and the whole state, the
line n, then the counter. So a process that dies leaves the manifest at most one ahead. Each event writes the
manifest once and reads nothing of it back; `core.store.session_lease` says why it is still fenced.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Literal, ParamSpec, TypeAlias, TypeVar

from refold.core.errors import BadRecord, JournalClosed, TooLarge
from refold.core.records import Json
from refold.core.rivumi.budget import seconds_left
from refold.core.rivumi.canonical import canonical
from refold.core.rivumi.claim import ClaimPlan, OpenCall
from refold.core.rivumi.draft import SessionManifest
from refold.core.rivumi.event_line import event_line
from refold.core.rivumi.manifest import Request, read_manifest, read_request, tokens_of
from refold.core.store.event_writer import EventWriter
from refold.core.store.files import open_regular, read_range, replace_atomically, shown
from refold.core.store.session_files import SIDE_LIMIT
from refold.core.store.session_lease import SessionWriterLease
from refold.core.store.session_workspace import SECONDS, clone

_P = ParamSpec("_P")
_T = TypeVar("_T")

Pair: TypeAlias = tuple[SessionManifest, bytes]
"""The manifest and the line of one event, both ready to be written."""

_ARTIFACTS = {
    "checkpoint": "checkpoint.json",
    "events": "events.jsonl",
    "patch": "changes.patch",
    "request": "request.json",
    "test_log": "test.log",
}


class Session:
    """The only writer of a run directory until it is closed.

    Safe to use from several threads: two tools that end at once get two sequences. Once a write has failed it
    is closed; claiming the run again starts from what is on disk.
    """

    def __init__(
        self,
        lease: SessionWriterLease,
        writer: EventWriter,
        manifest: SessionManifest,
        *,
        clock: Callable[[], datetime],
        plan: ClaimPlan | None = None,
    ) -> None:
        self.directory = lease.directory
        self.rerun: tuple[OpenCall, ...] = () if plan is None else plan.rerun
        """Calls to run before the model is asked again: decided so when the run was claimed."""
        self.repaired = "" if plan is None else plan.repaired
        """What the claim had to mend; its first event says so too."""
        self._lease = lease
        self._writer = writer
        self._manifest = manifest
        self._clock = clock
        self._one_at_a_time = threading.RLock()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._manifest.run_id

    @property
    def token(self) -> str:
        """The token that fences off every earlier writer."""
        return self._lease.token

    @property
    def manifest(self) -> SessionManifest:
        """The state that the next event builds on."""
        return self._manifest

    @property
    def last_sequence(self) -> int:
        """The last event that is on disk."""
        return self._writer.last_sequence

    @property
    def workspace(self) -> Path:
        """Where the run works."""
        return self.directory / "workspace"

    @property
    def closed(self) -> bool:
        """True once nothing can be written any more."""
        return self._writer.closed or not self._lease.held

    @staticmethod
    def prepared(manifest: SessionManifest, plan: ClaimPlan, now: datetime) -> list[Pair]:
        """Give what a claim will write, all of it checked before the first byte changes.

        Raises:
            BadRecord: something of it cannot be written.
        """
        pairs: list[Pair] = []
        for sequence, step in enumerate(plan.steps, plan.last_sequence + 1):
            manifest = manifest.changed(step.state, add={"messages": step.messages}).timed(now).at(sequence)
            line = event_line(
                step.event_type,
                step.data,
                run_id=manifest.run_id,
                task_id=manifest.task_id,
                sequence=sequence,
                now=now,
            )
            pairs.append((manifest, line))
        return pairs

    def emit(
        self,
        event_type: str,
        data: Mapping[str, Json] | None = None,
        *,
        state: Mapping[str, Json] | None = None,
        messages: Iterable[Json] = (),
        approvals: Iterable[Json] = (),
        checks: Iterable[Json] = (),
        then: Mapping[str, Json] | None = None,
    ) -> int:
        """Write an event together with what it changes, and give its sequence once both are on disk.

        Args:
            event_type: What happened.
            data: What there is to say about it. Keep texts short: `preview`.
            state: Members of the manifest with other values; they are on disk before the event.
            messages: Items for the end of the conversation, also before it: so the result of a tool is never
                lost between its event and a checkpoint.
            approvals: Items for the end of `approval_history`.
            checks: Items for the end of `verification`.
            then: Members that change once the event is on disk, as `pending_action` does after a start; they
                are written with the next event.

        Raises:
            BadRecord: an original would not take it; nothing was written and the session stays open.
            TooLarge: no original would read a manifest of this size; likewise.
            LeaseLost: another writer took the run over; nothing was written.
            JournalClosed: the session was closed.
            WriteFailed: it is not known to be on disk; the session is closed.
        """
        with self._one_at_a_time:
            sequence, now = self.last_sequence + 1, self._clock()
            _require_mappings(data=data, state=state, then=then)
            added = {"messages": messages, "approval_history": approvals, "verification": checks}
            manifest = self._manifest.changed(state or {}, add=added).timed(now).at(sequence)
            if then:
                manifest.changed(then)
            line = event_line(
                event_type,
                data or {},
                run_id=manifest.run_id,
                task_id=manifest.task_id,
                sequence=sequence,
                now=now,
            )
            self.write([(manifest, line)])
            if then:
                self._manifest = self._manifest.changed(then)
            return sequence

    def checkpoint(
        self, *, state: Mapping[str, Json] | None = None, messages: Iterable[Json] = ()
    ) -> SessionManifest:
        """Write the manifest alone: a changed state, or, without arguments, a sign of life.

        Raises:
            BadRecord: an original would not take it; nothing was written and the session stays open.
            TooLarge: no original would read a manifest of this size; likewise.
            LeaseLost: another writer took the run over; nothing was written.
            JournalClosed: the session was closed.
            WriteFailed: it is not known to be on disk; the session is closed.
        """
        with self._one_at_a_time:
            _require_mappings(state=state)
            self._save(self._manifest.changed(state or {}, add={"messages": messages}).timed(self._clock()))
            return self._manifest

    def write(self, pairs: Iterable[Pair]) -> None:
        """Write prepared events in order: of each the manifest, then the line."""
        with self._one_at_a_time:
            for manifest, line in pairs:
                self._save(manifest)
                self._guarded(self._writer.append, line)

    def prepare_workspace(self, *, seconds: float = SECONDS) -> Path:
        """Clone the repository of the task at its commit, say so, and let the clock of the run begin.

        Raises:
            Refused: git cannot do it; the session stays open.
            StoreError: it cannot be written.
        """
        base = str(self._manifest["base_sha"])
        clone(Path(self._request().repository), base, self.workspace, seconds=seconds)
        self.emit(
            "workspace.prepared", {"workspace": "workspace", "base_sha": base}, state={"phase": "running"}
        )
        return self.workspace

    def seconds_left(self) -> float:
        """Give how much of its time the run has left.

        Raises:
            StoreError: `request.json` cannot be read.
        """
        left = seconds_left(
            read_manifest(self._manifest.encode()), self._request(), self._clock().timestamp()
        )
        return 0.0 if left is None else left

    def finish(
        self,
        status: Literal["completed", "failed", "cancelled"],
        *,
        reason: str,
        summary: str = "",
        changed_files: Iterable[str] = (),
        error: str = "",
    ) -> None:
        """End the run: the last manifest and event, `verification.json`, `result.json`; then close it.

        Args:
            status: How it ended.
            reason: Why: verified, no_changes, user_cancelled, max_steps_exceeded and the like.
            summary: What the agent says of its work.
            changed_files: Which files it changed.
            error: What went wrong; only of a run that failed.

        Raises:
            BadRecord: an original would not take it; nothing was written and the session stays open.
            StoreError: it cannot be written; the session is closed.
        """
        if error and status != "failed":
            raise BadRecord(
                f"error: a run that {status} has none; only one that failed (reason and summary say it)"
            )
        if isinstance(changed_files, str):
            raise BadRecord("changed_files: one text, not several paths")
        with self._one_at_a_time:
            files: list[Json] = [*changed_files]
            canonical([reason, error])
            self.emit(
                f"run.{status}",
                {"terminal_reason": reason, "changed_files": files},
                state={"phase": status, "final_summary": summary, "pending_action": None},
            )
            try:
                checks = self._manifest["verification"]
                if checks:
                    replace_atomically(self.directory / "verification.json", canonical(checks))
                result = self._result(status, reason, files, error)
                replace_atomically(self.directory / "result.json", canonical(result))
            finally:
                self.close()

    def close(self) -> None:
        """Give the run up, after a write that is under way; once is enough."""
        with self._one_at_a_time:
            self._writer.close()
            self._lease.release()

    def _save(self, manifest: SessionManifest) -> None:
        if self.closed:
            raise JournalClosed(f"{shown(self.directory)}: the run was closed", remedy="claim it again")
        self._guarded(self._writer.require)
        self._manifest = self._guarded(self._lease.save, manifest)

    def _guarded(self, call: Callable[_P, _T], *arguments: _P.args, **options: _P.kwargs) -> _T:
        """Call what writes, and close the session where that fails half way."""
        try:
            return call(*arguments, **options)
        except (BadRecord, TooLarge):
            raise
        except BaseException:
            self.close()
            raise

    def _request(self) -> Request:
        path = self.directory / "request.json"
        fd = open_regular(path)
        try:
            return read_request(read_range(fd, 0, SIDE_LIMIT, path))
        finally:
            os.close(fd)

    def _result(self, status: str, reason: str, files: list[Json], error: str) -> dict[str, Json]:
        manifest = self._manifest
        used = manifest["usage"]
        usage: dict[str, Json] = dict(used) if isinstance(used, dict) else {}
        artifacts: dict[str, Json] = {
            key: shown(self.directory / name)
            for key, name in _ARTIFACTS.items()
            if (self.directory / name).is_file()
        }
        return {
            "run_id": manifest.run_id,
            "task_id": manifest.task_id,
            "status": status,
            "summary": manifest["final_summary"],
            "changed_files": files,
            "verification": manifest["verification"],
            "usage": {**usage, "total_tokens": tokens_of(usage).total},
            "model_usage": manifest.get("model_usage", []),
            "cost": None,
            "terminal_reason": reason,
            "error": error[:16_000] or None,
            "artifacts": {**artifacts, "result": shown(self.directory / "result.json")},
        }


def _require_mappings(**given: object) -> None:
    """Refuse what is no object before anything of it is written."""
    for name, value in given.items():
        if value is not None and not isinstance(value, Mapping):
            raise BadRecord(f"{name}: a {type(value).__name__}, not a mapping")
