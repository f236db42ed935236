"""What is said of a word that is neither a command nor a run."""

from __future__ import annotations

from refold.app.cli_commands import COMMANDS
from refold.core.errors import RunNotFound
from refold.core.nearest import nearest


def neither(word: str, error: RunNotFound) -> RunNotFound:
    """Give the error of a run that was not found for a word that may have been meant as a command."""
    said = str(error)
    if not said.startswith("no run "):
        return error
    return RunNotFound(f"no command and {said}{meant(word)}", remedy=error.remedy)


def meant(word: str) -> str:
    """Give the question for the command that a word is close to; empty where it is close to none."""
    close = nearest(word, COMMANDS)
    return f"; did you mean {close!r}?" if close else ""
