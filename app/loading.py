"""Work that takes longer than the screen may wait, done on the event loop in slices of a few milliseconds.

Slices need no thread, so nothing has to be locked, and a cancelled task ends between two of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

SLICE = 0.003
"""Seconds that one slice holds the loop; keys and painting have their turn after each."""


def one_slice(work: Iterator[T], *, seconds: float = SLICE) -> tuple[list[T], bool]:
    """Run an iterator for so long; give what it produced, and whether it came to its end."""
    produced: list[T] = []
    end = time.perf_counter() + seconds
    for value in work:
        produced.append(value)
        if time.perf_counter() >= end:
            return produced, False
    return produced, True


async def slices(work: Iterator[T], *, seconds: float = SLICE) -> AsyncGenerator[list[T], None]:
    """Run an iterator to its end, yielding what each slice of time produced.

    The iterator should do a small piece of work for each value. It is closed when the consumer stops early;
    use `contextlib.aclosing` where that can happen.
    """
    close: Callable[[], None] = getattr(work, "close", _nothing)
    try:
        while True:
            produced, ended = one_slice(work, seconds=seconds)
            if produced:
                yield produced
            if ended:
                return
            await asyncio.sleep(0)
    finally:
        close()


async def until_done(step: Callable[[float], bool], *, seconds: float = SLICE) -> None:
    """Call `step` with the time it may take, until it says that all is done."""
    while not step(seconds):  # noqa: ASYNC110 - it is the work that is waited for
        await asyncio.sleep(0)


def _nothing() -> None:
    """Stand for the end of an iterator that holds nothing."""
