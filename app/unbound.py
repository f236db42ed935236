"""What is said to a key that does nothing: why not now, or that it means nothing on this screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from refold.app import keys

if TYPE_CHECKING:
    from textual import events
    from textual.screen import Screen


def silent(event: events.Key, screen: Screen[object]) -> bool:
    """Say whether a key that prints something would do nothing on a screen, and say nothing."""
    return event.is_printable and event.key not in screen.active_bindings


def answer_to(event: events.Key, screen: Screen[object], keymap: Mapping[str, str]) -> str:
    """Give the sentence.

    Args:
        event: the key.
        screen: where it was pressed; one that hides an action says why in its `why_not`.
        keymap: the keys of the configuration.
    """
    shown = keys.shown(event.key)
    here = {getattr(binding, "id", None) for binding in type(screen).BINDINGS}
    for row in keys.TABLE:
        if row.id in here and event.key in keys.keys_of(row, keymap):
            why_not = getattr(screen, "why_not", None)
            why = why_not(row.action.partition("(")[0]) if why_not is not None else ""
            return why or f"{shown} does nothing here now: {row.label[:1].lower()}{row.label[1:]}."
    return f"{shown} means nothing here. ? shows the keys."
