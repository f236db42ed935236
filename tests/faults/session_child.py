"""Children to be killed while they write a run directory, each a fork of this process.

    session_child.py [SCENE DIRECTORY]

With arguments it plays one scene, to be watched by a tracer. Without, each line of standard input is a JSON
list `[SCENE, DIRECTORY, CALL, NUMBER]`: a child kills itself before the call of that name and number on a
file of the directory; number 0 only counts. It says `ack N` once event N was acknowledged.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from refold.core.records import Decision, Json
from refold.core.rivumi import verdict  # noqa: F401 - loaded once, before the forks
from refold.core.rivumi.items import message, observation
from refold.core.rivumi.task import Check, Task
from refold.core.store.session import SessionStore
from refold.core.store.session_run import Session

RUN = "run"
BASE = "2731567c6f326d1a315b591b3d48465cbe72235a"
HEX = "0123456789abcdef"
DECISIONS = {"c1": Decision("done", "looked: it is written")}


def task(directory: Path) -> Task:
    """Give the task of every scene."""
    return Task(
        repository=str(directory / "repository"),
        instruction="Fix it.",
        base_sha=BASE,
        checks=(Check("t", ("true",)),),
    )


def begin(directory: Path) -> Session:
    """Begin the run of every scene."""
    return SessionStore(directory).create(
        task(directory), provider="p", model="m", protocol="scripted", run_id=RUN
    )


def started(session: Session) -> None:
    """Bring a run to the point where a call may have changed something."""
    calls: list[dict[str, Json]] = [{"tool_call_id": "c1", "name": "write", "arguments": {}}]
    session.emit("workspace.prepared", state={"phase": "running"})
    session.emit("model.requested", {"step": 1}, state={"step": 1})
    session.emit("model.completed", {"step": 1}, messages=[message("assistant", None, calls)])
    session.emit("tool.requested", {"tool_call_id": "c1", "name": "write", "effect": "modify"})
    session.emit("tool.started", {"tool_call_id": "c1", "name": "write", "effect": "modify"})


def play(scene: str, directory: Path, say: Callable[[str], None]) -> None:
    """Play a scene."""
    store = SessionStore(directory)
    if scene == "create":
        with begin(directory) as session:
            say("ack 0")
            say(f"ack {session.emit('model.requested', {'step': 1}, state={'step': 1})}")
        return
    with store.claim_and_validate_resume(RUN, decisions=DECISIONS if scene == "decide" else {}) as session:
        say(f"ack {session.last_sequence}")
        if scene == "turn":
            started(session)
            say(f"ack {session.last_sequence}")
            ended: dict[str, Json] = {"tool_call_id": "c1", "name": "write", "ok": True, "error": None}
            say(f"ack {session.emit('tool.completed', ended, messages=[observation('c1', 'write', 'x')])}")
        elif scene == "finish":
            session.finish("completed", reason="verified", summary="Done.")
            say(f"ack {session.last_sequence}")
        else:
            say(f"ack {session.emit('hook.completed', {'n': 1}, messages=[message('user', 'x' * 99)])}")


class Death:
    """Counts the calls of one name on files below a directory, and kills this process before one of them."""

    def __init__(self, name: str, number: int, directory: Path) -> None:
        self.count = 0
        self._number = number
        self._directory = directory
        self._real: Callable[..., Any] = getattr(os, name)
        setattr(os, name, self)

    def __call__(self, target: Any, *arguments: Any, **options: Any) -> Any:
        ours = (
            Path("/dev/fd", str(target)).resolve() if isinstance(target, int) else Path(os.fsdecode(target))
        )
        if self._directory in (ours, *ours.parents):
            self.count += 1
            if self.count == self._number:
                os.kill(os.getpid(), signal.SIGKILL)
        return self._real(target, *arguments, **options)


def child(scene: str, directory: Path, name: str, number: int, out: int) -> None:
    """Play a scene and say on a pipe what was acknowledged, each line before anything else happens."""
    write = os.write

    def say(text: str) -> None:
        write(out, text.encode() + b"\n")

    death = Death(name, number, directory)
    play(scene, directory, say)
    say(f"count {death.count}")


def serve() -> None:
    """Serve until standard input ends."""
    for line in sys.stdin:
        scene, directory, name, number = json.loads(line)
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                child(scene, Path(directory), name, number, writing)
            except BaseException as error:
                os.write(writing, f"failed {error!r}\n".encode())
                os._exit(1)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read().decode()
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        sys.stdout.write(json.dumps({"status": status, "said": said}) + "\n")
        sys.stdout.flush()


def traced(scene: str, directory: Path) -> None:
    """Play one scene; names that are random otherwise are always the same, for the tracer to know them."""
    os.urandom = lambda size: (bytes.fromhex(HEX) * size)[:size]

    def say(text: str) -> None:
        os.write(1, text.encode() + b"\n")

    play(scene, directory, say)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        traced(sys.argv[1], Path(sys.argv[2]))
    else:
        serve()
