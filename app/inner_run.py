"""An agent that goes on with a run beside the screen: a child process, watched through its journal."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from pathlib import Path
from typing import Final, Literal

from refold.app.launch import Ended, in_background

_KEPT: Final = 40
"""So many of the last lines that the child said are kept: they tell why it failed."""
_LONGEST: Final = 4096

Stage = Literal["running", "suspending", "aborting", "ended"]
"""Where the child stands; told to stop once it suspends, told twice it stops at once."""


class InnerRun:
    """One child. Use it on the thread of the event loop.

    It is asked to suspend when the program ends; what it had acknowledged by then is on disk in any case.
    """

    def __init__(self, path: Path, since: int, child: subprocess.Popen[bytes]) -> None:
        """Watch a child that was started; `start` makes one.

        Args:
            path: The journal that it goes on with.
            since: The last sequence before it did.
            child: The process.
        """
        self.path = path
        self.since = since
        self.stage: Stage = "running"
        self.ended: Ended | None = None
        self._child = child
        self._said: deque[bytes] = deque(maxlen=_KEPT)
        self._watchers: list[Callable[[], None]] = []
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        threading.Thread(target=self._listen, name="refold-child", daemon=True).start()
        atexit.register(self._leave)

    @classmethod
    def start(cls, path: Path, since: int, command: Sequence[str], directory: str) -> InnerRun:
        """Start a child that goes on with a run.

        Raises:
            OSError: it cannot be started.
        """
        return cls(path, since, in_background(command, cwd=directory))

    @property
    def said(self) -> tuple[str, ...]:
        """The last lines that the child said, blank ones left out."""
        return tuple(line.decode(errors="replace") for line in self._said if line.strip())

    @property
    def pid(self) -> int:
        """The process."""
        return self._child.pid

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call a function whenever the stage changes."""
        self._watchers.append(watcher)

    def forget(self, watcher: Callable[[], None]) -> None:
        """Do not call it any more."""
        with contextlib.suppress(ValueError):
            self._watchers.remove(watcher)

    def suspend(self) -> None:
        """Ask it to stop at the next boundary."""
        if self.stage == "running":
            self._stop("suspending")

    def abort(self) -> None:
        """Tell it to stop at once, after it was asked to suspend."""
        if self.stage == "suspending":
            self._stop("aborting")

    def say(self, text: str) -> bool:
        """Give it a line of the user; False where it does not listen any more."""
        line = " ".join(text.split("\n")).encode("utf-8", "replace") + b"\n"
        try:
            if self._child.stdin is None:
                return False
            self._child.stdin.write(line)
            self._child.stdin.flush()
        except (OSError, ValueError):
            return False
        return True

    def _stop(self, stage: Stage) -> None:
        self.stage = stage
        self._signal()
        self._tell()

    def _signal(self) -> None:
        with contextlib.suppress(OSError):
            self._child.send_signal(signal.SIGINT)

    def _leave(self) -> None:
        if self.stage == "running":
            self._signal()

    def _listen(self) -> None:
        """Take what the child says until it ends; on a thread of its own."""
        rest = b""
        out = self._child.stdout
        while out is not None and (data := os.read(out.fileno(), 65_536)):
            *lines, rest = (rest + data).split(b"\n")
            self._said.extend(line[:_LONGEST] for line in lines)
            rest = rest[-_LONGEST:]
        self._said.append(rest)
        code = self._child.wait()
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._finish, code, context=self._context)

    def _finish(self, code: int) -> None:
        self.ended = Ended(code) if code >= 0 else Ended(None, -code)
        self.stage = "ended"
        for pipe in (self._child.stdin, self._child.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        atexit.unregister(self._leave)
        self._tell()

    def _tell(self) -> None:
        for watcher in tuple(self._watchers):
            watcher()
