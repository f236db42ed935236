"""What a bundle holds, by name: a manifest, and the journal or the files of the directory of one run."""

from __future__ import annotations

import zipfile
from typing import Final

from refold.core.nested import NESTED
from refold.core.store.roots import SUFFIX
from refold.core.store.run_id import is_run_id
from refold.core.store.session_names import LOCK, MARKS, PARTS, is_run_name

VERSION: Final = 1
MANIFEST: Final = "manifest.json"
PLACE: Final = "run/"
HEAD: Final = "workspace/.git/HEAD"
"""Of the workspace of a run nothing is taken along but the commit it stands at: a verdict asks for it."""
TEXTS: Final = ("changes.patch", "test.log", "review.md")
FILES: Final = (*PARTS, *TEXTS, LOCK, HEAD)
"""What is taken of a run directory, where it is there."""
DEEPEST: Final = 8
"""So many runs may lie within each other."""
MOST_RUNS: Final = 1000
LARGEST_MANIFEST: Final = 64 << 20
LARGEST_RUN: Final = 8 << 30
_LEAST_RUN: Final = 256 << 20
_SQUEEZED: Final = 100
"""A run is packed to a hundredth of its size at best, or it is small: more is a trap."""

_WHEN: Final = (1980, 1, 1, 0, 0, 0)
"""Members carry no time of their own."""


def member(name: str) -> zipfile.ZipInfo:
    """Give the entry of a new member: packed, private to its owner."""
    info = zipfile.ZipInfo(name, _WHEN)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o100600 << 16
    return info


def most_in(packed: int) -> int:
    """Give how many bytes of a run a bundle of so many bytes may hold: no more is written, and none read."""
    return min(LARGEST_RUN, max(_LEAST_RUN, _SQUEEZED * packed))


def run_of(names: set[str]) -> str:
    """Give the name under which a run lies in a bundle; empty where the members are not those of one run.

    Args:
        names: the names of all members but the manifest.
    """
    first = next(iter(names), "")
    run = first.removeprefix(PLACE).partition("/")[0]
    if names == {f"{PLACE}{run}"} and run.endswith(SUFFIX):
        return run if is_run_id(run.removesuffix(SUFFIX)) else ""
    if not is_run_name(run) or not all(_is_part(name, f"{PLACE}{run}/") for name in names):
        return ""
    return run if any(f"{PLACE}{run}/{mark}" in names for mark in MARKS) else ""


def _is_part(name: str, place: str) -> bool:
    """Say whether a member is a file that a run directory has, or one of a run within it."""
    if not name.startswith(place):
        return False
    parts = name.removeprefix(place).split("/")
    deep = 0
    while len(parts) > 2 and parts[0] == NESTED:
        if not is_run_name(parts[1]) or deep == DEEPEST:
            return False
        parts, deep = parts[2:], deep + 1
    return "/".join(parts) in FILES
