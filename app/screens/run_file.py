"""The file of an open run over time: read in slices, then watched for growth, replacement and deletion."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final, NamedTuple

from refold.app.loading import others_first
from refold.app.present.reading import LARGE
from refold.app.stirring import Stirring
from refold.core.errors import StoreError
from refold.core.store.growing import Change
from refold.core.store.reader import RunReader

SLICE: Final = 0.001
"""Seconds that the event loop is held at a time."""
_PATIENCE: Final = 0.5
"""Seconds after which a short run is shown as far as it is read, whatever holds it up."""
POLL: Final = 0.04
"""Seconds between two looks at a file of which nothing is reported: a record is to be seen within a tenth."""
_REST: Final = 3
"""For so many times as long as it took to show what was read, nothing new is read."""


class Opened(NamedTuple):
    """The file was opened, or opened again because it is no longer what was read."""

    reader: RunReader
    why: Change | None = None


class Read(NamedTuple):
    """The index has grown, or has been looked at again; `finished` at the end of the file."""

    finished: bool


class Gone(NamedTuple):
    """Nothing can be read at the path any more; what was read stays."""

    reason: str


class Back(NamedTuple):
    """The very file that was gone stands at the path again."""


FileEvent = Opened | Read | Gone | Back


async def follow(open_reader: Callable[[], RunReader], cache: Path | None = None) -> AsyncIterator[FileEvent]:
    """Open a run and tell everything that happens to its file, until cancelled; the reader is closed then.

    Args:
        open_reader: Opens it.
        cache: Where the finished index of a run directory is kept; the list keeps those of journals.

    Raises:
        StoreError: the file cannot be opened in the first place, or not be read.
    """
    reader = open_reader()
    stirring = Stirring(reader.path)
    try:
        yield Opened(reader)
        while True:
            async for event in _index(reader):
                began = time.monotonic()
                yield event
                shown = time.monotonic() - began
            if reader.complete and cache is not None and reader.session is not None:
                _keep(reader, cache)
            if reader.complete:
                await asyncio.sleep(min(POLL, _REST * shown))
                async for event in _wait(reader, stirring):
                    yield event
            change = reader.poll()
            if change in (Change.REPLACED, Change.SHRANK):
                try:
                    following = open_reader()
                except StoreError as error:
                    yield Gone(str(error))
                    await asyncio.sleep(POLL)
                    continue
                reader.close()
                stirring.close()
                reader, stirring = following, Stirring(following.path)
                yield Opened(reader, change)
    finally:
        reader.close()
        stirring.close()


def _keep(reader: RunReader, cache: Path) -> None:
    """Keep a finished index, on a thread that nobody waits for."""
    keeping = reader.keeping(cache)
    if keeping is not None:
        threading.Thread(target=keeping, name="refold-index", daemon=True).start()


async def _index(reader: RunReader) -> AsyncIterator[FileEvent]:
    """Read to the end of the file, or until it is no longer the one that was opened."""
    looked = began = time.monotonic()
    gone = False
    # Of a long run the first few lines are enough to show; a short one is read before anything is: only
    # then it is known where to begin.
    short = reader.size < LARGE
    slice_ = SLICE if short or reader.timeline.items else 0.0
    while not reader.step(slice_):
        slice_ = SLICE
        if not short or time.monotonic() - began > _PATIENCE:
            yield Read(finished=False)
        await others_first()
        if time.monotonic() - looked < POLL:
            continue
        looked = time.monotonic()
        change = reader.poll()
        if change in (Change.REPLACED, Change.SHRANK):
            return
        if gone != (change is Change.GONE):
            gone = not gone
            yield Gone("the file was deleted") if gone else Back()
    yield Read(finished=True)


async def _wait(reader: RunReader, stirring: Stirring) -> AsyncIterator[FileEvent]:
    """Wait until there is something to read, here or in another file."""
    gone = False
    while True:
        await stirring.wait(POLL)
        change = reader.poll()
        if change is Change.GONE:
            if not gone:
                yield Gone("the file was deleted")
            gone = True
            continue
        if gone and change in (Change.SAME, Change.GREW):
            gone = False
            yield Back()
        if change is not Change.SAME:
            return
