"""Which files a call names in what it was given. Tools name their arguments as they like; most say path."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final

from refold.core.edits import Edit, Move, editing, is_path_key
from refold.core.records import Json

_ENDINGS: Final = ("path", "paths", "file", "files", "filename", "directory")
_COMMANDS: Final = frozenset({"command", "cmd", "argv", "args"})


def names_file(tool: str, given: Json, name: str) -> Generator[None, None, bool]:
    """Say in small steps whether a call names a file; any part of its path is enough, in whatever case.

    Of a call that reveals no file that it touches, what may be paths counts, or may hold some.

    Args:
        tool: What is called.
        given: Its arguments.
        name: Part of a path.
    """
    edits = yield from editing(tool, given)
    wanted = name.casefold()
    named = (path for edit in edits for path in _of(edit)) if edits else _perhaps(given)
    return any(wanted in text.casefold() for text in named)


def _of(edit: Edit) -> tuple[str, ...]:
    return (edit.path, edit.to) if isinstance(edit, Move) else (edit.path,)


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
