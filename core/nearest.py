"""The name that a mistyped word was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_CLOSE: Final = 0.6


def nearest(word: str, names: Iterable[str], close: float = _CLOSE) -> str:
    """Give the name that a word is close to, swapped letters first; empty where it is close to none.

    Args:
        word: As typed.
        names: What there is.
        close: How alike both have to be, from 0 to 1.
    """
    # Most runs of the program mistype nothing.
    from difflib import get_close_matches

    known = list(names)
    letters = sorted(word)
    swapped = [name for name in known if sorted(name) == letters]
    return next(iter(swapped or get_close_matches(word, known, 1, close)), "")
