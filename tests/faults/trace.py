"""Reads what strace saw a child do to the files below a directory, one call after the other."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from tests.faults.disk import Disk, Stored, Write

CALLS = (
    "openat", "write", "pwrite64", "copy_file_range", "lseek", "fsync", "fdatasync", "ftruncate", "rename",
    "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir",
)  # fmt: skip
OPTIONS = ("-y", "-xx", "-s", "67108864", "-e", f"trace={','.join(CALLS)}")
_CALL = re.compile(r"^(?:\d+ +)?(\w+)\((.*)\) += (-?\d+)")
_BYTE = re.compile(r"\\x([0-9a-f]{2})")
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_FD = re.compile(r"^(\d+)<([^>]*)>")


class Moment(NamedTuple):
    """The disk after one call."""

    call: str
    said: str
    """What the child had said by then."""


class Replay:
    """Carries out a trace on a disk that is only thought of."""

    def __init__(self, root: str, disk: Disk, trace: str) -> None:
        self._root = root
        self._disk = disk
        self._trace = trace
        self._said = ""
        self._places: dict[int, int] = {}
        """Where each descriptor writes next; negative for the end of the file."""

    def moments(self) -> Iterator[Moment]:
        """Carry out one call after the other; gives each that changed something or was said."""
        yield Moment("begin", "")
        for line in self._trace.split("\n"):
            found = _CALL.match(line)
            if found is None or int(found[3]) < 0:
                continue
            call, words, result = found[1], found[2], int(found[3])
            if self._carry_out(call, words, result):
                yield Moment(call, self._said)

    def _carry_out(self, call: str, words: str, result: int) -> bool:
        paths = [self._relative(_text(match)) for match in _STRING.findall(words)]
        if call == "openat":
            return self._open(paths[0], words, result)
        if call in {"write", "pwrite64", "lseek", "fsync", "fdatasync", "ftruncate", "copy_file_range"}:
            return self._on_descriptor(call, words, result)
        if paths[0] is None:
            return False
        return self._on_names(call, words, paths)

    def _open(self, path: str | None, words: str, fd: int) -> bool:
        self._places[fd] = -1 if "O_APPEND" in words else 0
        if path is None or "O_CREAT" not in words or self._disk.entry(path) is not None:
            return False
        self._disk.rename((path, Stored()))
        return True

    def _on_descriptor(self, call: str, words: str, result: int) -> bool:
        target = words.split(", ")[2] if call == "copy_file_range" else words
        match = _FD.match(target)
        if match is None:
            return False
        fd, path = int(match[1]), self._relative(_text(match[2]))
        if fd == 1 and call == "write":
            self._said += _bytes(_STRING.findall(words)[0]).decode("utf-8", "replace")
            return True
        if path is None:
            return False
        if call == "lseek":
            self._places[fd] = result
            return False
        entry = self._disk.entry(path)
        if call in {"fsync", "fdatasync"}:
            if isinstance(entry, Stored):
                entry.sync()
            else:
                self._disk.sync_names(path)
            return True
        assert isinstance(entry, Stored), (call, path)
        if call == "ftruncate":
            entry.pending.append(Write(0, b"", int(words.rpartition(", ")[2])))
        else:
            entry.pending.append(self._written(call, words, result, fd, entry))
        return True

    def _written(self, call: str, words: str, result: int, fd: int, entry: Stored) -> Write:
        place = self._places.get(fd, 0)
        if call == "copy_file_range":
            parts = words.split(", ")
            source = _FD.match(parts[0])
            assert source is not None
            path = self._relative(_text(source[2]))
            copied = self._disk.entry(path) if path is not None else None
            assert isinstance(copied, Stored), words
            start = int(parts[1].strip("[]").split(" ")[0])
            data = copied.now[start : start + result]
        else:
            data = _bytes(_STRING.findall(words)[0])[:result]
        if call == "pwrite64":
            return Write(int(words.rpartition(", ")[2]), data)
        start = len(entry.now) if place < 0 else place
        if place >= 0:
            self._places[fd] = place + len(data)
        return Write(start, data)

    def _on_names(self, call: str, words: str, paths: list[str | None]) -> bool:
        path = paths[0]
        assert path is not None
        if call in {"mkdir", "mkdirat"}:
            self._disk.rename((path, "directory"))
        elif call in {"unlink", "unlinkat", "rmdir"}:
            self._disk.rename((path, None))
        else:
            new = paths[1]
            assert new is not None, words
            entry = self._disk.entry(path)
            if call.startswith("link"):
                self._disk.rename((new, entry))
            else:
                self._disk.rename((new, entry), (path, None))
        return True

    def _relative(self, path: str) -> str | None:
        if path == self._root:
            return ""
        return path[len(self._root) + 1 :] if path.startswith(self._root + "/") else None


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _text(text: str) -> str:
    return os.fsdecode(_BYTE.sub(lambda match: chr(int(match[1], 16)), text).encode("latin-1"))
