"""Children that are killed or made to fail at a system call, watched by strace where it is there."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.terminal.program import HANGS

STRACE = shutil.which("strace")
ROOT = Path(__file__).parent.parent.parent


class Ended(NamedTuple):
    """How a child ended."""

    status: int
    """Negative for a signal."""
    said: str
    trace: str
    """What strace wrote; empty without it."""


class Fault(NamedTuple):
    """What happens at which call; the number counts from 1."""

    call: str
    number: int
    how: str
    """`kill`, or the name of an errno; a failpoint also knows `half`, `short` and `full`."""


@functools.cache
def traces() -> bool:
    """Say whether strace can watch a child here; in some containers it is there and may not."""
    if STRACE is None:
        return False
    done = subprocess.run([STRACE, "-qq", "-e", "trace=none", "true"], capture_output=True, check=False)
    return done.returncode == 0 and not done.stderr


class Victims:
    """A process whose forks play scenes. Use as a context manager."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.victim"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT,
        )  # fmt: skip
        self._log = tempfile.NamedTemporaryFile(prefix="refold-trace-")  # noqa: SIM115 - closed with this
        self._answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.communicate(timeout=HANGS)
        self._log.close()

    def _tell(self, line: str) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(line.encode() + b"\n")
        self._server.stdin.flush()

    def _answer(self) -> dict[str, object]:
        assert self._server.stdout is not None
        told: dict[str, object] = json.loads(self._server.stdout.readline())
        return told

    def play(self, scene: str, directory: Path, fault: Fault | None = None) -> Ended:
        """Play a scene, with a failpoint in the child itself."""
        self._tell(json.dumps({"scene": scene, "directory": str(directory), "hold": False, "fail": fault}))
        return _ended(self._answer(), "")

    def watched(self, scene: str, directory: Path, *options: str) -> Ended:
        """Play a scene under strace; the options say what is traced and injected."""
        assert STRACE is not None
        self._tell(json.dumps({"scene": scene, "directory": str(directory), "hold": True, "fail": None}))
        pid = self._answer()["pid"]
        Path(self._log.name).write_bytes(b"")
        tracer = subprocess.Popen(
            [STRACE, "-qq", "-o", self._log.name, *options, "-p", str(pid)],
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        end = time.monotonic() + HANGS
        while b"TracerPid:\t0\n" in Path(f"/proc/{pid}/status").read_bytes():
            assert tracer.poll() is None, "strace did not attach"
            assert time.monotonic() < end, "strace did not attach in time"
            time.sleep(0.0005)
        self._tell("go")
        told = self._answer()
        tracer.wait(timeout=HANGS)
        return _ended(told, Path(self._log.name).read_text("utf-8", "replace"))

    def injected(self, scene: str, directory: Path, fault: Fault) -> Ended:
        """Play a scene and let strace do something at one of its calls."""
        how = "signal=KILL" if fault.how == "kill" else f"error={fault.how}"
        return self.watched(
            scene,
            directory,
            "-e",
            f"trace={fault.call}",
            "-e",
            f"inject={fault.call}:{how}:when={fault.number}",
        )


def _ended(told: dict[str, object], trace: str) -> Ended:
    status = told["status"]
    assert isinstance(status, int)
    return Ended(status, str(told["said"]), trace)


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a directory where an fsync costs nothing: a kill leaves the same there as on a disk."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="refold-faults-", dir=place) as directory:
        yield Path(directory).resolve()
