"""Starts the program that goes on with a run: with the terminal, or beside the screen.

An argument list and a directory, never a shell; no lock of a run is held meanwhile. Whatever the child does,
the terminal is ours again afterwards (design/textual.md 3.4).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any, Final, NamedTuple

from refold.app.agents import problem_of, runnable, spelled
from refold.app.safe import line

_UNHEARD = (signal.SIGINT, signal.SIGQUIT)
"""What the keyboard sends to the child and, since both are in the foreground, to us."""
_SETTLE: Final = 0.05
"""Seconds in which replies that a terminal still owes to the child arrive, to be thrown away."""
_PLAIN: Final = (
    b"\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[?1l\x1b>\x1b[<u"
    b"\x1b[r\x1b[?7h\x1b[?25h\x1b[0m\x1b(B\r"
)
"""Takes back what a full-screen program may have left on: other screen, mouse, paste marks, hidden cursor."""


class Ended(NamedTuple):
    """How a child ended."""

    code: int | None
    """Its exit code; None where it was killed or never began."""
    signal: int | None = None
    """What killed it."""
    problem: str = ""
    """Why it never began."""

    @property
    def fine(self) -> bool:
        """True for exit code 0."""
        return self.code == 0

    @property
    def status(self) -> int:
        """The exit code as a shell gives it."""
        if self.code is not None:
            return self.code
        return 127 if self.signal is None else 128 + self.signal

    @property
    def sentence(self) -> str:
        """What happened, for a person."""
        if self.problem:
            return f"was not started: {self.problem}"
        if self.signal is not None:
            name = next((each.name for each in signal.Signals if each.value == self.signal), str(self.signal))
            return f"was killed by {name}"
        return f"ended with exit code {self.code}"


def headless(command: Sequence[str], *, cwd: str) -> Ended:
    """Run a child on our own standard streams until it ends; the keys that interrupt are the child's."""
    problem = _problem(command, cwd)
    if problem:
        return Ended(None, problem=problem)
    with _terminal_kept(), _deaf():
        return _run(command, cwd)


def in_terminal(
    command: Sequence[str],
    *,
    cwd: str,
    suspend: Callable[[], AbstractContextManager[None]],
    advice: str = "",
    after: Callable[[], None] | None = None,
) -> Ended:
    """Give a child the terminal that the full screen has; blocks the event loop until it has ended.

    The screen always comes back: nothing is raised inside its suspension.

    Args:
        command: the argument list, shown before it runs.
        cwd: where it is started.
        suspend: `App.suspend`.
        advice: what is to be known before the child covers the terminal; a key is waited for.
        after: called once the child has ended, before a key is waited for.
    """
    problem = _problem(command, cwd)
    if problem:
        return Ended(None, problem=problem)
    from textual.app import SuspendNotSupported

    ended = Ended(None, problem="the screen ended first")
    try:
        with suspend():
            try:
                ended = _visit(command, cwd, advice, after)
            except BaseException as error:  # Textual's suspend has no finally.
                ended = Ended(None, problem=f"{type(error).__name__}: {error}")
    except SuspendNotSupported:
        return Ended(None, problem="the terminal cannot be given away here")
    return ended


def in_background(command: Sequence[str], *, cwd: str) -> subprocess.Popen[bytes]:
    """Start a child beside the screen: what it says goes to pipes, what it reads is what is written to it.

    It is a group of its own, so that the keyboard does not reach it; SIGINT asks a native run to suspend.

    Raises:
        OSError: it cannot be started.
    """
    try:
        return subprocess.Popen(  # noqa: S603 - an argument list of the user's own, no shell
            runnable(command),
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except ValueError as error:
        # An id of a call that holds a NUL can be no argument.
        raise OSError(str(error)) from error


def _problem(command: Sequence[str], cwd: str) -> str:
    return problem_of(runnable(command)[0], cwd) if command else "there is no command for it"


def _visit(command: Sequence[str], cwd: str, advice: str, after: Callable[[], None] | None) -> Ended:
    """Show the command, run it, and keep what it said on the screen where it failed."""
    _say(f"$ cd {line(spelled([cwd]))} && {line(spelled(command))}")
    with _deaf():
        if advice:
            _say(f"{line(advice)}\nPress Enter to start {line(command[0])}.")
            _await_enter()
        with _terminal_kept():
            ended = _run(command, cwd)
        if after is not None:
            after()
        if not ended.fine:
            _say(f"\n{line(command[0])} {ended.sentence}. Press Enter to go back to Refold.")
            _await_enter()
    return ended


def _run(command: Sequence[str], cwd: str) -> Ended:
    try:
        child = subprocess.Popen(runnable(command), cwd=cwd)  # noqa: S603 - as above
    except (OSError, ValueError) as error:
        return Ended(None, problem=str(error))
    with _forwarded(child):
        code = child.wait()
    if code >= 0:
        return Ended(code)
    terminal = _terminal()
    if terminal is not None:
        # What was killed has not cleaned up.
        _write(terminal, _PLAIN)
    return Ended(None, -code)


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Let the keys that interrupt pass us by.

    A handler that does nothing, not SIG_IGN: that would be handed on to the child, which must hear them.
    """
    before = {number: signal.signal(number, _nothing) for number in _UNHEARD}
    # By this descriptor an event loop hears of every signal, whatever its handler, and heeds it afterwards.
    wakeup = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextlib.contextmanager
def _forwarded(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Tell the child what only we are told: that it is time to end."""

    def pass_on(number: int, _: FrameType | None) -> None:
        child.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _nothing(_: int, __: FrameType | None) -> None:
    """Hear a signal and do nothing."""


@contextlib.contextmanager
def _terminal_kept() -> Iterator[None]:
    """Put modes, foreground and input of the terminal back as they were, whoever left them otherwise."""
    terminal = _terminal()
    before = None if terminal is None else _modes(terminal)
    try:
        yield
    finally:
        if terminal is not None:
            _take_back(terminal)
            if before is not None:
                if before != _modes(terminal):
                    _write(terminal, _PLAIN)
                with contextlib.suppress(termios.error):
                    termios.tcsetattr(terminal, termios.TCSANOW, before)
            time.sleep(_SETTLE)
            with contextlib.suppress(termios.error):
                termios.tcflush(terminal, termios.TCIFLUSH)


def _terminal() -> int | None:
    """Give the descriptor of the terminal on our standard input, if that is one."""
    try:
        fd = sys.__stdin__.fileno() if sys.__stdin__ is not None else -1
        return fd if fd >= 0 and os.isatty(fd) else None
    except (OSError, ValueError):
        return None


def _write(terminal: int, data: bytes) -> None:
    with contextlib.suppress(OSError):
        os.write(terminal, data)


def _modes(terminal: int) -> list[Any] | None:
    try:
        return termios.tcgetattr(terminal)
    except termios.error:
        return None


def _take_back(terminal: int) -> None:
    """Become the foreground again: a child with job control of its own may have died there."""
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        if os.tcgetpgrp(terminal) != os.getpgrp():
            os.tcsetpgrp(terminal, os.getpgrp())
    except OSError:
        return
    finally:
        signal.signal(signal.SIGTTOU, signal.SIG_DFL if before is None else before)


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.__stderr__, flush=True)


def _await_enter() -> None:
    terminal = _terminal()
    if terminal is not None:
        with contextlib.suppress(OSError):
            os.read(terminal, 1024)
