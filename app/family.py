"""The family of a run among all runs that the directories hold, read in small steps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from refold.app.log import record_fault
from refold.core.lineage import Tree
from refold.core.store.catalog import Catalog
from refold.core.store.lineage import read_family
from refold.core.store.notes import NotesStore
from refold.core.store.roots import Root
from refold.core.summary import RunSummary

if TYPE_CHECKING:
    from refold.app.settings import Settings


def family_of(path: Path, hint: str, settings: Settings) -> Iterator[Tree | None]:
    """Look through all directories, then read the family of a run.

    Args:
        path: The run.
        hint: The format to assume in its directory where the bytes do not tell.
        settings: Where to look, and where notes and caches lie.

    Yields:
        None where there was work without a result, then a tree as soon as there is one, and better ones.
    """
    roots = [*settings.roots, Root(path.parent.absolute(), hint, "argument")]
    catalog = Catalog(roots, cache=settings.cache_dir, fault=partial(record_fault, settings.log_file))
    found: dict[str, RunSummary] = {}
    try:
        for item in catalog.scan():
            if isinstance(item, RunSummary):
                found[item.path] = item
            yield None
    finally:
        catalog.close()
    focus = next((each for each in found if _same(each, path)), None)
    if focus is None:
        focus = str(path)
        found[focus] = RunSummary(path.name.removesuffix(".json"), focus)
    yield from read_family(
        found.values(), focus, notes=NotesStore(settings.notes_dir), cache=settings.cache_dir
    )


def _same(known: str, path: Path) -> bool:
    if os.path.basename(known) != path.name:  # noqa: PTH119 - a str that need not be UTF-8
        return False
    try:
        return Path(known).samefile(path)
    except OSError:
        return known == str(path)
