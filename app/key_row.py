"""One row of the table of keys: what can be done where, by which keys, and in which words."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Place = Literal[
    "app",
    "runs",
    "run",
    "list",
    "pager",
    "prompt",
    "dialog",
    "blind",
    "columns",
    "resume",
    "fork",
    "lineage",
    "compare",
    "postmortem",
    "mend",
    "trash",
    "history",
    "chat",
    "chatfork",
    "copymenu",
    "directories",
    "export",
    "search",
]
Group = Literal["Go on", "Move", "Find", "Look", "Program"]

GROUPS: Final[tuple[Group, ...]] = ("Go on", "Move", "Find", "Look", "Program")


class Key(NamedTuple):
    """One action and the keys that start it."""

    id: str
    """What the configuration remaps (`[keys]` in config.toml)."""
    keys: str
    """Textual's names of the keys, with commas between them."""
    action: str
    label: str
    tooltip: str
    group: Group
    hint: str = ""
    """The word in the footer; neighbours with the same word share it. Empty: not in the footer."""
    priority: bool = False

    @property
    def place(self) -> str:
        """The screen or widget that carries the action out."""
        return self.id.partition(".")[0]
