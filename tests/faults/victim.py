"""Serves children that play a scene: each is a fork of this process, so nothing is imported any more in it.

Standard input: one JSON object a line, `{"scene", "directory", "hold", "fail": [CALL, NUMBER, HOW] | null}`.
With `hold` the answer comes in two lines: `{"pid"}` of a child that waits, and once a line was read
`{"status", "said"}`. A child says on descriptor 1 what was acknowledged; `failed TEXT` is an error of ours,
`raised TEXT` any other.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from tests.faults import scenes
from tests.faults.failpoints import arm
from tests.faults.forker import HEX
from tests.faults.victims import scratch

from refold.core.errors import RefoldError

_SET_PTRACER = 0x59616D61
_BY_ANYBODY = ctypes.c_ulong(-1)
_ATTACHED = 0.004
"""Seconds that a held child waits once it may go: whoever attached to it has it stopped by then."""


def say(text: str) -> None:
    """Write a line that is out before the next system call."""
    os.write(1, text.encode("utf-8", "backslashreplace") + b"\n")


def child(scene: str, directory: Path, fail: list[Any] | None) -> int:
    """Play a scene to its end."""
    os.urandom = lambda size: bytes.fromhex(HEX) if size == 8 else random.randbytes(size)
    failpoint = arm(fail[0], int(fail[1]), fail[2], directory) if fail else None
    try:
        scenes.SCENES[scene].play(directory, say)
    except RefoldError as error:
        say(f"failed {error}".replace("\n", " "))
    except BaseException as error:
        say(f"raised {type(error).__name__} {error}".replace("\n", " "))
        return 1
    if failpoint is not None:
        say(f"counts {json.dumps(failpoint.counts)}")
    return 0


def begin(request: dict[str, Any]) -> tuple[int, int, int]:
    """Fork a child; gives its pid, the end of the pipe on which it speaks, and the one that lets it go."""
    reading, writing = os.pipe()
    gate, opener = os.pipe()
    pid = os.fork()
    if not pid:
        os.dup2(writing, 1)
        for fd in (reading, writing, opener):
            os.close(fd)
        if request["hold"]:
            ctypes.CDLL(None).prctl(_SET_PTRACER, _BY_ANYBODY, 0, 0, 0)
            os.read(gate, 1)
            time.sleep(_ATTACHED)
        os.close(gate)
        os._exit(child(request["scene"], Path(request["directory"]), request["fail"]))
    os.close(writing)
    os.close(gate)
    return pid, reading, opener


def answer(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def warm() -> None:
    """Play every scene once in this process, so that its children import nothing."""
    out, quiet = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    urandom = os.urandom
    try:
        with scratch() as directory:
            for name, scene in scenes.SCENES.items():
                scene.prepare(directory / name)
                scene.play(directory / name, say)
    finally:
        os.urandom = urandom
        os.dup2(out, 1)
        os.close(out)
        os.close(quiet)


def main() -> None:
    """Serve until standard input ends."""
    warm()
    answer({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        pid, reading, opener = begin(request)
        if request["hold"]:
            answer({"pid": pid})
            sys.stdin.readline()
        os.close(opener)
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read().decode("utf-8", "replace")
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        answer({"status": status, "said": said})


if __name__ == "__main__":
    main()
