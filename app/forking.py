"""What a fork from the screen needs beside its plan: an id to propose, and where its lineage is noted."""

from __future__ import annotations

import itertools
import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from refold.core.store.fork import Forked, carry_out
from refold.core.store.notes import NotesStore
from refold.core.store.run_id import is_run_id, new_run_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from refold.app.settings import Settings
    from refold.core.fork import ForkPlan

_SORTED_BY_TIME: Final = re.compile("[0-9A-Za-z]{27}")
_MOST: Final = 1000


def notes_of(settings: Settings) -> NotesStore:
    """Give what is noted about runs."""
    return NotesStore(settings.state_dir / "notes")


def making(settings: Settings) -> Callable[[ForkPlan], Forked]:
    """Give what carries a plan out."""
    return partial(carry_out, notes=notes_of(settings))


def proposed_id(parent: Path) -> str:
    """Give an id for a fork of a run: its own name and a number where it has a name, else a new one."""
    name = parent.name.removesuffix(".json")
    if is_run_id(name) and not _SORTED_BY_TIME.fullmatch(name):
        stem = re.sub("-[0-9]{1,4}$", "", name)
        for number in itertools.islice(itertools.count(2), _MOST):
            proposed = f"{stem}-{number}"
            if is_run_id(proposed) and not os.path.lexists(parent.with_name(f"{proposed}.json")):
                return proposed
    return new_run_id()
