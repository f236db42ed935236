"""The formats we read, and which of them a file is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from refold.core.formats.journal import FISK_AI, NATIVE, JournalFormat

if TYPE_CHECKING:
    from refold.core.formats.rivumi import EventFormat

FORMATS: Mapping[str, JournalFormat] = {form.name: form for form in (NATIVE, FISK_AI)}
"""Every one-file format by its name."""
_BY_PREFIX = {form.prefix.encode(): form for form in FORMATS.values()}
_PROTOCOL = re.compile(b"|".join(map(re.escape, _BY_PREFIX)))


def of_directories() -> EventFormat:
    """Give the format of runs that are a directory; what reads a journal need not load it."""
    from refold.core.formats.rivumi import RIVUMI

    return RIVUMI


def by_name(name: str) -> JournalFormat:
    """Give the one-file format of a name; raise KeyError where there is none."""
    return FORMATS[name]


def format_of(head: bytes, *, hint: str = NATIVE.name) -> JournalFormat:
    """Say which format a file is by its first bytes; where they do not tell, by the hint.

    The first protocol id in the file decides, whatever the texts after it quote.
    """
    found = _PROTOCOL.search(head)
    return _BY_PREFIX[found[0]] if found is not None else FORMATS.get(hint, NATIVE)
