"""A record for the clipboard: its text as exactly as a clipboard can hold it, and what is said about that."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from refold.app.present import units
from refold.core.export.entries import visible

LONGEST: Final = 1_000_000
"""Terminals refuse or cut what is longer than this."""


_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Clip(NamedTuple):
    """What goes to the clipboard."""

    text: str
    said: str
    exact: bool
    """False where the text differs from the bytes, or commands a terminal that it is pasted into."""


def clip(data: bytes, *, controls: bool = True) -> Clip:
    """Make a text of bytes; those that are not UTF-8 cannot be kept.

    Args:
        data: The bytes.
        controls: Let through what commands a terminal, which somebody asked for; else pictures stand for it
            (design/safety.md 3.2, rule 4).
    """
    text = data.decode("utf-8", "replace")
    said = f"Sent {units.size(len(data))} to the terminal's clipboard."
    exact = text.encode("utf-8") == data
    if not exact:
        said += " Bytes that are not UTF-8 were replaced."
    if _CONTROL.search(text) is None:
        return Clip(text, said, exact)
    if controls:
        return Clip(text, f"{said} It contains control characters.", exact=False)
    shown = _CONTROL.sub(lambda found: visible(found[0]), text)
    return Clip(shown, f"{said} Pictures stand for its control characters.", exact=False)
