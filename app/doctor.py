"""Looks over everything that Refold depends on and changes nothing: runs, directories, locks, own files."""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from refold.app.log import record_fault
from refold.app.present import units
from refold.app.trashing import is_due
from refold.core.pasted import pasted
from refold.core.store.catalog import Catalog
from refold.core.store.exposure import is_exposed, mode_of
from refold.core.store.lock import locked_inodes
from refold.core.store.notes import NotesStore
from refold.core.store.other_versions import of_another_version
from refold.core.store.roots import RootReport
from refold.core.store.trash_list import Entry, closed, entries
from refold.core.summary import RunSummary

if TYPE_CHECKING:
    from refold.app.settings import Settings
    from refold.core.records import Json

Area: TypeAlias = Literal["runs", "directory", "locks", "watching", "cache", "notes", "trash", "config"]
Level: TypeAlias = Literal["fine", "remark", "warning"]

_NAMED: Final = 3
_WATCHES: Final = 1024
"""Fewer watches than this are soon used up by the programs of one user."""
_INSTANCES: Final = 16
_LARGE_CACHE: Final = 1 << 30
_PROC: Final = Path("/proc")
_REMOTE: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "sshfs"}
)
_OPENED: Final = frozenset({"runs", "empty", "same"})


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    area: Area
    level: Level
    sentence: str
    remedy: str = ""


class Report(msgspec.Struct, frozen=True):
    """Everything that was found."""

    checks: tuple[Check, ...]
    runs: int
    statuses: dict[str, int]
    """How many runs there are of each status."""
    problems: dict[str, int]
    """In how many runs each kind of damage was noticed."""

    @property
    def warnings(self) -> int:
        """How many warnings there are."""
        return sum(check.level == "warning" for check in self.checks)


def report_json(report: Report) -> dict[str, Json]:
    """Give a report as `refold doctor --json` prints it."""
    return {
        "runs": {
            "total": report.runs,
            "statuses": dict(report.statuses),
            "problems": dict(report.problems),
        },
        "checks": [
            {
                "area": check.area,
                "level": check.level,
                "message": check.sentence,
                "remedy": check.remedy,
            }
            for check in report.checks
        ],
        "warnings": report.warnings,
    }


def look_over(settings: Settings, *, proc: Path = _PROC) -> Report:
    """Look at everything once.

    Args:
        settings: Which directories and files there are.
        proc: Where the system tells about itself.
    """
    # The list is read first and may write its cache anew: what lay there is looked at before.
    others = [*of_another_version(settings.cache_dir)] if settings.cache_dir is not None else []
    catalog = Catalog(
        settings.roots, cache=settings.cache_dir, fault=partial(record_fault, settings.log_file)
    )
    runs: dict[str, RunSummary] = {}
    try:
        for item in catalog.scan():
            if isinstance(item, RunSummary):
                runs[item.path] = item
        roots = catalog.roots_report()
    finally:
        catalog.close()
    lying = [entry for entry in entries(root.path for root in settings.roots) if entry.state != "left"]
    statuses = Counter(str(run.status) for run in runs.values())
    problems = Counter(code for run in runs.values() for code in run.problems)
    checks = [
        *_runs(runs.values()),
        *(check for root in roots for check in _directory(root)),
        *_locks(roots, proc),
        *_watching(len(roots), proc),
        *_cache(settings.cache_dir),
        *_of_another_version(others),
        *_notes(settings.notes_dir, {entry.home for entry in lying}),
        *_trash(lying, settings),
        *_config(settings.config_file),
    ]
    return Report(tuple(checks), len(runs), dict(statuses.most_common()), dict(sorted(problems.items())))


def _runs(runs: Iterable[RunSummary]) -> Iterator[Check]:
    unreadable: list[str] = []
    damaged: list[str] = []
    newer: list[str] = []
    torn: list[str] = []
    exposed: list[str] = []
    waiting = 0
    total = 0
    for run in runs:
        total += 1
        if run.status == "unreadable":
            unreadable.append(run.id)
        elif run.status == "newer":
            newer.append(run.id)
        elif run.damaged:
            damaged.append(run.id)
        if run.torn and run.status != "unreadable":
            torn.append(run.id)
        if is_exposed(run.path):
            exposed.append(run.id)
        waiting += bool(run.uncertain)
    if not total:
        yield Check("runs", "remark", "there are no runs yet", "'refold demo' makes some to look at")
    if exposed:
        said = (
            f"{units.plural(len(exposed), 'run')} may be read by others, as the modes are: {_some(exposed)}"
        )
        yield Check("runs", "warning", said, "chmod 600 the files: prompts and results may hold secrets")
    if unreadable:
        said = f"{units.plural(len(unreadable), 'run')} cannot be read: {_some(unreadable)}"
        yield Check(
            "runs", "warning", said, "'refold verify RUN' says why; 'refold ls status:unreadable' lists them"
        )
    if damaged:
        said = f"{_are(len(damaged))} damaged: {_some(damaged)}"
        yield Check(
            "runs",
            "warning",
            said,
            "'refold verify RUN' says where; 'refold salvage RUN --plan' what is good",
        )
    if newer:
        said = f"{units.plural(len(newer), 'run')} of a newer version: {_some(newer)}"
        yield Check("runs", "remark", said, "update Refold, or use the program that wrote them")
    if torn:
        said = f"{units.plural(len(torn), 'run')} ended in the middle of a record: {_some(torn)}"
        yield Check("runs", "remark", said, "a resume repairs the end first; so does 'refold repair RUN'")
    if waiting:
        said = f"{units.plural(waiting, 'run')} stopped with calls in flight: nobody can say whether they ran"
        yield Check(
            "runs", "remark", said, "'refold ls uncertain:yes' lists them; d in the list says what is safe"
        )
    if total and not (exposed or unreadable or damaged):
        yield Check("runs", "fine", f"{units.plural(total, 'run')}: all can be read, by their owner only")


def _are(count: int) -> str:
    return f"{units.plural(count, 'run')} {'is' if count == 1 else 'are'}"


def _some(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:_NAMED])
    return f"{shown} and {len(names) - _NAMED:,} more" if len(names) > _NAMED else shown


def _directory(report: RootReport) -> Iterator[Check]:
    path = report.root.path
    if report.state == "missing":
        named = report.root.origin != "default"
        yield Check(
            "directory",
            "warning" if named else "remark",
            f"{path}: not there",
            "make it, or take it out of the configuration" if named else "",
        )
        return
    if report.state not in _OPENED:
        said = f"{path}: {report.detail or report.state}"
        yield Check("directory", "warning", said, "see to its owner and mode, or name another directory")
        return
    mode = mode_of(path)
    if mode & 0o022 and not mode & stat.S_ISVTX:
        said = f"{path}: others may put files there or take them away (mode {mode:04o})"
        yield Check("directory", "warning", said, _closing(path))
    others = f", {units.plural(report.others, 'other file')}" if report.others else ""
    detail = report.detail if report.state == "same" else f"{units.plural(report.runs, 'run')}{others}"
    closed = "" if mode & 0o055 else "; nobody else may look into it"
    yield Check("directory", "fine", f"{path}: {detail}{closed}")


def _locks(roots: Iterable[RootReport], proc: Path) -> Iterator[Check]:
    if locked_inodes() is None:
        yield Check(
            "locks",
            "warning",
            "this system does not say which runs are held: a running one may look crashed",
            "before a resume, make sure that no agent is at work on the run",
        )
    kinds = _file_systems(proc)
    remote: dict[str, list[str]] = {}
    for report in roots:
        kind = _kind_of(report.root.path, kinds)
        if kind in _REMOTE or kind.startswith("fuse"):
            remote.setdefault(kind, []).append(str(report.root.path))
    for kind, paths in sorted(remote.items()):
        yield Check(
            "locks",
            "warning",
            f"{', '.join(paths)}: on {kind}, where locks of other machines may not be seen",
            "keep runs that are being written on a local disk",
        )
    if locked_inodes() is not None and not remote:
        yield Check("locks", "fine", "holders of runs can be seen, and all directories lock")


def _file_systems(proc: Path) -> list[tuple[str, str]]:
    """Give mount points and their kinds, the longest paths first."""
    try:
        text = (proc / "self" / "mountinfo").read_bytes()
    except OSError:
        return []
    found: list[tuple[str, str]] = []
    for line in text.split(b"\n"):
        before, _, after = line.partition(b" - ")
        words, kinds = before.split(), after.split()
        if len(words) > 4 and kinds:
            point = words[4].replace(b"\\040", b" ")
            found.append((os.fsdecode(point), os.fsdecode(kinds[0])))
    return sorted(found, key=lambda each: -len(each[0]))


def _kind_of(path: Path, kinds: list[tuple[str, str]]) -> str:
    real = os.path.realpath(path)
    for point, kind in kinds:
        if real == point or real.startswith(point.rstrip("/") + "/"):
            return kind
    return ""


def _watching(directories: int, proc: Path) -> Iterator[Check]:
    limits = proc / "sys" / "fs" / "inotify"
    watches, instances = _number(limits / "max_user_watches"), _number(limits / "max_user_instances")
    if watches is None or instances is None:
        yield Check("watching", "remark", "this system has no inotify: changes are seen by looking again")
        return
    if watches < max(_WATCHES, directories) or instances < _INSTANCES:
        yield Check(
            "watching",
            "warning",
            f"the system allows {watches:,} file watches and {instances:,} watchers, which is few: "
            "changes may be seen late",
            "raise fs.inotify.max_user_watches and fs.inotify.max_user_instances",
        )
    else:
        yield Check("watching", "fine", f"the system allows {watches:,} file watches, {instances:,} watchers")


def _number(path: Path) -> int | None:
    try:
        return int(path.read_bytes())
    except (OSError, ValueError):
        return None


def _cache(directory: Path | None) -> Iterator[Check]:
    if directory is None:
        yield Check("cache", "remark", "there is no cache: every run is read anew each time")
        return
    files, size = _sizes(directory)
    said = f"{directory}: {units.plural(files, 'file')}, {units.size(size)}"
    if not files:
        said = f"{directory}: empty"
    if size > _LARGE_CACHE:
        yield Check("cache", "remark", said, "it may be removed at any time: it is made again")
    elif os.path.isdir(directory) and not os.access(directory, os.W_OK):  # noqa: PTH112 - it never raises
        yield Check("cache", "warning", f"{directory}: cannot be written", "see to its owner and mode")
    else:
        yield Check("cache", "fine", said)
    yield from _search_index(directory)


def _of_another_version(files: Sequence[Path]) -> Iterator[Check]:
    """Say that what is kept to be quick was kept by an older or newer Refold."""
    if files:
        are = "was" if len(files) == 1 else "were"
        said = f"{units.plural(len(files), 'cache file')} {are} written by another version of Refold: "
        said += _some([path.name for path in files])
        remedy = "nothing is lost: it is not used, and made again from the runs when it is needed"
        yield Check("cache", "remark", said, remedy)


def _search_index(directory: Path) -> Iterator[Check]:
    """Say what the index of the search takes, where there is one."""
    from refold.core.store.search_database import IndexProblem
    from refold.core.store.search_index import open_index

    try:
        index = open_index(directory)
    except IndexProblem as error:
        yield Check("cache", "remark", str(error), "the next search makes it anew; it may be removed")
        return
    if index is not None:
        with index:
            said = f"{index.path}: the index of the search, {units.size(index.size())}"
            yield Check("cache", "fine", said)


def _sizes(directory: Path) -> tuple[int, int]:
    files = size = 0
    for base, _, names in os.walk(directory):
        for name in names:
            try:
                size += os.lstat(Path(base, name)).st_size
            except OSError:
                continue
            files += 1
    return files, size


def _trash(lying: Sequence[Entry], settings: Settings) -> Iterator[Check]:
    """Say what lies in the trash; what a kill left there is finished by whoever empties it."""
    shut = [entry for entry in lying if entry.state == "closed"]
    for entry in shut:
        problem = closed(entry)
        yield Check("trash", "warning", str(problem), problem.remedy)
    lying = [entry for entry in lying if entry.state != "closed"]
    if not lying and not shut:
        yield Check("trash", "fine", "the trash is empty")
        return
    if not lying:
        return
    size = units.size(sum(entry.bytes for entry in lying))
    said = f"{units.plural(len(lying), 'run')} in the trash, {size}"
    now = time.time()
    due = sum(is_due(entry, settings, now) for entry in lying)
    odd = [entry.id for entry in lying if entry.state not in {"whole", "newer", "deleting"}]
    if due:
        remedy = "'refold prune --trash' says which and frees the room with --yes"
        yield Check("trash", "remark", f"{said}; {due:,} may be deleted", remedy)
    elif not odd:
        yield Check("trash", "fine", said)
    if odd:
        said = f"{units.plural(len(odd), 'run')} did not get into the trash as a whole: {_some(odd)}"
        yield Check("trash", "warning", said, "'refold restore ID' puts back what is there")


def _notes(directory: Path, trashed: AbstractSet[str]) -> Iterator[Check]:
    count, gone, newer = 0, 0, 0
    for notes in NotesStore(directory).each():
        count += 1
        newer += bool(notes.kept.trouble)
        gone += bool(notes.path) and notes.path not in trashed and not os.path.lexists(notes.path)
    troubles = list(NotesStore(directory).troubles())
    for path, trouble in troubles[:_NAMED]:
        remedy = "'refold note RUN TEXT' puts a damaged file aside; move away what is no file"
        yield Check("notes", "warning", f"{path}: {trouble}", remedy)
    if len(troubles) > _NAMED:
        yield Check("notes", "warning", f"{directory}: {len(troubles) - _NAMED:,} more of that kind")
    if newer:
        said = f"{directory}: {units.plural(newer, 'note')} of a newer Refold, left as they are"
        yield Check("notes", "remark", said, "update Refold, or go on with the newer one")
    if gone:
        are = "is" if gone == 1 else "are"
        said = f"{directory}: {units.plural(count, 'note')}, {gone:,} of which {are} about runs that are gone"
        yield Check("notes", "remark", said, "they are found again where such a run was moved to")
    elif not troubles:
        yield Check("notes", "fine", f"{directory}: {units.plural(count, 'note')}")


def _closing(path: Path) -> str:
    return pasted("chmod", "go-w", str(path)) or "take the right to write from others: chmod go-w"


def _config(path: Path) -> Iterator[Check]:
    mode = mode_of(path)
    if not os.path.lexists(path):
        yield Check("config", "fine", f"{path}: not there; the defaults hold")
    elif mode & 0o022 and not path.is_symlink():
        yield Check(
            "config",
            "warning",
            f"{path}: others may change it (mode {mode:04o}), and it names programs that are started",
            _closing(path),
        )
    else:
        yield Check("config", "fine", f"{path}: understood")
