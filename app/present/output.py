"""What a tool printed, out of the envelope that command tools put around it (formats/fisk-ai.md 1.4)."""

from __future__ import annotations

import json
from typing import NamedTuple

from refold.app.present.peek import completed


class Output(NamedTuple):
    """The text of a tool result and what its envelope says about it."""

    text: str
    command: str = ""
    exit_code: int | None = None
    shortened: bool = False
    """The tool itself kept only the head and the tail."""
    denied: bool = False
    """A person or a rule said no; the text is the reason."""


def unwrap(text: str, *, whole: bool = True) -> Output:
    """Take the envelope off a result; a text that has none is given as it is.

    Args:
        text: The text of the result.
        whole: False where the text was cut, so that its envelope is cut too.
    """
    if not text.startswith("{") or (
        '"output"' not in text and '"allowed"' not in text and '"command"' not in text
    ):
        return Output(text)
    source = text.encode("utf-8", "surrogatepass")
    try:
        value = json.loads(source if whole else completed(source))
    except (ValueError, RecursionError):
        return Output(text)
    if not isinstance(value, dict):
        return Output(text)
    code = value.get("exit_code")
    output, command = value.get("output", ""), value.get("command", "")
    if "command" in value and isinstance(output, str) and isinstance(command, str):
        known = isinstance(code, int) and not isinstance(code, bool)
        return Output(output, command, code if known else None, shortened=value.get("truncated") is True)
    reason = value.get("reason", "")
    if value.get("allowed") is False and isinstance(reason, str):
        return Output(reason, denied=True)
    return Output(text)
