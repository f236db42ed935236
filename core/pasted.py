"""A command that is there to be copied, and pasted into a shell."""

from __future__ import annotations

import shlex


def pasted(*words: str) -> str:
    """Give a command as a shell takes it; empty where no quoting makes it safe to paste.

    A control character is acted on by a terminal and by the editor of a shell's line before any quote counts,
    and what reorders or hides makes it look like another command (design/safety.md 3.2). A picture in its
    place would name something else, so there is no command then.
    """
    return shlex.join(words) if all(map(str.isprintable, words)) else ""
