"""Keys that would start two actions at once: only one of them could be carried out."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Final, NamedTuple

from refold.app.key_row import Place
from refold.app.keys import ROWS, keys_of, rows

TOGETHER: Final[tuple[tuple[Place, ...], ...]] = (
    ("runs", "list", "app"),
    ("run", "list", "app"),
    ("run", "pager", "app"),
    ("columns", "app"),
    ("resume", "list", "app"),
    ("postmortem", "list", "app"),
    ("mend", "pager", "app"),
    ("fork", "pager", "app"),
    ("lineage", "list", "app"),
    ("compare", "list", "app"),
    ("trash", "list", "app"),
    ("history", "list", "app"),
    ("search", "list", "app"),
    ("chat", "list", "app"),
    ("chat", "pager", "app"),
    ("chatfork", "pager", "app"),
    ("copymenu", "list", "app"),
    ("export", "pager", "app"),
    ("directories", "pager", "app"),
    ("blind", "pager", "app"),
    ("dialog", "pager", "app"),
    ("prompt", "app"),
)
"""Places whose keys are heard at the same time."""

_NAMES: Final = {
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "commercial_at": "at",
    "hyphen_minus": "minus",
    "plus_sign": "plus",
    "low_line": "underscore",
}
"""What Textual (8.2.8) calls a key, where it is not the name of its character."""


class Clash(NamedTuple):
    """A key that a configuration gives to two actions."""

    key: str
    """As the configuration spells it."""
    remapped: str
    """The id of the action that was given it."""
    other: str
    """The id of the action that has it too."""


def clash(keymap: Mapping[str, str]) -> Clash | None:
    """Give the first key that remapping brings to an action while another has it at the same time.

    What two actions have in common without being remapped is meant: a dialog takes keys from the program.
    """
    given = {row: _names(keys) - _names(ROWS[row].keys) for row, keys in keymap.items()}
    for places in TOGETHER:
        holders: dict[str, str] = {}
        for key in rows(*places):
            for spelled in keys_of(key, keymap):
                name = _named(spelled)
                held = holders.setdefault(name, key.id)
                if held != key.id and (name in given.get(key.id, ()) or name in given.get(held, ())):
                    first, second = (key.id, held) if name in given.get(key.id, ()) else (held, key.id)
                    return Clash(spelled, first, second)
    return None


def _names(keys: str) -> frozenset[str]:
    return frozenset(map(_named, keys.split(",")))


def _named(spelled: str) -> str:
    """Give the name of a key, which may be spelled by its character."""
    name = spelled.strip()
    if len(name) == 1 and not name.isalnum():
        name = unicodedata.name(name, name).lower().replace("-", "_").replace(" ", "_")
        name = _NAMES.get(name, name)
    return name
