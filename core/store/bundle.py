"""A post-mortem bundle: one zip file with the journal of a run and a manifest, to be opened elsewhere.

The journal keeps every line, damage too, so that another Refold sees the same run; places in the manifest
are those of the source, from which a redacted journal differs.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, NamedTuple, cast

import msgspec

from refold.core.errors import StoreError
from refold.core.records import Json
from refold.core.redact import WINDOW
from refold.core.store.export import Source
from refold.core.store.files import create_private, open_error, open_regular, shown, write_all, write_failed
from refold.core.store.roots import SUFFIX
from refold.core.store.run_id import is_run_id

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

VERSION: Final = 1
MANIFEST: Final = "manifest.json"
_PLACE: Final = "run/"
_LARGEST_MANIFEST: Final = 64 << 20
_LARGEST_JOURNAL: Final = 8 << 30
_LEAST_JOURNAL: Final = 256 << 20
_SQUEEZED: Final = 100
"""A journal is packed to a hundredth of its size at best, or it is small: more is a trap."""
_PIECE: Final = 1 << 20
_WHEN: Final = (1980, 1, 1, 0, 0, 0)
"""Members carry no time of their own."""


_NO_BUNDLE: Final = "'refold export RUN --format bundle' writes no such file: ask who made it, and how"
_OTHERWISE: Final = "it was changed after it was made: ask for one as 'refold export' writes it"
_TRAP: Final = "no run is packed so small: trust the file only if you know who made it"


class BadBundle(StoreError):
    """The file is no bundle, or one that is not safe to unpack; nothing of it was kept."""

    error_class = "bundle"


class Opened(NamedTuple):
    """A bundle that was unpacked."""

    directory: Path
    """Private to its owner; whoever opened the bundle removes it."""
    journal: Path
    manifest: dict[str, Json]


def write_bundle(fd: int, source: Source, now: datetime) -> None:
    """Write the bundle of a run into an empty file.

    Raises:
        StoreError: the run cannot be read.
        OSError: the disk does not take it.
    """
    reader = source.reader
    name = reader.run_id if is_run_id(reader.run_id) else "run"
    name = name if source.redactor.text(name) == name else "run"
    with zipfile.ZipFile(cast("IO[bytes]", _Stream(fd)), "w", zipfile.ZIP_DEFLATED) as bundle:
        with bundle.open(_member(f"{_PLACE}{name}{SUFFIX}"), "w", force_zip64=True) as journal:
            _write_journal(journal, source)
        manifest: dict[str, Json] = {
            "bundle": VERSION,
            "written_by": f"refold {source.head().refold}",
            "written_at": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "journal": f"{_PLACE}{name}{SUFFIX}",
            "run": msgspec.to_builtins(source.head()),
            "source": {"id": name, "format": reader.format.name, "size": reader.size},
            **source.end_json(),
        }
        with bundle.open(_member(MANIFEST), "w") as member:
            member.write(msgspec.json.encode(manifest))


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


def _write_journal(journal: IO[bytes], source: Source) -> None:
    """Write every line, the newline of the last one only where it has one."""
    reader = source.reader
    at = 0
    for line in reader.lines():
        source.watch(at)
        # Blank lines are no items but bytes of the file.
        journal.write(reader.bytes_at(at, line.offset - at))
        parts = _parts(source, line.offset, line.offset + line.length)
        for piece in source.redactor.pieces(parts):
            journal.write(piece)
        journal.write(b"\n" * line.terminated)
        at = line.offset + line.length + line.terminated
    if at < reader.size:
        for piece in source.redactor.pieces(_parts(source, at, reader.size)):
            journal.write(piece)


def _parts(source: Source, start: int, end: int) -> Iterator[bytes]:
    for at in range(start, end, WINDOW):
        yield source.masked(source.reader.bytes_at(at, min(WINDOW, end - at)), at)


def _member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _WHEN)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o100600 << 16
    return info


def open_bundle(path: Path, *, into: Path | None = None) -> Opened:
    """Unpack a bundle into a new private directory.

    Only the two members that a bundle has are read, by our own names for them: no path, link or size that
    the file claims is believed.

    Args:
        path: the bundle.
        into: where the directory is made; where the system keeps temporary files if None.

    Raises:
        BadBundle: it is none, or would not be safe.
        WriteFailed: there is no room for it.
        StoreError: it cannot be opened.
    """
    fd = open_regular(path)
    with os.fdopen(fd, "rb") as file:
        try:
            directory = Path(tempfile.mkdtemp(prefix="refold-bundle-", dir=into))
        except OSError as error:
            raise open_error(into or Path(tempfile.gettempdir()), error) from error
        try:
            return _unpacked(file, path, directory)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise


def _unpacked(file: IO[bytes], path: Path, directory: Path) -> Opened:
    try:
        with zipfile.ZipFile(file) as bundle:
            journal_info, manifest_info = _members(bundle, path)
            data = bytearray()
            for piece in _pieces(bundle, manifest_info, _LARGEST_MANIFEST, path):
                data += piece
            manifest = _manifest(bytes(data), path)
            run_id = journal_info.filename.removeprefix(_PLACE).removesuffix(SUFFIX)
            journal = directory / f"{run_id}{SUFFIX}"
            size = os.fstat(file.fileno()).st_size
            limit = min(_LARGEST_JOURNAL, max(_LEAST_JOURNAL, _SQUEEZED * size))
            out = create_private(journal)
            try:
                for piece in _pieces(bundle, journal_info, limit, path):
                    _write(out, piece, path, directory)
            finally:
                os.close(out)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise _bad(path, f"not a whole bundle ({type(error).__name__})") from error
    except OSError as error:
        # What the file says of itself may send its reader to where nothing can be read.
        raise _bad(path, f"it cannot be read: {error.strerror or error}") from error
    return Opened(directory, journal, manifest)


def _write(out: int, piece: bytes, path: Path, directory: Path) -> None:
    try:
        write_all(out, piece)
    except OSError as error:
        what = f"the bundle {shown(path)} could not be unpacked"
        raise write_failed(directory, what, error, "nothing of it is left") from error


def _members(bundle: zipfile.ZipFile, path: Path) -> tuple[zipfile.ZipInfo, zipfile.ZipInfo]:
    """Find the two members; anything else in the file refuses all of it."""
    members = {info.filename: info for info in bundle.infolist()}
    if len(bundle.infolist()) != 2 or len(members) != 2 or MANIFEST not in members:
        raise _bad(path, "it does not hold one journal and one manifest", _NO_BUNDLE)
    manifest = members.pop(MANIFEST)
    name, journal = members.popitem()
    is_ours = name.startswith(_PLACE) and name.endswith(SUFFIX)
    if not is_ours or not is_run_id(name.removeprefix(_PLACE).removesuffix(SUFFIX)):
        raise _bad(path, "a member has a name that no journal has", _NO_BUNDLE)
    for info in (manifest, journal):
        kind = info.external_attr >> 28
        if info.is_dir() or kind not in {0, 0o10}:
            raise _bad(path, "a member is not a file", _NO_BUNDLE)
        if info.flag_bits & 1:
            raise _bad(path, "a member is encrypted", _OTHERWISE)
        if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise _bad(path, "a member is packed in another way than bundles are", _NO_BUNDLE)
    if manifest.file_size > _LARGEST_MANIFEST or journal.file_size > _LARGEST_JOURNAL:
        raise _bad(path, "it claims to hold more than any run", _TRAP)
    return journal, manifest


def _pieces(bundle: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int, path: Path) -> Iterator[bytes]:
    taken = 0
    with bundle.open(info) as member:
        while piece := member.read(_PIECE):
            taken += len(piece)
            if taken > limit:
                raise _bad(path, f"more than {limit:,} bytes are packed into it", _TRAP)
            yield piece


def _manifest(data: bytes, path: Path) -> dict[str, Json]:
    try:
        manifest = msgspec.json.decode(data, type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _bad(path, "its manifest cannot be read", _OTHERWISE) from error
    version = manifest.get("bundle")
    if not isinstance(version, int) or isinstance(version, bool):
        raise _bad(path, "its manifest names no version", _OTHERWISE)
    if version < 1:
        raise _bad(path, f"its manifest names the version {version}, which no bundle has", _OTHERWISE)
    if version > VERSION:
        raise BadBundle(
            f"{shown(path)}: a bundle of version {version}, and {VERSION} is read", remedy="update Refold"
        )
    return cast("dict[str, Json]", manifest)


def _bad(path: Path, what: str, remedy: str = "ask for it again: it may be cut off") -> BadBundle:
    return BadBundle(f"{shown(path)}: {what}", remedy=remedy)
