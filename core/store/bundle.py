"""A post-mortem bundle, opened: one zip file with a run and a manifest, as `bundle_writing` makes it."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, NamedTuple, cast

import msgspec

from refold.core.errors import StoreError
from refold.core.records import Json
from refold.core.store.bundle_parts import (
    FILES,
    HEAD,
    LARGEST_MANIFEST,
    LARGEST_RUN,
    MANIFEST,
    MOST_RUNS,
    PLACE,
    VERSION,
    most_in,
    run_of,
)
from refold.core.store.files import create_private, open_error, open_regular, shown, write_all, write_failed

_MOST_MEMBERS: Final = MOST_RUNS * len(FILES)
_LARGEST_VERSION: Final = 1_000_000
_PIECE: Final = 1 << 20

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
    run: Path
    """The journal, or the directory of a run that is one."""
    manifest: dict[str, Json]


def open_bundle(path: Path, *, into: Path | None = None) -> Opened:
    """Unpack a bundle into a new private directory.

    Only the members that a bundle has are read, by our own names for them: no path, link or size that the
    file claims is believed.

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
            name, members, manifest_info = _members(bundle, path)
            data = b"".join(_pieces(bundle, manifest_info, LARGEST_MANIFEST, path))
            manifest = _manifest(data, path)
            left = most_in(os.fstat(file.fileno()).st_size)
            for info in members:
                left -= _unpack(bundle, info, left, path, directory)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise _bad(path, "not a whole bundle") from error
    except OSError as error:
        # What the file says of itself may send its reader to where nothing can be read.
        raise _bad(path, f"it cannot be read: {error.strerror or error}") from error
    return Opened(directory, directory / name, manifest)


def _unpack(bundle: zipfile.ZipFile, info: zipfile.ZipInfo, most: int, path: Path, directory: Path) -> int:
    """Unpack one member of the run and give its size."""
    target = directory / info.filename.removeprefix(PLACE)
    try:
        target.parent.mkdir(0o700, parents=True, exist_ok=True)
        if info.filename.endswith(f"/{HEAD}"):
            # What tells a clone from any other directory.
            for name in ("objects", "refs"):
                (target.parent / name).mkdir(0o700)
    except OSError as error:
        raise _no_room(path, directory, error) from error
    size = 0
    out = create_private(target)
    try:
        for piece in _pieces(bundle, info, most, path):
            size += len(piece)
            try:
                write_all(out, piece)
            except OSError as error:
                raise _no_room(path, directory, error) from error
    finally:
        os.close(out)
    return size


def _no_room(path: Path, directory: Path, error: OSError) -> StoreError:
    what = f"the bundle {shown(path)} could not be unpacked"
    return write_failed(directory, what, error, "nothing of it is left")


def _members(bundle: zipfile.ZipFile, path: Path) -> tuple[str, tuple[zipfile.ZipInfo, ...], zipfile.ZipInfo]:
    """Give the name of the run, its members and the manifest; anything else in the file refuses all of it."""
    members = {info.filename: info for info in bundle.infolist()}
    twice = len(members) != len(bundle.infolist())
    if twice or not 2 <= len(members) <= _MOST_MEMBERS or MANIFEST not in members:
        raise _bad(path, "it does not hold one run and one manifest", _NO_BUNDLE)
    manifest = members.pop(MANIFEST)
    name = run_of(set(members))
    if not name:
        raise _bad(path, "a member has a name that no file of a run has", _NO_BUNDLE)
    for info in (manifest, *members.values()):
        kind = info.external_attr >> 28
        if info.is_dir() or kind not in {0, 0o10}:
            raise _bad(path, "a member is not a file", _NO_BUNDLE)
        if info.flag_bits & 1:
            raise _bad(path, "a member is encrypted", _OTHERWISE)
        if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise _bad(path, "a member is packed in another way than bundles are", _NO_BUNDLE)
    claimed = sum(info.file_size for info in members.values())
    if manifest.file_size > LARGEST_MANIFEST or claimed > LARGEST_RUN:
        raise _bad(path, "it claims to hold more than any run", _TRAP)
    return name, tuple(members.values()), manifest


def _pieces(bundle: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int, path: Path) -> Iterator[bytes]:
    taken = 0
    with bundle.open(info) as member:
        while piece := member.read(_PIECE):
            taken += len(piece)
            if taken > limit:
                raise _bad(path, "more bytes than any run has are packed into it", _TRAP)
            yield piece


def _manifest(data: bytes, path: Path) -> dict[str, Json]:
    try:
        manifest = msgspec.json.decode(data, type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _bad(path, "its manifest cannot be read", _OTHERWISE) from error
    version = manifest.get("bundle")
    if not isinstance(version, int) or isinstance(version, bool) or not 0 < version <= _LARGEST_VERSION:
        raise _bad(path, "its manifest names no version that a bundle may have", _OTHERWISE)
    if version > VERSION:
        raise BadBundle(
            f"{shown(path)}: a bundle of version {version}, and {VERSION} is read", remedy="update Refold"
        )
    return cast("dict[str, Json]", manifest)


def _bad(path: Path, what: str, remedy: str = "ask for it again: it may be cut off") -> BadBundle:
    return BadBundle(f"{shown(path)}: {what}", remedy=remedy)
