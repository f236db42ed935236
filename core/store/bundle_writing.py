"""Writes a run into a post-mortem bundle, redacted on its way, with every line of it, damage too.

So another Refold sees the same run; places in the manifest are those of the source, from which a redacted
file differs.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, NamedTuple, cast

import msgspec

from refold.core.errors import RunNotFound, StoreError, TooLarge
from refold.core.nested import NESTED
from refold.core.records import Json
from refold.core.redact import WINDOW
from refold.core.store.bundle_parts import (
    DEEPEST,
    HEAD,
    LARGEST_MANIFEST,
    LARGEST_RUN,
    MANIFEST,
    MOST_RUNS,
    PLACE,
    TEXTS,
    VERSION,
    member,
    most_in,
)
from refold.core.store.export import Source
from refold.core.store.files import shown, write_all
from refold.core.store.roots import SUFFIX
from refold.core.store.run_id import is_run_id
from refold.core.store.session_names import EVENTS, LOCK, SIDE, is_run_directory, is_run_name
from refold.core.store.session_names import MANIFEST as CLAIMS

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

    from refold.core.store.session_reader import SessionReader

_TRIES: Final = 5
_LEASE: Final = re.compile(rb"pid=\d{1,10} token=[0-9a-f]{32}\n")
_JOINT: Final = b'},{"'
"""Between two messages of a manifest; within a text the quote would have a backslash before it."""


def write_bundle(fd: int, source: Source, now: datetime) -> None:
    """Write the bundle of a run into an empty file.

    Raises:
        TooLarge: no bundle holds so much, and none that did would be opened.
        StoreError: the run cannot be read.
        OSError: the disk does not take it.
    """
    reader = source.reader
    if reader.size > LARGEST_RUN:
        raise _too_large(source, reader.size)
    with zipfile.ZipFile(cast("IO[bytes]", _Stream(fd)), "w", zipfile.ZIP_DEFLATED) as bundle:
        if reader.session is not None:
            name = reader.run_id if _may_be_named(reader.run_id, source) else "run"
            left_out: Json = _write_directory(bundle, source, reader.session, name)
            held: dict[str, Json] = {"directory": f"{PLACE}{name}", "left_out": left_out}
        else:
            may = is_run_id(reader.run_id) and source.redactor.another().text(reader.run_id) == reader.run_id
            name = reader.run_id if may else "run"
            held = {"journal": f"{PLACE}{name}{SUFFIX}"}
            with bundle.open(member(f"{PLACE}{name}{SUFFIX}"), "w", force_zip64=True) as journal:
                _write_lines(journal, source)
        manifest: dict[str, Json] = {
            "bundle": VERSION,
            "written_by": f"refold {source.head().refold}",
            "written_at": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            **held,
            "run": msgspec.to_builtins(source.head()),
            "source": {"id": name, "format": reader.format.name, "size": reader.size},
            **source.end_json(),
        }
        told = msgspec.json.encode(manifest)
        size = sum(info.file_size for info in bundle.infolist())
        if (
            size > most_in(sum(info.compress_size for info in bundle.infolist()))
            or len(told) > LARGEST_MANIFEST
        ):
            raise _too_large(source, size)
        with bundle.open(member(MANIFEST), "w") as last:
            last.write(told)


def _too_large(source: Source, size: int) -> TooLarge:
    return TooLarge(
        f"{shown(source.reader.path)}: a run of {size:,} bytes like these is more than a bundle holds",
        remedy="export it as jsonl, and pack that",
    )


class _Stream(io.RawIOBase):
    """A file that is only ever added to: it is opened for appending, and nothing can be put in later."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd

    def writable(self) -> bool:
        """Say that it takes data."""
        return True

    def write(self, data: Buffer) -> int:
        """Write all of it."""
        view = memoryview(data).cast("B")
        write_all(self._fd, bytes(view))
        return len(view)


def _write_lines(out: IO[bytes], source: Source, end: int | None = None) -> None:
    """Write every line, the newline of the last one only where it has one.

    Args:
        out: where to.
        source: the run.
        end: bytes of the file beyond which it has grown since.
    """
    for line in source.reader.lines():
        stop = line.offset + line.length
        if end is not None and line.offset >= end:
            break
        stop = stop if end is None else min(stop, end)
        source.watch(line.offset)
        for piece in source.redactor.pieces(_parts(source, line.offset, stop)):
            out.write(piece)
        ends = line.terminated and stop != end
        out.write(b"\n" * ends)


def _parts(source: Source, start: int, end: int) -> Iterator[bytes]:
    for at in range(start, end, WINDOW):
        yield source.masked(source.reader.bytes_at(at, min(WINDOW, end - at)), at)


class _Waiting(NamedTuple):
    """A run directory that is still to be written."""

    path: Path
    place: str
    """The beginning of the names of its members."""
    deep: int


def _write_directory(bundle: zipfile.ZipFile, source: Source, outer: SessionReader, name: str) -> list[Json]:
    """Write the files of a run directory and of the runs in it; give the names of what is left out."""
    from refold.core.store.session_reader import open_session

    left_out: list[str] = []
    first = f"{PLACE}{name}/"
    waiting = [_Waiting(outer.path, first, 0)]
    begun = 1
    while waiting:
        run = waiting.pop()
        within = run.place.removeprefix(first)
        try:
            # The log is held open by who looks at the run: it is read also where its directory is gone.
            reader = open_session(run.path) if run.deep else outer.again()
        except StoreError:
            left_out.append(within)
            continue
        with reader:
            if not run.deep and not is_run_directory(run.path) and reader.log_problem:
                raise RunNotFound(f"{shown(run.path)}: nothing of the run is left to be written out")
            left_out += [f"{within}{each}" for each in _write_run(bundle, source, reader, run.place)]
            for inner in reader.inner_runs():
                if run.deep == DEEPEST or begun == MOST_RUNS or not _may_be_named(inner, source):
                    left_out.append(f"{within}{NESTED}/{inner}")
                    continue
                begun += 1
                place = f"{run.place}{NESTED}/{inner}/"
                waiting.append(_Waiting(run.path / NESTED / inner, place, run.deep + 1))
    quiet = source.redactor.another()
    return [quiet.text(each) for each in sorted(left_out)]


def _write_run(bundle: zipfile.ZipFile, source: Source, reader: SessionReader, place: str) -> list[str]:
    """Write the files of one run; give the names of what lies there and is not written."""
    from refold.core.store.session_files import names_in, read_workspace

    def watch(_: int) -> None:
        source.watch(source.reader.size)

    of_log = Source(reader, source.redactor, watch=source.watch if place.count("/") == 2 else watch)
    claims = reader.part(CLAIMS)
    for _ in range(_TRIES):
        # The writer saves the manifest before each line: a log between two equal ones belongs to them.
        reader.poll()
        again = reader.part(CLAIMS)
        if again == claims:
            break
        claims = again
    written: set[str] = set()
    if not reader.log_problem:
        with bundle.open(member(f"{place}{EVENTS}"), "w", force_zip64=True) as out:
            _write_lines(out, of_log, reader.size)
        written.add(EVENTS)
    for name in (CLAIMS, *SIDE, *TEXTS):
        part = claims if name == CLAIMS else reader.part(name)
        if not part.known:
            continue
        with bundle.open(member(f"{place}{name}"), "w", force_zip64=True) as out:
            for piece in _pieces(part.data):
                watch(0)
                out.write(source.redactor.line(piece))
        written.add(name)
    lock = reader.part(LOCK)
    if lock.state == "read" and _LEASE.fullmatch(lock.data):
        # The token tells which lease it is, and is no secret: the manifest has the same.
        with bundle.open(member(f"{place}{LOCK}"), "w") as out:
            out.write(lock.data)
        written.add(LOCK)
    workspace = read_workspace(reader.path / "workspace")
    if workspace.state == "git" and workspace.head:
        with bundle.open(member(f"{place}{HEAD}"), "w") as out:
            out.write(f"{workspace.head}\n".encode())
    try:
        there = names_in(reader.path)
    except StoreError:
        return []
    return [name for name in there if name not in written and name != NESTED]


def _pieces(data: bytes) -> Iterator[bytes]:
    """Part a long file where one of its messages ends, so that each can be looked at as the JSON it is."""
    at = 0
    while len(data) - at > WINDOW:
        joint = data.rfind(_JOINT, at, at + WINDOW)
        if joint < 0:
            break
        yield data[at : joint + 2]
        at = joint + 2
    yield data[at:]


def _may_be_named(name: str, source: Source) -> bool:
    """Say whether a directory may keep its name: one that another system takes, and no secret."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return is_run_name(name) and source.redactor.another().text(name) == name
