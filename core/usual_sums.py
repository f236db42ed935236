"""What a run comes to whose lines are all of the usual shape: sums alone, and no index. Pure.

Most runs of a list are short and nothing is wrong with them. For those the rules of `timeline_usual` come to
one pass over their lines; every other run is left to the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from refold.core.formats import Decoder
from refold.core.records import MetaRecord
from refold.core.sequence import opening_problems
from refold.core.state import Counters, in_64_bits


class UsualSums(NamedTuple):
    """What a row of the list says of the records of a run."""

    counters: Counters
    calls: int
    """Calls requested."""
    errors: int
    """Results that say is_error."""
    replies: list[int]
    """The places of the assistant records among the lines."""
    stop_reason: str
    """That of the last reply."""
    waiting: tuple[str, ...]
    """The names of the calls of the last turn that have no result."""
    tools: tuple[str, ...]
    """The names of all tools called, sorted."""
    last_seq: int
    terminal: str | None
    """The reason of the last terminal record."""
    after_terminal: int
    """Records that follow it."""


def sums_of(meta: MetaRecord, lines: Sequence[bytes], decoder: Decoder) -> UsualSums | None:
    """Sum up the lines of a run.

    Args:
        meta: what the first line of the run says.
        lines: the lines that follow it, newlines excluded.
        decoder: the rules of the version that the run was written in.

    Returns:
        The sums; None where a line needs a closer look.
    """
    usual = decoder.usual
    if usual is None or opening_problems("meta", meta.seq, decoder, has_meta=False):
        return None
    records = usual.read(lines)
    if len(records) != len(lines):
        return None
    seen, after = meta.seq, 0
    calls = results = remote = errors = 0
    in_tokens = out_tokens = cache_read = cache_create = 0
    replies: list[int] = []
    tools: set[str] = set()
    waiting: dict[str, str] = {}
    iteration: int | None = None
    terminal: str | None = None
    stop_reason = ""
    for place, record in enumerate(records):
        seen += 1
        after += 1
        if record.seq != seen or terminal == "completed":
            return None
        if (answer := record.tool_result) is not None:
            if record.protocol != usual.answer or waiting.pop(answer.tool_use_id, None) is None:
                return None
            results += 1
            remote += answer.remote
            errors += answer.result.is_error
        elif (reply := record.assistant) is not None:
            if (
                record.protocol != usual.reply
                or waiting
                or (iteration is not None and reply.iteration <= iteration)
            ):
                return None
            replies.append(place)
            iteration, stop_reason = reply.iteration, reply.stop_reason
            in_tokens += reply.in_tokens
            out_tokens += reply.out_tokens
            cache_read += reply.cache_read_tokens
            cache_create += reply.cache_create_tokens
            requested = reply.message.calls()
            if requested:
                waiting = dict(requested)
                if len(waiting) != len(requested):
                    return None
                calls += len(requested)
                tools.update(waiting.values())
        elif (end := record.terminal) is not None and record.protocol == usual.end:
            terminal, after = end.reason, 0
        else:
            return None
    counters = Counters(
        len(replies),
        results,
        remote,
        in_64_bits(in_tokens),
        in_64_bits(out_tokens),
        in_64_bits(cache_read),
        in_64_bits(cache_create),
    )
    return UsualSums(
        counters,
        calls,
        errors,
        replies,
        stop_reason,
        tuple(waiting.values()),
        tuple(sorted(tools)),
        seen,
        terminal,
        0 if terminal is None else after,
    )
