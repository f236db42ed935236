"""Where an export goes: which names are refused, and how a file comes there whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from refold.core.errors import NotRegular, Refused, RunExists, RunNotFound
from refold.core.keeping import TRASH
from refold.core.store.files import (
    create_private,
    fsync_directory,
    odd_kind,
    open_error,
    shown,
    sync,
    write_failed,
)
from refold.core.store.roots import LOCK_SUFFIX, SUFFIX
from refold.core.store.session_names import EVENTS, MANIFEST, is_run_directory, mode_of

_BESIDE: Final[Mapping[str, str]] = {LOCK_SUFFIX: "the lock of a run", ".torn": "what a repair cut off"}
"""By the ending of a name, what lies beside a run."""


class NameTaken(Refused):
    """A file of this name is there, and nobody said that it may be replaced; it is as it was."""


def refuse_target(target: Path, source: Path, roots: Iterable[Path], own: Iterable[Path] = ()) -> None:
    """Refuse to write an export where it would replace a run or what belongs to one, or be taken for one.

    Args:
        target: the file that is named.
        source: the run that is written out.
        roots: the directories that hold runs or conversations.
        own: our own files, and directories of them.

    Raises:
        Refused: the file is a run or a part of one, or lies where runs, their trash or our own files lie.
        NotRegular: something that is no file lies there.
        StoreError: the directory is not there.
    """
    parent = target.parent
    known = tuple(roots)
    try:
        place = parent.stat()
        if not stat.S_ISDIR(place.st_mode):
            raise NotRegular(f"{shown(parent)}: not a directory", remedy="choose another directory")
        found = target.lstat() if os.path.lexists(target) else None
        if found is not None:
            same = source.stat()
            if (found.st_dev, found.st_ino) == (same.st_dev, same.st_ino):
                raise Refused(f"{shown(target)}: this is the run itself", remedy="choose another file")
            if odd_kind(found.st_mode):
                raise NotRegular(
                    f"{shown(target)}: {odd_kind(found.st_mode)}, not a file", remedy="choose another file"
                )
        for root in (*known, source.parent):
            there = root.stat() if root.is_dir() else None
            same_place = there is not None and (there.st_dev, there.st_ino) == (place.st_dev, place.st_ino)
            if same_place and target.suffix.lower() == SUFFIX:
                raise Refused(
                    f"{shown(target)}: runs lie in this directory, and the file would be taken for one",
                    remedy="choose another directory",
                )
        real = _real(parent)
        held = tuple(map(_real, (*known, source)))
        ours = tuple(map(_real, own))
    except FileNotFoundError as error:
        raise RunNotFound(
            f"{shown(parent)}: there is no such directory", remedy="make it, or choose another"
        ) from error
    except (OSError, ValueError) as error:
        raise open_error(target, error) from error
    _refuse_beside(target)
    _refuse_place(real, held)
    _refuse_own(real / target.name, held, ours)


def _refuse_beside(target: Path) -> None:
    """Refuse the names of what lies beside a run: who renames a file over a lock, breaks it."""
    what = _BESIDE.get(target.suffix.lower())
    if what is not None:
        raise Refused(f"{shown(target)}: {what} is called so", remedy="choose another name")


def _refuse_place(real: Path, held: Sequence[Path]) -> None:
    if TRASH in real.parts:
        raise Refused(
            f"{shown(real)}: this is the trash of Refold, and what lies in it is restored",
            remedy="choose another directory",
        )
    for directory in (real, *real.parents):
        below = any(root in directory.parents or root == directory != real for root in held)
        if is_run_directory(directory) and (directory == real or below or _is_whole_run(directory)):
            raise Refused(
                f"{shown(directory)}: a run lies in this directory", remedy="choose another directory"
            )


def _refuse_own(real: Path, held: Sequence[Path], ours: Sequence[Path]) -> None:
    for place in ours:
        # The runs that are kept by default lie in the directory of our own state.
        among_runs = any(real.is_relative_to(root) for root in held if root.is_relative_to(place))
        if real.is_relative_to(place) and not among_runs:
            raise Refused(
                f"{shown(place)}: Refold keeps its own files there",
                remedy="choose another directory",
            )


def _real(path: Path) -> Path:
    """Give a path without links; unlike `Path.resolve` also where links lead in a circle."""
    return Path(os.path.realpath(path))


def _is_whole_run(directory: Path) -> bool:
    """Say whether a directory is a run wherever it lies; one file of such a name alone says little."""
    return all(mode_of(directory / name) is not None for name in (MANIFEST, EVENTS))


def refuse_taken(target: Path) -> None:
    """Refuse to replace a file.

    Raises:
        NameTaken: it is there.
    """
    if os.path.lexists(target):
        raise NameTaken(f"{shown(target)}: this file is already there", remedy="choose another name")


def write_file(target: Path, write: Callable[[int], None]) -> None:
    """Make a file, or replace it, by what `write` puts into a descriptor; on failure nothing is left.

    Raises:
        WriteFailed: the disk did not take it.
        StoreError: the file cannot be made.
    """
    _write(target, write, lambda new: new.replace(target))


def write_new_file(target: Path, write: Callable[[int], None]) -> None:
    """Make a file as `write_file` does, but only where none is.

    Raises:
        NameTaken: a file is there, also one that came while this one was written.
        WriteFailed: the disk did not take it.
        StoreError: the file cannot be made.
    """
    refuse_taken(target)
    _write(target, write, partial(_give_free_name, target))


def _give_free_name(target: Path, new: Path) -> None:
    """Give a file its name: neither a link nor an empty file of ours takes the place of another one."""
    try:
        os.link(new, target)
    except FileExistsError:
        refuse_taken(target)
        raise
    except OSError:
        # A file system without links.
        _rename_to_free(new, target)
        return
    new.unlink()


def _rename_to_free(new: Path, target: Path) -> None:
    try:
        os.close(create_private(target))
    except RunExists:
        refuse_taken(target)
        raise
    try:
        new.rename(target)
    except OSError:
        target.unlink()
        raise


def _write(target: Path, write: Callable[[int], None], name: Callable[[Path], object]) -> None:
    new = target.with_name(f".{target.name[:100]}.{os.urandom(8).hex()}.tmp")
    fd = create_private(new)
    try:
        try:
            write(fd)
            sync(fd)
            name(new)
        except BaseException as error:
            new.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise write_failed(target, "could not be written", error, "nothing of it is left") from error
            raise
    finally:
        os.close(fd)
    try:
        fsync_directory(target.parent)
    except OSError as error:
        raise write_failed(target, "was written", error, "its durability is unknown") from error
