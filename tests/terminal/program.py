"""The program under test as a process: its command line, its environment, its rights."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
HANGS = 120.0
"""Seconds after which what is waited for never comes; so that a hang ends, whatever else the machine does."""

_DROP_FROM_BOUNDING_SET = 24
_READ_WHATEVER_THE_MODE = (1, 2)
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""


def refold(*arguments: str | bytes | Path) -> list[str | bytes]:
    """Give the command line of the program."""
    code = "import sys; from refold.app.cli import main; sys.exit(main())"
    return [sys.executable, "-c", code, *(a if isinstance(a, bytes) else str(a) for a in arguments)]


def environment(home: Path, **more: str) -> dict[str, str]:
    """Give an environment in which every directory that the program looks at lies under `home`."""
    return {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_DATA_HOME": str(home / "data"),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TEXTUAL_ANIMATIONS": "none",
        **more,
    }


def run(
    *arguments: str | bytes | Path, home: Path, rights: Callable[[], None] | None = None, limit: float = HANGS
) -> subprocess.CompletedProcess[bytes]:
    """Run the program without a terminal to its end and give what it printed."""
    return subprocess.run(
        refold(*arguments), env=environment(home), capture_output=True, stdin=subprocess.DEVNULL,
        timeout=limit, check=False, preexec_fn=rights,
    )  # fmt: skip


def without_privileges() -> None:
    """Give up, in a new process, what lets root read every file; a mode of 000 then holds for root too."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in _READ_WHATEVER_THE_MODE:
        if libc.prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "cannot give up a capability")
