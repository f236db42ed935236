"""What is said of a word that is neither a command nor a run."""

from __future__ import annotations

from refold.app.cli_commands import COMMANDS
from refold.core.errors import RunNotFound

_CLOSE = 0.6


def neither(word: str, error: RunNotFound) -> RunNotFound:
    """Give the error of a run that was not found for a word that may have been meant as a command."""
    said = str(error)
    if not said.startswith("no run "):
        return error
    return RunNotFound(f"no command and {said}{meant(word)}", remedy=error.remedy)


def meant(word: str) -> str:
    """Give the question for the command that a word is close to; empty where it is close to none."""
    from difflib import get_close_matches

    swapped = [name for name in COMMANDS if sorted(name) == sorted(word)]
    close = swapped or get_close_matches(word, COMMANDS, 1, _CLOSE)
    return f"; did you mean {close[0]!r}?" if close else ""
