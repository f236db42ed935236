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
        BadNote: it cannot be a name, or is the id of another run, which would be found by it, or its name:
            none would be found by that any more.
    """
    if name:
        taken = [each for each in _named(name, settings) if os.path.realpath(each) != os.path.realpath(path)]
        if taken:
            more = f" and {len(taken) - 1} more" if len(taken) > 1 else ""
            raise BadNote(
                f"{checked_name(name)} is the name of {_id(taken[0])}{more}, and a name finds one run",
                remedy="choose another name, or take it away there first",
            )
        for other in called_exactly(checked_name(name), settings.roots):
            if os.path.realpath(other) != os.path.realpath(path):
                raise BadNote(
                    f"{checked_name(name)} is the id of another run, and an id goes before a name",
                    remedy="choose another name",
                )
    return naming(name)


def doubts(name: str, path: Path, settings: Settings) -> Iterator[str]:
    """Say where a name that a run has been given is also how ids of others begin."""
    given, here = checked_name(name), os.path.realpath(path)
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


def _named(name: str, settings: Settings) -> list[Path]:
    return index_of(settings.notes_dir, settings.cache_dir).named(checked_name(name), settings.roots)


def _id(path: str | Path) -> str:
    return Path(path).name.removesuffix(".json")
