"""Forks of run directories and of conversations: there whole under their names, or not at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.conversation_story import CHAT, chat
from tests.rivumi_cases import DATA, edit, make
from tests.session_story import begin, store

from refold.core.errors import RunExists
from refold.core.rivumi.verdict import verdict
from refold.core.store import repair
from refold.core.store.conversations import (
    carry_out_fork,
    list_conversations,
    load_conversation,
    plan_fork_before,
)
from refold.core.store.notes import NotesStore
from refold.core.store.reader import RunReader
from refold.core.store.roots import Root
from refold.core.store.session_files import read_run
from refold.core.store.session_fork import carry_out_session, plan_session_at

CASE, AT = "04-tail-tool-started", 14


def picture(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Give the bytes and times of every file below a directory."""
    files = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


class SessionForked:
    """A run directory that is forked."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.root = directory / "runs"
        repository = directory / "repository"
        bundle = str(DATA / "source-repo.bundle")
        subprocess.run(["git", "clone", "-q", bundle, str(repository)], check=True, capture_output=True)
        run = make(CASE, self.root)
        edit(run / "request.json", lambda value: value.update(repository=str(repository)))
        self._before = picture(run)

    @staticmethod
    def play(directory: Path, say: object) -> None:
        """Make the fork."""
        plan = plan_session_at(directory / "runs" / CASE, AT, child="child")
        made = carry_out_session(plan, notes=NotesStore(directory / "notes"))
        assert callable(say)
        say(f"made {made.durable} {made.noted}")

    def check(self, said: str) -> None:
        """Check that there is a whole fork or none, and make one."""
        assert picture(self.root / CASE) == self._before
        child = self.root / "child"
        assert child.exists() or "\nmade " not in f"\n{said}"
        if child.exists():
            self._check_child(child)
        moment = time.time() - 60
        for left in self.root.iterdir():
            assert left.name in {CASE, "child"} or left.name.startswith(".fork-")
            os.utime(left, (moment, moment))
        plan = plan_session_at(self.root / CASE, AT, child="other")
        carry_out_session(plan).path.relative_to(self.root)
        shutil.rmtree(self.root / "other")
        assert {left.name for left in self.root.iterdir()} <= {CASE, "child"}

    def _check_child(self, child: Path) -> None:
        found = verdict(read_run(child))
        assert found.original.code == "ok", found.original.code
        assert (child / "workspace" / ".git").is_dir()
        try:
            carry_out_session(plan_session_at(self.root / CASE, AT, child="child"))
        except RunExists:
            return
        raise AssertionError("a fork was made over another")


class ConversationForked:
    """A conversation that is forked before its second turn."""

    TURNS = (("One", "First.", "completed"), ("Two", "Second.", "completed"))

    def __init__(self, directory: Path) -> None:
        self._root = directory / "conversations"
        self._path = chat(self._root, *self.TURNS)
        self._before = picture(self._path)

    @staticmethod
    def play(directory: Path, say: object) -> None:
        """Make the fork."""
        path = directory / "conversations" / CHAT
        found = load_conversation(path)
        assert callable(say)
        if found.refusal:
            say(f"failed {path}: {found.refusal}")
            return
        plan = plan_fork_before(path, found.turns[1])
        carry_out_fork(path, plan)
        say("made")

    def check(self, said: str) -> None:
        """Check that there is a whole fork or none, and make one."""
        assert picture(self._path) == self._before
        known = [one for one in list_conversations([Root(self._root, "rivumi", "test")]) if one is not None]
        forks = [Path(one.path) for one in known if Path(one.path) != self._path]
        assert len(forks) == 1 or "\nmade" not in f"\n{said}"
        for fork in forks:
            self._check_fork(fork)
        plan = plan_fork_before(self._path, load_conversation(self._path).turns[1])
        self._check_fork(carry_out_fork(self._path, plan))

    @staticmethod
    def _check_fork(path: Path) -> None:
        found = load_conversation(path)
        assert not found.refusal, found.refusal
        assert [turn.prompt for turn in found.turns] == ["One"]


class LogRepaired:
    """A run directory whose log ends in a torn event, which is cut off, or was and is put back."""

    TORN = b'{"created_at":"2026-'

    def __init__(self, directory: Path, act: str) -> None:
        self._directory, self._act = directory, act
        with begin(store(directory)) as session:
            session.emit("model.requested", {"step": 1}, state={"step": 1})
        self._run = directory / "runs" / "run"
        self._log = self._run / "events.jsonl"
        self._whole = self._log.read_bytes()
        self._log.write_bytes(self._whole + self.TORN)
        if act == "undo":
            self.play(directory, lambda _text: None, "repair")

    @staticmethod
    def play(directory: Path, say: Callable[[str], None], act: str) -> None:
        """Repair the log, or take that back."""
        run, notes = directory / "runs" / "run", NotesStore(directory / "notes")
        if act == "undo":
            say(f"made {repair.undo(run, notes=notes).torn_bytes}")
            return
        with RunReader.open(run) as reader:
            plan = repair.plan_for(reader)
            assert plan is not None
            say(f"made {repair.repair(plan, reader.format.name, notes=notes)}")

    def check(self, said: str) -> None:
        """Check that no byte is lost, and repair what is not repaired."""
        now, torn = self._log.read_bytes(), self._whole + self.TORN
        assert now.startswith(self._whole)
        if now != torn:
            assert self.TORN in self._side_files()
        if "made" in said:
            assert now == (torn if self._act == "undo" else self._whole)
        if now != self._whole:
            self.play(self._directory, lambda _text: None, "repair")
        assert self._log.read_bytes() == self._whole
        assert self.TORN in self._side_files()

    def _side_files(self) -> list[bytes]:
        return [path.read_bytes() for path in self._run.glob("*.torn")]
