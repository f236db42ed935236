"""What the tests of the session writer write: a task, a clock, one turn of an agent."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from tests.rivumi_cases import BASE, workspace

from refold.core.records import Json
from refold.core.rivumi.items import approval_request, message, observation, usage
from refold.core.rivumi.task import Check, Task
from refold.core.store.session import SessionStore
from refold.core.store.session_run import Session

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FIRST = {
    "schema_version", "run_id", "task_id", "provider_name", "model_id", "protocol", "prompt_version",
    "base_sha", "phase", "step", "messages", "usage", "final_summary", "last_action_fingerprint",
    "repeat_count", "last_event_sequence", "verification", "pending_action", "approval_history",
    "granted_effects", "active_wall_time_seconds", "active_started_at", "terminal", "active_writer_token",
    "writer_claimed_at", "writer_heartbeat_at", "updated_at",
}  # fmt: skip
"""The 27 keys of the first generation, as the format document lists them."""


def task(repository: Path) -> Task:
    return Task(
        repository=str(repository), instruction="Fix add().", base_sha=BASE, checks=(Check("t", ("true",)),)
    )


def store(directory: Path) -> SessionStore:
    """A store whose clock goes on by a second each time it is asked."""
    ticks = count()
    return SessionStore(directory / "runs", clock=lambda: START + timedelta(seconds=next(ticks)))


def begin(at: SessionStore, run_id: str = "run") -> Session:
    """Begin a run, with a workspace laid out as git would."""
    session = at.create(
        task(at.root.parent / "repository"), provider="p", model="m", protocol="scripted", run_id=run_id
    )
    workspace(session.directory)
    session.emit("workspace.prepared", {"workspace": "workspace"}, state={"phase": "running"})
    return session


def ask(session: Session, call: str = "c1", effect: str = "modify", name: str = "write") -> None:
    """One turn of the model, which asks for a call."""
    step = session.manifest.step + 1
    session.emit("model.requested", {"step": step}, state={"step": step})
    session.emit(
        "model.completed",
        {"step": step, "usage": usage(given=10, made=2)},
        messages=[message("assistant", None, [{"tool_call_id": call, "name": name, "arguments": {"a": 1}}])],
        state={"usage": usage(given=10 * step, made=2 * step)},
    )
    session.emit(
        "tool.requested", {"tool_call_id": call, "name": name, "effect": effect, "arguments": {"a": 1}}
    )


def start(session: Session, call: str = "c1", effect: str = "modify", name: str = "write") -> None:
    session.emit("tool.started", {"tool_call_id": call, "name": name, "effect": effect})


def end(session: Session, call: str = "c1", name: str = "write", content: str = "written") -> None:
    session.emit(
        "tool.completed",
        {"tool_call_id": call, "name": name, "ok": True, "error": None, "preview": content},
        messages=[observation(call, name, content)],
    )


def approval(session: Session, call: str = "c1") -> dict[str, Json]:
    """The question whether a call may run."""
    asked: dict[str, Json] = {"tool_call_id": call, "name": "write", "arguments": {"a": 1}}
    return approval_request(session.run_id, "modify", call=asked, shown="{}")


def wait(session: Session, call: str = "c1") -> None:
    """Ask whether a call may run."""
    request = approval(session, call)
    said = {name: request[name] for name in ("request_id", "action_id", "effect", "reason")}
    waiting: dict[str, Json] = {"phase": "waiting_approval", "pending_action": request}
    session.emit("approval.requested", said, state=waiting)


def manifest_of(run: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((run / "session.json").read_bytes())
    return value


def events_of(run: Path) -> list[dict[str, Any]]:
    data = (run / "events.jsonl").read_bytes()
    assert data.endswith(b"\n") or not data
    return [json.loads(line) for line in data.split(b"\n")[:-1]]


def kinds_of(run: Path) -> list[str]:
    return [event["event_type"] for event in events_of(run)]


class Failing:
    """Lets one call of the system fail, after so many that do not; half of a write may go through first."""

    def __init__(self, name: str, number: int, code: int, *, short: bool = False) -> None:
        self.real: Callable[..., Any] = getattr(os, name)
        self.left = number
        self.code = code
        self.short = short
        self.failed = False

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            self.failed = True
            if self.short:
                self.real(arguments[0], arguments[1][: len(arguments[1]) // 2])
            raise OSError(self.code, os.strerror(self.code))
        return self.real(*arguments, **options)
