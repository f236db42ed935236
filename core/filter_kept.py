"""The terms of a filter that ask for what is kept about a run: its star, tags, name and notes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from refold.core.filter_terms import NO, YES, Term, yes_or_no
from refold.core.keeping import Kept

KeptTest: TypeAlias = Callable[[Kept], bool]

KEYS: Final = {
    "star": "star:yes",
    "tag": "tag:bug or tag:no",
    "name": "name:sweep",
    "note": "note:retry or note:yes",
}
"""Every key with an example of its use."""


def kept_test(term: Term) -> KeptTest:
    """Understand a term with one of these keys; yes and no ask whether there is any at all.

    Raises:
        FilterError: the value does not fit.
    """
    if term.key == "star":
        wanted = yes_or_no(term)
        return lambda kept: kept.star in wanted
    tests = tuple(_one(term.key, value) for value in term.folded)
    return lambda kept: any(test(kept) for test in tests)


def _one(key: str, value: str) -> KeptTest:
    if value in YES:
        return _THERE[key]
    if value in NO:
        return lambda kept: not _THERE[key](kept)
    if key == "tag":
        return lambda kept: any(tag.casefold().startswith(value) for tag in kept.tags)
    if key == "name":
        return lambda kept: value in kept.name.casefold()
    return lambda kept: value in kept.note.casefold()


_THERE: Final[dict[str, KeptTest]] = {
    "tag": lambda kept: bool(kept.tags),
    "name": lambda kept: bool(kept.name),
    "note": lambda kept: bool(kept.note or kept.records),
}
