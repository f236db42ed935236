"""Children to be killed: each drives an agent through one scene, in a fork of this process.

Standard input: one JSON list a line, `[SCENE, DIRECTORY, CALL, NUMBER]`. The child kills itself before the
call of that name and number (on a file of the runs), or in the middle of `tool` or `model`; number 0
only counts. Standard output: one JSON object a line, with the exit status and what the child said.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from refold.core.agent import Agent, Tool, Turn, Usage
from refold.core.control import Control
from refold.core.records import Decision, Json
from refold.core.resume import ResumeRequest
from refold.core.runner import Outcome, Progress, Runner
from refold.core.store.journal import JournalStore
from refold.core.store.resume import open_to_resume

RUN_ID = "run"
BATCHES: dict[str, list[list[str]]] = {
    "new": [["write"]],
    "turn": [],
    "batch": [["read", "read", "read"], ["write"]],
    "suspend": [["read", "write"], ["write"]],
    "resume": [["write"], ["read"]],
    "decision": [["write", "write", "write"]],
}
"""What the model calls in each of its turns, by scene."""


class Deaths:
    """Counts calls by name and kills this process before one of them."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.count = 0

    def reach(self, name: str) -> None:
        """Pass a place where the process may have to die."""
        if name == self.name:
            self.count += 1
            if self.count == self.number:
                os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, directory: Path) -> None:
        """Count the system calls of this name on files below a directory."""
        if hasattr(os, self.name):
            setattr(os, self.name, self._counted(getattr(os, self.name), directory))

    def _counted(self, real: Callable[..., Any], directory: Path) -> Callable[..., Any]:
        def call(target: Any, *arguments: Any, **options: Any) -> Any:
            path = (
                Path("/dev/fd", str(target)).resolve()
                if isinstance(target, int)
                else Path(os.fsdecode(target))
            )
            if directory in (path, *path.parents):
                self.reach(self.name)
            return real(target, *arguments, **options)

        return call


def happened(directory: Path, text: str) -> None:
    """Note something for good: a child that is killed next has done it all the same."""
    fd = os.open(directory / "world", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, text.encode() + b"\n")
    os.close(fd)


def make(scene: str, directory: Path, deaths: Deaths) -> Agent:
    """Give the agent of a scene; what it does to the world is noted beside the runs."""
    batches = BATCHES[scene]

    def tool(effect: Any) -> Tool:
        async def run(name: str) -> str:
            happened(directory, f"ran {name}")
            deaths.reach("tool")
            await asyncio.sleep(0)
            return f"did {name}"

        return Tool(effect, "", {"required": ["name"]}, effect, run)

    async def model(messages: Sequence[Mapping[str, Json]], tools: Sequence[Tool]) -> Turn:
        turn = sum(message["role"] == "assistant" for message in messages)
        happened(directory, f"asked {turn}")
        deaths.reach("model")
        calls: list[Json] = [
            {"type": "tool_use", "id": f"{turn}-{n}", "name": name, "input": {"name": f"{turn}-{n}"}}
            for n, name in enumerate(batches[turn] if turn < len(batches) else [])
        ]
        return Turn([{"type": "text", "text": f"turn {turn}"}, *calls], "", Usage(10, 1))

    return Agent("scripted", "script-1", scene, (tool("read"), tool("write")), model)


async def play(scene: str, directory: Path, deaths: Deaths, say: Callable[[str], None]) -> Outcome:
    """Play a scene to its end."""
    store = JournalStore(directory / "runs")
    agent = make(scene, directory, deaths)
    control = Control()

    def watch(progress: Progress) -> None:
        if progress.seq:
            say(f"ack {progress.seq}")
        if scene == "suspend" and progress.kind == "turn":
            control.stop()

    if scene in ("new", "batch", "suspend"):
        with store.create(RUN_ID, agent.opening("go")) as journal:
            say("ack 1")
            return await Runner(agent, journal, control=control, watch=watch).run("go")
    decisions = {
        "0-0": Decision("rerun"),
        "0-1": Decision("failed"),
        "0-2": Decision("done", "it was done by hand"),
    }
    request = ResumeRequest(decisions=decisions if scene == "decision" else {})
    with open_to_resume(store, RUN_ID, agent, request=request) as opened:
        say(f"ack {opened.plan.last_seq}")
        runner = Runner(agent, opened.journal, control=control, watch=watch)
        return await runner.go_on(opened.records(), opened.plan)


def child(scene: str, directory: Path, name: str, number: int, out: int) -> None:
    """Play a scene and say on a pipe what was acknowledged, each line before anything else happens."""

    def say(text: str) -> None:
        write(out, text.encode() + b"\n")

    write = os.write
    deaths = Deaths(name, number)
    deaths.watch(directory / "runs")
    outcome = asyncio.run(play(scene, directory, deaths, say))
    say(f"ended {outcome.reason}")
    say(f"count {deaths.count}")


def main() -> None:
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


if __name__ == "__main__":
    main()
