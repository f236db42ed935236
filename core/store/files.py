"""The only calls that open, write, replace and sync files of a run.

Nothing here follows a link, blocks on a pipe or hands a descriptor to a child program, and every file
made here is 0600 in a directory that is 0700, whatever the umask (design/safety.md 2.4, rows 25 and 26).
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path

from refold.core.errors import (
    NotPermitted,
    NotRegular,
    RunExists,
    RunNotFound,
    StoreError,
    TooLarge,
    Unreadable,
    WriteFailed,
)
from refold.core.store.run_id import check_run_id as check_run_id

_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_PIECE = 1 << 20
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# macOS leaves data in the cache of the drive after fsync; this call does not.
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


def shown(path: str | os.PathLike[str]) -> str:
    """Give a path as text that can always be encoded: bytes that are no UTF-8 become escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def odd_kind(mode: int) -> str:
    """Name what lies there instead of a regular file; empty for a regular file."""
    return "" if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "something")


def open_regular(path: str | os.PathLike[str], *, append: bool = False) -> int:
    """Open a regular file and give its descriptor, for reading or for reading and appending.

    Raises:
        RunNotFound: there is no such file.
        NotRegular: a link, directory, pipe, socket or device lies there; it was not opened.
        NotPermitted: the system refuses.
        Unreadable: any other answer of the system.
    """
    access = os.O_RDWR | os.O_APPEND if append else os.O_RDONLY
    try:
        # Looking first: opening a pipe or a device can wake or disturb whoever is at its other end.
        _require_regular(path, os.lstat(path))
        fd = os.open(path, access | _SAFE)
    except (OSError, ValueError) as error:
        raise open_error(path, error) from error
    try:
        _require_regular(path, status_of(fd, path))
    except BaseException:
        os.close(fd)
        raise
    return fd


def is_directory(path: Path) -> bool:
    """Say whether a directory lies there; what the system does not let us look at is none."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def status_of(fd: int, path: str | os.PathLike[str]) -> os.stat_result:
    """Ask an open file what it is.

    Raises:
        Unreadable: the disk or the server that it lies on has gone away.
    """
    try:
        return os.fstat(fd)
    except OSError as error:
        raise open_error(path, error) from error


def create_private(path: Path) -> int:
    """Make a new file of mode 0600 and give its descriptor, for reading and appending.

    Raises:
        RunExists: something of that name is there already; it was not touched.
        StoreError: the file cannot be made.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | _SAFE, 0o600)
    except FileExistsError as error:
        raise RunExists(f"{shown(path)}: already there", remedy="choose another id") from error
    except (OSError, ValueError) as error:
        raise open_error(path, error) from error
    make_private(fd, path)
    return fd


def make_private(fd: int, path: Path) -> None:
    """Give a file that was just made mode 0600, whatever the umask left of that; close it if that fails.

    Raises:
        NotPermitted: the file system cannot keep the file from others.
    """
    try:
        if stat.S_IMODE(os.fstat(fd).st_mode) != 0o600:
            os.fchmod(fd, 0o600)
    except OSError as error:
        os.close(fd)
        raise NotPermitted(
            f"{shown(path)}: cannot be kept from others: {error.strerror}",
            remedy="keep runs on a disk that knows file modes",
        ) from error


def private_directory(path: Path) -> None:
    """Make a directory of mode 0700, and its missing parents; one that is there keeps its mode.

    Raises:
        NotRegular: something else lies in the way.
        StoreError: the directory cannot be made.
    """
    missing: list[Path] = []
    place = path
    try:
        while not place.is_dir():
            if os.path.lexists(place):
                raise NotRegular(
                    f"{shown(place)}: not a directory", remedy="move it, or use another directory"
                )
            missing.append(place)
            place = place.parent
        for directory in reversed(missing):
            try:
                directory.mkdir(0o700)
            except FileExistsError:
                continue
            if stat.S_IMODE(os.lstat(directory).st_mode) & 0o777 != 0o700:
                directory.chmod(0o700)
            fsync_directory(directory.parent)
    except (OSError, ValueError) as error:
        raise open_error(path, error) from error


def fsync_directory(path: Path) -> bool:
    """Make the names in a directory durable; False where the file system cannot do that for a directory.

    Raises:
        OSError: the system tried and failed.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        # A directory that may be written but not read can be changed, but not synced.
        return False
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno in {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS}:
            return False
        raise
    finally:
        os.close(fd)
    return True


def append_durably(fd: int, data: bytes, path: Path, *, end: int | None = None) -> None:
    """Add data to the end of a file opened for appending; on return it is on disk.

    One write and one fsync. What a failed write left behind is cut off again, so that nothing later can
    be glued to it (design/safety.md 0.1). After a failed fsync nothing is tried again: the pages may be
    marked clean although they are lost, and a second fsync would lie (design/safety.md 1, fsyncgate).
    Either way the caller must stop using the descriptor.

    Args:
        fd: the file.
        data: what to add.
        path: its name, for errors.
        end: its size where the caller has just looked.

    Raises:
        WriteFailed: the data is not known to be durable.
    """
    start = os.fstat(fd).st_size if end is None else end
    try:
        write_all(fd, data)
    except BaseException as error:
        undone = cut_back(fd, start)
        if isinstance(error, OSError):
            rest = "nothing of it is in the file" if undone else "a part may be left at the end of the file"
            raise write_failed(path, "the record could not be written", error, rest) from error
        raise
    try:
        sync(fd)
    except OSError as error:
        raise write_failed(
            path, "the record may not be on disk", error, "its durability is unknown"
        ) from error


def write_all(fd: int, data: bytes) -> None:
    """Write every byte, going on after a short write to learn why it was short."""
    rest: bytes | memoryview = data
    while rest:
        written = os.write(fd, rest)
        if written == len(rest):
            return
        if written <= 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rest = memoryview(rest)[written:]


def cut_back(fd: int, size: int) -> bool:
    """Cut a file back to a size after a failed write; False where that failed too."""
    try:
        os.ftruncate(fd, size)
        sync(fd)
    except OSError:
        return False
    return True


def sync(fd: int) -> None:
    """Bring the contents of a file to the disk itself, not just to its cache."""
    if _FULL_SYNC is not None:
        try:
            fcntl.fcntl(fd, _FULL_SYNC)
        except OSError as error:
            if error.errno not in {errno.EINVAL, errno.ENOTSUP, errno.ENOTTY}:
                raise
        else:
            return
    os.fsync(fd)


def replace_atomically(path: Path, data: bytes) -> None:
    """Put data in the place of a file of ours: afterwards the old or the new content is there, whole.

    Raises:
        WriteFailed: the new content could not be put there; the old one stands unless the message says more.
    """
    os.close(replace_and_keep(path, data))


def replace_and_keep(path: Path, data: bytes) -> int:
    """Put data in the place of a file of ours, and give the descriptor of the file that holds it.

    While that is open the number of the file is not given to another one: whoever finds it under the path
    finds this very file.

    Raises:
        WriteFailed: the new content could not be put there; the old one stands unless the message says more.
    """
    new = path.with_name(f".{path.name}.{os.urandom(8).hex()}.tmp")
    fd = create_private(new)
    try:
        try:
            write_all(fd, data)
            sync(fd)
            new.replace(path)
        except BaseException as error:
            new.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise write_failed(path, "could not be replaced", error, "the old content stands") from error
            raise
        try:
            fsync_directory(path.parent)
        except OSError as error:
            raise write_failed(path, "was replaced", error, "its durability is unknown") from error
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_range(fd: int, start: int, end: int, path: str | os.PathLike[str]) -> bytes:
    """Give the bytes from start to end, fewer where the file ends before.

    Raises:
        Unreadable: the system answers with an error.
        TooLarge: they do not fit into memory.
    """
    pieces: list[bytes] = []
    try:
        while start < end:
            piece = os.pread(fd, min(end - start, _PIECE), start)
            if not piece:
                break
            pieces.append(piece)
            start += len(piece)
    except OSError as error:
        raise Unreadable(
            f"{shown(path)}: cannot be read: {error.strerror or error}",
            remedy="check the disk, then open it again",
        ) from error
    except MemoryError as error:
        raise TooLarge(f"{shown(path)}: {end - start} more bytes do not fit into memory") from error
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def open_error(path: str | os.PathLike[str], error: OSError | ValueError) -> StoreError:
    """Give the error of ours that an answer of the system stands for."""
    if isinstance(error, ValueError):
        return RunNotFound(f"{os.fspath(path)!a}: no file can have this name")
    text = f"{shown(path)}: {os.strerror(error.errno) if error.errno else error}"
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR | errno.ENAMETOOLONG:
            return RunNotFound(text, remedy="look at the list of runs: refold ls")
        case errno.ELOOP:
            return NotRegular(f"{shown(path)}: a symbolic link", remedy="open the file it points to")
        case errno.ENXIO | errno.EISDIR | errno.ENODEV:
            return NotRegular(f"{shown(path)}: not a file")
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return NotPermitted(text, remedy="check the owner and mode of the file and of its directory")
        case _:
            return Unreadable(text, remedy="check the disk, and how many files are open")


def write_failed(path: Path, what: str, error: OSError, rest: str) -> WriteFailed:
    """Give the error for a write that failed: where, what, the text and name of errno, and what is left."""
    code = errno.errorcode.get(error.errno or 0, "unknown error")
    remedy = "make room or repair the disk, then try again: what is on disk is whole"
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        remedy = "check the owner and mode of the file and of its directory, then try again"
    return WriteFailed(f"{shown(path)}: {what}: {error.strerror or error} ({code}); {rest}", remedy=remedy)


def _require_regular(path: str | os.PathLike[str], status: os.stat_result) -> None:
    kind = odd_kind(status.st_mode)
    if kind:
        raise NotRegular(f"{shown(path)}: {kind}, not a file", remedy="a run is a plain file: open that")
