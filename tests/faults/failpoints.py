"""Faults that a child does to itself at one of its own system calls.

For where no tracer may watch it, and for what a tracer cannot do: a write that goes half way. `arm` puts a
counter before one function of `os` or `fcntl` by which the store changes or opens a file. What happens at the
chosen call: `kill`; `half`, half of the bytes are written and then comes the kill; `short`, half of them are
written and that is said; `full`, half of them are written and then the disk is full; or the name of an errno.
Any other function of `os` that takes a file or a path may be named too; of those only it is counted.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

CALLS = (
    "mkdir", "open", "fchmod", "flock", "write", "copy_file_range", "fsync", "ftruncate", "rename", "replace",
    "link", "unlink",
)  # fmt: skip


class Failpoints:
    """Counts the calls on files below a directory, and lets one of them fail."""

    def __init__(self, call: str, number: int, how: str, directory: Path) -> None:
        self.counts: Counter[str] = Counter()
        self._fault = (call, number)
        self._how = how
        self._directory = directory
        for name in CALLS if call in CALLS or not call else (call,):
            module: ModuleType = fcntl if name == "flock" else os
            setattr(module, name, self._counted(name, getattr(module, name)))

    def _is_ours(self, target: Any) -> bool:
        if isinstance(target, int):
            target = Path("/dev/fd", str(target)).resolve()
        path = Path(os.fsdecode(target))
        return self._directory in (path, *path.parents)

    def _counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(target: Any, *arguments: Any, **options: Any) -> Any:
            if self._is_ours(target):
                self.counts[name] += 1
                if (name, self.counts[name]) == self._fault:
                    return self._fail(real, target, *arguments, **options)
            return real(target, *arguments, **options)

        return call

    def _fail(self, real: Callable[..., Any], target: Any, *arguments: Any, **options: Any) -> Any:
        if self._how in {"half", "short", "full"}:
            data = bytes(arguments[0])
            written = real(target, data[: len(data) // 2]) if len(data) > 1 else 0
            if self._how == "short":
                return written or real(target, data)
        if self._how in {"kill", "half"}:
            os.kill(os.getpid(), signal.SIGKILL)
        code = errno.ENOSPC if self._how == "full" else int(getattr(errno, self._how))
        raise OSError(code, os.strerror(code))


def arm(call: str, number: int, how: str, directory: Path) -> Failpoints:
    """Let the call of that name and number fail; number 0 only counts."""
    return Failpoints(call, number, how, directory)
