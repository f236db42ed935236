"""A record in the pager or the editor of its reader: a private copy of it, gone afterwards."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from refold.app.launch import Ended, in_terminal
from refold.core.errors import RefoldError
from refold.core.export.entries import visible
from refold.core.store.files import create_private, write_all, write_failed
from refold.core.store.run_id import is_run_id

if TYPE_CHECKING:
    from refold.app.settings import Settings

Program = Literal["pager", "editor"]

_PAGERS: Final = ("less", "more")
_LONGEST_INDENTED: Final = 8 << 20
"""A longer record is handed over as it is spelled: to indent it would take seconds."""


class NoProgram(RefoldError):
    """No pager or editor is set, or what is set is no command."""


def command_of(program: Program, settings: Settings) -> list[str]:
    """Give the argument list that a file name is added to; no shell ever reads it.

    Raises:
        NoProgram: none is set, or its quotes do not end.
    """
    variable = "PAGER" if program == "pager" else "EDITOR"
    text = settings.pager if program == "pager" else settings.editor
    if not text.strip():
        found = next(filter(shutil.which, _PAGERS), None) if program == "pager" else None
        if found is not None:
            return [found]
        raise NoProgram(f"${variable} is not set", remedy=f"set it in the shell: export {variable}=…")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise NoProgram(f"${variable} is {text!r}: {error}", remedy="close its quotes") from error
    if not words:
        raise NoProgram(f"${variable} is {text!r}, which names no program", remedy=f"set ${variable}")
    return words


def as_text(raw: bytes) -> str:
    """Give a record over several lines, as JSON where it is some; nothing in it commands a terminal."""
    text = raw.decode("utf-8", "surrogateescape")
    if len(raw) <= _LONGEST_INDENTED:
        with suppress(ValueError, RecursionError):
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return f"{visible(text)}\n"


def show_outside(
    program: Program,
    name: str,
    text: str,
    settings: Settings,
    suspend: Callable[[], AbstractContextManager[None]],
) -> Ended:
    """Open a record in the pager or the editor; blocks until that has ended, and leaves nothing behind.

    Args:
        program: Which one.
        name: What the copy is called, as far as a file can be called so.
        text: The record `as_text`.
        settings: What the environment names.
        suspend: `App.suspend`.

    Raises:
        NoProgram: there is none.
        StoreError: the copy cannot be made.
    """
    command = command_of(program, settings)
    directory = Path(tempfile.mkdtemp(prefix="refold-record-"))
    try:
        copy = directory / f"{name if is_run_id(name) else 'record'}.json"
        fd = create_private(copy)
        try:
            write_all(fd, text.encode("utf-8", "backslashreplace"))
        except OSError as error:
            raise write_failed(copy, "could not be written", error, "nothing of it is left") from error
        finally:
            os.close(fd)
        # Who saves by mistake is told that the copy is for reading.
        copy.chmod(0o400)
        gone = partial(shutil.rmtree, directory, ignore_errors=True)
        # Nothing is left where the terminal is closed while a key is waited for.
        return in_terminal([*command, "--", str(copy)], cwd=str(directory), suspend=suspend, after=gone)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
