"""A program whose terminal was closed ends by itself, also where it waits for room to draw."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path

import pytest
from tests.terminal.program import HANGS

RUN = "import sys; from refold.app.cli import main; sys.exit(main())"


@pytest.mark.parametrize("size", [(24, 80), (0, 0)], ids=["80x24", "no size"])
def test_a_closed_terminal_ends_the_program(size: tuple[int, int], tmp_path: Path, journals: Path) -> None:
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", HOME=str(tmp_path))
        os.execv(sys.executable, [sys.executable, "-c", RUN, "--only", "--root", str(journals / "v3")])
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    drawn, end = 0, time.monotonic() + HANGS
    while drawn < 500 and time.monotonic() < end:
        if select.select([fd], [], [], 0.1)[0]:
            drawn += len(os.read(fd, 65536))
    os.close(fd)
    end = time.monotonic() + HANGS
    ended, status = 0, 0
    while not ended and time.monotonic() < end:
        ended, status = os.waitpid(pid, os.WNOHANG)
        time.sleep(0.05)
    if not ended:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert ended == pid, "it still runs"
    assert os.waitstatus_to_exitcode(status) != 0
