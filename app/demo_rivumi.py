"""The runs and the conversation of Rivumi in the demo: written as its own programs write them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from refold.app.demo_story import age
from refold.core.errors import Refused
from refold.core.records import Json
from refold.core.rivumi.items import message, observation, usage
from refold.core.rivumi.task import Check, Task
from refold.core.store.files import create_private, private_directory, write_all
from refold.core.store.session import SessionStore
from refold.core.store.session_run import Session

CRASHED: Final = "7f3c2a9e4b1d4c0fa6e85d2b90c1e374"
WAITING: Final = "c81f0e5d27a94b63b0d9f4e6a1527b8d"
CONVERSATION: Final = "5e0b7c1d9a2f4386b4c7d8e9f0a1b2c3"
_CALC: Final = "def add(a, b):\n    return a - b\n"
_TEST: Final = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
_SURROUNDINGS: Final = (
    "env", "-u", "GIT_DIR", "-u", "GIT_WORK_TREE", "-u", "GIT_INDEX_FILE",
    "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
    "GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z",
)  # fmt: skip
"""The repository is the same on every machine, and none of the user's."""
_COMMIT: Final = "0" * 40


def make(runs: Path, conversations: Path, work: Path, now: datetime) -> None:
    """Write a run that died in an edit, one that waits for an answer, and a conversation."""
    commit = _repository(work)
    _crashed(runs, work, commit, now - timedelta(hours=3, minutes=12))
    _waiting(runs, work, commit, now - timedelta(hours=22))
    _conversation(conversations, now - timedelta(hours=5))


class _Clock:
    """A clock that moves when told to."""

    def __init__(self, began: datetime) -> None:
        self.now = began

    def __call__(self) -> datetime:
        return self.now

    def after(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class _Story:
    """One run being written."""

    def __init__(self, runs: Path, run_id: str, task: Task, began: datetime, *, model: str = "gpt-5") -> None:
        self.clock = _Clock(began)
        store = SessionStore(runs, clock=self.clock)
        self.run: Session = store.create(
            task,
            provider="openai-compatible",
            model=model,
            protocol="openai_chat",
            prompt_version="m3-exact-edit-v4",
            run_id=run_id,
        )
        self._step = self._given = self._made = 0
        self.clock.after(0.4)
        # Where there is no git the run has no workspace, and says so itself.
        with contextlib.suppress(Refused):
            self.run.prepare_workspace()
        self.run.checkpoint(
            state={"phase": "running"}, messages=[message("user", f"Task: {task.instruction}")]
        )

    def turn(self, text: str, name: str, effect: str, arguments: dict[str, Json]) -> str:
        """Write a turn of the model with one call, up to the question whether it may run; give its id."""
        self._step += 1
        call = f"call_{self._step}"
        self.run.emit("model.requested", {"step": self._step}, state={"step": self._step})
        self.clock.after(3.4)
        asked: dict[str, Json] = {"tool_call_id": call, "name": name, "arguments": arguments}
        given, made = 900 + 140 * self._step, 42 + len(text) // 3
        self._given, self._made = self._given + given, self._made + made
        self.run.emit(
            "model.completed",
            {
                "step": self._step,
                "finish_reason": "tool_calls",
                "tool_calls": [name],
                "content": text,
                "usage": {**usage(given=given, made=made), "total_tokens": given + made},
            },
            state={"usage": usage(given=self._given, made=self._made)},
            messages=[message("assistant", text or None, [asked])],
        )
        self.run.emit(
            "tool.requested", {"tool_call_id": call, "name": name, "effect": effect, "arguments": arguments}
        )
        request: dict[str, Json] = {
            "request_id": f"{self._step:032x}",
            "action_id": call,
            "effect": effect,
            "reason": "model_tool",
            "policy_reason": "",
            "preview": json.dumps(arguments, indent=2),
        }
        pending: dict[str, Json] = {
            **request,
            "run_id": self.run.run_id,
            "tool_call": asked,
            "command": None,
        }
        waits: dict[str, Json] = {"phase": "waiting_approval", "pending_action": pending}
        self.run.emit("approval.requested", request, state=waits)
        return call

    def start(self, call: str, name: str, effect: str, *, seconds: float = 1.2) -> None:
        """Allow the call and start it."""
        self.clock.after(seconds)
        decided: dict[str, Json] = {
            "request_id": f"{self._step:032x}",
            "action_id": call,
            "effect": effect,
            "reason": "model_tool",
            "policy_reason": "",
            "decision": "allow_once",
        }
        self.run.emit("approval.resolved", decided, state={"phase": "running"})
        started: dict[str, Json] = {"tool_call_id": call, "name": name, "effect": effect}
        self.run.emit("tool.started", started, then={"pending_action": None})

    def end(self, call: str, name: str, text: str, *, error: str | None = None, seconds: float = 0.2) -> None:
        """Write what came of the call."""
        self.clock.after(seconds)
        self.run.emit(
            "tool.completed",
            {"tool_call_id": call, "name": name, "ok": error is None, "error": error, "preview": text},
            messages=[observation(call, name, text, error=error)],
        )

    def close(self) -> None:
        """Let go of the run, and let its files be as old as its last event."""
        self.run.close()
        for path in self.run.directory.iterdir():
            if path.is_file():
                age(path, self.clock.now)
        age(self.run.directory, self.clock.now)


def _task(work: Path, commit: str, instruction: str) -> Task:
    checks = (Check("tests", ("python", "-m", "pytest", "-q")),)
    return Task(repository=str(work), base_sha=commit, instruction=instruction, checks=checks)


def _crashed(runs: Path, work: Path, commit: str, began: datetime) -> None:
    story = _Story(runs, CRASHED, _task(work, commit, "Fix add() so that the test passes."), began)
    read: dict[str, Json] = {"path": "calc.py"}
    call = story.turn("I read calc.py first.", "read_file", "read", read)
    story.start(call, "read_file", "read")
    story.end(call, "read_file", _CALC)
    change: dict[str, Json] = {"path": "calc.py", "old_text": "a - b", "new_text": "a + b"}
    call = story.turn("It subtracts. I change the sign.", "replace_text", "modify", change)
    story.start(call, "replace_text", "modify")
    story.close()


def _waiting(runs: Path, work: Path, commit: str, began: datetime) -> None:
    task = _task(work, commit, "Add a test for negative numbers to test_calc.py.")
    story = _Story(runs, WAITING, task, began, model="qwen3:4b")
    call = story.turn("Let me look.", "list_files", "read", {"path": "."})
    story.start(call, "list_files", "read")
    story.end(call, "list_files", "calc.py\ntest_calc.py")
    read: dict[str, Json] = {"path": "tests/test_calc.py"}
    call = story.turn("I read the test.", "read_file", "read", read)
    story.start(call, "read_file", "read")
    story.end(call, "read_file", "", error="no such file: tests/test_calc.py")
    patch: dict[str, Json] = {
        "path": "test_calc.py",
        "old_text": "",
        "new_text": "assert add(-1, -2) == -3\n",
    }
    story.turn("Then I add the line at the top level.", "replace_text", "modify", patch)
    story.close()


def _conversation(root: Path, began: datetime) -> None:
    turns = (
        (
            "What does calc.py do, and why does its test fail?",
            "It subtracts where it should add: line 2.",
            "",
        ),
        ("Fix it and run the tests.", "", "429 from upstream"),
        ("Try again.", "Done: one line changed, both tests pass.", ""),
    )
    clock = _Clock(began)
    events: list[dict[str, Json]] = []

    def add(kind: str, **members: Json) -> None:
        events.append(
            {
                "schema_version": 1,
                "conversation_id": CONVERSATION,
                "sequence": len(events),
                "event_id": f"{len(events) + 1:032x}",
                "event_type": kind,
                **members,
                "created_at": clock.now.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            }
        )
        clock.after(2.5)

    add("conversation.created")
    for number, (prompt, reply, error) in enumerate(turns, 1):
        turn = f"{number:032x}"
        add("user.message", turn_id=turn, text=prompt)
        if error:
            add("turn.failed", turn_id=turn, error=error)
            continue
        add("assistant.chunk", turn_id=turn, text=reply)
        add("turn.completed", turn_id=turn)
    manifest: dict[str, Json] = {
        "schema_version": 1,
        "conversation_id": CONVERSATION,
        "runtime": "rivumi-agent",
        "model_override": None,
        "title": "Why calc.py fails",
        "created_at": events[0]["created_at"],
        "updated_at": events[-1]["created_at"],
        "last_event_sequence": len(events) - 1,
        "turn_count": sum(not error for _, _, error in turns),
        "active_turn_id": None,
        "active_writer_token": None,
    }
    directory = root / CONVERSATION
    private_directory(directory)
    lines = [json.dumps(event, ensure_ascii=False, separators=(",", ":")) + "\n" for event in events]
    claims = json.dumps(manifest, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    for name, text in (("events.jsonl", "".join(lines)), ("conversation.json", claims), (".writer.lock", "")):
        fd = create_private(directory / name)
        write_all(fd, text.encode())
        os.close(fd)
        age(directory / name, clock.now)


def _repository(work: Path) -> str:
    """Make the repository that the runs work on, and give its commit; zeros where there is no git."""
    private_directory(work)
    (work / "calc.py").write_text(_CALC)
    (work / "test_calc.py").write_text(
        "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
    )
    name = ("-c", "user.name=demo", "-c", "user.email=demo@localhost", "-c", "commit.gpgsign=false")
    git, said = shutil.which("git"), ""
    if git is None:
        return _COMMIT
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "Begin"), ("rev-parse", "HEAD")):
        try:
            done = subprocess.run(
                (*_SURROUNDINGS, git, *name, *arguments), cwd=work, capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return _COMMIT
        said = done.stdout.strip()
    return said
