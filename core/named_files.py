"""Which files a call names in what it was given. Tools name their arguments as they like; most say path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from refold.core.records import Json

_ENDINGS: Final = ("path", "paths", "file", "files", "filename", "directory")
_COMMANDS: Final = frozenset(
    {"command", "cmd", "argv", "args", "from", "to", "source", "target", "destination"}
)


def named_files(given: Json) -> Iterator[str]:
    """Yield the texts among the arguments of a call that are paths, or commands in which paths stand."""
    stack: list[tuple[Json, bool]] = [(given, False)]
    while stack:
        value, telling = stack.pop()
        if isinstance(value, str):
            if telling:
                yield value
        elif isinstance(value, list):
            stack.extend((element, telling) for element in value)
        elif isinstance(value, dict):
            stack.extend((element, _names(key)) for key, element in value.items())


def names_file(given: Json, name: str) -> bool:
    """Say whether the arguments of a call name a file; any part of its path is enough, in whatever case."""
    wanted = name.casefold()
    return any(wanted in text.casefold() for text in named_files(given))


def _names(key: str) -> bool:
    folded = key.casefold()
    return folded.endswith(_ENDINGS) or folded in _COMMANDS
