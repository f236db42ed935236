"""How a place in a run is named outside: the link that `refold LINK` opens again."""

from __future__ import annotations


def link(run_id: str, seq: int | None = None, line: int | None = None) -> str:
    """Give the deep link of a run, or of one of its records.

    Args:
        run_id: The run.
        seq: The sequence of the record.
        line: The line of what has no sequence.
    """
    if seq is not None:
        return f"{run_id}@{seq}"
    return f"{run_id}@#{line}" if line else run_id
