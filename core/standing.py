"""How a run stands: what its status depends on, taken from its index and its meta record. Pure."""

from __future__ import annotations

from datetime import datetime

from refold.core.columns import DAMAGE, META, USER
from refold.core.formats import Decoder
from refold.core.keeping import NOTHING, Kept
from refold.core.records import MetaRecord
from refold.core.status import Facts
from refold.core.timeline import Timeline


def opening_meta(timeline: Timeline, meta: MetaRecord | None) -> MetaRecord | None:
    """Give the meta record of a run where it is the first record that can be read; else None."""
    first = next((kind for kind in timeline.columns.kind if kind != DAMAGE), DAMAGE)
    return meta if first == META else None


def facts_of(timeline: Timeline, meta: MetaRecord | None, decoder: Decoder, kept: Kept = NOTHING) -> Facts:
    """Give what the status of a run depends on, the lock apart.

    Args:
        timeline: the index of the run, or of its end.
        meta: the record that the run begins with; None where it begins with no meta record.
        decoder: the rules of the version that the run was written in.
        kept: what is noted about it: of whom it is a fork, where its format has no place for that.
    """
    last = timeline.items - 1
    terminal = timeline.terminal(last) if last >= 0 else None
    fork = meta.forked_from if meta is not None else None
    forked_at = fork.seq if fork is not None else kept.fork_at if kept.fork_of else None
    last_seq = timeline.last_seq or 0
    with_prompt = fork is None and forked_at is not None and 0 < kept.prompt_at == last_seq
    return Facts(
        has_meta=meta is not None,
        blank=last < 0,
        version=decoder.version,
        supported=decoder.supported,
        terminal=None if terminal is None else terminal[1],
        after_terminal=0 if terminal is None else _records(timeline, terminal[0] + 1),
        torn=timeline.torn is not None,
        forked_at=forked_at,
        prompted=with_prompt or (meta is not None and _begins_with_prompt(timeline, meta)),
        last_seq=last_seq,
        note="" if meta is not None else _why_no_meta(timeline),
    )


def _begins_with_prompt(timeline: Timeline, meta: MetaRecord) -> bool:
    """Say whether all that a fork has of its own is the prompt that it was made with, at the same moment."""
    last = timeline.items - 1
    if meta.forked_from is None or last < 1 or timeline.columns.kind[last] != USER:
        return False
    written = timeline.columns.seconds[last]
    try:
        made = datetime.fromisoformat(meta.created).timestamp()
    except (ValueError, OverflowError, OSError):
        return False
    return timeline.seq(last) == meta.forked_from.seq + 1 and written == made


def _records(timeline: Timeline, first: int) -> int:
    return sum(kind != DAMAGE for kind in timeline.columns.kind[first:])


def _why_no_meta(timeline: Timeline) -> str:
    first = timeline.finding(0)
    return "" if first is None else f"its first record: {first.message}"
