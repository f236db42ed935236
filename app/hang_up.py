"""The end of a program whose terminal is gone: nothing can be drawn, read or put right any more."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Final

from textual.driver import Driver

_LOOK: Final = 1.0
LONGEST: Final = 3.0
"""Seconds that an orderly end may take before the process is ended as it is."""


def terminal_is_gone() -> bool:
    """Say whether the terminal we were started on was closed."""
    return not os.isatty(0)


def let_go(driver: Driver | None) -> None:
    """Write to a closed terminal no more, and let the threads that read it end.

    Textual (8.2.8, no public way) writes from a thread that dies of the first failed write, and then waits
    for ever for room in its queue; the thread that reads finds the end of the input again and again.
    """
    if driver is None:
        return
    setattr(driver, "write", _nowhere)  # noqa: B010 - a method of one object, on purpose
    setattr(driver, "flush", _nowhere)  # noqa: B010
    ended = getattr(driver, "exit_event", None)
    if isinstance(ended, threading.Event):
        ended.set()
    # What is still in a buffer would fail at the very end, and that would be the exit code.
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        for number in (1, 2):
            os.dup2(nowhere, number)
        os.close(nowhere)


def _nowhere(*_: str) -> None:
    """Take what would be written."""


def watch(gone: Callable[[], object], code: int) -> None:
    """Call `gone`, from a thread of its own, once the terminal was closed, and end the process soon after.

    Where there is no terminal from the beginning, none can be closed, and nothing is watched.
    A program that waits for room to draw heeds no signal and no timer: only another thread can end it.

    Args:
        gone: asks the program to end; called at most once.
        code: the exit code of a process that does not end by itself.
    """
    if terminal_is_gone():
        return
    threading.Thread(target=_watch, args=(gone, code), name="terminal", daemon=True).start()


def _watch(gone: Callable[[], object], code: int) -> None:
    while not terminal_is_gone():
        time.sleep(_LOOK)
    with contextlib.suppress(RuntimeError):  # the loop has ended already
        gone()
    time.sleep(LONGEST)
    os._exit(code)
