"""A terminal for tests: a real pty with a real process in it, and what its screen shows."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

import pyte
from tests.terminal import wire
from tests.terminal.forks import Forked
from tests.terminal.program import HANGS

DEAF_SECONDS = 0.05
"""How long the program takes no keys at its start: `refold.app.main` has the same number."""
KEYS = {
    "up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D", "home": "\x1b[H", "end": "\x1b[F",
    "pageup": "\x1b[5~", "pagedown": "\x1b[6~", "enter": "\r", "escape": "\x1b[27u", "tab": "\t",
    "space": " ", "backspace": "\x7f", "ctrl+c": "\x03", "ctrl+p": "\x10", "ctrl+q": "\x11", "f1": "\x1bOP",
    "shift+tab": "\x1b[Z",
}  # fmt: skip
"""What the keys send; Escape as the keyboard protocol spells it, which needs no pause to be told apart."""

_ANSWERS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\x1b\[0?c"), "\x1b[?1;2c"),
    (re.compile(r"\x1b\[>0?c"), "\x1b[>84;0;0c"),
    (re.compile(r"\x1b\[=0?c"), "\x1bP!|00000000\x1b\\"),
    (re.compile(r"\x1b\[>0?q"), "\x1bP>|yes 3.3a\x1b\\"),
    (re.compile(r"\x1b\[\??5n"), "\x1b[0n"),
    (re.compile(r"\x1b\[\??6n"), "\x1b[1;1R"),
    (re.compile(r"\x1b\[2[01]t"), "\x1b]ldyq\x1b\\"),
    (re.compile(r"[\x1b\x9d]\]?1[0-9];\?.*"), "\x1b]11;rgb:0000/0000/0000\x1b\\"),
    (re.compile(r"\x1bP\$q.*"), "\x1bP1$r0m\x1b\\"),
    (re.compile(r"\x05"), "dyq"),
)
"""What a talkative terminal answers: every query that untrusted text could ask."""

_QUERY = re.compile(
    rb"\x1b\[[>=?]*[0-9;]*[cqnt]|\x1b[\]P][^\x07\x1b]*|\xc2\x9b[0-9;>=?]*[cqnt]|\xc2[\x9d\x90][^\xc2\x07\x1b]*|\x05"
)
"""Where a query may stand; what Textual sends on every frame does not match."""
_DRAWS = re.compile(r"\x1b\[\??[\d;]*[A-Za-z]\Z")
_EARLY = b"\x1b[?1049h\x1b[?25l"
"""How rows begin that are painted before the screen is there."""
_TAKEN = (b"\x1b[?7l", b"\x1b[?1049l")
"""What comes once the screen is there, or will not come."""
_TITLE = re.compile(r"(?:\x1b\]|\x9d)[012];([^\x07\x1b\x9c]*)")


class Terminal:
    """A process in a pty, driven by keys, read as a screen. Use as a context manager."""

    def __init__(
        self,
        command: Sequence[str | bytes] | Callable[[int], Forked],
        *,
        columns: int = 120,
        rows: int = 40,
        env: Mapping[str, str] | None = None,
        stdout: int | None = None,
        rights: Callable[[], None] | None = None,
    ) -> None:
        """Start the command.

        Args:
            command: The program and its arguments, or what starts it on a descriptor of the terminal.
            columns: Width of the window.
            rows: Height of the window.
            env: All the environment it gets.
            stdout: Where its standard output goes; the terminal if left out.
            rights: What the new process does first, to give up rights.
        """
        self.sent = bytearray()
        """Every byte the process wrote to the terminal."""
        self.shows_early = False
        """Whether rows count as shown that are painted before the screen can take a key."""
        self.replies: list[str] = []
        """The queries that this terminal answered."""
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.Stream(self._screen)
        self._held = b""
        self._has_sent = False
        self._drawn = 0
        self._master, slave = os.openpty()
        self._size(columns, rows)
        self.started = time.perf_counter()
        self._process: subprocess.Popen[bytes] | Forked
        if callable(command):
            self._process = command(slave)
        else:
            self._process = subprocess.Popen(
                command,
                stdin=slave, stdout=slave if stdout is None else stdout, stderr=slave,
                env=dict(env) if env is not None else None,
                start_new_session=True,
                preexec_fn=lambda: _own_terminal(slave, rights),
            )  # fmt: skip
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process that owns the terminal."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True until the process has ended."""
        return self._process.poll() is None

    def _size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the window."""
        self._draw()
        self._screen.resize(rows, columns)
        self._size(columns, rows)

    def send(self, *keys: str) -> None:
        """Press keys: names of `KEYS`, else the text itself."""
        if not self._has_sent:
            # What was drawn first may have been drawn while the program takes no keys yet.
            time.sleep(2 * DEAF_SECONDS)
            self._has_sent = True
        for key in keys:
            os.write(self._master, KEYS.get(key, key).encode())

    def press(self, *keys: str, settle: float = 0.05, limit: float = 5.0) -> None:
        """Press keys one by one, each time waiting until the screen has come to rest."""
        for key in keys:
            self.send(key)
            self.settle(settle, limit=limit)

    def click(self, column: int, row: int) -> None:
        """Press and release the left button on a cell, counted from 0."""
        for end in "Mm":
            self.send(f"\x1b[<0;{column + 1};{row + 1}{end}")

    def pump(self, seconds: float) -> bool:
        """Take in what comes within the time; True when anything came, False at silence or the end."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:
            return False
        self.sent += data
        self._answer(data)
        return bool(data)

    def _answer(self, data: bytes) -> None:
        """Answer what a terminal would answer."""
        for match in _QUERY.finditer(data):
            asked = match.group().decode("utf-8", "replace")
            for query, answer in _ANSWERS:
                if query.fullmatch(asked):
                    self.replies.append(asked)
                    os.write(self._master, answer.encode())

    def _draw(self) -> None:
        """Bring the screen up to date with what was sent; only when somebody looks, for it is slow."""
        data = self._held + self._later()
        cut = _whole(data)
        data, self._held = data[:cut], data[cut:]
        shown: list[str] = []
        for kind, value in wire.tokens(data):
            if kind in {"text", "control"} or (kind == "csi" and value[-1] != "m" and _DRAWS.match(value)):
                shown.append(value)
        self._stream.feed("".join(shown))

    def _later(self) -> bytes:
        """Give what was sent since the last look, without rows that no key acts on yet."""
        end = len(self.sent)
        early = self.sent.find(_EARLY, self._drawn)
        if early < 0 or self.shows_early:
            data = bytes(self.sent[self._drawn :])
        else:
            taken = [at for at in (self.sent.find(mark, early) for mark in _TAKEN) if at >= 0]
            data = bytes(self.sent[self._drawn : early])
            if taken:
                data += bytes(self.sent[min(taken) :])
            else:
                end = early
        self._drawn = end
        return data

    def settle(self, quiet: float = 0.1, *, limit: float = 10.0) -> None:
        """Read until nothing has come for a while."""
        end = time.monotonic() + limit
        while time.monotonic() < end and self.pump(quiet):
            pass

    def wait(self, condition: Callable[[str], bool] | str, *, limit: float = HANGS) -> str:
        """Read until the screen fulfils a condition, or shows a text; give the screen.

        Raises:
            AssertionError: The process ended or the time was up; the last screen is in the message.
        """
        holds = (lambda screen: condition in screen) if isinstance(condition, str) else condition
        end = time.monotonic() + limit
        while not holds(self.text):
            came = self.pump(0.05)
            if not came and not self.alive:
                self.settle(0.05)
                if holds(self.text):
                    break
                raise AssertionError(f"ended with {self._process.returncode}; screen:\n{self.text}")
            assert time.monotonic() < end, f"waited {limit} s for {condition!r}; screen:\n{self.text}"
        return self.text

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Take in what comes until a condition holds.

        Raises:
            AssertionError: It never did.
        """
        end = time.monotonic() + HANGS
        while not condition():
            assert time.monotonic() < end, f"never: {what}; screen:\n{self.text}"
            self.pump(0.05)

    def arrival(self, *texts: str, limit: float = HANGS) -> float:
        """Read until one of the texts has come, and draw nothing; give the moment, as `started` does.

        Raises:
            AssertionError: The process ended or the time was up.
        """
        wanted = [text.encode() for text in texts]
        end = time.monotonic() + limit
        while not any(text in self.sent for text in wanted):
            came = self.pump(0.05)
            assert came or self.alive, f"ended with {self._process.returncode}; screen:\n{self.text}"
            assert time.monotonic() < end, f"waited {limit} s for {texts!r}; screen:\n{self.text}"
        return time.perf_counter()

    @property
    def text(self) -> str:
        """What the screen shows, a line a row."""
        self._draw()
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip("\n")

    @property
    def title(self) -> str:
        """The title of the window as the process has set it."""
        found = _TITLE.findall(self.sent.decode("utf-8", "replace"))
        return str(found[-1]) if found else ""

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        self._process.send_signal(number)

    def hang_up(self) -> None:
        """Close the terminal under the process, as a closed window does."""
        os.close(self._master)
        self._master = -1

    def ended(self, limit: float = HANGS) -> int:
        """Wait for the end and give the exit status, negative for a signal."""
        end = time.monotonic() + limit
        while self.alive:
            if self._master >= 0:
                self.pump(0.05)
            else:
                time.sleep(0.02)
            assert time.monotonic() < end, f"still alive after {limit} s; screen:\n{self.text}"
        if self._master >= 0:
            self.settle(0.05, limit=1.0)
        return self._process.wait()

    def quit(self) -> int:
        """Press q and give the exit status."""
        self.send("q")
        return self.ended()

    def close(self) -> None:
        """End the process, hard if need be, and give the pty back."""
        if self.alive:
            self._process.send_signal(signal.SIGTERM)
            try:
                self.ended(2.0)
            except AssertionError:
                self._process.kill()
                self._process.wait()
        if self._master >= 0:
            os.close(self._master)
            self._master = -1


def _own_terminal(slave: int, rights: Callable[[], None] | None) -> None:
    """Make the pty the controlling terminal of the new process."""
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    if rights is not None:
        rights()


def _whole(data: bytes) -> int:
    """Give how many bytes form whole characters and sequences, so that no token is cut in two."""
    cut = len(data)
    escape = data.rfind(b"\x1b", max(0, cut - 4096))
    if escape >= 0 and re.fullmatch(rb"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*)?", data[escape:]):
        cut = escape
    for back in range(1, min(4, cut) + 1):
        byte = data[cut - back]
        if byte >= 0xC0:
            wanted = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return cut - back if back < wanted else cut
        if byte < 0x80:
            break
    return cut
