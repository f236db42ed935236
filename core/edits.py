"""What a call does to files, as far as its arguments reveal it: told by their shape and the tool's name.

No list of known tools: agents name them as they like, and their arguments look alike all the same. What only
looks alike is not taken for an edit; what edits and does not say how is `Unclear`. Nothing here raises,
whatever the arguments are. Whether a call came to its end is for the caller to know.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Final, TypeAlias

import msgspec

from refold.core.patch_text import Hunk, looks_like_patch, reading_patch
from refold.core.records import Json

MOST: Final = 1000
"""Edits of one call that are looked at."""
MOST_HUNKS: Final = 500
"""Stretches of one file in one patch that are followed one by one."""
LONGEST_NAME: Final = 4096
"""Characters of a path; what is longer names no file."""


class Write(msgspec.Struct, frozen=True):
    """The whole file is this text afterwards."""

    path: str
    text: str
    new: bool = False
    """It is said that there was no such file before."""


class Replace(msgspec.Struct, frozen=True):
    """One text stands where another stood; the tools that do this refuse a text that stands there twice."""

    path: str
    old: str
    new: str
    every: bool = False
    """Wherever it stood."""


class Insert(msgspec.Struct, frozen=True):
    """A text was put in."""

    path: str
    text: str
    after: int | None = None
    """The line after which it stands, from 1 on; 0 before the first; None at the end."""


class Patch(msgspec.Struct, frozen=True):
    """Stretches of lines were changed, each shown with some lines around it."""

    path: str
    hunks: tuple[Hunk, ...]


class Delete(msgspec.Struct, frozen=True):
    """The file is gone."""

    path: str


class Move(msgspec.Struct, frozen=True):
    """The file has another name."""

    path: str
    to: str


class Unclear(msgspec.Struct, frozen=True):
    """The file was changed, and the arguments do not tell all of it."""

    path: str
    what: str
    """What they tell, in words."""
    text: str = ""
    """What was put in, as far as they tell."""


class Look(msgspec.Struct, frozen=True):
    """The file was read."""

    path: str


Change: TypeAlias = Write | Replace | Insert | Patch | Delete | Move | Unclear
Edit: TypeAlias = Change | Look

_PATHS: Final = (
    *("path", "filepath", "targetfile", "filename", "file", "notebookpath", "absolutepath", "relativepath"),
    *("targetpath", "relativeworkspacepath", "uri"),
)
_OLD: Final = ("oldstring", "oldtext", "oldstr", "old", "oldcode", "oldcontent", "search", "find")
_NEW: Final = (
    *("newstring", "newtext", "newstr", "new", "newcode", "newcontent", "replace", "replacement"),
    "replacewith",
)
_TEXTS: Final = (
    "content",
    "contents",
    "filetext",
    "text",
    "newcontents",
    "filecontent",
    "code",
    "data",
    "body",
)
_PATCHES: Final = ("patch", "diff", "input", "unifieddiff", "patchtext", "command", "cmd", "content")
_LISTS: Final = ("edits", "changes", "replacements")
_SOURCES: Final = ("source", "oldpath", "from", "src", "sourcepath", "path", "filepath")
_TARGETS: Final = ("destination", "newpath", "to", "dst", "dest", "target", "destinationpath", "newfilepath")
_PATH_KEYS: Final = frozenset((*_PATHS, *_SOURCES, *_TARGETS))
_EVERY: Final = ("replaceall", "all", "every", "global")
_LINES: Final = ("startline", "endline", "linestart", "lineend", "line", "linenumber")

_WRITES: Final = frozenset({"write", "create", "save", "overwrite", "put", "append"})
_READS: Final = frozenset({"read", "view", "cat"})
_GETS: Final = frozenset({"get", "open", "show", "load", "fetch"})
_FILES: Final = frozenset({"file", "files", "notebook"})
_DELETES: Final = frozenset({"delete", "remove", "unlink", "rm"})
_MOVES: Final = frozenset({"move", "rename", "mv"})
_CHANGES: Final = frozenset({"edit", "replace", "modify", "update", "change", "patch", "insert"})
_NO_EDITS: Final = frozenset({"preview", "dry", "validate", "list", "search", "grep", "glob", "find", "diff"})

_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_KEY: Final = re.compile(r"[^a-z0-9]")


def is_path_key(key: str) -> bool:
    """Say whether an argument of this name is a path wherever it is one of an edit."""
    return _plain_key(key[:100]) in _PATH_KEYS


def edits_of(name: str, arguments: Json) -> tuple[Edit, ...]:
    """Give what a call does to files, in the order in which it does it; empty where it reveals nothing.

    Args:
        name: The tool.
        arguments: What it was called with.
    """
    steps = editing(name, arguments)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: tuple[Edit, ...] = end.value
            return found


def editing(name: str, arguments: Json) -> Generator[None, None, tuple[Edit, ...]]:
    """Give the same in small steps: a patch may be long, and a list of edits too."""
    words = _words(name[:200])
    if isinstance(arguments, str):
        reading: Iterable[Edit | None] = _patched(arguments, "") if words & _CHANGES else ()
    elif isinstance(arguments, dict):
        given = {_plain_key(key[:100]): value for key, value in islice(arguments.items(), 200)}
        dry = given.get("dryrun") is True or given.get("preview") is True
        reading = () if dry else _read(words, given)
    else:
        reading = ()
    found: list[Edit] = []
    for edit in reading:
        if edit is None:
            yield
            continue
        found.append(edit)
        if len(found) == MOST:
            break
    return tuple(
        edit for edit in found if _is_name(edit.path) and (not isinstance(edit, Move) or _is_name(edit.to))
    )


@lru_cache(maxsize=1024)
def _words(name: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(name))


@lru_cache(maxsize=1024)
def _plain_key(key: str) -> str:
    return _KEY.sub("", key.lower())


def _read(words: frozenset[str], given: Mapping[str, Json]) -> Generator[Edit | None, None, None]:
    """Read the edits of a call; None stands for work without one."""
    path = _text(given, _PATHS)
    command = given.get("command")
    if (
        isinstance(command, str)
        and path is not None
        and (taken := _commanded(command, path, given)) is not None
    ):
        yield from taken
        return
    patched = False
    for edit in _by_patch(words, given, path):
        patched = patched or edit is not None
        yield edit
    if patched:
        return
    if words & _MOVES:
        yield from _moved(given)
    elif path is None:
        yield from _many(words, given)
    elif replaced := _replaced(path, given, words):
        yield from replaced
    elif listed := (yield from _listed(path, given, words)):
        yield from listed
    elif "newsource" in given and ("notebookpath" in given or words & {"notebook", "cell"}):
        yield _cell(path, given)
    else:
        yield from _plain(words, given, path)


def _commanded(command: str, path: str, given: Mapping[str, Json]) -> tuple[Edit, ...] | None:
    """Take the editor with one tool for all that it does; None where the command is another one."""
    text = _text(given, ("filetext", "content", "contents"))
    new = _text(given, ("newstr", "inserttext", "newtext", "text"))
    match command:
        case "view" | "read":
            return (Look(path),)
        case "create" | "write" if text is not None:
            return (Write(path, text),)
        case "str_replace" | "replace" if (old := _text(given, _OLD)) is not None:
            return (_replace(path, old, new or "", given),)
        case "insert" if new is not None and isinstance(line := given.get("insertline"), int):
            return (Insert(path, new, max(0, line)),)
        case "delete" | "remove":
            return (Delete(path),)
        case "rename" | "move" if (to := _text(given, _TARGETS)) is not None:
            return (Move(path, to),)
        case "undo_edit":
            return (Unclear(path, "the last edit was taken back"),)
    return None


def _by_patch(words: frozenset[str], given: Mapping[str, Json], path: str | None) -> Iterator[Edit | None]:
    for key in _PATCHES:
        value = given.get(key)
        if isinstance(value, list) and key in {"command", "cmd"}:
            value = next(
                (word for word in value if isinstance(word, str) and "*** Begin Patch" in word), None
            )
        if not isinstance(value, str) or not looks_like_patch(value):
            continue
        # A text that is written to a file may be a patch without being applied.
        applied = words & _CHANGES or "*** Begin Patch\n" in value
        if applied and not words & _WRITES:
            yield from _patched(value, path or "")
            return


def _patched(text: str, path: str) -> Iterator[Edit | None]:
    for file in reading_patch(text):
        if file is None:
            yield None
            continue
        name = file.path or path
        if file.kind == "delete":
            yield Delete(name)
        elif file.kind == "add":
            yield Write(name, "".join(hunk.new for hunk in file.hunks), new=True)
        elif len(file.hunks) > MOST_HUNKS:
            said = (
                f"a patch of {len(file.hunks)} stretches: no more than {MOST_HUNKS} are followed one by one"
            )
            yield Unclear(name, said)
        elif file.hunks:
            yield Patch(name, file.hunks)
        if file.to:
            yield Move(name, file.to)


def _moved(given: Mapping[str, Json]) -> Iterator[Edit]:
    source, target = _text(given, _SOURCES), _text(given, _TARGETS)
    if source is not None and target is not None:
        yield Move(source, target)


def _inner(item: Mapping[str, Json]) -> dict[str, Json]:
    """Give what one of several edits was given, by plain names."""
    return {_plain_key(name[:100]): value for name, value in islice(item.items(), 50)}


def _many(words: frozenset[str], given: Mapping[str, Json]) -> Iterator[Edit | None]:
    """Several files in one call."""
    for key in ("files", *_LISTS):
        items = given.get(key)
        if isinstance(items, list) and any(isinstance(item, dict) for item in items):
            for item in items[:MOST]:
                yield None
                if isinstance(item, dict):
                    inner = _inner(item)
                    if _text(inner, _PATHS) is not None:
                        yield from _read(words, inner)
            return
    paths = next(
        (value for key in ("paths", "filepaths", "files") if isinstance(value := given.get(key), list)), []
    )
    if _reads(words):
        yield from (Look(path) for path in paths[:MOST] if isinstance(path, str))


def _replaced(path: str, given: Mapping[str, Json], words: frozenset[str]) -> tuple[Edit, ...]:
    if words & _NO_EDITS and not words & _CHANGES:
        return ()
    old, new = _text(given, _OLD), _text(given, _NEW)
    if old is None or new is None:
        return ()
    return (_replace(path, old, new, given),)


def _replace(path: str, old: str, new: str, given: Mapping[str, Json]) -> Edit:
    if not old:
        return Unclear(path, "put in where nothing is said to have stood", new)
    if given.get("regex") is True or given.get("isregex") is True or given.get("useregex") is True:
        return Unclear(path, "put in where a pattern matched", new)
    return Replace(path, old, new, every=any(given.get(key) is True for key in _EVERY))


def _listed(path: str, given: Mapping[str, Json], words: frozenset[str]) -> Generator[None, None, list[Edit]]:
    found: list[Edit] = []
    for key in _LISTS:
        items = given.get(key)
        if not isinstance(items, list):
            continue
        for item in items[:MOST]:
            yield
            if isinstance(item, dict):
                inner = _inner(item)
                found += _replaced(_text(inner, _PATHS) or path, inner, words)
    return found


def _cell(path: str, given: Mapping[str, Json]) -> Edit:
    cell = next(
        (given[key] for key in ("cellid", "cellnumber", "cellindex") if given.get(key) is not None), ""
    )
    mode = _text(given, ("editmode",)) or "replace"
    said = {"insert": "put in", "delete": "taken out"}.get(mode, "replaced")
    which = f"cell {cell} " if isinstance(cell, str | int) and cell != "" else "a cell "
    return Unclear(
        path, f"{which[:80]}{said}", "" if mode == "delete" else _text(given, ("newsource",)) or ""
    )


def _plain(words: frozenset[str], given: Mapping[str, Json], path: str) -> Iterator[Edit]:
    """A file that is written, read or deleted."""
    text = _text(given, _TEXTS)
    by_line = any(isinstance(given.get(key), int) for key in _LINES)
    if text is None:
        text = _text(given, _NEW) if by_line else None
    if text is not None and by_line and words & (_WRITES | _CHANGES):
        yield Unclear(path, "put in at a line that the tool counts in its own way", text)
    elif text is not None and (
        "append" in words or given.get("append") is True or given.get("mode") in {"a", "append"}
    ):
        yield Insert(path, text)
    elif text is not None and words & _WRITES:
        yield Write(path, text)
    elif words & _DELETES and (words & _FILES or len(words) == 1) and not by_line:
        yield Delete(path)
    elif text is None and _reads(words):
        yield Look(path)


def _reads(words: frozenset[str]) -> bool:
    return bool(words & _READS or (words & _GETS and words & _FILES)) and not words & (_WRITES | _NO_EDITS)


def _text(given: Mapping[str, Json], keys: tuple[str, ...]) -> str | None:
    return next((value for key in keys if isinstance(value := given.get(key), str)), None)


def _is_name(path: str) -> bool:
    return 0 < len(path) <= LONGEST_NAME and "\0" not in path
