"""Work that waits for the disk, done on a thread of its own while its owner goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Full, Queue
from typing import TypeAlias

_MOST = 4
"""Pieces that may wait; each holds what it is to write."""
_WAIT = 0.1
"""Seconds after which it is looked whether the thread lives still."""

_Work: TypeAlias = Callable[[], object]


class InTurn:
    """Does pieces of work one after the other. All calls are made from one thread."""

    def __init__(self, fault: Callable[[Exception], object]) -> None:
        """Begin with nothing to do.

        Args:
            fault: Told, when it is closed, what a piece of work raised; the others are done all the same.
        """
        self._fault = fault
        self._faults: list[Exception] = []
        self._waiting: Queue[_Work | None] = Queue(_MOST)
        self._thread: threading.Thread | None = None

    def do(self, work: _Work) -> None:
        """Have a piece of work done soon; at once where too much waits already."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="refold-in-turn", daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait(work)
        except Full:
            self._try(work)

    def close(self) -> None:
        """Wait until all of it is done, and tell what went wrong."""
        if self._thread is not None:
            # A thread for which there was no memory has ended, and takes nothing more.
            while self._thread.is_alive():
                try:
                    self._waiting.put(None, timeout=_WAIT)
                except Full:
                    continue
                self._thread.join()
            self._thread, self._waiting = None, Queue(_MOST)
        faults, self._faults = self._faults, []
        for error in faults:
            self._fault(error)

    def _run(self) -> None:
        while (work := self._waiting.get()) is not None:
            self._try(work)
            # What it was to write is not held while nothing waits.
            del work

    def _try(self, work: _Work) -> None:
        try:
            work()
        except Exception as error:  # whatever it is, what waits behind it is done
            self._faults.append(error)
