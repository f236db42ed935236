"""Starts the program as forks of a process that has imported it, which takes a third of the time.

What runs is the same code from its command line on, in a process and a session of its own, with the
environment, directory and descriptors that it is given. Only the start of the interpreter is left out.

The server reads requests from the socket on its standard input: JSON with `arguments`, `environment`,
`directory`, `terminal`, `hold` and `fail`, beside it three descriptors for the standard streams and one on
which it says the pid of the child and, in a second line, how that ended. A child that is held stops itself
until it gets SIGCONT; `fail` is what `tests.faults.failpoints.arm` takes.
"""

from __future__ import annotations

import fcntl
import importlib
import io
import json
import os
import pkgutil
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from tests.terminal.program import HANGS, ROOT, environment

_MOST = 1 << 20


class Forked:
    """A child of the server, as `subprocess.Popen` has it."""

    def __init__(self, status: int) -> None:
        self._status = os.fdopen(status, "r")
        self.pid = int(self._status.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Give how it ended; None while it runs."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self._ended()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a fork", timeout or 0)
            self._ended()
        assert self.returncode is not None
        return self.returncode

    def _ended(self) -> None:
        self.returncode = int(self._status.readline() or -signal.SIGKILL)
        self._status.close()

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


class Forks:
    """The server. Use as a context manager."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with tempfile.TemporaryDirectory() as home, theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "tests.terminal.forks"],
                stdin=theirs.fileno(), cwd=ROOT, env=environment(Path(home)),
            )  # fmt: skip
            assert self._socket.recv(1) == b"y", "the program cannot be imported"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        self._server.wait(HANGS)

    def start(
        self,
        arguments: Sequence[str | Path],
        env: Mapping[str, str],
        streams: tuple[int, int, int],
        *,
        directory: Path = ROOT,
        terminal: bool = False,
        hold: bool = False,
        fail: tuple[str, int, str, str] | None = None,
    ) -> Forked:
        """Start the program; the descriptors stay open here.

        Args:
            arguments: What stands behind its name.
            env: All the environment it gets.
            streams: Its standard input, output and error.
            directory: Where it runs.
            terminal: Its standard input is to be its controlling terminal.
            hold: It waits for SIGCONT before it does anything.
            fail: The call at which it fails, the number of that call, how, and below which directory.
        """
        reading, writing = os.pipe()
        request = {
            "arguments": [os.fsdecode(word) for word in arguments], "environment": dict(env),
            "directory": str(directory), "terminal": terminal, "hold": hold, "fail": fail,
        }  # fmt: skip
        try:
            socket.send_fds(self._socket, [json.dumps(request).encode()], [*streams, writing])
        finally:
            os.close(writing)
        return Forked(reading)

    def run(
        self,
        *arguments: str | Path,
        home: Path,
        fail: tuple[str, int, str, str] | None = None,
        limit: float = HANGS,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the program without a terminal to its end, as `tests.terminal.program.run` does."""
        with (
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as error,
            Path(os.devnull).open("rb") as nothing,
        ):
            streams = (nothing.fileno(), out.fileno(), error.fileno())
            code = self.start(arguments, environment(home), streams, fail=fail).wait(limit)
            said = []
            for file in (out, error):
                file.seek(0)
                said.append(file.read())
        return subprocess.CompletedProcess(list(arguments), code, *said)


def _child(request: Mapping[str, Any], streams: Sequence[int]) -> int:
    """Be the program."""
    os.setsid()
    if request["terminal"]:
        fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, max(streams) + 8)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    time.tzset()
    random.seed()
    sys.argv = ["refold", *request["arguments"]]
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        file = io.TextIOWrapper(
            open(number, f"{mode}b", closefd=False),  # noqa: SIM115 - a descriptor
            "utf-8",
            errors="strict" if name == "stdin" else "backslashreplace",
            line_buffering=os.isatty(number),
        )
        setattr(sys, name, file)
        setattr(sys, f"__{name}__", file)
    from refold.app.cli import main

    if request["hold"]:
        os.kill(os.getpid(), signal.SIGSTOP)
    if request["fail"]:
        from tests.faults.failpoints import arm

        call, number, how, directory = request["fail"]
        arm(call, number, how, Path(directory))
    try:
        code = main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    for out in (sys.stdout, sys.stderr):
        try:
            out.flush()
        except (OSError, ValueError):
            code = code or 120
    return code


def _minded(request: Mapping[str, Any], descriptors: Sequence[int]) -> NoReturn:
    """Start the child, say its pid, wait for its end, and say how that was."""
    *streams, told = descriptors
    pid = os.fork()
    if not pid:
        code = 1
        try:
            code = _child(request, streams)
        except BaseException:
            # A fork must never go on as the server.
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)
    os.write(told, b"%d\n" % pid)
    for stream in streams:
        os.close(stream)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(told, b"%d\n" % status)
    os._exit(0)


def serve() -> None:
    """Serve until nobody holds the other end."""
    package = importlib.import_module("refold.app")
    for module in pkgutil.walk_packages(package.__path__, "refold.app."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    requests = socket.socket(fileno=os.dup(0))
    requests.send(b"y")
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, _MOST, 4)
        if not data:
            break
        if not os.fork():
            requests.close()
            _minded(json.loads(data), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


if __name__ == "__main__":
    serve()
