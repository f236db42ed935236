"""Which file a person means: by path, by id, or by the beginning of an id."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from refold.core.errors import AmbiguousRun, RunNotFound
from refold.core.keeping import BadNote, checked_name
from refold.core.nearest import nearest
from refold.core.store.roots import SUFFIX, Root, distinct, reason
from refold.core.store.run_id import check_run_id, is_run_id, is_segment
from refold.core.store.session_names import NESTED, PART_NAMES, is_run_directory

_SHOWN = 8
_DEEPEST = 12
"""Levels of nested runs that are looked into, as in the list."""


class Names(Protocol):
    """The names that were given to runs."""

    def named(self, name: str, roots: Sequence[Root]) -> Sequence[Path]:
        """Give the runs that have a name; one that was moved is looked for in `roots`."""

    def lain(self, name: str) -> Sequence[Path]:
        """Give the places where runs of a name lay that are gone from there."""


def resolve(text: str, roots: Sequence[Root], names: Callable[[], Names] | None = None) -> Path:
    """Give the path of the run that a text names, of a run directory the directory; no run is opened.

    A text with a slash, or one that is a file or a run directory here, is a path: of a run, or of a file in
    a run directory. Anything else is an id, else a name that was given, else the beginning of exactly one
    id; ids of nested runs count where nothing else is called so.

    Args:
        text: What the person typed.
        roots: The directories of runs.
        names: Gives the names that were given; asked where the text is no id.

    Raises:
        InvalidRunId: The text is neither a path nor (the beginning of) an id; no path was made from it.
        RunNotFound: Nothing matches; says where it was looked for, or that a file of this name is not there.
        AmbiguousRun: Several runs match; carries their ids, or their paths where an id stands in two places.
    """
    if "/" in text or _is_file(text) or is_run_directory(Path(text)):
        return _by_path(text)
    directories, _ = distinct(roots)
    exact = called_exactly(text, directories)
    if len(exact) == 1:
        return exact[0]
    if exact:
        raise _ambiguous(text, exact)
    called = None if names is None else names()
    given = [] if called is None else called.named(text, directories)
    if len(given) == 1:
        return given[0]
    if given:
        raise _ambiguous(text, given)
    lain = [] if called is None else called.lain(text)
    if not lain:
        _require_id(text, directories, named=names is not None)
    looked: list[str] = []
    found: list[Path] = []
    for root in directories:
        listed, why = _starting_with(root.path, text)
        looked.append(f"{root.path} ({why})" if why else str(root.path))
        found.extend(root.path / name for name in listed)
    if not found:
        found = [path for root in directories for path in _nested(root.path, text)]
    if len(found) == 1:
        return found[0]
    if found:
        raise _ambiguous(text, found)
    where = ", ".join(looked) or "no directory at all"
    if lain:
        raise RunNotFound(
            f"the run named {text!r} lies no longer at {lain[0]}; its first line was looked for in {where}",
            remedy="name the directory it was moved to with --root",
        )
    raise _not_found(text, directories, where)


def called_exactly(run_id: str, roots: Sequence[Root]) -> list[Path]:
    """Give the runs that have exactly this id, in the directories of runs themselves."""
    return [path for root in distinct(roots)[0] for path in _called(root.path, run_id)]


def _require_id(text: str, directories: Sequence[Root], *, named: bool) -> None:
    """Require that a text may begin an id; say of what looks like a file, or a name, that there is none.

    Raises:
        RunNotFound: it is called like a file, or could be a name, where names are looked for.
        InvalidRunId: it can be nothing of all that.
    """
    if is_run_id(text):
        return
    try:
        checked_name(text)
    except BadNote:
        check_run_id(text)
    if Path(text).suffix or text.startswith("~"):
        meant = _meant(text.removesuffix(SUFFIX), directories)
        raise RunNotFound(f"no such file: {text!r}, and no run is called so{meant}", remedy="check the path")
    if not named:
        check_run_id(text)
    raise RunNotFound(
        f"no run has the name {text!r}{_meant(text, directories)}", remedy="see the names with 'refold ls'"
    )


def _not_found(text: str, directories: Sequence[Root], where: str) -> RunNotFound:
    from refold.core.store.moved import that_say

    said = that_say(text, directories)
    if said:
        others = f", and {len(said) - 1} more" if len(said) > 1 else ""
        return RunNotFound(
            f"no run is called {text!r} now; {said[0]} says that it was{others}",
            remedy="a file can say anything: give the name it has now, or its path",
        )
    return RunNotFound(
        f"no run {text!r}; looked in {where}{_meant(text, directories)}",
        remedy="see the ids with 'refold ls', or name its directory with --root",
    )


def _meant(text: str, directories: Sequence[Root]) -> str:
    """Give the question for the run whose id is close to a text; empty where there is none."""
    ids = {name.removesuffix(SUFFIX) for root in directories for name in _starting_with(root.path, "")[0]}
    close = nearest(text, sorted(ids), 0.8)
    return f"; did you mean the run {close!r}?" if close else ""


def _by_path(text: str) -> Path:
    path = Path(text)
    try:
        os.lstat(path)
    except (OSError, ValueError) as error:
        why = "embedded NUL" if isinstance(error, ValueError) else reason(error)
        raise RunNotFound(f"no run at {text!r}: {why}", remedy="check the path") from error
    if path.name in PART_NAMES and not is_run_directory(path) and is_run_directory(path.parent):
        path = path.parent
    # A directory named by dots has a name all the same.
    return path if path.name not in {"", ".."} else Path(os.path.abspath(path))  # noqa: PTH100 - links keep theirs


def _called(directory: Path, run_id: str) -> list[Path]:
    """Give the runs of exactly this id in a directory: a journal, a run directory, or both."""
    if not is_segment(run_id):
        return []
    found = [directory / run_id] if is_run_directory(directory / run_id) else []
    if is_run_id(run_id) and _exists(directory / (run_id + SUFFIX)):
        found.append(directory / (run_id + SUFFIX))
    return found


def _nested(directory: Path, run_id: str, depth: int = 1) -> list[Path]:
    """Give the runs of this id that lie in runs of a directory, or in runs nested in those."""
    try:
        with os.scandir(directory) as entries:
            parents = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    found: list[Path] = []
    for parent in sorted(parents):
        inner = Path(parent, NESTED)
        if is_run_directory(inner / run_id):
            found.append(inner / run_id)
        if depth < _DEEPEST:
            found += _nested(inner, run_id, depth + 1)
    return found


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False


def _exists(path: Path) -> bool:
    try:
        os.lstat(path)
    except (OSError, ValueError):
        return False
    return True


def _starting_with(directory: Path, prefix: str) -> tuple[list[str], str]:
    """Give the names of runs that start so, sorted, and why the directory could not be read."""
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in entries if entry.name.startswith(prefix)]
    except FileNotFoundError:
        return [], "missing"
    except PermissionError:
        return [], "not permitted"
    except OSError as error:
        return [], reason(error)
    journals = [name for name in names if name.endswith(SUFFIX) and is_run_id(name[: -len(SUFFIX)])]
    others = set(names).difference(journals)
    return sorted([*journals, *(name for name in others if is_run_directory(directory / name))]), ""


def _ambiguous(text: str, found: Sequence[Path]) -> AmbiguousRun:
    ids = [path.name.removesuffix(SUFFIX) for path in found]
    count = Counter(ids)
    names = tuple(str(path) if count[run_id] > 1 else run_id for path, run_id in zip(found, ids, strict=True))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return AmbiguousRun(f"{text!r} names {len(names)} runs: {', '.join(names[:_SHOWN])}{more}", names)
