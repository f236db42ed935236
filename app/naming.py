"""A name that is given to a run: it has to find that run, on the command line as on the screen. Blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from refold.core.errors import AmbiguousRun, StoreError
from refold.core.keeping import BadNote, checked_name
from refold.core.store.keep import Change, naming
from refold.core.store.kept import index_of
from refold.core.store.resolve import called_exactly, resolve

if TYPE_CHECKING:
    from refold.app.settings import Settings


def naming_here(name: str, path: Path, settings: Settings) -> Change:
    """Give what gives a run a name; the empty one takes it away.

    Raises:
        BadNote: it cannot be a name, or is the id of another run: that run would be found by it.
    """
    if name:
        for other in called_exactly(checked_name(name), settings.roots):
            if os.path.realpath(other) != os.path.realpath(path):
                raise BadNote(
                    f"{checked_name(name)} is the id of another run, and an id goes before a name",
                    remedy="choose another name",
                )
    return naming(name)


def doubts(name: str, path: Path, settings: Settings) -> Iterator[str]:
    """Say where a name that a run has been given is not the only thing that is called so."""
    given, here = checked_name(name), os.path.realpath(path)
    others = index_of(settings.notes_dir, settings.cache_dir).named(given)
    same = [_id(other) for other in others if os.path.realpath(other) != here]
    if same:
        more = f" and {len(same) - 3} more" if len(same) > 3 else ""
        has = "has" if len(same) == 1 else "have"
        yield f"{', '.join(same[:3])}{more} {has} this name too: use the id, or name one of them otherwise"
        return
    try:
        found = [str(resolve(given, settings.roots))]
    except AmbiguousRun as error:
        found = list(error.candidates)
    except StoreError:
        found = []
    begun = [_id(run) for run in found if os.path.realpath(run) != here and _id(run).startswith(given)]
    if begun:
        more = f" and {len(begun) - 1} more" if len(begun) > 1 else ""
        yield f"{given} also begins the id {begun[0]}{more}: a name goes first, and finds this run"


def _id(path: str | Path) -> str:
    return Path(path).name.removesuffix(".json")
