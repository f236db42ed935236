"""The exit codes of the command line."""

from __future__ import annotations

import contextlib
import os
import sys

from refold.core.errors import BadRecord, FoldError, RefoldError, Refused, StoreError

FINE = 0
REFUSED = 1
"""There are findings, or the run does not fold."""
WRONG_USAGE = 2
"""The command line or the configuration is wrong."""
NOT_FOUND = 3
"""Not found, or cannot be read."""
FAULT = 70
"""A fault of the program itself (EX_SOFTWARE of sysexits.h)."""
NOT_WRITTEN = 74
"""The output could not be written."""
INTERRUPTED = 130
PIPE_CLOSED = 141
"""The reader of the output has gone; shells say so of a program that SIGPIPE ended."""


_NOT_DONE = frozenset(
    {
        "exists",
        "locked",
        "lock_unsure",
        "torn_tail",
        "changed",
        "closed",
        "gap",
        "conflict",
        "write_failed",
        "newer_notes",
    }
)
"""Errors of files that were there and could be read: what was asked for was refused, or failed."""


def exit_code(error: RefoldError) -> int:
    """The exit code that an error stands for."""
    if isinstance(error, Refused) or (isinstance(error, StoreError) and error.error_class in _NOT_DONE):
        return REFUSED
    if isinstance(error, StoreError | BadRecord):
        return NOT_FOUND
    return REFUSED if isinstance(error, FoldError) else WRONG_USAGE


def output_lost(error: OSError) -> int:
    """Say that nobody takes the output, unless its reader has just left; give the exit code."""
    # The buffer still holds what failed: the end of the process must not try to write it again.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    if isinstance(error, BrokenPipeError):
        return PIPE_CLOSED
    with contextlib.suppress(OSError, ValueError):
        print(f"refold: the output could not be written: {error.strerror}", file=sys.stderr)
    return NOT_WRITTEN
