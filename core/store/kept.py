"""What is noted about all runs at once, for lists: joined to their rows without a file opened for each.

The directory of notes is listed once. What its files said is kept in the cache, and stands as a whole while
the directory has not changed: every change of a note puts a new file into it. The cache may vanish at any
moment, and changes no answer.
"""

from __future__ import annotations

import os
import stat
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from refold.core.errors import StoreError
from refold.core.keeping import NOTHING, Kept
from refold.core.store.files import private_directory, replace_atomically, shown
from refold.core.store.list_cache import MAGIC, framed, frames
from refold.core.store.notes import NotesStore, examined, is_aside, notes_from, prefix_of
from refold.core.summary import RunSummary, with_kept

if TYPE_CHECKING:
    from refold.core.store.roots import Root

_NAME: Final = "notes.cache"
_SUFFIX: Final = ".json"
_STRETCH: Final = 200
_SETTLED_NS: Final = 2_000_000_000
"""What changed within this time may change again without a new time stamp."""


class _Entry(msgspec.Struct, array_like=True, gc=False):
    """One file of notes, as it was read."""

    name: str
    stamp: tuple[int, int, int]
    """Mtime, size, inode; zeros where it may change without another stamp."""
    path: str
    prefix: str
    kept: Kept


class _Head(msgspec.Struct, array_like=True):
    """What the cached entries stand for."""

    directory: str
    state: tuple[int, int, int]
    """Device, inode and mtime of the directory; zeros where it was not settled."""
    entries: int
    """How many follow."""
    checked: dict[str, tuple[int, float, str]]


class _Checked(NamedTuple):
    """The hash of the first line of a run; it is the same while size and time are."""

    size: int
    updated: float
    prefix: str


_NOWHERE: Final = (0, 0, 0)
_encode = msgspec.msgpack.Encoder().encode
_decode_head = msgspec.msgpack.Decoder(_Head).decode
_decode = msgspec.msgpack.Decoder(list[_Entry]).decode


class KeptIndex:
    """What is kept about the runs of a list."""

    def __init__(self, directory: Path, cache: Path | None) -> None:
        """Prepare an index; nothing is read yet.

        Args:
            directory: Where the notes lie.
            cache: The directory of the cache; None to do without.
        """
        self.directory = directory
        self._cache = cache
        self._entries: dict[str, _Entry] = {}
        self._by_path: dict[str, _Entry] = {}
        self._by_base: dict[str, list[_Entry]] = {}
        self._by_prefix: dict[str, Kept] = {}
        self._nameless: dict[str, Kept] = {}
        self._state = _NOWHERE
        self._real: dict[str, str] = {}
        self._checked: dict[str, _Checked] = {}
        self._heads: dict[str, tuple[tuple[int, int, int, int], str]] = {}
        self._must_load = cache is not None
        self._must_save = False

    def look(self) -> Iterator[bool]:
        """Bring the index in line with the disk, in small steps; True once something is another."""
        state = _state_of(self.directory)
        if self._must_load:
            self._must_load = False
            yield from self._load()
        if state == self._state and _is_settled(state):
            return
        if state == _NOWHERE:
            self._state = state
            if self._entries:
                self._take({})
                yield True
            return
        found: dict[str, _Entry] = {}
        now = time.time_ns()
        changed = False
        for name, status in self._listed():
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            known = self._entries.get(name)
            if known is not None and known.stamp == stamp:
                found[name] = known
            else:
                settled = now - stamp[0] >= _SETTLED_NS
                entry = self._read(name, stamp if settled else _NOWHERE)
                changed = changed or known is None or known.kept != entry.kept or known.path != entry.path
                found[name] = entry
                yield False
            if len(found) % _STRETCH == 0:
                yield False
        changed = changed or found.keys() != self._entries.keys()
        self._must_save = self._must_save or changed or state != self._state
        self._state = state if _is_settled(state) else _NOWHERE
        self._take(found)
        if changed:
            yield True

    def look_at_all(self) -> None:
        """Bring the index in line with the disk."""
        for _ in self.look():
            pass

    def joined(self, run: RunSummary) -> RunSummary:
        """Give a row as its reader made it with what is noted of it; the very row where nothing is."""
        return with_kept(run, self.kept(run))

    def kept(self, run: RunSummary) -> Kept:
        """Give what is noted about a run; at most its first line is read, and that once."""
        if not self._entries:
            return NOTHING
        path = self._real_path(run.path)
        entry = self._by_path.get(path)
        if entry is not None and not entry.prefix:
            return entry.kept
        others = self._by_base.get(path.rpartition("/")[2], ())
        # Its file is called otherwise than it was: so may the one that was noted have been.
        renamed = "E_FOREIGN_RUN" in run.problems and bool(self._by_prefix)
        if entry is None and not others and not renamed:
            return self._unread(run)
        known = self._checked.get(path)
        if known is None or known[:2] != (run.size, run.updated):
            known = self._checked[path] = _Checked(run.size, run.updated, prefix_of(Path(run.path)))
            self._must_save = True
        if entry is not None and known.prefix in ("", entry.prefix):
            return entry.kept
        if renamed:
            return self._by_prefix.get(known.prefix, NOTHING)
        return next((other.kept for other in others if other.prefix == known.prefix), NOTHING)

    def _unread(self, run: RunSummary) -> Kept:
        """Give why the notes of a run cannot be read: a file that says nothing is known by its name alone."""
        if not self._nameless:
            return NOTHING
        return self._nameless.get(NotesStore(self.directory).path_of(Path(run.path)).name, NOTHING)

    def named(self, name: str, roots: Sequence[Root] = ()) -> list[Path]:
        """Give the runs that are there and have this name, each once, sorted.

        Large and small letters count alike. A run that lies where another one lay has not its name; one
        that was moved has it still.

        Args:
            name: What was given.
            roots: The directories in which a run is looked for that does not lie where it lay.
        """
        found: set[Path] = set()
        moved: set[str] = set()
        for entry in self._called(name):
            if self._is_of_what_is_there(entry):
                found.add(Path(entry.path))
            elif entry.prefix:
                moved.add(entry.prefix)
        if moved and roots:
            from refold.core.store.moved import beginning_with

            # All of them at once: the head of each run is read for it.
            found.update(beginning_with(moved, roots))
        return sorted(found)

    def lain(self, name: str) -> list[Path]:
        """Give the places where runs of this name lay that lie there no longer, each once, sorted."""
        return sorted({Path(each.path) for each in self._called(name) if not self._is_of_what_is_there(each)})

    def _is_of_what_is_there(self, entry: _Entry) -> bool:
        """Say whether notes speak of the very run that lies at their path now."""
        if not os.path.lexists(entry.path):
            return False
        prefix = self._prefix_at(entry.path)
        if is_aside(entry.name):
            return bool(prefix) and prefix == entry.prefix
        return not prefix or entry.prefix in ("", prefix)

    def _prefix_at(self, path: str) -> str:
        """Give the hash of the first line of what lies there; a file that is as it was is not read again."""
        try:
            found = Path(path).stat()
        except (OSError, ValueError):
            return ""
        stamp = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        known = self._heads.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        prefix = prefix_of(Path(path))
        if stat.S_ISREG(found.st_mode) and time.time_ns() - found.st_mtime_ns >= _SETTLED_NS:
            self._heads[path] = (stamp, prefix)
        return prefix

    def _called(self, name: str) -> list[_Entry]:
        wanted = name.casefold()
        if not wanted:
            return []
        return [each for each in self._entries.values() if each.path and each.kept.name.casefold() == wanted]

    def save(self) -> None:
        """Keep in the cache what was read; a cache that cannot be written is left as it is."""
        if self._cache is None or not self._must_save:
            return
        self._must_save = False
        self._checked = {path: at for path, at in self._checked.items() if self._is_asked_for(path)}
        checked = {path: (*at,) for path, at in self._checked.items()}
        head = _Head(str(self.directory), self._state, len(self._entries), checked)
        parts = [MAGIC]
        try:
            parts.append(framed(_encode(head)))
            entries = iter(self._entries.values())
            while stretch := list(islice(entries, _STRETCH)):
                parts.append(framed(_encode(stretch)))
            private_directory(self._cache)
            replace_atomically(self._cache / _NAME, b"".join(parts))
        except (OSError, StoreError, UnicodeEncodeError):
            return

    def _is_asked_for(self, path: str) -> bool:
        """Say whether the first line of what lies there decides about notes: else it need not be known."""
        named = path in self._by_path or path.rpartition("/")[2] in self._by_base
        return named and os.path.lexists(path)

    def _load(self) -> Iterator[bool]:
        if self._cache is None:
            return
        found: dict[str, _Entry] = {}
        head: _Head | None = None
        try:
            for payload in frames(self._cache / _NAME):
                if head is None:
                    head = _decode_head(payload)
                    if head.directory != str(self.directory):
                        return
                else:
                    found.update((entry.name, entry) for entry in _decode(payload))
                yield False
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        if head is not None and head.entries == len(found):
            self._state = head.state
            self._checked = {path: _Checked(*at) for path, at in head.checked.items()}
            self._take(found)

    def _listed(self) -> Iterator[tuple[str, os.stat_result]]:
        try:
            with os.scandir(self.directory) as entries:
                for entry in entries:
                    if entry.name.endswith(_SUFFIX) and not entry.name.startswith("."):
                        try:
                            yield entry.name, entry.stat(follow_symlinks=False)
                        except OSError:
                            continue
        except OSError:
            return

    def _read(self, name: str, stamp: tuple[int, int, int]) -> _Entry:
        values, trouble = examined(self.directory / name)
        kept = notes_from(values).kept
        path, prefix = values.get("path"), values.get("prefix_sha256")
        return _Entry(
            name,
            stamp,
            shown(path) if isinstance(path, str) else "",
            prefix if isinstance(prefix, str) else "",
            kept if kept.trouble else msgspec.structs.replace(kept, trouble=trouble),
        )

    def _take(self, entries: dict[str, _Entry]) -> None:
        self._entries = entries
        useful = [e for e in entries.values() if (e.kept or e.kept.fork_of) and e.path]
        self._nameless = {e.name: e.kept for e in entries.values() if e.kept.trouble and not e.path}
        self._by_path, self._by_prefix = {}, {}
        by_base: dict[str, list[_Entry]] = defaultdict(list)
        for entry in useful:
            before = self._by_path.get(entry.path)
            if before is None or len(entry.name) < len(before.name):
                self._by_path[entry.path] = entry
            by_base[entry.path.rpartition("/")[2]].append(entry)
            if entry.prefix:
                self._by_prefix.setdefault(entry.prefix, entry.kept)
        self._by_base = dict(by_base)

    def _real_path(self, path: str) -> str:
        parent, _, name = path.rpartition("/")
        real = self._real.get(parent)
        if real is None:
            real = self._real[parent] = shown(os.path.realpath(parent))
        return f"{real.rstrip('/')}/{name if name.isascii() else shown(name)}"


def index_of(directory: Path, cache: Path | None) -> KeptIndex:
    """Give the index of what is there now; what had to be read is kept in the cache."""
    index = KeptIndex(directory, cache)
    index.look_at_all()
    index.save()
    return index


def _state_of(directory: Path) -> tuple[int, int, int]:
    try:
        found = directory.stat()
    except (OSError, ValueError):
        return _NOWHERE
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _is_settled(state: tuple[int, int, int]) -> bool:
    return time.time_ns() - state[2] >= _SETTLED_NS
