"""Where the text of runs stands: which files, how they are read, and when they are still the same."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from refold.core.search_record import Document, read_messages, read_request
from refold.core.store.roots import Root, RootReport, device_of, distinct, read_directory
from refold.core.store.session_names import EVENTS, MANIFEST, NESTED, is_run_directory

Kind: TypeAlias = Literal["lines", "messages", "request"]

PIECE: Final = 1 << 18
"""Bytes that are read in one go."""
LONGEST: Final = 64 << 20
"""Of a line above this many bytes the beginning is searched; a manifest above it is not."""
_EDGE: Final = 4096
_DEEPEST: Final = 12
"""Levels of runs of agents of agents that are searched: as many as are listed."""
_PARTS: Final[tuple[tuple[str, Kind], ...]] = (
    (EVENTS, "lines"),
    ("request.json", "request"),
    (MANIFEST, "messages"),
)


class Source(NamedTuple):
    """One file with text of a run, as it was when it was looked at; nothing was opened."""

    run: str
    """The path of the run: the journal, or the directory."""
    file: str
    kind: Kind
    hint: str
    """The format to assume where the bytes do not tell."""
    identity: str
    """Device and inode: another one is another file."""
    stamp: str
    """Size and both times: another one is another content, or more of it."""
    size: int
    changed_ns: int
    """When the system last saw a change, in nanoseconds since 1970."""
    updated_ns: int
    """When anything of the run was written last; newer runs come first."""
    number: int = 0
    """Its place among the files of the run."""


class Block(NamedTuple):
    """Some lines of a file, one after the other."""

    start: int
    data: bytes
    """Whole lines with their newlines; of a file that ends without one the rest, alone."""
    end: int
    """Where it ends in the file; of a line that is cut, further on than its data tell."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing can be added to the last line any more."""
        return self.data.endswith(b"\n")

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield each line that holds something, and where it begins."""
        start = self.start
        for line in self.data.split(b"\n"):
            if line:
                yield start, line
            start += len(line) + 1


def find_sources(roots: Sequence[Root]) -> list[Source]:
    """Give all files with text of all runs in some directories, those of the newest run first."""
    found: list[Source] = []
    for root in distinct(roots)[0]:
        found += _of_root(root)
    found.sort(key=lambda source: (-source.updated_ns, source.run, source.number))
    return found


def read_blocks(fd: int, start: int) -> Iterator[Block]:
    """Yield the lines of an open file from the start of one on, some at a time; at last what has no end yet.

    Raises:
        OSError: it cannot be read.
    """
    position, pieces, held = start, list[bytes](), 0
    while piece := os.pread(fd, PIECE, position):
        first = 0
        if held and (end := piece.find(b"\n")) >= 0 and held + end > LONGEST:
            yield Block(
                position - held, b"".join((*pieces, piece[:end]))[:LONGEST] + b"\n", position + end + 1
            )
            pieces, held, first = [], 0, end + 1
        cut = piece.rfind(b"\n", first) + 1
        if cut:
            data = b"".join((*pieces, memoryview(piece)[first:cut])) if pieces or cut < len(piece) else piece
            yield Block(position + first - held, data, position + cut)
            pieces, held, first = [], 0, cut
        if first < len(piece):
            if held < LONGEST:
                pieces.append(piece[first:])
            held += len(piece) - first
        position += len(piece)
    if held:
        yield Block(position - held, b"".join(pieces)[:LONGEST], position)


def read_line_at(fd: int, start: int) -> bytes:
    """Give the line that begins at a place, its newline excluded; raise OSError where it cannot be read."""
    pieces: list[bytes] = []
    length, step = 0, 1 << 14
    while length < LONGEST and (piece := os.pread(fd, step, start + length)):
        end = piece.find(b"\n")
        pieces.append(piece if end < 0 else piece[:end])
        if end >= 0:
            break
        length += len(piece)
        step = PIECE
    return b"".join(pieces)[:LONGEST]


def read_whole(fd: int, kind: Kind) -> Iterator[tuple[int, Document] | None]:
    """Yield what is to be found in an open file that is written as a whole, numbered, and None between steps.

    Raises:
        OSError: it cannot be read.
    """
    if os.fstat(fd).st_size > LONGEST:
        return
    pieces: list[bytes] = []
    length = 0
    while length <= LONGEST and (piece := os.pread(fd, PIECE, length)):
        pieces.append(piece)
        length += len(piece)
    data = b"".join(pieces)
    yield from read_messages(data) if kind == "messages" else enumerate(read_request(data))


def edges(fd: int, end: int) -> tuple[bytes, bytes]:
    """Give the first bytes of an open file and the last ones before a place: what tells it from another."""
    return os.pread(fd, min(_EDGE, end), 0), os.pread(fd, min(_EDGE, end), max(0, end - _EDGE))


def _of_root(root: Root) -> Iterator[Source]:
    directory, device = os.fspath(root.path), device_of(root)
    for stretch in read_directory(root):
        if isinstance(stretch, RootReport):
            return
        count = len(stretch.stamps) // 5
        for place, name in enumerate(stretch.names.split("/") if stretch.names else ()):
            size, mtime, ctime, inode, mode = (stretch.stamps[place + column * count] for column in range(5))
            if stat.S_ISREG(mode):
                path = f"{directory}/{name}"
                identity, stamp = f"{device}:{inode}", f"{size}:{mtime}:{ctime}"
                yield Source(path, path, "lines", root.hint, identity, stamp, size, max(mtime, ctime), mtime)
        for name in stretch.directories:
            path = f"{directory}/{name}"
            if os.path.islink(path) or not is_run_directory(Path(path)):  # noqa: PTH114 - a str, as scandir gives it
                continue
            yield from _of_tree(path)


def _of_tree(path: str, depth: int = 0) -> Iterator[Source]:
    """Give the files of a run directory, and of the runs of its own agents, and of theirs."""
    yield from _of_directory(path)
    if depth < _DEEPEST:
        for inner in _inner(f"{path}/{NESTED}"):
            yield from _of_tree(inner, depth + 1)


def _of_directory(path: str) -> list[Source]:
    found: list[Source] = []
    for number, (name, kind) in enumerate(_PARTS):
        file = f"{path}/{name}"
        try:
            status = os.lstat(file)
        except (OSError, ValueError):
            continue
        if not stat.S_ISREG(status.st_mode):
            continue
        size, mtime, ctime = status.st_size, status.st_mtime_ns, status.st_ctime_ns
        identity = f"{status.st_dev}:{status.st_ino}"
        stamp = f"{size}:{mtime}:{ctime}"
        found.append(
            Source(path, file, kind, "rivumi", identity, stamp, size, max(mtime, ctime), mtime, number)
        )
    updated = max((source.updated_ns for source in found), default=0)
    return [source._replace(updated_ns=updated) for source in found]


def _inner(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return []
    inner = [f"{path}/{name}" for name in sorted(names) if not name.startswith(".")]
    return [each for each in inner if not os.path.islink(each) and is_run_directory(Path(each))]  # noqa: PTH114
