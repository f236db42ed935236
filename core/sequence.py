"""What is wrong with a record for where it stands: as the first one of a run, or after another. Pure."""

from __future__ import annotations

from typing import TypeAlias

from refold.core.formats import Decoder

Problem: TypeAlias = tuple[str, str]
"""A damage code and the reason."""


def opening_problems(kind: str, seq: int, decoder: Decoder, *, has_meta: bool) -> list[Problem]:
    """Give what is wrong with a record as the first one that the strict fold reads.

    Args:
        kind: what it is; anything but meta cannot begin a run.
        seq: its sequence.
        decoder: the rules of the version that the run was written in.
        has_meta: a meta record was recovered before it.
    """
    problems: list[Problem] = []
    if kind != "meta":
        if not has_meta:
            problems.append(("E_NO_META", f"the first record is {kind}"))
    elif not decoder.readable:
        problems.append(("E_NEWER_VERSION", f"version {decoder.version}, read up to {decoder.supported}"))
    if seq != 1 and not has_meta:
        problems.append(("E_SEQ_GAP", f"the first record has seq {seq}"))
    return problems


def order_problems(seq: int, seen: int) -> list[Problem]:
    """Give what is wrong with a sequence after the one of the record before it, -1 where there is none."""
    if seq == seen:
        return [("E_SEQ_DUP", f"seq {seq} stands twice")]
    if seq < seen:
        return [("E_SEQ_BACK", f"seq {seq} after {seen}")]
    if seen >= 0 and seq > seen + 1:
        return [("E_SEQ_GAP", f"{seq - seen - 1} missing between seq {seen} and {seq}")]
    return []
