"""What we know of a run that its journal has no place for, kept in a file of ours per run.

The lineage and the resumes of runs that other tools write, what their agent needs to be started with, and
what a person noted. A file is named by the hash of the run's real path; a run that was moved is found again
by the hash of its first line, which no append changes (design/contracts.md "Where our own files lie").
Nothing here decides what a run is: without the notes it reads and folds the same.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

import msgspec

from refold.core.errors import LockUnsure, NotPermitted, NotRegular, RunNotFound, StoreError, TooLarge
from refold.core.keeping import Kept, RecordNote, within_bounds
from refold.core.records import Decision, Fingerprint, ForkOrigin, Json
from refold.core.store.files import (
    is_directory,
    open_error,
    open_regular,
    private_directory,
    read_range,
    replace_atomically,
    shown,
)
from refold.core.store.session_names import EVENTS

LARGEST = 4 << 20
"""Notes above this many bytes are none of ours."""
VERSION = 1
"""What is written, and the newest that is read."""
_HEAD = 65_536
"""The first line is hashed up to this many bytes."""
_SUFFIX = ".json"
_DAMAGED = ".damaged"
"""Ends the name of a file of which something could not be understood, kept as it was."""


class NewerNotes(StoreError):
    """A newer Refold wrote these notes: they are neither understood nor overwritten."""

    error_class = "newer_notes"


class NotedResume(msgspec.Struct, frozen=True, omit_defaults=True):
    """One resume of a run whose journal cannot record it."""

    time: str = ""
    """RFC 3339."""
    after_seq: int = 0
    """The last sequence of the run when it was handed over."""
    forced: bool = False
    reason: str = ""
    fingerprint: Fingerprint | None = None
    """What was in effect, where that was known: the next resume compares with it."""
    decisions: dict[str, Decision] = {}
    """What was decided about calls, by their ids."""


class NotedRepair(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last repair of a run's end: what must hold for the cut bytes to be put back."""

    keep: int = 0
    """How long the run was afterwards."""
    side_file: str = ""
    foot: str = ""
    """The hash of the last bytes that were kept."""


class Notes(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is noted about one run."""

    path: str = ""
    """Where the run lay when this was written, as text."""
    prefix_sha256: str = ""
    """The hash of its first line; empty where it had none yet."""
    forked_from: ForkOrigin | None = None
    prompt_at: int = 0
    """The sequence of the prompt that the fork was made with; 0 where it was made with none."""
    left_out: tuple[str, ...] = ()
    """What the salvage that made the run could not take, and why, a line each."""
    repair: NotedRepair | None = None
    resumes: tuple[NotedResume, ...] = ()
    agent: str = ""
    """The factory of a native agent, as package.module:name."""
    config: str = ""
    """The configuration file that the agent of another tool is to be started with."""
    cwd: str = ""
    """The directory in which the agent works."""
    star: bool = False
    """This and the next four are what a person keeps: `core.keeping` says what may stand in them."""
    tags: tuple[str, ...] = ()
    name: str = ""
    note: str = ""
    records: tuple[RecordNote, ...] = ()
    """Notes on single records, by their sequence."""
    version: int = VERSION

    @property
    def kept(self) -> Kept:
        """What a list says of it: what a person keeps, within its bounds, and a parent that is noted."""
        if self.version > VERSION:
            return Kept(trouble=f"notes of a newer Refold (version {self.version}): left as they are")
        origin = self.forked_from or ForkOrigin()
        return within_bounds(
            Kept(
                self.star,
                self.tags,
                self.name,
                self.note,
                len(self.records),
                fork_of=origin.run_id,
                fork_at=origin.seq,
                prompt_at=self.prompt_at,
            )
        )

    @property
    def fingerprint(self) -> Fingerprint | None:
        """The last fingerprint that a resume noted; None where none did."""
        return next((each.fingerprint for each in reversed(self.resumes) if each.fingerprint), None)


class NotesStore:
    """The notes of all runs, in one directory of ours, which is made when the first ones are written."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._known: tuple[int, dict[str, str]] = (0, {})
        """When the directory was last read, and the notes in it by the hash of the run's first line."""

    def path_of(self, run: Path) -> Path:
        """Give the file in which the notes of a run at this path are kept."""
        return self.directory / f"{_digest(os.fsencode(os.path.realpath(run)))}{_SUFFIX}"

    def read(self, run: Path) -> Notes:
        """Give what is noted about a run; nothing is where there are no notes, or none that can be read.

        Of notes that a newer Refold wrote only their version is known.
        """
        return self.read_of(run, prefix_of(run))

    def read_of(self, run: Path, prefix: str) -> Notes:
        """Give what is noted about a run that lies, or lay, at this path.

        Args:
            run: Where.
            prefix: The hash of its first line, as `prefix_of` gives it.
        """
        try:
            return notes_from(self._find(run, prefix)[1])
        except StoreError:
            return Notes()

    def update(self, run: Path, change: Callable[[Notes], Notes]) -> Notes:
        """Change what is noted about a run; nobody else's change is lost.

        Keys that this version does not know are kept. A file of which something cannot be understood is put
        aside as it was; what can be stays in effect. Where there is nothing to note no file is made.

        Raises:
            NewerNotes: a newer Refold wrote them; they stand as they are.
            StoreError: the notes cannot be read or written; the old ones stand.
            RefoldError: whatever `change` raises; the old notes stand.
        """
        with self._alone():
            prefix = _prefix(run)
            own = self.path_of(run)
            source, values = self._find(run, prefix)
            before = notes_from(values)
            if before.version > VERSION:
                raise NewerNotes(
                    f"{shown(source or own)}: a newer Refold wrote these notes (version {before.version})",
                    remedy="update Refold, or go on with the newer one: these notes stay as they are",
                )
            changed = change(before)
            notes = msgspec.structs.replace(changed, path=shown(os.path.realpath(run)), prefix_sha256=prefix)
            if source is None and changed == Notes():
                return notes
            kept = {key: value for key, value in values.items() if key not in Notes.__struct_fields__}
            import json

            data = json.dumps({**kept, **msgspec.to_builtins(notes)}, indent=1).encode()
            if len(data) >= LARGEST:
                raise TooLarge(
                    f"{shown(own)}: notes of {len(data):,} bytes are too long", remedy="shorten them"
                )
            if source != own and os.path.lexists(own):
                # Of a run that lay here before, and may have been moved; or no notes that can be read.
                _keep(own, "" if read_values(own) else _DAMAGED)
            if source is not None and _fitting(values)[1]:
                _keep_copy(source)
            replace_atomically(own, data + b"\n")
            if source is not None and source != own and not os.path.lexists(str(values.get("path"))):
                source.unlink(missing_ok=True)
            self._known = (0, {})
            return notes

    def trouble(self, run: Path) -> str:
        """Say what of the notes of a run cannot be understood; empty where all can, or there are none."""
        try:
            source, _ = self._find(run, prefix_of(run))
        except StoreError:
            source = None
        values, trouble = examined(source or self.path_of(run))
        # Notes of another run that lay here are none of this one.
        return "" if source is None and values else trouble

    def each(self) -> Iterator[Notes]:
        """Yield all notes that can be read, in no order."""
        for path in self._files():
            yield notes_from(read_values(path))

    def troubles(self) -> Iterator[tuple[Path, str]]:
        """Yield the files of notes of which something cannot be understood, and what."""
        for path in self._files():
            trouble = examined(path)[1]
            if trouble:
                yield path, trouble

    def _files(self) -> list[Path]:
        try:
            names = os.listdir(self.directory)  # noqa: PTH208 - names
        except OSError:
            return []
        return [self.directory / name for name in names if name.endswith(_SUFFIX)]

    def forget(self, run: Path, prefix: str) -> None:
        """Remove the notes of one run, as `forget_all` does."""
        self.forget_all([(run, prefix)])

    def forget_all(self, runs: Sequence[tuple[Path, str]]) -> None:
        """Remove the notes of runs by where they lay; those of others that lay there too stand.

        Args:
            runs: Of each where it lay, and the hash of its first line, as `prefix_of` gives it.

        Raises:
            StoreError: the notes cannot be reached.
            OSError: they cannot be removed; all that can be are.
        """
        if not runs or not is_directory(self.directory):
            return
        with self._alone(), ExitStack() as each:
            names = self._names_by_place()
            for run, prefix in runs:
                for name in names.get(self.path_of(run).stem, ()):
                    each.callback(self._forget, name, prefix)
            self._known = (0, {})

    def _forget(self, name: str, prefix: str) -> None:
        values = self._permitted(name)
        if values and (values.get("prefix_sha256") or "") == prefix:
            (self.directory / name).unlink(missing_ok=True)

    def noted(self, runs: Iterable[Path]) -> list[Path]:
        """Give those of some paths at which a run lies, or lay, that has notes; none of them is read.

        Raises:
            OSError: the directory of notes cannot be listed.
        """
        if not is_directory(self.directory):
            return []
        names = self._names_by_place()
        return [run for run in runs if self.path_of(run).stem in names] if names else []

    def _names_by_place(self) -> dict[str, list[str]]:
        """Give the names of all files of notes by what stands for the path of their run."""
        found: dict[str, list[str]] = {}
        for name in os.listdir(self.directory):  # noqa: PTH208 - names
            if name.endswith(_SUFFIX):
                stem = name.removesuffix(_SUFFIX)
                found.setdefault(stem.rpartition(".")[0] if is_aside(name) else stem, []).append(name)
        return found

    def _find(self, run: Path, prefix: str) -> tuple[Path | None, dict[str, Json]]:
        """Give the file that notes a run and what it says: by its path, else by its first line.

        Raises:
            StoreError: there may be notes, but the system does not let them be read.
        """
        own = self.path_of(run)
        values = _read(own)
        if values and (not prefix or values.get("prefix_sha256") in (prefix, "", None)):
            return own, values
        name = self._by_prefix().get(prefix) if prefix else None
        if name is not None:
            moved = _read(self.directory / name)
            if moved.get("prefix_sha256") == prefix:
                return self.directory / name, moved
        return None, {}

    def _by_prefix(self) -> dict[str, str]:
        try:
            changed = self.directory.stat().st_mtime_ns
            if changed != self._known[0]:
                names = [name for name in os.listdir(self.directory) if name.endswith(_SUFFIX)]  # noqa: PTH208
                found = {str(self._permitted(name).get("prefix_sha256")): name for name in names}
                self._known = (changed, found)
        except OSError:
            return {}
        return self._known[1]

    def _permitted(self, name: str) -> dict[str, Json]:
        """Read one of all the notes: what somebody else left there in a way of their own is passed over."""
        try:
            return _read(self.directory / name)
        except (NotPermitted, NotRegular):
            return {}

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from changing notes meanwhile."""
        private_directory(self.directory)
        try:
            fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise open_error(self.directory, error) from error
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
            except OSError as error:
                raise LockUnsure(
                    f"{shown(self.directory)}: this file system does not lock: {error.strerror}",
                    remedy="keep the state of Refold on a local disk: XDG_STATE_HOME says where",
                ) from error
            yield
        finally:
            os.close(fd)


def is_aside(name: str) -> bool:
    """Say whether a file of notes was moved out of the way of another run's: a number is in its name then."""
    _, dot, number = name.removesuffix(_SUFFIX).rpartition(".")
    return bool(dot) and number.isdecimal()


def prefix_of(run: Path) -> str:
    """Give the hash of the first line of a run, newline included; empty where there is no whole line yet.

    Of a line longer than 64 KiB these first bytes count; of a run directory the first event does.
    """
    try:
        return _prefix(run)
    except StoreError:
        return ""


def _prefix(run: Path) -> str:
    """Give the hash of the first line of a run; empty where there is none."""
    line = first_line(run)
    return _digest(line) if line else ""


def first_line(run: Path) -> bytes:
    """Give the first line of a run, newline included, at most 64 KiB of it; nothing where there is none yet.

    Raises:
        StoreError: it cannot be read.
    """
    if os.path.isdir(run):  # noqa: PTH112 - it never raises
        run = run / EVENTS
    try:
        head = _bytes(run, _HEAD)
    except NotRegular:
        return b""
    end = head.find(b"\n") + 1 or (_HEAD if len(head) == _HEAD else 0)
    return head[:end]


def _bytes(path: Path, limit: int) -> bytes:
    """Give the beginning of a file, nothing of one that is not there.

    Raises:
        StoreError: it cannot be read.
    """
    try:
        fd = open_regular(path)
    except RunNotFound:
        return b""
    try:
        return read_range(fd, 0, limit, path)
    finally:
        os.close(fd)


def _read(path: Path) -> dict[str, Json]:
    """Give what a file of notes says; nothing where there is none, or none of ours.

    Raises:
        StoreError: it cannot be read.
    """
    return _values(_data(path)) or {}


def _data(path: Path) -> bytes:
    try:
        return _bytes(path, LARGEST) or b"{}"
    except NotRegular as error:
        raise NotRegular(str(error), remedy="move it away: the notes of a run are kept there") from error


def _values(data: bytes) -> dict[str, Json] | None:
    import json  # a list of runs, of which nothing is noted, does without it

    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def read_values(path: Path) -> dict[str, Json]:
    """Give what a file of notes says; nothing where it is none, or cannot be read."""
    return examined(path)[0]


def examined(path: Path) -> tuple[dict[str, Json], str]:
    """Give what a file of notes says, and in a sentence what of it cannot be understood; empty if all can."""
    try:
        values = _values(_data(path))
    except StoreError as error:
        why = str(error).removeprefix(f"{shown(path)}: ")
        return {}, f"the notes cannot be read: {why}"
    if values is None:
        return {}, "the notes are damaged: nothing in them can be read"
    wrong = _fitting(values)[1]
    return values, f"the notes are damaged: not all of {', '.join(wrong)} can be read" if wrong else ""


@cache
def _hints() -> dict[str, object]:
    return get_type_hints(Notes)


def notes_from(values: dict[str, Json]) -> Notes:
    """Read what can be read: a value of the wrong type is as good as none, in a list it costs only itself."""
    version = values.get("version", VERSION)
    if isinstance(version, int) and not isinstance(version, bool) and version > VERSION:
        return Notes(version=version)
    return msgspec.structs.replace(Notes(), **_fitting(values)[0])


def _fitting(values: dict[str, Json]) -> tuple[dict[str, object], list[str]]:
    """Give the values of the right type by their names, and the names where something was left out."""
    known: dict[str, object] = {}
    wrong: list[str] = []
    for name, kind in _hints().items():
        if name not in values:
            continue
        value = values[name]
        try:
            known[name] = msgspec.convert(value, kind)
        except msgspec.ValidationError:
            wrong.append(name)
            if get_origin(kind) is tuple and isinstance(value, list):
                known[name] = tuple(_each_fitting(value, get_args(kind)[0]))
    return known, wrong


def _each_fitting(values: Iterable[Json], kind: object) -> Iterator[object]:
    for value in values:
        with suppress(msgspec.ValidationError):
            yield msgspec.convert(value, kind)


def _keep_copy(source: Path) -> None:
    """Give notes a second name before they are replaced: what cannot be understood of them is not lost."""
    aside = _free(source, _DAMAGED)
    try:
        os.link(source, aside)
    except OSError:
        # Not every file system knows second names.
        source.rename(aside)


def _keep(own: Path, ending: str) -> None:
    """Move notes out of the way of another run's; they are still found by the hash that they hold."""
    own.rename(_free(own, ending))


def _free(own: Path, ending: str) -> Path:
    number = 1
    while os.path.lexists(aside := own.with_name(f"{own.stem}.{number}{_SUFFIX}{ending}")):
        number += 1
    return aside


def _digest(data: bytes) -> str:
    # A list of runs reads notes and asks for no digest: the library takes a fiftieth of its start.
    import hashlib

    return hashlib.sha256(data).hexdigest()
