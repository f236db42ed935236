"""Which files a call names in what it was given. Tools name their arguments as they like; most say path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from refold.core.edits import Move, edits_of, is_path_key
from refold.core.records import Json

_ENDINGS: Final = ("path", "paths", "file", "files", "filename", "directory")
_COMMANDS: Final = frozenset({"command", "cmd", "argv", "args"})


def named_files(tool: str, given: Json) -> Iterator[str]:
    """Yield the files that a call touches; of one that reveals none what may be paths, or hold some.

    Args:
        tool: What is called.
        given: Its arguments.
    """
    edits = edits_of(tool, given)
    if not edits:
        yield from _perhaps(given)
    for edit in edits:
        yield edit.path
        if isinstance(edit, Move):
            yield edit.to


def names_file(tool: str, given: Json, name: str) -> bool:
    """Say whether a call names a file; any part of its path is enough, in whatever case."""
    wanted = name.casefold()
    return any(wanted in text.casefold() for text in named_files(tool, given))


def _perhaps(given: Json) -> Iterator[str]:
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


def _names(key: str) -> bool:
    folded = key.casefold()
    return folded.endswith(_ENDINGS) or folded in _COMMANDS or is_path_key(key)
