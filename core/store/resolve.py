"""Which file a person means: by path, by id, or by the beginning of an id."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from refold.core.errors import AmbiguousRun, RunNotFound
from refold.core.store.roots import SUFFIX, Root, distinct, reason
from refold.core.store.run_id import check_run_id, is_run_id
from refold.core.store.session_files import is_run_directory

_SHOWN = 8


def resolve(text: str, roots: Sequence[Root]) -> Path:
    """Give the path of the run that a text names; nothing is opened.

    A text with a slash, or one that is a file or a run directory here, is a path. Anything else is an id,
    else the beginning of exactly one id.

    Raises:
        InvalidRunId: The text is neither a path nor (the beginning of) an id; no path was made from it.
        RunNotFound: Nothing matches; says where it was looked for.
        AmbiguousRun: Several runs match; carries their ids, or their paths where an id stands in two places.
    """
    if "/" in text or _is_file(text) or is_run_directory(Path(text)):
        return _by_path(text)
    check_run_id(text)
    directories, _ = distinct(roots)
    exact = [root.path / (text + SUFFIX) for root in directories if _exists(root.path / (text + SUFFIX))]
    if len(exact) == 1:
        return exact[0]
    if exact:
        raise _ambiguous(text, exact)
    looked: list[str] = []
    found: list[Path] = []
    for root in directories:
        names, why = _starting_with(root.path, text)
        looked.append(f"{root.path} ({why})" if why else str(root.path))
        found.extend(root.path / name for name in names)
    if len(found) == 1:
        return found[0]
    if found:
        raise _ambiguous(text, found)
    where = ", ".join(looked) or "no directory at all"
    raise RunNotFound(
        f"no run {text!r}; looked in {where}",
        remedy="see the ids with 'refold ls', or name its directory with --root",
    )


def _by_path(text: str) -> Path:
    path = Path(text)
    try:
        os.lstat(path)
    except (OSError, ValueError) as error:
        why = "embedded NUL" if isinstance(error, ValueError) else reason(error)
        raise RunNotFound(f"no run at {text!r}: {why}", remedy="check the path") from error
    return path


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
            names = [e.name for e in entries if e.name.startswith(prefix) and e.name.endswith(SUFFIX)]
    except FileNotFoundError:
        return [], "missing"
    except PermissionError:
        return [], "not permitted"
    except OSError as error:
        return [], reason(error)
    return sorted(name for name in names if is_run_id(name[: -len(SUFFIX)])), ""


def _ambiguous(text: str, found: Sequence[Path]) -> AmbiguousRun:
    count = Counter(path.stem for path in found)
    names = tuple(str(path) if count[path.stem] > 1 else path.stem for path in found)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return AmbiguousRun(f"{text!r} names {len(names)} runs: {', '.join(names[:_SHOWN])}{more}", names)
