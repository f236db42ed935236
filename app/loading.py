"""Work that takes longer than the screen may wait, done on the event loop in slices of a few milliseconds.

Slices need no thread, so nothing has to be locked, and a cancelled task ends between two of them. Only what
cannot be sliced, as waiting for another process, goes to a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from functools import partial
from typing import Final, TypeVar

T = TypeVar("T")

STILL_READING: Final = "The run is still being read."
"""Said of what has to wait until it is."""
SLICE = 0.002
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


async def others_first() -> None:
    """Let everything run that is due before the next slice.

    Once round the loop is not enough: what a timer or a key wakes runs in the round after it was found due,
    behind the slice that is in that round already.
    """
    await asyncio.sleep(0)
    await asyncio.sleep(0)


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
            await others_first()
    finally:
        close()


async def until_done(step: Callable[[float], bool], *, seconds: float = SLICE) -> None:
    """Call `step` with the time it may take, until it says that all is done."""
    while not step(seconds):
        await others_first()


async def aside(function: Callable[[], T]) -> T:
    """Run a blocking function on a thread that nobody waits for when the program ends."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[T] = loop.create_future()

    def settled(how: Callable[[], None]) -> None:
        if not waiting.done():
            how()

    def tell(how: Callable[[], None]) -> None:
        # A loop that has ended hears nothing any more, and nobody waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settled, how)

    def run() -> None:
        try:
            result = function()
        except BaseException as error:
            tell(partial(waiting.set_exception, error))
        else:
            tell(partial(waiting.set_result, result))

    threading.Thread(target=run, name="refold-aside", daemon=True).start()
    return await waiting


def _nothing() -> None:
    """Stand for the end of an iterator that holds nothing."""
