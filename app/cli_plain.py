"""The command lines that need no parser, for somebody waits for them: no word at all, or one run."""

from __future__ import annotations

from collections.abc import Sequence


def only_run(arguments: Sequence[str]) -> str | None:
    """Give the run that is to be opened, empty for the list of them; None where a parser must say.

    A word of small letters alone may be a command.
    """
    if not arguments:
        return ""
    *before, name = arguments
    if name.startswith("-") or before not in ([], ["open"]):
        return None
    return name if before or not (name.isalpha() and name.islower()) else None
