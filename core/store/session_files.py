"""Reads the directory of a Rivumi run: bounded, through no link, waking no pipe, changing nothing.

What cannot be read is said in the snapshot and never raised: a run with one bad file is still a run.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from refold.core.errors import (
    NotPermitted,
    NotRegular,
    RunNotFound,
    StoreError,
    TooLarge,
    Unreadable,
)
from refold.core.rivumi.snapshot import Part, PartState, Snapshot, Workspace
from refold.core.sizes import sized
from refold.core.store.files import open_error, open_regular, read_range, shown, status_of
from refold.core.store.lock import holder_of
from refold.core.store.session_names import (
    EVENTS,
    LOCK,
    MANIFEST,
    PARTS,
    SIDE,
    is_litter,
    is_run_directory,
    mode_of,
)

SIDE_LIMIT: Final = 64 << 20
EVENTS_LIMIT: Final = 512 << 20
"""Bytes above which we do not read a log in one piece; the original refuses at 16 MiB."""

_NAMES_LIMIT = 1000
_TRIES = 5
_HEAD_LIMIT = 4096
_LOCK_LINE_LIMIT = 200
_REFS_LIMIT = 4 << 20
_OWN = frozenset({*PARTS, LOCK, "workspace", "changes.patch", "test.log", "review.md", ".task-env"})
_COMMIT = re.compile("[0-9a-fA-F]{40}|[0-9a-fA-F]{64}")
_REF = re.compile(r"refs/[^\s\\\0]{1,1000}")


def texts_of(path: Path) -> tuple[Path, ...]:
    """Give the files in which the text of a run stands: of a run directory three, else the run itself."""
    if not is_run_directory(path):
        return (path,)
    return tuple(path / name for name in (EVENTS, "request.json", MANIFEST))


def read_run(
    path: Path, *, who: Callable[[Path], str] | None = None, events_limit: int = EVENTS_LIMIT
) -> Snapshot:
    """Read a run directory.

    Args:
        path: The directory; a link to it is followed, as the original's command line does.
        who: Names the holder of a lock file; by default a look at the processes of this machine.
        events_limit: Bytes of the log above which it is not read.

    Raises:
        RunNotFound: There is no such directory, or nothing of a run in it.
        NotRegular: It is something else.
        StoreError: It cannot be looked into.
    """
    link = path.is_symlink()
    try:
        directory = path.resolve() if link else path
    except (OSError, RuntimeError) as error:
        raise NotRegular(f"{shown(path)}: a link that leads nowhere: {error}") from error
    names = names_in(directory)
    side = {name: part_of(directory, name, SIDE_LIMIT) for name in SIDE}
    manifest, events, moving = _pair(directory, events_limit)
    if all(part.state == "missing" for part in (manifest, events, side["request.json"], side["result.json"])):
        raise RunNotFound(
            f"{shown(path)}: no run lies in this directory", remedy="name the directory of one run"
        )
    lock = _lock(directory / LOCK)
    return Snapshot(
        Path(os.path.abspath(directory)).name,  # noqa: PTH100 - of a path like "." too; the parents stay as named
        manifest,
        side["request.json"],
        events,
        side["verification.json"],
        side["result.json"],
        side["checkpoint.json"],
        read_workspace(directory / "workspace"),
        lock,
        _lock_line(directory / LOCK) if lock == "file" else "",
        (who or _holder)(directory / LOCK) if lock == "file" else "",
        link,
        moving,
        tuple(name for name in names if is_litter(name)),
        tuple(name for name in names if name not in _OWN and not is_litter(name)),
    )


def _pair(directory: Path, events_limit: int) -> tuple[Part, Part, bool]:
    """The manifest and the log of one moment, and whether a writer left us none.

    The writer saves the manifest before each line (formats/rivumi.md 2), so a log that was read between two
    equal manifests belongs to them.
    """
    manifest = part_of(directory, MANIFEST, SIDE_LIMIT)
    for _ in range(_TRIES):
        events = part_of(directory, EVENTS, events_limit)
        again = part_of(directory, MANIFEST, SIDE_LIMIT)
        if again == manifest:
            return manifest, events, False
        manifest = again
    return manifest, events, True


def read_workspace(path: Path) -> Workspace:
    """Say what lies where a run works, and which commit its HEAD names; git itself is not run."""
    mode = mode_of(path)
    if mode is None:
        return Workspace("missing")
    if stat.S_ISLNK(mode):
        return Workspace("link")
    if not stat.S_ISDIR(mode):
        return Workspace("not_directory")
    git = mode_of(path / ".git")
    if git is None:
        return Workspace("no_git")
    if not stat.S_ISDIR(git):
        return Workspace("unknown", detail=".git is no directory")
    wanted = (path / ".git" / name for name in ("objects", "refs"))
    if not all(stat.S_ISDIR(mode_of(place) or 0) for place in wanted):
        return Workspace("no_git", detail="the parts of .git are missing")
    try:
        return Workspace("git", _head(path / ".git"))
    except StoreError as error:
        return Workspace("no_git", detail=str(error))


def _head(git: Path) -> str:
    text = _small(git / "HEAD", _HEAD_LIMIT)
    if _COMMIT.fullmatch(text):
        return text
    name = text.removeprefix("ref:").strip()
    if name == text or _REF.fullmatch(name) is None or ".." in name:
        return ""
    try:
        loose = _small(git / name, _HEAD_LIMIT)
    except RunNotFound:
        loose = _packed(git, name)
    return loose if _COMMIT.fullmatch(loose) else ""


def _packed(git: Path, name: str) -> str:
    try:
        packed = _small(git / "packed-refs", _REFS_LIMIT)
    except RunNotFound:
        return ""
    rows = (row.split(" ", 1) for row in packed.split("\n") if " " in row)
    return next((commit for commit, ref in rows if ref == name), "")


def _small(path: Path, limit: int) -> str:
    """The text of a small file, without the blanks around it."""
    fd = open_regular(path)
    try:
        return read_range(fd, 0, limit, path).decode("utf-8", "backslashreplace").strip()
    finally:
        os.close(fd)


def names_in(directory: Path) -> list[str]:
    """The names in a directory, sorted; not more than a thousand."""
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry, _ in zip(entries, range(_NAMES_LIMIT), strict=False)]
    except NotADirectoryError as error:
        raise NotRegular(f"{shown(directory)}: not a directory", remedy="name the directory") from error
    except (OSError, ValueError) as error:
        raise open_error(directory, error) from error
    return sorted(os.fsencode(name).decode("utf-8", "backslashreplace") for name in names)


def part_of(directory: Path, name: str, limit: int) -> Part:
    """Read one file of a run; what keeps it from being read is said and never raised."""
    path = directory / name
    mode = mode_of(path)
    if mode is None:
        return Part(name, detail="No such file or directory")
    if not stat.S_ISLNK(mode):
        return _read(name, path, limit)
    target = _target(directory, path)
    if target is None or not target.is_relative_to(directory.resolve()):
        where: Literal["missing", "outside"] = "missing" if target is None else "outside"
        return Part(name, "link", detail="a symbolic link", target=where)
    behind = _read(name, target, limit)
    # The answer of the original, which follows the link, depends on what it finds there.
    return Part(
        name,
        "link",
        behind.data,
        behind.size,
        "a symbolic link",
        "inside" if behind.state == "read" else "outside",
    )


def _target(directory: Path, path: Path) -> Path | None:
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None


def _read(name: str, path: Path, limit: int) -> Part:
    size = 0
    try:
        fd = open_regular(path)
        try:
            size = status_of(fd, path).st_size
            if size > limit:
                return Part(
                    name,
                    "too_large",
                    size=size,
                    detail=f"{sized(size)}, of which no more than {sized(limit)} are read",
                )
            data = read_range(fd, 0, limit + 1, path)
        finally:
            os.close(fd)
    except RunNotFound:
        return Part(name, detail="No such file or directory")
    except (NotRegular, NotPermitted, TooLarge, Unreadable) as error:
        return Part(name, _STATES[type(error)], size=size, detail=_what(path, error))
    if len(data) > limit:
        return Part(name, "too_large", size=len(data), detail=f"more than {sized(limit)}")
    return Part(name, "read", data, len(data))


_STATES: dict[type[StoreError], PartState] = {
    NotRegular: "not_regular",
    NotPermitted: "not_permitted",
    TooLarge: "too_large",
    Unreadable: "unreadable",
}


def _what(path: Path, error: StoreError) -> str:
    """What an error says without the path it begins with."""
    return str(error).removeprefix(f"{shown(path)}: ").removesuffix(", not a file")


def _lock(path: Path) -> Literal["missing", "file", "link", "other"]:
    mode = mode_of(path)
    if mode is None:
        return "missing"
    if stat.S_ISLNK(mode):
        return "link"
    return "file" if stat.S_ISREG(mode) else "other"


def _lock_line(path: Path) -> str:
    try:
        return _small(path, _LOCK_LINE_LIMIT)
    except StoreError:
        return ""


def _holder(path: Path) -> str:
    holder = holder_of(path)
    return "" if holder is None else f"process {holder.pid}"
