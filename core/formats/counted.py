"""Objects of a line counted while they are read: one that stands twice is read twice, and kept once.

A repeated key is no error to msgspec: the last value stays. The original merges such objects, so a line that
made more of them than are left in the end is not of the usual shape.
"""

from __future__ import annotations

import threading
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from refold.core.formats.fields import MAX_INT

Int: TypeAlias = Annotated[int, Meta(ge=-MAX_INT - 1, le=MAX_INT)]

made: Final[list[Struct]] = []
"""The counted objects of the line being read; whoever read it empties the list."""
one_at_a_time: Final = threading.Lock()
"""Held while a line is read and counted: a fork or a search reads beside the screen."""


class Counted(Struct, forbid_unknown_fields=True, gc=False):
    """What is counted."""

    # A bound C method costs a tenth of a Python one, and this runs for every line.
    __post_init__ = made.append  # type: ignore[misc]
