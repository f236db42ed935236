"""A child process that runs a module of ours: what may take long is done there, and can be stopped.

Both sides write JSON, one value a line, in ASCII. A child ends when nobody is left to write to it, so none
outlives the program, however that ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import AsyncIterator

from refold.core.records import Json


class OwnChild:
    """A child as its parent sees it. Use it on the thread of the event loop."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        """Listen to a child that was started; `start` makes one."""
        self._child = child
        self._loop = asyncio.get_running_loop()
        self._said: asyncio.Queue[bytes] = asyncio.Queue()
        threading.Thread(target=self._listen, name="refold-child", daemon=True).start()

    @classmethod
    def start(cls, module: str) -> OwnChild:
        """Start a child that runs a module.

        Raises:
            OSError: it cannot be started.
        """
        return cls(
            subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-P", "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    def tell(self, value: Json) -> None:
        """Send a value; a child that is gone does not hear it."""
        stream = self._child.stdin
        assert stream is not None  # noqa: S101 - it was started with a pipe
        with contextlib.suppress(OSError, ValueError):
            stream.write(encoded(value))
            stream.flush()

    async def hear(self) -> Json:
        """Wait for the next value.

        Raises:
            EOFError: the child has ended.
        """
        line = await self._said.get()
        if not line.endswith(b"\n"):
            raise EOFError
        value: Json = json.loads(line)
        return value

    async def each(self) -> AsyncIterator[Json]:
        """Yield what it says until it ends."""
        with contextlib.suppress(EOFError):
            while True:
                yield await self.hear()
                # What waits already is had at once: a key that was pressed goes before the rest of it.
                await asyncio.sleep(0)

    def kill(self) -> None:
        """End it at once, whatever it is at."""
        self._child.kill()

    def _listen(self) -> None:
        stream = self._child.stdout
        assert stream is not None  # noqa: S101 - it was started with a pipe
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody listens
            for line in stream:
                self._loop.call_soon_threadsafe(self._said.put_nowait, line)
            self._loop.call_soon_threadsafe(self._said.put_nowait, b"")
        self._child.kill()
        self._child.wait()
        stream.close()
        if self._child.stdin is not None:
            with contextlib.suppress(OSError):
                self._child.stdin.close()


class Parent:
    """A parent as its child sees it. What it says is read by a thread; with its last word the child ends."""

    def __init__(self) -> None:
        self._said: queue.SimpleQueue[Json] = queue.SimpleQueue()
        # What a library prints must not mix with what is said.
        self._out = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        threading.Thread(target=self._listen, daemon=True).start()

    def tell(self, value: Json) -> None:
        """Send a value."""
        try:
            self._out.write(encoded(value))
            self._out.flush()
        except OSError:
            os._exit(0)

    def hear(self) -> Json:
        """Wait for the next value."""
        return self._said.get()

    def heard(self) -> bool:
        """Say whether there is a next value already."""
        return not self._said.empty()

    def _listen(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in sys.stdin.buffer:
                self._said.put(json.loads(line))
        os._exit(0)


def encoded(value: Json) -> bytes:
    """Give a value as one line."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"
