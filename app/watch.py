"""Which runs changed on disk, as it happens: by notification where the system can, else by looking again.

Notification can fail in ways that nobody sees: the system's limit of watches is used up, a network disk
reports nothing, a directory that was deleted and made again is silent from then on. So the directories
themselves are looked at every second whatever is watched, and the mode that holds is always said.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

Mode: TypeAlias = Literal["watching", "polling"]

DEBOUNCE_MS = 30
STEP_MS = 10
"""How long changes are gathered: an append is seen within both, an idle watch takes 0.5 % of a CPU."""

INTERVAL = 1.0
"""Seconds between two looks at the directories, and between two polls."""

FLOOD = 200
"""From so many changed files of one directory on, the directory is named instead of them."""

_REMOTE = frozenset(
    {"9p", "afs", "ceph", "cifs", "fuse", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "prl_fs", "smb3"}
    | {"smbfs", "vboxsf", "virtiofs"}
)
"""File systems on which others write without the local system being told; those named `fuse.…` are others."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """Something to be read again, or how changes are noticed from now on."""

    kind: Literal["changed", "mode"]
    mode: Mode
    paths: tuple[str, ...] = ()
    """Changed files, or a watched directory where all of it should be read again."""
    reason: str = ""
    """Why there is polling; empty while watching."""


Notifier: TypeAlias = Callable[[tuple[str, ...], asyncio.Event], AsyncIterator[Iterable[str]]]
"""Yields changed paths of directories until an event is set; raises OSError or RuntimeError if it cannot."""


async def notifications(directories: tuple[str, ...], stop: asyncio.Event) -> AsyncIterator[Iterable[str]]:
    """Yield the paths that the system reports as changed, in small groups.

    Raises:
        OSError: the limit of watches is used up, or a directory went away.
        RuntimeError: the watching library failed inside, as it does at the limit of instances.
    """
    from watchfiles import awatch

    async for batch in awatch(
        *directories,
        watch_filter=None,
        debounce=DEBOUNCE_MS,
        step=STEP_MS,
        stop_event=stop,
        rust_timeout=0,
        recursive=False,
    ):
        yield [path for _, path in batch]


async def watch(
    paths: Iterable[Path | str],
    *,
    stop: asyncio.Event,
    interval: float = INTERVAL,
    notifier: Notifier = notifications,
) -> AsyncGenerator[WatchEvent, None]:
    """Yield what changes in directories until `stop` is set.

    The first event says the mode; whatever changes after it is reported. A directory need not exist: it is
    reported as changed when it appears, goes away or is replaced. A flood becomes one event for each time
    that the consumer asks.
    """
    # Imported off the loop: it takes ten times what the loop may be held.
    await asyncio.to_thread(import_module, "watchfiles")
    watcher = _Watcher(tuple(dict.fromkeys(str(Path(path)) for path in paths)), notifier)
    mode: tuple[Mode, str] | None = None
    try:
        while not stop.is_set():
            await watcher.look()
            if watcher.mode != mode:
                mode = watcher.mode
                yield WatchEvent("mode", mode[0], reason=mode[1])
            next_look = asyncio.get_running_loop().time() + interval
            while await watcher.changes.wait(stop, next_look):
                if changed := watcher.changes.take():
                    yield WatchEvent("changed", mode[0], changed, mode[1])
    finally:
        await watcher.pump.close()


class _Place(NamedTuple):
    """What stands at the path of a directory that is to be watched."""

    device: int = 0
    inode: int = 0
    hindrance: str = ""
    """Why it cannot be watched by notification."""

    @property
    def there(self) -> bool:
        return bool(self.inode)


_Listing: TypeAlias = Mapping[str, tuple[int, int, int]]
"""The names in a directory with inode, size and mtime."""


class _Changes:
    """What was reported and is not taken yet, by directory."""

    def __init__(self) -> None:
        self._changed: dict[str, set[str]] = {}
        self._given: dict[str, str] = {}
        self._flooded: set[str] = set()
        self._struck: set[str] = set()
        self._arrived = asyncio.Event()

    def follow(self, real: Mapping[str, str]) -> None:
        """Know these directories, real path to given path: the system may report either."""
        self._given = {**real, **{given: given for given in real.values()}}

    def report(self, path: str) -> None:
        """Take note of a changed path as the system names it."""
        parent, _, name = path.rpartition("/")
        if (directory := self._given.get(parent)) is not None:
            self.add(directory, f"{directory}/{name}")
        elif (directory := self._given.get(path)) is not None:
            self._struck.add(directory)
            self.add(directory, directory)

    def add(self, directory: str, path: str) -> None:
        """Take note of a changed path in a directory, or of the directory as a whole."""
        self._changed.setdefault(directory, set()).add(path)
        self._arrived.set()

    def compare(self, directory: str, before: _Listing, now: _Listing) -> None:
        """Take note of every name that differs between two looks at a directory."""
        for name in before.keys() | now.keys():
            if before.get(name) != now.get(name):
                self.add(directory, f"{directory}/{name}")

    def struck(self) -> set[str]:
        """Give the directories that were themselves reported: one made again may even have the same inode."""
        struck, self._struck = self._struck, set()
        return struck

    def recheck_floods(self) -> None:
        """Name directories again that were flooded: the system may have dropped what came last."""
        flooded, self._flooded = self._flooded, set()
        for directory in flooded:
            self.add(directory, directory)

    def take(self) -> tuple[str, ...]:
        """Give all that was reported since this was last asked."""
        self._arrived.clear()
        taken: list[str] = []
        for directory, paths in self._changed.items():
            if len(paths) >= FLOOD:
                self._flooded.add(directory)
            if len(paths) >= FLOOD or directory in paths:
                taken.append(directory)
            else:
                taken.extend(sorted(paths))
        self._changed.clear()
        return tuple(taken)

    async def wait(self, stop: asyncio.Event, until: float) -> bool:
        """Wait for a report; False at the given time of the loop, or when `stop` is set."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self._arrived, stop)]
        seconds = max(0.0, until - asyncio.get_running_loop().time())
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return self._arrived.is_set() and not stop.is_set()


class _Pump:
    """Carries the reports of a notifier to the changes, in a task of its own."""

    def __init__(self, directories: tuple[str, ...], notifier: Notifier, changes: _Changes) -> None:
        self.directories = directories
        self._notifier = notifier
        self._changes = changes
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin; when this returns the system watches, or `fault` says why it does not."""
        if self.directories:
            self._task = asyncio.create_task(self._run(), name="refold-watch")
            await asyncio.sleep(0)

    @property
    def ended(self) -> bool:
        """It ended by itself: the system reports no more."""
        return self._task is not None and self._task.done()

    @property
    def fault(self) -> str:
        """Why it ended; empty where it runs, or where only a directory went away."""
        if self._task is None or not self._task.done() or self._task.cancelled():
            return ""
        error = self._task.exception()
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if error is None or isinstance(error, FileNotFoundError):
            return ""
        if not isinstance(error, (OSError, RuntimeError)):
            raise error
        message = str(error)
        if "limit" in message or "Too many open files" in message:
            return "the system's limit of file watches is used up"
        if "decode" in message:
            return "the name of a file is not UTF-8"
        return f"the system cannot watch: {message}"

    async def close(self) -> None:
        """End the watch; its thread ends within one step."""
        self._stop.set()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        async for paths in self._notifier(self.directories, self._stop):
            for path in paths:
                self._changes.report(path)


class _Watcher:
    """How each directory is watched, brought up to date by each look."""

    def __init__(self, directories: tuple[str, ...], notifier: Notifier) -> None:
        self.changes = _Changes()
        self.mode: tuple[Mode, str] = ("watching", "")
        self.pump = _Pump((), notifier, self.changes)
        self._directories = directories
        self._notifier = notifier
        self._places: dict[str, _Place] = {}
        self._polled: dict[str, _Listing | None] = {}

    async def look(self) -> None:
        """Arm what appeared or was replaced, and poll what cannot be watched."""
        places = await asyncio.to_thread(_places, self._directories)
        struck = self.changes.struck()
        if self.pump.ended or struck or places != self._places:
            await self._arm(places, struck)
        self.changes.recheck_floods()
        for path, listed in self._polled.items():
            now = await asyncio.to_thread(_listing, path)
            self._polled[path] = now
            if listed is not None:
                self.changes.compare(path, listed, now)

    async def _arm(self, places: dict[str, _Place], struck: set[str]) -> None:
        fault = self.pump.fault
        await self.pump.close()
        there = [path for path in self._directories if places[path].there]
        reasons = {path: places[path].hindrance for path in there if places[path].hindrance}
        self.changes.follow(await asyncio.to_thread(_real_paths, there))
        watched = () if fault else tuple(path for path in there if path not in reasons)
        self.pump = _Pump(watched, self._notifier, self.changes)
        await self.pump.start()
        if fault := fault or self.pump.fault:
            reasons = {path: places[path].hindrance or fault for path in there}
            self.pump = _Pump((), self._notifier, self.changes)
        # A directory that is polled from now on may have changed since it was looked at last.
        unseen = [path for path in reasons if path not in self._polled]
        self._polled = {path: self._polled.get(path) for path in reasons}
        if self._places:
            altered = [path for path, before in self._places.items() if places[path] != before]
            for path in dict.fromkeys([*unseen, *altered, *struck]):
                self.changes.add(path, path)
        self._places = places
        self.mode = ("polling", "; ".join(sorted(set(reasons.values())))) if reasons else ("watching", "")


def _places(directories: tuple[str, ...]) -> dict[str, _Place]:
    mounts = _mounts()
    return {path: _place(path, mounts) for path in directories}


def _place(path: str, mounts: Mapping[str, str]) -> _Place:
    try:
        status = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return _Place()
    if not stat.S_ISDIR(status.st_mode):
        return _Place()
    return _Place(status.st_dev, status.st_ino, _hindrance(path, mounts))


def _hindrance(path: str, mounts: Mapping[str, str]) -> str:
    if not os.access(path, os.R_OK | os.X_OK):
        return "a directory may not be read"
    try:
        path.encode()
    except UnicodeEncodeError:
        return "the name of a directory is not UTF-8"
    kind = _file_system(os.path.realpath(path), mounts)
    if kind in _REMOTE or kind.startswith("fuse."):
        return f"a directory is on a {kind} file system, which does not tell of changes"
    return ""


def _mounts() -> dict[str, str]:
    """The file system of every mount point; empty where the system does not say."""
    try:
        table = Path("/proc/self/mountinfo").read_bytes().decode(errors="surrogateescape")
    except OSError:
        return {}
    mounts: dict[str, str] = {}
    for row in table.split("\n"):
        left, dash, right = row.partition(" - ")
        fields = left.split(" ")
        if dash and len(fields) > 4:
            mounts[fields[4].replace("\\040", " ")] = right.split(" ")[0]
    return mounts


def _file_system(path: str, mounts: Mapping[str, str]) -> str:
    while path not in mounts and path not in {"/", ""}:
        path = path.rpartition("/")[0] or "/"
    return mounts.get(path, "")


def _real_paths(directories: Iterable[str]) -> dict[str, str]:
    return {os.path.realpath(path): path for path in directories}


def _listing(path: str) -> _Listing:
    found: dict[str, tuple[int, int, int]] = {}
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                found[entry.name] = (status.st_ino, status.st_size, status.st_mtime_ns)
    except OSError:
        return {}
    return found
