"""Which files of the cache another version of Refold wrote: they are passed over, and made again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from refold.core.errors import StoreError
from refold.core.store import index_cache, list_cache, session_cache
from refold.core.store.files import open_regular

_HEAD: Final = 256
_ARRAYS: Final = (0x93, 0x94)
"""What MessagePack writes before an array of three, as entries up to layout 8 are, and before one of four."""
_SHORT_TEXT: Final = range(0xA0, 0xC0)
"""The same before a text of under 32 bytes."""


def of_another_version(cache: Path) -> Iterator[Path]:
    """Give the files of a cache that say that another version wrote them; damaged ones say nothing.

    Args:
        cache: The directory of the cache. What cannot be read in it is left out.
    """
    for name in (list_cache.NAME, session_cache.NAME):
        head = _head(cache / name)
        if head.startswith(list_cache.KIND) and not head.startswith(list_cache.MAGIC):
            yield cache / name
    try:
        names = sorted(os.listdir(cache / index_cache.DIRECTORY))  # noqa: PTH208 - names alone
    except OSError:
        return
    for name in names:
        layout = _layout(_head(cache / index_cache.DIRECTORY / name))
        if layout.count("/") == 2 and layout != index_cache.LAYOUT:
            yield cache / index_cache.DIRECTORY / name


def _head(path: Path) -> bytes:
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            return file.read(_HEAD)
    except (OSError, StoreError):
        return b""


def _layout(head: bytes) -> str:
    """Give the first field of an entry, which is the layout of the others; empty where it is no text."""
    if len(head) < 2 or head[0] not in _ARRAYS or head[1] not in _SHORT_TEXT:
        return ""
    return head[2 : 2 + head[1] - _SHORT_TEXT.start].decode("utf-8", "replace")
