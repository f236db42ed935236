"""All that Refold writes, as scenes: how one begins, what a child does in it, what must be true afterwards.

`prepare` makes what is there before and gives what checks it; `check` gets what the child said, and is to
hold however the child ended. It also does what was to be done once more, or goes on with what is there.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.faults import agent_child, forker, scene_agent, scene_own, scene_trash, session_child, writer
from tests.faults.scene_directories import ConversationForked, LogRepaired, SessionForked
from tests.faults.scene_fork import SCENARIOS
from tests.faults.scene_fork import Scene as ForkScene
from tests.faults.scene_journal import Scene as JournalScene
from tests.faults.scene_session import Scene as SessionScene

from refold.core.store.journal import JournalStore

Say = Callable[[str], None]
_IN_STATE = "state/refold/notes"


class Prepared(Protocol):
    """What was made for a child, and what must be true of it afterwards."""

    def check(self, said: str) -> object:
        """Look at what is there and go on with it; raises where something is lost or half made."""
        ...


@dataclass(frozen=True)
class Scene:
    """One thing that Refold writes."""

    prepare: Callable[[Path], Prepared]
    play: Callable[[Path, Say], None]
    makes: bool = True
    """False for what is only ever a faster way to the same answer: a failure of it is not told."""


class _Going:
    """Checks a run directory and goes on with it."""

    def __init__(self, directory: Path, scene: str) -> None:
        self._scene = SessionScene(directory, scene)

    def check(self, said: str) -> None:
        if self._scene.check(said) is not None:
            self._scene.go_on()


class _Agent:
    """Checks what an agent did, and lets it go on."""

    def __init__(self, directory: Path, scene: str) -> None:
        self._scene, self._directory = scene, directory
        scene_agent.prepare(scene, directory)

    def check(self, said: str) -> None:
        scene_agent.check(self._scene, self._directory, said.split("\n"))


def _journal(scenario: str, end: str) -> Scene:
    def play(directory: Path, _say: Say) -> None:
        acts = {"create": writer.create, "resume": writer.resume}
        acts[scenario](JournalStore(directory / "runs"))

    return Scene(lambda directory: JournalScene(_made(directory), scenario, end), play)


def _fork(scenario: str) -> Scene:
    return Scene(
        lambda directory: ForkScene(_made(directory), scenario),
        lambda directory, _say: forker.main(scenario, directory),
    )


def _session(scenario: str) -> Scene:
    def play(directory: Path, say: Say) -> None:
        session_child.play(scenario, directory, say)

    return Scene(lambda directory: _Going(_made(directory), scenario), play)


def _agent(scenario: str) -> Scene:
    def play(directory: Path, say: Say) -> None:
        import asyncio

        asyncio.run(agent_child.play(scenario, directory, agent_child.Deaths("", 0), say))

    return Scene(lambda directory: _Agent(directory, scenario), play)


def _command(scenario: str, *words: str) -> Scene:
    """The program itself, as a user calls it."""

    def play(directory: Path, say: Say) -> None:
        code, told = refold(directory, *words, "--only", "--root", str(directory / "runs"))
        durable, noted = "not be synced" not in told, "could not be noted" not in told
        say(f"made {durable} {noted}" if code == 0 else f"failed {code} {told}")

    return Scene(lambda directory: ForkScene(_made(directory), scenario, _IN_STATE), play)


def refold(directory: Path, *words: str) -> tuple[int, str]:
    """Run the program in this process with its own directories below one; gives its code and what it said."""
    code, _, told = answered(directory, *words)
    return code, told


def answered(directory: Path, *words: str) -> tuple[int, str, str]:
    """Do the same and give its output as well."""
    from refold.app.cli import main

    for name in ("STATE", "CACHE", "CONFIG"):
        os.environ[f"XDG_{name}_HOME"] = str(directory / name.lower())
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    return code, out.getvalue(), err.getvalue()


def _own(kind: type[Any], *arguments: Any, makes: bool = True) -> Scene:
    """Make a scene of a class that has both sides of it: `kind(directory)` and `kind.play(...)`."""
    return Scene(
        lambda directory: kind(_made(directory), *arguments),
        lambda directory, say: kind.play(directory, say, *arguments),
        makes,
    )


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory


SCENES: dict[str, Scene] = {
    "journal new": _journal("create", "clean"),
    "journal torn": _journal("resume", "torn"),
    "journal unended": _journal("resume", "unended"),
    **{scenario: _fork(scenario) for scenario in SCENARIOS},
    **{f"session {name}": _session(name) for name in ("create", "commit", "turn", "decide", "finish")},
    "session fork": _own(SessionForked),
    "session repair": _own(LogRepaired, "repair"),
    "session undo": _own(LogRepaired, "undo"),
    "conversation fork": _own(ConversationForked),
    **{f"agent {name}": _agent(name) for name in agent_child.BATCHES},
    "trash": _own(scene_trash.Trashed),
    "restore": _own(scene_trash.Restored),
    "delete": _own(scene_trash.Deleted),
    "notes": _own(scene_own.Noted),
    "index cache": _own(scene_own.Indexed, makes=False),
    "list cache": _own(scene_own.Listed, makes=False),
    "seen before": _own(scene_own.Seen, makes=False),
    "search index": _own(scene_own.SearchIndexed, makes=False),
    "export new": _own(scene_own.Exported, "md", ""),
    "export over another": _own(scene_own.Exported, "json", "an older export"),
    "bundle": _own(scene_own.Exported, "bundle", "an older bundle"),
    "refold fork": _command("fork", "fork", "parent", "--at", str(forker.AT + 1), "--name", "child"),
    "refold salvage": _command("salvage", "salvage", "parent", "--name", "child"),
    "refold repair": _command("repair", "repair", "parent"),
    "refold undo": _command("undo", "repair", "parent", "--undo"),
    "refold ls": _own(scene_own.LsCached, makes=False),
    "refold export": _own(scene_own.CommandExported),
}
"""By name. A scene makes all of its directory."""
