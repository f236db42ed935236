"""The terminal is handed to an agent from the screen: however that goes, the screen comes back and tells."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import story
from tests.terminal import wire
from tests.terminal.program import environment, refold
from tests.terminal.terminal import Terminal

from refold.core.store.notes import NotesStore

ADDS = """
import sys
from pathlib import Path
path, seq = Path(sys.argv[1]), len(Path(sys.argv[1]).read_bytes().split(b"\\n"))
record = '{"seq":%d,"protocol":"io.choria.fisk-ai.v1.session.terminal","terminal":{"reason":"suspended"}}\\n'
with path.open("a") as file:
    file.write(record % seq)
"""
FULL_SCREEN = "import os, tty; tty.setraw(0); os.write(1, b'\\x1b[?1049h\\x1b[?1003h\\x1b[31mchild');"
WAITS = "print('child waits', flush=True); input()"
IGNORES = "import signal; signal.signal(2, lambda *_: print('heard', flush=True)); " + WAITS
RUN = "2JfKqX8w1m4n6p8r9s0t2u4v9dQ"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one suspended run of fisk-ai, and the agent that goes on with it still to be written."""
    runs = tmp_path / "state" / "fisk-ai" / "runs"
    runs.mkdir(parents=True)
    words = story.Writing(RUN, "summarise the streams").turn("I need the stream.", "stream_info:PAYMENTS")
    story.put(runs, RUN, words.results("1,204 messages").end("suspended"), 60)
    return tmp_path


def agent(home: Path, *command: str) -> None:
    """Configure what goes on with runs of fisk-ai."""
    config = home / "config" / "refold" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    words = json.dumps([*command, "{path}"])
    config.write_text(f'[agents.fisk-ai]\nresume = {words}\ncwd = "run"\n')


def python(home: Path, code: str) -> None:
    """Let a few lines of Python be the agent."""
    script = home / "agent.py"
    script.write_text(code)
    agent(home, sys.executable, str(script))


class Screen:
    """The program on the run, driven by keys."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal

    def hand_over(self, until: str) -> str:
        """Press `r` and Enter, and wait for a text."""
        self.terminal.wait("stream_info")
        self.terminal.send("r")
        self.terminal.wait("Fingerprint")
        self.terminal.wait("ready")
        self.terminal.send("enter")
        return self.terminal.wait(until)

    def back(self, outcome: str, added: str = "nothing added yet") -> None:
        """Wait until the screen is back and says how it went; keys are heard again."""
        told = re.compile(f"{re.escape(added)} · .*{re.escape(outcome)} · the run is [a-z-]+")
        self.terminal.wait(lambda screen: told.search(screen) is not None)
        self.terminal.settle(0.2)
        self.terminal.send("?")
        self.terminal.wait("In a run")
        self.terminal.send("escape")
        self.terminal.wait("step")


@pytest.fixture
def screen(home: Path) -> Iterator[Screen]:
    """The program; it must leave the terminal as it found it."""
    run = home / "state" / "fisk-ai" / "runs" / f"{RUN}.json"
    with Terminal(refold("open", run), env=environment(home)) as terminal:
        yield Screen(terminal)
        terminal.send("q")
        assert terminal.ended() == 0
        assert wire.not_restored(bytes(terminal.sent)) == []


def test_what_the_agent_added_is_shown(home: Path, screen: Screen) -> None:
    python(home, ADDS)
    screen.hand_over("$ cd ")
    screen.back("ended with exit code 0", "1 record added after seq 4")
    screen.terminal.wait(lambda shown: re.search(r"\+ +5┤", shown) is not None)
    noted = NotesStore(home / "state" / "refold" / "notes").read(
        home / "state" / "fisk-ai" / "runs" / f"{RUN}.json"
    )
    assert [resume.after_seq for resume in noted.resumes] == [4]


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("raise OSError('no config')", "ended with exit code 1"),
        ("import os; os.kill(os.getpid(), 9)", "was killed by SIGKILL"),
        (f"{FULL_SCREEN} os._exit(7)", "ended with exit code 7"),
        (f"{FULL_SCREEN} os.kill(os.getpid(), 9)", "was killed by SIGKILL"),
    ],
    ids=["crash", "kill", "full-screen", "full-screen-killed"],
)
def test_an_agent_that_fails_gives_the_screen_back(
    home: Path, screen: Screen, code: str, outcome: str
) -> None:
    python(home, code)
    screen.hand_over("Press Enter to go back")
    screen.terminal.send("\r")
    screen.back(outcome)


def test_an_agent_that_is_missing_is_refused_before_the_screen_goes(home: Path, screen: Screen) -> None:
    agent(home, "no-such-agent")
    screen.terminal.wait("stream_info")
    screen.terminal.send("r")
    screen.terminal.wait("no-such-agent is not installed")
    screen.terminal.send("enter")
    screen.terminal.settle(0.3)
    assert "refused" in screen.terminal.text
    screen.terminal.send("escape")
    screen.terminal.wait(lambda shown: "refused" not in shown)


@pytest.mark.parametrize(
    ("key", "code", "outcome"),
    [
        ("\x03", WAITS, "was killed by SIGINT"),
        ("\x1c", WAITS, "was killed by SIGQUIT"),
        ("\x03", IGNORES, "ended with exit code 0"),
    ],
    ids=["interrupt", "quit", "ignored"],
)
def test_the_keys_that_interrupt_are_the_agents_alone(
    home: Path, screen: Screen, key: str, code: str, outcome: str
) -> None:
    python(home, code)
    screen.hand_over("child waits")
    time.sleep(0.2)
    screen.terminal.send(key)
    if outcome == "ended with exit code 0":
        screen.terminal.wait("heard")
        screen.terminal.send("\r")
    else:
        screen.terminal.wait("Press Enter to go back")
        screen.terminal.send("\r")
    screen.back(outcome)
