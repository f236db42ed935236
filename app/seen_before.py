"""Whether an open run is still what was seen of it before; its hashes lie in the cache."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from refold.app.bundles import told_path
from refold.core.store.seen import LONGEST, Rewritten, look

if TYPE_CHECKING:
    from refold.app.settings import Settings
    from refold.core.store.reader import RunReader

ANY_LENGTH: Final = sys.maxsize
"""For who reads all of a run anyway."""


def rewritten_in(
    reader: RunReader, settings: Settings, *, longest: int = LONGEST, accept: bool = False
) -> Rewritten | None:
    """Hold a run against what was seen of it, and remember it; reads all of it.

    Args:
        reader: The open run.
        settings: Where the cache is; without one, and of what a bundle holds, nothing is known.
        longest: Of a longer file nothing is said.
        accept: Take it as it is now.

    Raises:
        StoreError: it cannot be read.
    """
    return looking_back(reader, settings, longest=longest, accept=accept)()


def looking_back(
    reader: RunReader, settings: Settings, *, longest: int = LONGEST, accept: bool = False
) -> Callable[[], Rewritten | None]:
    """Give the same as work for a thread, which needs the reader no more; it is to be done once."""
    cache, file = settings.cache_dir, reader.file
    if cache is None or reader.size > longest or told_path(reader.path) != reader.path:
        return lambda: None
    fd = reader.descriptor()

    def work() -> Rewritten | None:
        try:
            return look(fd, file, cache, accept=accept)
        finally:
            os.close(fd)

    return work
