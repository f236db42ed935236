"""A patch laid on a text whose every character is known: one pass forward, in small steps."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Generator, Sequence
from typing import Final

from refold.core.patch_text import Hunk

_STEP: Final = 8_192
"""Newlines that are looked for in one step."""


def apply_hunks(text: str, hunks: Sequence[Hunk]) -> Generator[None, None, str | None]:
    """Give a patched text, in small steps; None where the patch does not fit, or fits in several places.

    A stretch that stands at the line it names fits there; else it must stand in the text exactly once. None
    of them begins before the end of the one before it.
    """
    newlines = yield from _newlines(text)
    made: list[str] = []
    done, begins = 0, True
    for hunk in hunks:
        at = _place(text, newlines, hunk, done, begins=begins)
        if at is None:
            return None
        if hunk.new:
            begins = hunk.new.endswith("\n")
        elif at > done:
            begins = text[at - 1] == "\n"
        made += (text[done:at], hunk.new)
        done = at + len(hunk.old)
        yield
    made.append(text[done:])
    return "".join(made)


def _newlines(text: str) -> Generator[None, None, Sequence[int]]:
    """Give where the newlines of a text are."""
    found = array("I")
    at = text.find("\n")
    while at >= 0:
        found.append(at)
        if len(found) % _STEP == 0:
            yield
        at = text.find("\n", at + 1)
    return found


def _place(text: str, newlines: Sequence[int], hunk: Hunk, done: int, *, begins: bool) -> int | None:
    """Give where a stretch begins in the text as it was.

    Args:
        text: As it was.
        newlines: Where its newlines are.
        hunk: The stretch.
        done: Up to here it was patched.
        begins: What was made up to there ends with a whole line.
    """
    if hunk.line is not None:
        # A stretch without old lines is said to stand after its line.
        before = hunk.line - 1 if hunk.old else hunk.line
        at = _start_of(newlines, before, done, begins=begins)
        if at is not None and text.startswith(hunk.old, at):
            return at
    if not hunk.old:
        return None
    row = f"\n{hunk.old}"
    at = done if begins and text.startswith(hunk.old, done) else text.find(row, done) + 1
    if at == 0 and not (begins and done == 0 and text.startswith(hunk.old)):
        return None
    return at if text.find(row, at) < 0 else None


def _start_of(newlines: Sequence[int], before: int, done: int, *, begins: bool) -> int | None:
    """Give where the line begins that has so many lines before it; None where that is not after `done`."""
    passed = bisect_left(newlines, done)
    if before == passed and begins:
        return done
    return newlines[before - 1] + 1 if passed < before <= len(newlines) else None
