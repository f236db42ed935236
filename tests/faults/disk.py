"""A disk as a trace of system calls leaves it: what is surely there, and what a power failure may take.

Whatever was not synced may be there, half there, full of zeros or missing, each write for itself; a name
counts as synced once its directory was, each change for itself, and a rename may leave both names
(design/safety.md 2.1 and 2.2 C). Nothing that was synced is ever lost.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

State: TypeAlias = "dict[str, bytes | str | None]"
"""The content of each file by its path; another path where it is the same file; None for a directory."""

_ZEROS = 4096
_MOST = 4000
"""Combinations at one moment that are all tried; of more a sample is."""


class Write(NamedTuple):
    """Bytes that were put into a file, or the size to which it was cut."""

    start: int
    data: bytes
    size: int = -1
    """Not negative for a cut."""

    def applied(self, content: bytes) -> bytes:
        """Give the content of a file after it."""
        if self.size >= 0:
            return content[: self.size].ljust(self.size, b"\0")
        return (
            content[: self.start].ljust(self.start, b"\0")
            + self.data
            + content[self.start + len(self.data) :]
        )


@dataclass
class Stored:
    """A file: what is surely on disk, and what was done to it since."""

    synced: bytes = b""
    pending: list[Write] = field(default_factory=list)

    @property
    def now(self) -> bytes:
        """The content that a process sees."""
        content = self.synced
        for write in self.pending:
            content = write.applied(content)
        return content

    def sync(self) -> None:
        """Bring all of it to the disk."""
        self.synced, self.pending = self.now, []

    def after(self, cuts: int) -> list[bytes]:
        """Give each content that may be found; a write is torn at about so many places."""
        found = {self.synced: None, self.now: None}
        content = self.synced
        for number, write in enumerate(self.pending):
            later = self.pending[number + 1 :]
            for part in _torn(write, cuts):
                found[part.applied(content)] = None
            if write.size < 0:
                zeros = Write(write.start, bytes(len(write.data)))
                for lost in (zeros, None):
                    # A later write may be there although this one is not.
                    left = lost.applied(content) if lost is not None else content
                    for each in later:
                        left = each.applied(left)
                    found[left] = None
            content = write.applied(content)
            found[content] = None
        return list(found)


def _torn(write: Write, cuts: int) -> Iterator[Write]:
    length = len(write.data)
    if write.size >= 0 or length < 2:
        return
    places = {1, length - 1, *(length * step // cuts for step in range(1, cuts))}
    places |= set(range(512, length, max(512, length // cuts // 512 * 512)))
    for place in sorted(places - {0, length}):
        part = write.data[:place]
        yield Write(write.start, part)
        yield Write(write.start, part + bytes(length - place))
        hole = min(place + _ZEROS, length)
        yield Write(write.start, part + bytes(hole - place) + write.data[hole:])


Entry: TypeAlias = "Stored | Literal['directory'] | None"


class Renaming(NamedTuple):
    """One change of the names of a directory; the names of a rename change together, or the new one first."""

    directory: str
    changes: tuple[tuple[str, Entry], ...]


class Disk:
    """The files and names below a directory while calls change them."""

    def __init__(self, state: State) -> None:
        self._sure: dict[str, Entry] = {
            path: Stored(data) if isinstance(data, bytes) else "directory" for path, data in state.items()
        }
        self._names = dict(self._sure)
        self._pending: list[Renaming] = []

    def entry(self, path: str) -> Entry:
        """Give what a process finds under a path."""
        return self._names.get(path)

    def rename(self, *changes: tuple[str, Entry]) -> None:
        """Change names, all of one directory."""
        moved: list[tuple[str, Entry]] = []
        for path, entry in changes:
            before = self._names.get(path)
            if before == "directory" or entry == "directory":
                # What lies below goes along.
                moved += _below(self._names, path, changes)
            moved.append((path, entry))
        for path, entry in moved:
            if entry is None:
                self._names.pop(path, None)
            else:
                self._names[path] = entry
        self._pending.append(Renaming(changes[0][0].rpartition("/")[0], tuple(moved)))

    def sync_names(self, directory: str) -> None:
        """Bring the names of a directory to the disk."""
        for renaming in self._pending:
            if renaming.directory == directory:
                _apply(self._sure, renaming.changes)
        self._pending = [renaming for renaming in self._pending if renaming.directory != directory]

    def after_power_loss(self, rng: random.Random, *, cuts: int, most: int = _MOST) -> Iterator[State]:
        """Yield what may be found, each state once where they are few and a sample where they are many."""
        for names in self._name_states(rng):
            files = {id(entry): entry for entry in names.values() if isinstance(entry, Stored)}
            choices = {key: entry.after(cuts) for key, entry in files.items()}
            combinations: Iterator[tuple[bytes, ...]] = itertools.product(*choices.values())
            if math.prod(map(len, choices.values())) > most:
                combinations = (tuple(map(rng.choice, choices.values())) for _ in range(most))
            for contents in combinations:
                yield _state(names, dict(zip(choices, contents, strict=True)))

    def _name_states(self, rng: random.Random) -> Iterator[dict[str, Entry]]:
        count = len(self._pending)
        if count <= 7:
            chosen = list(itertools.product((False, True), repeat=count))
        else:
            chosen = [tuple(number < first for number in range(count)) for first in range(count + 1)]
            chosen += [tuple(rng.random() < 0.5 for _ in range(count)) for _ in range(128)]
        for those in dict.fromkeys(chosen):
            names = dict(self._sure)
            kept = [renaming for renaming, there in zip(self._pending, those, strict=True) if there]
            for renaming in kept:
                _apply(names, renaming.changes)
            yield names
            if kept and len(kept[-1].changes) == 2:
                both = dict(self._sure)
                for renaming in kept[:-1]:
                    _apply(both, renaming.changes)
                _apply(both, [change for change in kept[-1].changes if change[1] is not None])
                yield both


def _state(names: dict[str, Entry], contents: dict[int, bytes]) -> State:
    first: dict[int, str] = {}
    found: State = {}
    for path, entry in sorted(names.items()):
        if not _is_reached(names, path):
            continue
        if not isinstance(entry, Stored):
            found[path] = None
        elif id(entry) in first:
            found[path] = first[id(entry)]
        else:
            first[id(entry)] = path
            found[path] = contents[id(entry)]
    return found


def _apply(names: dict[str, Entry], changes: tuple[tuple[str, Entry], ...] | list[tuple[str, Entry]]) -> None:
    for path, entry in changes:
        if entry is None:
            names.pop(path, None)
        else:
            names[path] = entry


def _below(
    names: dict[str, Entry], path: str, changes: tuple[tuple[str, Entry], ...]
) -> list[tuple[str, Entry]]:
    """Give the changes of what lies in a directory that gets another name."""
    target = next((new for new, entry in changes if entry == "directory" and new != path), None)
    inside = [(name, entry) for name, entry in names.items() if name.startswith(f"{path}/")]
    gone: list[tuple[str, Entry]] = [(name, None) for name, _ in inside]
    if target is None:
        return gone if dict(changes).get(path) is None else []
    return [*((target + name[len(path) :], entry) for name, entry in inside), *gone]


def _is_reached(names: dict[str, Entry], path: str) -> bool:
    """Say whether the directories that lead to a name are there; the topmost one always is."""
    parent = path.rpartition("/")[0]
    return not parent or (names.get(parent) == "directory" and _is_reached(names, parent))
