"""What lies in the trash, the way back out of it, and the way out for good.

An entry is a directory that Refold made, and others may have changed since: names in its manifest are taken
only where they are plain names that are really there, and everything is put back into the directory that
the trash itself lies in, never where a manifest says.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from refold.core.errors import LockUnsure, RefoldError, RunExists, RunNotFound, StoreError
from refold.core.keeping import TRASH
from refold.core.records import Json
from refold.core.store.files import (
    fsync_directory,
    is_directory,
    open_error,
    open_regular,
    read_range,
    shown,
    write_failed,
)
from refold.core.store.lock import RunLock
from refold.core.store.notes import NotesStore, prefix_of
from refold.core.store.roots import LOCK_SUFFIX, SUFFIX
from refold.core.store.run_id import is_segment
from refold.core.store.session_names import LOCK
from refold.core.store.trash import VERSION
from refold.core.trash import DELETING, MANIFEST, Part

State: TypeAlias = Literal["whole", "part", "left", "unknown", "newer", "deleting", "closed"]
"""All of it is here; a part of it never left; nothing is here, so the run never left or is back; what lay
where is not known; a newer Refold knows; it is being deleted; the system does not let us look into it."""

_LARGEST: Final = 1 << 20
_AT_ONCE: Final = 1000
"""Entries that begin to go together."""
_ORDER: Final = ("run", "side", "lock")


class Entry(msgspec.Struct, frozen=True):
    """One directory in the trash."""

    path: str
    root: str
    """Where the run lay, and is put back."""
    id: str
    state: State
    time: str = ""
    """When it was moved, RFC 3339."""
    parts: tuple[Part, ...] = ()
    """What lies here, the run first."""
    bytes: int = 0
    status: str = ""
    prompt: str = ""
    errno: int = 0
    """What the system answered when it was to be looked into; 0 for what can be."""
    called: str = ""
    """The name that somebody gave the run, where the notes were asked."""

    @property
    def name(self) -> str:
        """Its own name, which tells it from others of the same id."""
        return self.path.rpartition("/")[2]

    @property
    def home(self) -> str:
        """The path that the run is put back to."""
        return f"{self.root.rstrip('/')}/{self.parts[0].name}" if self.parts else self.root


class NotRestored(RefoldError):
    """An entry cannot be put back; it lies where it lay."""


def entries(roots: Iterable[Path]) -> Iterator[Entry]:
    """Yield what lies in the trash of these directories; nothing is changed.

    A trash that cannot be listed is one closed entry, which stands for all that may lie in it.
    """
    seen: set[str] = set()
    for root in roots:
        trash = Path(os.path.realpath(root), TRASH)
        if str(trash) in seen:
            continue
        seen.add(str(trash))
        try:
            if not stat.S_ISDIR(os.lstat(trash).st_mode):
                continue
            names = sorted(os.listdir(trash))  # noqa: PTH208 - names
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            yield Entry(str(trash), str(trash.parent), TRASH, "closed", errno=error.errno or 0)
            continue
        for name in names:
            found = entry_at(trash / name)
            if found is not None:
                yield found


def entry_at(path: Path) -> Entry | None:
    """Look at one directory in the trash; None where it is none."""
    root = str(path.parent.parent)
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            return None
        names = os.listdir(path)  # noqa: PTH208 - names
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        run_id = path.name.rpartition(".")[0] or path.name
        return Entry(str(path), root, run_id, "closed", errno=error.errno or 0)
    values = _manifest(path / MANIFEST)
    said = {name: value for name in ("id", "time", "status", "prompt")
            if isinstance(value := values.get(name), str)}  # fmt: skip
    run_id = said.get("id") or path.name.rpartition(".")[0] or path.name
    version = values.get("version")
    planned = _parts(values.get("parts"))
    here = [name for name in names if name != MANIFEST and not name.endswith(".tmp")]
    state: State
    if path.name.startswith(DELETING):
        state = "deleting"
    elif isinstance(version, int) and version > VERSION:
        state = "newer"
    elif not here:
        state = "left"
    elif not planned:
        state = "unknown"
    else:
        state = "whole" if {part.name for part in planned} <= set(here) else "part"
    known = [part for part in planned if part.name in here]
    listed = {part.name for part in known}
    odd = [part for name in sorted(here) if name not in listed and (part := _found(path / name))]
    odd.sort(key=lambda part: _ORDER.index(part.kind))
    size = values.get("bytes")
    parts = (*known, *odd)
    return Entry(
        path=str(path),
        root=root,
        id=run_id,
        state=state,
        time=said.get("time", ""),
        parts=parts,
        bytes=size if isinstance(size, int) and size >= 0 else sum(part.size for part in parts),
        status=said.get("status", ""),
        prompt=said.get("prompt", ""),
    )


def with_names(found: Iterable[Entry], notes: NotesStore) -> Iterator[Entry]:
    """Give entries with the names that their runs have; of each its first line is read."""
    any_notes = next(notes.each(), None) is not None
    for entry in found:
        name = ""
        if any_notes and entry.parts and entry.parts[0].kind == "run":
            prefix = prefix_of(Path(entry.path, entry.parts[0].name))
            name = notes.read_of(Path(entry.home), prefix).kept.name if prefix else ""
        yield msgspec.structs.replace(entry, called=name) if name else entry


def restore(entry: Entry) -> Path:
    """Put a run back where it lay, with the modes and times it had; give its path. Nothing is overwritten.

    Raises:
        RunExists: something lies there now; nothing was moved.
        RunLocked: a process holds what lies there.
        NotRestored: there is nothing to put back, or a newer Refold must do it.
        StoreError: it could not be moved; what is not back is still in the trash.
    """
    path, root = Path(entry.path), Path(entry.root)
    if path.name == TRASH:
        # It stands for a trash that could not be listed; what lies in that is no part of a run.
        raise closed(entry)
    found = entry_at(path)
    if found is None:
        raise RunNotFound(
            f"{shown(path)}: not in the trash any more", remedy="'refold trash --list' shows what is"
        )
    if found.state == "closed":
        raise closed(found)
    if found.state in {"newer", "deleting"}:
        why = "a newer Refold put it there" if found.state == "newer" else "it is being deleted for good"
        raise NotRestored(f"{found.id}: {why}", remedy="update Refold" if found.state == "newer" else "")
    if not found.parts:
        _forget(path)
        raise NotRestored(f"{found.id}: nothing of it is in the trash: it never left, or is back")
    for part in found.parts:
        _require_free(path / part.name, root / part.name, part)
    with _lock_of(path, found):
        # The run itself goes last: where it is back, all of it is.
        for part in reversed(found.parts):
            _put_back(path / part.name, root / part.name, part)
        with contextlib.suppress(OSError):
            fsync_directory(root)
    _forget(path)
    return root / found.parts[0].name


def delete(entry: Entry, notes: NotesStore | None = None) -> int:
    """Delete an entry for good, and what is noted about its run; give how many bytes it had.

    Killed on the way, it is told from whole ones by its name, and the next deletion goes on with it.

    Raises:
        StoreError: it could not be deleted as a whole.
    """
    for error in delete_all([entry], notes).values():
        raise error
    return entry.bytes


def delete_all(entries: Sequence[Entry], notes: NotesStore | None = None) -> dict[str, RefoldError]:
    """Delete entries for good, and what is noted about their runs.

    Whether another entry holds the same run, which may yet be put back with its notes, is looked up for many
    at once. Killed on the way, those that had begun to go are told from whole ones by their names.

    Returns:
        By the path of each entry that could not be deleted as a whole, why.
    """
    errors: dict[str, RefoldError] = {}
    for at in range(0, len(entries), _AT_ONCE):
        doomed: list[_Doomed] = []
        for entry in entries[at : at + _AT_ONCE]:
            with _told(entry, errors):
                doomed.append(_condemned(entry))
        if notes is not None:
            # While the runs are there to tell whose they are; nobody gets them back from here on.
            _forget_notes(notes, doomed)
        for each in doomed:
            with _told(each.entry, errors):
                _remove_tree(each.place)
                fsync_directory(each.place.parent)
            with contextlib.suppress(OSError):
                each.place.parent.rmdir()
    return errors


class _Doomed(NamedTuple):
    """An entry on its way out."""

    entry: Entry
    place: Path
    """Where it lies since."""


def _condemned(entry: Entry) -> _Doomed:
    if entry.state == "closed":
        raise closed(entry)
    path = Path(entry.path)
    gone = path if path.name.startswith(DELETING) else path.with_name(f"{DELETING}{path.name}")
    if gone != path:
        path.rename(gone)
        fsync_directory(path.parent)
    return _Doomed(entry, gone)


@contextlib.contextmanager
def _told(entry: Entry, errors: dict[str, RefoldError]) -> Iterator[None]:
    """Note why an entry could not be deleted."""
    path = Path(entry.path)
    try:
        yield
    except FileNotFoundError:
        errors[entry.path] = RunNotFound(f"{shown(path)}: not in the trash any more")
    except OSError as error:
        errors[entry.path] = write_failed(
            path, "could not be deleted", error, "what is left is deleted next time"
        )
    except RefoldError as error:
        errors[entry.path] = error


def closed(entry: Entry) -> StoreError:
    """Give the error for what the system does not let us look into."""
    return open_error(Path(entry.path), OSError(entry.errno, ""))


def _remove_tree(path: Path) -> None:
    """Remove a directory with all that is in it; its own directories may be read-only."""
    try:
        shutil.rmtree(path)
    except PermissionError:
        _open_up(path)
        shutil.rmtree(path)


def _open_up(path: Path) -> None:
    """Give ourselves every right to the directories of a tree; links are not followed."""
    _let_in(path)
    for base, names, _ in os.walk(path):
        for name in names:
            _let_in(Path(base, name))


def _let_in(directory: Path) -> None:
    with contextlib.suppress(OSError):
        mode = os.lstat(directory).st_mode
        if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
            directory.chmod(stat.S_IMODE(mode) | stat.S_IRWXU)


def _forget_notes(notes: NotesStore, doomed: Sequence[_Doomed]) -> None:
    """Remove what is noted about runs; not where one lies at its place, or in the trash, once more."""
    with contextlib.suppress(StoreError, OSError):
        runs = [each for each in doomed if each.entry.parts and each.entry.parts[0].kind == "run"]
        # Of most runs nothing is noted: for them no other entry need be looked at.
        noted = set(notes.noted(Path(each.entry.home) for each in runs))
        going: dict[tuple[Path, str], set[Path]] = {}
        for each in runs:
            home = Path(each.entry.home)
            if home in noted:
                prefix = prefix_of(each.place / each.entry.parts[0].name)
                if not (os.path.lexists(home) and prefix_of(home) in ("", prefix)):
                    going.setdefault((home, prefix), set()).add(each.place.parent)
        staying = _still_in(set[Path]().union(*going.values()), {home.name for home, _ in going})
        notes.forget_all([run for run in going if run not in staying])


def _still_in(trashes: Iterable[Path], names: Container[str]) -> set[tuple[Path, str]]:
    """Give the runs of some names that lie in other entries, by where they lay and their first line."""
    found: set[tuple[Path, str]] = set()
    for trash in trashes:
        for other in trash.iterdir():
            if other.name.startswith(DELETING):
                continue
            try:
                held = os.listdir(other)  # noqa: PTH208 - names
            except OSError:
                continue
            if not any(name in names for name in held):
                continue
            entry = entry_at(other)
            if entry is not None and entry.parts and entry.parts[0].kind == "run":
                home = Path(entry.home)
                found.add((home, prefix_of(other / home.name)))
    return found


def _require_free(source: Path, target: Path, part: Part) -> None:
    """Check that nothing lies where a part is put back to, but the part itself."""
    try:
        there = os.lstat(target)
    except OSError:
        return
    same = os.path.samestat(there, os.lstat(source))
    if not same and part.kind != "lock":
        raise RunExists(
            f"{shown(target)}: something lies there now", remedy="move it away first: nothing is overwritten"
        )


@contextlib.contextmanager
def _lock_of(path: Path, entry: Entry) -> Iterator[None]:
    """Hold the lock of a run that is being put back, where it has one; none is made.

    Raises:
        RunLocked: a process holds it.
    """
    main = entry.parts[0].name
    places = [path / main / LOCK]
    if not is_directory(path / main):
        name = f"{main.removesuffix(SUFFIX)}{LOCK_SUFFIX}"
        places = [path / name, Path(entry.root, name)]
    held: list[RunLock] = []
    try:
        for place in places:
            try:
                fd = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            except OSError:
                continue
            # A file that lies in both places would hold itself out.
            if any(os.path.sameopenfile(fd, lock.fileno()) for lock in held):
                os.close(fd)
                continue
            with contextlib.suppress(LockUnsure):
                held.append(RunLock.hold(fd, place))
        yield
    finally:
        for lock in held:
            lock.release()


def _put_back(source: Path, target: Path, part: Part) -> None:
    try:
        if stat.S_ISREG(os.lstat(source).st_mode):
            _link_back(source, target, part)
        else:
            # No rename takes the place of a directory with something in it.
            _require_free(source, target, part)
            source.rename(target)
        _as_it_was(target, part)
    except OSError as error:
        raise write_failed(target, "could not be put back", error, "it is still in the trash") from error


def _link_back(source: Path, target: Path, part: Part) -> None:
    """Give a file its old name before it loses the one in the trash: a link never takes another's place."""
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        _require_free(source, target, part)
    except OSError:
        # A file system without links.
        if os.path.lexists(target):
            raise
        source.rename(target)
        return
    # The new name is on disk before the old one goes: a power failure may keep the later change alone.
    fsync_directory(target.parent)
    source.unlink()


def _as_it_was(target: Path, part: Part) -> None:
    """Give back mode and time where they are others; what was found without a manifest has none."""
    if not part.inode or not part.mtime_ns:
        return
    status = os.lstat(target)
    if status.st_ino != part.inode or stat.S_ISLNK(status.st_mode):
        return
    if stat.S_IMODE(status.st_mode) != stat.S_IMODE(part.mode):
        target.chmod(stat.S_IMODE(part.mode))
    if status.st_mtime_ns != part.mtime_ns:
        os.utime(target, ns=(status.st_atime_ns, part.mtime_ns))


def _forget(path: Path) -> None:
    """Remove what is left of an entry, and the trash itself where it is empty."""
    with contextlib.suppress(OSError):
        (path / MANIFEST).unlink(missing_ok=True)
        path.rmdir()
        fsync_directory(path.parent)
        path.parent.rmdir()


def _manifest(path: Path) -> dict[str, Json]:
    try:
        fd = open_regular(path)
    except StoreError:
        return {}
    try:
        values = json.loads(read_range(fd, 0, _LARGEST, path) or b"{}")
    except (StoreError, ValueError, RecursionError):
        return {}
    finally:
        os.close(fd)
    return values if isinstance(values, dict) else {}


def _parts(values: object) -> list[Part]:
    """Read the parts of a manifest; one that is no plain name is none, and without the run there are none."""
    try:
        parts = msgspec.convert(values, list[Part])
    except msgspec.ValidationError:
        return []
    sound = [part for part in parts if is_segment(part.name) and part.name not in (MANIFEST, TRASH)]
    return sound if len(sound) == len(parts) and sound and sound[0].kind == "run" else []


def _found(path: Path) -> Part | None:
    """Describe what lies in an entry without being named by its manifest."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    kind: Literal["run", "side", "lock"] = "side"
    if path.name.endswith(SUFFIX) or stat.S_ISDIR(status.st_mode):
        kind = "run"
    elif path.name.endswith(".lock"):
        kind = "lock"
    return Part(path.name, kind, status.st_size, status.st_mode, status.st_mtime_ns, status.st_ino)
