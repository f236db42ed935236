"""A child with our terminal: whatever it does to it, and however it ends, the screen comes back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.terminal.program import environment
from tests.terminal.terminal import Terminal
from textual.app import App

from refold.app import launch
from refold.app.launch import Ended, headless, in_background, in_terminal

APP = """
import json, sys
from textual.app import App
from textual.content import Content
from textual.widgets import Static
from refold.app import launch

class Launching(App):
    BINDINGS = [("l", "launch", ""), ("k", "key", ""), ("q", "quit", "")]

    def compose(self):
        yield Static(Content("here"))

    def action_launch(self):
        ended = launch.in_terminal(json.loads(sys.argv[1]), cwd=sys.argv[2], suspend=self.suspend)
        self.query_one(Static).update(Content(f"back: it {ended.sentence}"))

    def action_key(self):
        self.query_one(Static).update(Content("key heard"))

if len(sys.argv) > 3:
    def fails(command, cwd):
        raise {"error": ValueError, "exit": SystemExit, "interrupt": KeyboardInterrupt}[sys.argv[3]]("boom")
    launch._run = fails
Launching().run()
"""
FULL_SCREEN = "import os, tty; tty.setraw(0); os.write(1, b'\\x1b[?1049h\\x1b[?1003h\\x1b[31mchild')"
OWN_GROUP = (
    "import os, signal; os.setpgrp(); signal.signal(22, signal.SIG_IGN); os.tcsetpgrp(0, os.getpgrp())"
)
TELLS = """
import os
print('child in', os.getcwd(), os.environ['TERM'], os.isatty(0))
print(input()[::-1])
input()
"""
HEARS = """
import sys
try:
    print('child')
    input()
except KeyboardInterrupt:
    print('heard')
    sys.exit(4)
"""
ENDS_WELL = """
import signal, sys
signal.signal(15, lambda *_: sys.exit(9))
print('up', flush=True)
signal.pause()
"""
TALKS = """
import os, sys
print(os.getcwd(), input(), os.getsid(0) == os.getpid(), file=sys.stderr)
input()
"""


class Launching:
    """The small screen that launches, in a terminal."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal

    def launched(self, text: str) -> str:
        self.terminal.wait("here")
        self.terminal.send("l")
        return self.terminal.wait(text)

    def back(self, said: str) -> None:
        """Check that the screen is back, hears keys, and leaves the terminal as it found it."""
        self.terminal.wait(f"back: it {said}")
        self.terminal.send("k")
        self.terminal.wait("key heard")
        assert self.terminal.quit() == 0


@contextmanager
def launching(home: Path, *child: str, fails: str = "") -> Iterator[Launching]:
    command = [sys.executable, "-c", APP, json.dumps(child), str(home), *([fails] if fails else [])]
    with Terminal(command, columns=240, rows=24, env=environment(home)) as terminal:
        yield Launching(terminal)


def python(code: str) -> tuple[str, str, str]:
    return (sys.executable, "-c", code)


def test_a_child_has_the_terminal_and_gives_it_back(tmp_path: Path) -> None:
    with launching(tmp_path, *python(TELLS)) as app:
        shown = app.launched(f"child in {tmp_path} xterm-256color True")
        assert f"$ cd {tmp_path} && {sys.executable} -c" in shown
        app.terminal.send("olleh\r")
        app.terminal.wait("hello")
        app.terminal.send("\r")
        app.back("ended with exit code 0")


def test_a_program_that_is_missing_is_said_at_once(tmp_path: Path) -> None:
    with launching(tmp_path, "no-such-agent", "resume") as app:
        app.launched("back:")
        app.back("was not started: no-such-agent is not installed, or not on PATH")


@pytest.mark.parametrize(
    ("code", "said", "ended"),
    [
        ("raise OSError('no config')", "OSError: no config", "ended with exit code 1"),
        (f"{FULL_SCREEN}; os._exit(7)", "Press Enter", "ended with exit code 7"),
        (f"{FULL_SCREEN}; os.kill(os.getpid(), 9)", "Press Enter", "was killed by SIGKILL"),
        (f"{OWN_GROUP}; {FULL_SCREEN}; os.kill(os.getpid(), 11)", "Press Enter", "was killed by SIGSEGV"),
    ],
    ids=["traceback", "raw-and-gone", "killed", "foreground-of-its-own"],
)
def test_a_child_that_fails_can_be_read_and_the_screen_comes_back(
    code: str, said: str, ended: str, tmp_path: Path
) -> None:
    with launching(tmp_path, *python(code)) as app:
        app.launched(said)
        assert f"{ended}. Press Enter to go back to Refold." in app.terminal.wait("Refold.")
        app.terminal.send("\r")
        app.back(ended)


@pytest.mark.parametrize(
    ("key", "code", "ended"),
    [
        ("\x03", "print('child'); input()", "was killed by SIGINT"),
        ("\x1c", "print('child'); input()", "was killed by SIGQUIT"),
        ("\x03", HEARS, "ended with exit code 4"),
    ],
    ids=["interrupt", "quit", "heard"],
)
def test_the_keys_that_interrupt_are_the_childs(key: str, code: str, ended: str, tmp_path: Path) -> None:
    with launching(tmp_path, *python(code)) as app:
        app.launched("child")
        time.sleep(0.1)
        app.terminal.send(key)
        app.terminal.wait("Press Enter")
        app.terminal.send("\r")
        app.back(ended)


@pytest.mark.parametrize(("number", "key"), [(signal.SIGINT, "\x03"), (signal.SIGQUIT, "\x1c")])
def test_a_child_that_ignores_them_goes_on_and_so_does_the_screen(
    number: int, key: str, tmp_path: Path
) -> None:
    ignore = f"import signal; signal.signal({int(number)}, signal.SIG_IGN)"
    with launching(tmp_path, *python(f"{ignore}; print('child'); input(); print('still')")) as app:
        app.launched("child")
        time.sleep(0.1)
        app.terminal.send(key)
        time.sleep(0.1)
        app.terminal.send("\r")
        app.back("ended with exit code 0")


@pytest.mark.parametrize("fails", ["error", "exit", "interrupt"])
def test_whatever_is_raised_meanwhile_the_screen_comes_back(fails: str, tmp_path: Path) -> None:
    with launching(tmp_path, *python("pass"), fails=fails) as app:
        app.launched("back:")
        names = {"error": "ValueError", "exit": "SystemExit", "interrupt": "KeyboardInterrupt"}
        app.back(f"was not started: {names[fails]}: boom")


def test_what_the_terminal_still_owed_the_child_is_no_key(tmp_path: Path) -> None:
    code = "import os, tty; tty.setraw(0); os.write(1, b'\\x1b[c' * 3); os._exit(0)"
    with launching(tmp_path, *python(code)) as app:
        app.launched("back:")
        assert "\x1b[c" in app.terminal.replies
        app.back("ended with exit code 0")


async def test_where_there_is_no_terminal_it_is_said() -> None:
    app: App[None] = App()
    async with app.run_test():
        ended = in_terminal(python("pass"), cwd="/", suspend=app.suspend)
    assert ended.sentence == "was not started: the terminal cannot be given away here"


@pytest.mark.parametrize(
    ("code", "ended", "status", "sentence"),
    [
        ("pass", Ended(0), 0, "ended with exit code 0"),
        ("raise SystemExit(7)", Ended(7), 7, "ended with exit code 7"),
        ("import os; os.kill(os.getpid(), 9)", Ended(None, 9), 137, "was killed by SIGKILL"),
    ],
)
def test_how_a_child_ended(code: str, ended: Ended, status: int, sentence: str, tmp_path: Path) -> None:
    found = headless(python(code), cwd=str(tmp_path))
    assert (found, found.status, found.sentence, found.fine) == (ended, status, sentence, ended.code == 0)


@pytest.mark.parametrize(
    ("command", "directory", "problem"),
    [
        ((), "/", "there is no command for it"),
        (("no-such-agent",), "/", "no-such-agent is not installed, or not on PATH"),
        (("./no-such-agent",), "/", "./no-such-agent is not installed, or not on PATH"),
        ((sys.executable,), "/no/such/place", "the directory /no/such/place is not there"),
        ((sys.executable, "a\0b"), "/", "embedded null byte"),
    ],
)
def test_what_cannot_be_started_is_said(command: tuple[str, ...], directory: str, problem: str) -> None:
    ended = headless(command, cwd=directory)
    assert (ended.problem, ended.status) == (problem, 127)


def test_nothing_passes_through_a_shell(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    hostile = ["$(touch x)", "; touch x", "a b", "*", "`id`", "--", "\n"]
    headless((*python("import sys; print(sys.argv[1:])"), *hostile), cwd=str(tmp_path))
    assert capfd.readouterr().out == f"{hostile!r}\n"
    assert list(tmp_path.iterdir()) == []


def test_the_handlers_are_put_back(tmp_path: Path) -> None:
    numbers = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    headless(python("pass"), cwd=str(tmp_path))
    assert [signal.getsignal(number) for number in numbers] == before


def parent(child: tuple[str, ...], say: str = "sentence") -> list[str]:
    """Give a process that runs a child and prints how it ended."""
    code = f"from refold.app.launch import headless; print(headless({child!r}, cwd='/').{say})"
    return [sys.executable, "-c", code]


def test_a_child_can_be_interrupted_although_we_are_deaf() -> None:
    child = python(
        "from signal import *; print(getsignal(2) is default_int_handler, getsignal(3) == SIG_DFL)"
    )
    done = subprocess.run(parent(child), capture_output=True, text=True, check=True)
    assert done.stdout == "True True\nended with exit code 0\n"


def test_the_end_of_us_is_passed_on() -> None:
    with subprocess.Popen(parent(python(ENDS_WELL)), stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "up\n"
        running.send_signal(signal.SIGTERM)
        assert running.stdout.read() == "ended with exit code 9\n"


def test_a_child_beside_the_screen_talks_through_pipes(tmp_path: Path) -> None:
    with in_background(python(TALKS), cwd=str(tmp_path)) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"typed\n")
        child.stdin.flush()
        assert child.stdout.readline().decode() == f"{tmp_path} typed True\n"
        child.send_signal(signal.SIGINT)
        assert child.wait(10) == -signal.SIGINT


def test_what_can_be_no_argument_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="null byte"):
        in_background((*python("pass"), "a\0b"), cwd=str(tmp_path))


def test_a_terminal_is_left_as_it_was() -> None:
    master, slave = os.openpty()
    before = termios.tcgetattr(slave)
    child = python(f"{FULL_SCREEN}; os.kill(os.getpid(), 9)")
    done = subprocess.run(parent(child), stdin=slave, stdout=slave, stderr=slave, check=False, timeout=30)
    assert done.returncode == 0
    assert termios.tcgetattr(slave) == before
    assert b"\x1b[?1003l" in os.read(master, 4096)
    os.close(master)
    os.close(slave)


def test_it_works_where_standard_input_is_closed() -> None:
    code = "import sys; sys.__stdin__ = None; from refold.app import launch; print(launch._terminal())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"
    assert launch.Ended(None, 200).sentence == "was killed by 200"
