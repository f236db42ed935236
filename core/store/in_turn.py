"""Work that waits for the disk, done on a thread of its own while its owner goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Full, Queue
from typing import TypeAlias

_MOST = 4
"""Pieces that may wait; each holds what it is to write."""

_Work: TypeAlias = Callable[[], object]


class InTurn:
    """Does pieces of work one after the other. All calls are made from one thread."""

    def __init__(self) -> None:
        self._waiting: Queue[_Work | None] = Queue(_MOST)
        self._thread: threading.Thread | None = None

    def do(self, work: _Work) -> None:
        """Have a piece of work done soon; at once where too much waits already. It must not raise."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="refold-in-turn", daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait(work)
        except Full:
            work()

    def close(self) -> None:
        """Wait until all of it is done."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (work := self._waiting.get()) is not None:
            work()
            # What it was to write is not held while nothing waits.
            del work
