"""A record for the clipboard: its text as exactly as a clipboard can hold it, and what is said about that."""

from __future__ import annotations

from typing import Final, NamedTuple

from refold.app.present import units

LONGEST: Final = 1_000_000
"""Terminals refuse or cut what is longer than this."""


class Clip(NamedTuple):
    """What goes to the clipboard."""

    text: str
    said: str
    exact: bool
    """False where the text differs from the bytes, or commands a terminal that it is pasted into."""


def clip(data: bytes) -> Clip:
    """Make a text of bytes; those that are not UTF-8 cannot be kept."""
    text = data.decode("utf-8", "replace")
    said = f"Sent {units.size(len(data))} to the terminal's clipboard."
    if text.encode("utf-8") != data:
        return Clip(text, f"{said} Bytes that are not UTF-8 were replaced.", exact=False)
    if any(ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0 for character in text):
        return Clip(text, f"{said} It contains control characters.", exact=False)
    return Clip(text, said, exact=True)
