"""Every key once: bindings, footer, help page and palette are made from one table, so they cannot part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from refold.app.key_row import GROUPS as GROUPS
from refold.app.key_row import Key as Key
from refold.app.key_row import Place as Place
from refold.app.key_table import TABLE as TABLE

if TYPE_CHECKING:
    from textual.binding import Binding

ROWS: Final[Mapping[str, Key]] = {key.id: key for key in TABLE}


def bindings(place: Place) -> list[Binding]:
    """What a screen or widget puts into its `BINDINGS`."""
    from textual.binding import Binding

    return [
        Binding(
            key.keys,
            key.action,
            key.label,
            show=bool(key.hint),
            tooltip=key.tooltip,
            id=key.id,
            priority=key.priority,
        )
        for key in rows(place)
    ]


def rows(*places: Place) -> Iterable[Key]:
    """The rows of some places, in the order of the table."""
    return (key for key in TABLE if key.place in places)


def keys_of(key: Key, keymap: Mapping[str, str]) -> tuple[str, ...]:
    """Textual's names of the keys that start the action, after remapping."""
    return tuple(name.strip() for name in keymap.get(key.id, key.keys).split(",") if name.strip())


def shown_of(row: str, keymap: Mapping[str, str]) -> str:
    """The key that starts an action as it is printed on keyboards, by the id of its row, or nothing."""
    return next(map(shown, keys_of(ROWS[row], keymap)), "")


_SHOWN: Final = {
    "left": "←",
    "right": "→",
    "up": "↑",
    "down": "↓",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "question_mark": "?",
    "slash": "/",
    "colon": ":",
    "escape": "esc",
    "enter": "enter",
    "space": "space",
    "tab": "tab",
    "pageup": "PgUp",
    "pagedown": "PgDn",
}


def _formatted(name: str) -> str:
    from textual.keys import format_key

    return format_key(name)


def shown(name: str) -> str:
    """A key as it is printed on keyboards."""
    *modifiers, key = name.split("+") if len(name) > 1 else [name]
    key = _SHOWN.get(key) or (key if len(key) == 1 else _formatted(key))
    return "^" + key if modifiers == ["ctrl"] else "+".join([*modifiers, key])
