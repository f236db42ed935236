"""What each role of `app.lines` looks like: colour follows kind, the accent asks for attention.

Said once, for the screen and for the rows that are painted before it: a colour is the name of a variable of
the theme. No meaning hangs on colour alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Look(NamedTuple):
    """What a role or the state of a row adds to what lies below it."""

    colour: str = ""
    """A variable of the theme; empty for the colour below."""
    ground: str = ""
    words: str = ""
    """Weight and lines, as `bold underline`."""


_MUTED: Final = Look("muted")
_HERE: Final = Look("accent", words="bold")
_PROMPT: Final = Look("secondary")
_ANSWER: Final = Look("primary")
_CALL: Final = Look("kind-call")
_FORK: Final = Look("kind-fork")
_GOOD: Final = Look("success")
_PROBLEM: Final = Look("error")

_LOOKS: Final[Mapping[str, Look]] = {
    "dim": _MUTED,
    "strong": Look(words="bold"),
    "terminal": Look("muted", words="bold"),
    "accent": _HERE,
    "cursor": _HERE,
    "match": Look("accent", words="bold underline"),
    "brand": Look("background", "primary", "bold"),
    "user": _PROMPT,
    "meta": _PROMPT,
    "assistant": _ANSWER,
    "json-key": _ANSWER,
    "call": _CALL,
    "json-number": _CALL,
    "fork": _FORK,
    "json-word": _FORK,
    "result": _GOOD,
    "good": _GOOD,
    "added": _GOOD,
    "json-string": _GOOD,
    "problem": _PROBLEM,
    "removed": _PROBLEM,
    "warn": Look("warning"),
    "key": Look("accent"),
    "number": Look("foreground"),
    # The row under the cursor, in the list that has the keys and in one that has not.
    "here": Look(ground="here"),
    "here-blurred": Look(ground="panel"),
    # A line of a comparison: what it says keeps its own colours.
    "added-line": Look(ground="success-muted"),
    "removed-line": Look(ground="error-muted"),
}

_SIXTEEN: Final[Mapping[str, Look]] = {
    "here": Look("foreground", words="reverse"),
    "here-blurred": Look(words="bold"),
    "brand": Look("primary", words="bold reverse"),
    "added-line": Look(),
    "removed-line": Look(),
}
"""Sixteen colours or none: the row is turned round instead."""

_COLOURLESS: Final[Mapping[str, str]] = {
    "dim": "dim",
    "key": "bold",
    "problem": "bold",
    "warn": "bold",
    "removed": "dim",
    "json-key": "bold",
}
"""No colour at all: weight says what colour said."""


def look_of(role: str, *, ansi: bool, no_color: bool) -> Look:
    """Give the look of a role or state.

    Args:
        role: A role of `app.lines`, or what a list says of a row.
        ansi: The terminal's own sixteen colours are used.
        no_color: No colour is; the colours of the look are to be left out.
    """
    look = _LOOKS.get(role, Look())
    if ansi:
        look = _SIXTEEN.get(role, look)
    if no_color and role in _COLOURLESS:
        look = look._replace(words=_COLOURLESS[role])
    return look
