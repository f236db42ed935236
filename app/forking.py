"""What a new run made of another needs beside its plan: an id to propose, and its notes."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from refold.core.errors import StoreError
from refold.core.store.notes import NotesStore
from refold.core.store.run_id import is_run_id, new_run_id

if TYPE_CHECKING:
    from refold.app.settings import Settings
    from refold.core.fork import ForkPlan
    from refold.core.salvage import SalvagePlan
    from refold.core.store.fork import Forked

_SORTED_BY_TIME: Final = re.compile("[0-9A-Za-z]{27}")
_MOST: Final = 1000


def notes_of(settings: Settings) -> NotesStore:
    """Give what is noted about runs."""
    return NotesStore(settings.notes_dir)


def make_fork(plan: ForkPlan, settings: Settings) -> Forked:
    """Make a fork; the agent that goes on with its parent goes on with it too.

    Raises:
        StoreError: the fork was not made.
    """
    from refold.core.store.fork import carry_out

    notes = notes_of(settings)
    return _with_agent(carry_out(plan, notes=notes), Path(plan.path), notes)


def make_salvaged(plan: SalvagePlan, settings: Settings) -> Forked:
    """Make a run of the good records of a damaged one; its agent goes on with it.

    Raises:
        StoreError: the new run was not made.
    """
    from refold.core.store.salvage import carry_out

    notes = notes_of(settings)
    return _with_agent(carry_out(plan, notes=notes), Path(plan.path), notes)


def _with_agent(made: Forked, of: Path, notes: NotesStore) -> Forked:
    """Note about a new run which agent the other one has."""
    parent = notes.read(of)
    if not (parent.agent or parent.config or parent.cwd):
        return made
    try:
        notes.update(
            made.path,
            lambda own: msgspec.structs.replace(
                own, agent=parent.agent, config=parent.config, cwd=parent.cwd
            ),
        )
    except StoreError:
        return msgspec.structs.replace(made, noted=False)
    return made


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
