"""The log of faults: where in the program something went wrong, and never a word of what was read."""

from __future__ import annotations

import os
import time
from pathlib import Path

from refold.core.version import __version__

MAX_BYTES = 1_000_000


def record_fault(log_file: Path | None, error: BaseException) -> Path | None:
    """Append type and place of an error to the log.

    Messages, source lines and variables stay out: they may hold text of a run.

    Returns:
        The log, or None where it could not be written.
    """
    if log_file is None:
        return None
    import traceback  # a program in which nothing went wrong does without it

    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    lines = [f"{stamp} refold {__version__} pid {os.getpid()}"]
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        lines.append(f"  {type(cause).__module__}.{type(cause).__qualname__}")
        lines.extend(
            f"    {frame.filename}:{frame.lineno} {frame.name}"
            for frame in traceback.extract_tb(cause.__traceback__)
        )
        cause = cause.__cause__ or cause.__context__
    text = "\n".join(lines) + "\n"
    try:
        log_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(log_file, flags, 0o600)
        try:
            if os.fstat(descriptor).st_size > MAX_BYTES:
                os.ftruncate(descriptor, 0)
            os.write(descriptor, text.encode(errors="backslashreplace"))
        finally:
            os.close(descriptor)
    except OSError:
        return None
    return log_file
