"""A newcomer in the demo: its crashed run is resumed and forked by a few keys that the footer shows."""

from __future__ import annotations

import re
import time
from pathlib import Path

import msgspec
from tests.terminal.program import HANGS, environment, refold
from tests.terminal.terminal import Terminal

from refold.core.errors import RunLocked
from refold.core.store.lock import RunLock
from refold.core.store.notes import NotesStore

MOST = 12
SHOWN = {"down": "↓", "enter": "enter"}
"""Keys as the footer writes them."""


class Newcomer:
    """Presses only what the last row of the screen or dialog offers, and counts."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.pressed: list[str] = []

    def press(self, key: str, *, meaning: str, times: int = 1) -> None:
        """Press a key that a footer shows with the word that it is meant for."""
        offered = re.compile(rf"(^|\s){re.escape(SHOWN.get(key, key))}( \S)? {meaning}(\s|│|$)", re.MULTILINE)
        self.terminal.wait(lambda screen: offered.search(screen) is not None)
        self.terminal.settle(0.15)
        for _ in range(times):
            self.pressed.append(key)
            self.terminal.send(key)
            self.terminal.settle(0.1)


def test_the_crashed_run_of_the_demo_is_resumed_and_forked(tmp_path: Path) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    with Terminal(refold("demo"), env=environment(tmp_path, TMPDIR=str(scratch))) as terminal:
        screen = terminal.wait(lambda shown: "watching" in shown and "not-a-journal" in shown)
        rows = [row for row in screen.split("\n")[2:] if row[3:4].isalpha()]
        place = next(number for number, row in enumerate(rows) if "fix-date-parser " in row)
        someone = Newcomer(terminal)
        someone.press("down", meaning="move", times=place)
        someone.press("r", meaning="resume")
        terminal.wait("OUTCOME UNKNOWN")
        someone.press("x", meaning="failed")
        terminal.wait("✓ ready")
        someone.press("enter", meaning="resume")
        terminal.wait("goes on here")
        terminal.wait("7 records added after seq 7")
        terminal.wait("✓ completed")
        someone.press("f", meaning="fork")
        terminal.wait("no fork here")
        someone.press("(", meaning="point")
        terminal.wait("✓ legal")
        someone.press("enter", meaning="fork")
        terminal.wait("ψ ready")
        terminal.wait("fork of fix-date-parser")
        (directory,) = scratch.iterdir()
        runs = directory / "refold" / "runs"
        assert len(someone.pressed) <= MOST
        parent, child = (runs / f"fix-date-parser{end}.json" for end in ("", "-2"))
        assert child.read_bytes().split(b"\n")[1:] == [*parent.read_bytes().split(b"\n")[1:13], b""]
        assert "fromisoformat" in (directory / "work" / "dates" / "parser.py").read_text()
        terminal.send("q")
        assert terminal.ended() == 0
    assert list(scratch.iterdir()) == []


def test_leaving_the_program_suspends_the_run_that_goes_on(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    journal = directory / "refold" / "runs" / "fix-date-parser.json"
    with Terminal(refold("demo", "--dir", directory), env=environment(tmp_path)) as terminal:
        terminal.wait(lambda shown: "watching" in shown and "not-a-journal" in shown)
        _let_the_model_think(directory, journal)
        terminal.press("down", "down", "down", "r", settle=0.1)
        terminal.wait("OUTCOME UNKNOWN")
        terminal.press("x", "enter", settle=0.2)
        terminal.wait("goes on here")
        terminal.send("q")
        assert terminal.ended() == 0
    end = time.monotonic() + HANGS
    while b'"reason":"suspended"' not in journal.read_bytes():
        assert time.monotonic() < end, journal.read_text()
        time.sleep(0.1)
    while True:
        try:
            RunLock.take(journal.with_suffix(".lock")).release()
        except RunLocked:
            assert time.monotonic() < end
            time.sleep(0.1)
        else:
            break


def _let_the_model_think(directory: Path, journal: Path) -> None:
    """Give the agent of a run a model that takes its time, so that whoever leaves comes before its end."""
    text = "from refold.app import demo_agent\n\n\ndef agent():\n    return demo_agent.agent(pace=5)\n"
    (directory / "work" / "thinking.py").write_text(text)
    notes = NotesStore(directory / "refold" / "notes")
    notes.update(journal, lambda known: msgspec.structs.replace(known, agent="thinking:agent"))
