"""Patterns that are tried only where a mark of theirs stands: far quicker than to try them everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator


def matches(
    pattern: re.Pattern[str], text: str, marks: Iterable[str], looked_in: str = ""
) -> Iterator[re.Match[str]]:
    """Give what `pattern.finditer(text)` gives, for a pattern that always begins with one of some marks.

    Args:
        pattern: never matches nothing.
        text: where it is looked for.
        marks: each of its matches begins with one of them.
        looked_in: where the marks are looked for, if not in the text itself; as long as it is.
    """
    done = 0
    for at in _beginnings(looked_in or text, marks):
        if at < done:
            continue
        found = pattern.match(text, at)
        if found is not None:
            yield found
            done = found.end()


def _beginnings(text: str, marks: Iterable[str]) -> list[int]:
    """Give where the marks stand in a text, in order."""
    found: list[int] = []
    for mark in marks:
        at = text.find(mark)
        while at >= 0:
            found.append(at)
            at = text.find(mark, at + 1)
    found.sort()
    return found


def small(text: str) -> str:
    """Give a text without capitals, as long as it is: the few letters that would become two stay."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)
