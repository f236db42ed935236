"""How a run is stopped from outside: once suspends it at the next boundary, twice stops it at once."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from types import FrameType
from typing import TypeVar

from refold.core.errors import RefoldError, StoreError, said

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE = 2
"""Signals that are taken: one suspends, one stops at once."""


_PROMPT = 0.1
"""Seconds within which a loop that nothing holds up has taken a signal."""


class Aborted(RefoldError):
    """The run was told to stop at once."""


class Withdrawn(RefoldError):
    """Some work cancelled itself, or wanted the program to end, which nobody had asked for."""


class Control:
    """The stop of one run. Use it on the thread of the run's event loop."""

    def __init__(
        self, told: Callable[[], None] = lambda: None, held_up: Callable[[], None] = lambda: None
    ) -> None:
        """Prepare.

        Args:
            told: called each time the run is told to stop; it must not fail.
            held_up: called when a signal comes while something holds up the loop, so that an earlier one has
                not been taken yet. It runs inside the signal handler: it must be short and not fail.
        """
        self._told = told
        self._held_up = held_up
        self._suspend = asyncio.Event()
        self._abort = asyncio.Event()

    @property
    def suspending(self) -> bool:
        """True once the run was told to stop at the next boundary."""
        return self._suspend.is_set()

    @property
    def aborting(self) -> bool:
        """True once the run was told to stop at once."""
        return self._abort.is_set()

    def stop(self) -> None:
        """Ask for a suspend; ask again to abort."""
        if self.suspending:
            self._abort.set()
        self._suspend.set()
        self._told()

    def abort(self) -> None:
        """Stop at once: calls that are running are cancelled, and nothing is said about their results."""
        self._suspend.set()
        self._abort.set()
        self._told()

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """Take SIGINT and SIGTERM as `stop` while the block runs; a third one ends the process.

        That is safe at any moment: what was acknowledged is on disk. It works also where a tool holds up the
        event loop. Only for the main thread, inside a running loop.
        """
        loop = asyncio.get_running_loop()
        heard = 0
        first = 0.0

        def hear(number: int, _: FrameType | None) -> None:
            nonlocal heard, first
            heard += 1
            first = first or time.monotonic()
            if heard > _PATIENCE:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            if heard > 1 and not self.suspending and time.monotonic() - first > _PROMPT:
                self._held_up()
            loop.call_soon_threadsafe(self.stop)

        before = {number: signal.signal(number, hear) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    async def unless_aborted(self, work: Awaitable[T]) -> T:
        """Wait for some work, or for the abort, which cancels it.

        Raises:
            Aborted: the abort came first.
        """
        task, done = await _first(work, self._abort)
        if not done:
            await _cancel(task)
        if task.cancelled() and self.aborting:
            raise Aborted("stopped at once, as asked")
        error = task.exception() if not task.cancelled() else None
        if error is not None and not done and not isinstance(error, StoreError):
            # Whatever the work says about being cancelled is no answer to what it was asked.
            raise Aborted("stopped at once, as asked") from error
        return task.result()

    async def unless_suspended(self, work: Awaitable[T]) -> T | None:
        """Wait for some work; None where the run is told to stop before it is done."""
        task, done = await _first(work, self._suspend)
        if not done:
            await _cancel(task)
            if task.cancelled() or task.exception() is not None:
                return None
        return task.result()


async def settled(work: Awaitable[T] | T) -> T:
    """Wait for the work of others, so that only we ourselves end us; what is there already is given.

    Raises:
        Withdrawn: it ended as cancelled although nobody here cancelled it, or wanted more than itself to end.
    """
    if not inspect.isawaitable(work):
        # A function that is not async has run: to say that it failed would let it run twice.
        return work
    theirs: Awaitable[T] = work
    try:
        return await theirs
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise Withdrawn("cancelled from within") from error
    except SystemExit as error:
        raise Withdrawn(f"wanted the program to end ({error.code})") from error
    except (Exception, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        # Of extension modules: a task that ends so takes its neighbours, and then the program, along.
        raise Withdrawn(said(error)) from error


async def _first(work: Awaitable[T], event: asyncio.Event) -> tuple[asyncio.Future[T], bool]:
    """Wait until some work is done or an event has come; give the work, and whether it is done."""
    task = asyncio.ensure_future(work)
    signalled = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({task, signalled}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        await _cancel(task)
        raise
    finally:
        signalled.cancel()
    return task, task.done()


async def _cancel(task: asyncio.Future[T]) -> None:
    task.cancel()
    await asyncio.wait({task})
