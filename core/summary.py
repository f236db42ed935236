"""One row of the list: what is known about a run without opening it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from refold.core.formats.names import keeps_directories
from refold.core.keeping import NOTHING, Kept
from refold.core.prices import SEVERAL, Bill, Price, Spent, bill
from refold.core.records import Json
from refold.core.status import StatusName, fresh_fork

_MAY_GO_ON: Final[frozenset[StatusName]] = frozenset(
    {"ready", "suspended", "crashed", "failed", "cancelled", "budget", "max-iterations"}
)
"""Statuses of runs that nobody holds, and that have begun and not completed."""
_WITHHELD: Final[frozenset[StatusName]] = frozenset({"budget", "max-iterations"})
"""Statuses of runs that were stopped before their last calls were allowed to run."""


class RunSummary(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the list, the preview and the filter say about one run."""

    id: str
    """The file name without its ending, also where that is no valid id."""
    path: str
    """The journal; bytes that are not UTF-8 stand as surrogates, as `os.fsdecode` gives them."""
    format: str = ""
    """The word of the format: refold, fisk-ai; the hint of the root where the file does not say."""
    status: StatusName = "unreadable"
    rule: str = ""
    """Why the status is what it is, as a sentence for people."""
    model: str = ""
    created: str = ""
    """RFC 3339 as recorded; empty where nothing is recorded."""
    updated: float = 0.0
    """The file's mtime in seconds; the records of most formats carry no time."""
    size: int = 0
    turns: int = 0
    """Assistant records."""
    calls: int = 0
    """Calls that the model requested."""
    errors: int = 0
    """Results that say is_error."""
    tokens: int = 0
    """Input, output, cache read and cache write together."""
    spent_input: int = 0
    """Input tokens without those from or for a cache; the four kinds together are `tokens`."""
    spent_output: int = 0
    spent_cache_read: int = 0
    prompt: str = ""
    last_seq: int = 0
    last_words: str = ""
    """The last text that the model wrote."""
    tools: tuple[str, ...] = ()
    """The names of the tools that were called, sorted, each once."""
    reason: str = ""
    """The reason of the last terminal record, as recorded."""
    provider_version: str = ""
    """Format and version of the records, as in `fisk-ai v3`; empty where no meta record was read."""
    barred: str = ""
    """Why no answer and no agent goes on with it, as far as a row can tell; empty where one may."""
    in_flight: tuple[str, ...] = ()
    """The names of the calls in the last turn that have no result."""
    spent_cache_create: int = 0
    inherited_input: int = 0
    """Of these, what a fork took over from its parent; likewise below."""
    inherited_output: int = 0
    inherited_cache_read: int = 0
    inherited_cache_create: int = 0
    models: int = 1
    """How many models took tokens; of several of them the row does not say which took what."""
    problems: tuple[str, ...] = ()
    """The damage codes found, sorted, each once. Shallow: only `verify` decodes every record."""
    damaged: int = 0
    """How many places are damaged, torn tail not counted."""
    torn: bool = False
    """The last line is not a whole record: what a crash leaves."""
    fork_of: str = ""
    """The id of the parent run where the run records one."""
    note: str = ""
    """Why the run cannot be read, or what is odd about the file itself; else empty."""
    complete: bool = True
    """False while only the head and the tail were read: the counters are not known yet."""
    kept: Kept = NOTHING
    """What is noted about it beside it; no reader of runs sets this, but who joins both."""

    @property
    def parent(self) -> str:
        """The id of the run that it was forked from: as it records it, else as it is noted; else empty."""
        return self.fork_of or self.kept.fork_of

    @property
    def withheld(self) -> bool:
        """Whether its open calls were never allowed to run; those of a run directory were started."""
        return self.status in _WITHHELD and not keeps_directories(self.format)

    @property
    def uncertain(self) -> tuple[str, ...]:
        """The names of the calls that may have run without a result, of a run that has stopped."""
        stopped = self.status in _MAY_GO_ON and self.status != "ready"
        return self.in_flight if stopped and not self.withheld else ()

    @property
    def can_be_resumed(self) -> bool:
        """Whether a resume can be asked for: it has stopped before its end, and nothing final is against it.

        What only its agent knows is not looked at: a changed fingerprint, a limit that is still used up.
        """
        return self.status in _MAY_GO_ON and not self.barred


def with_kept(row: RunSummary, kept: Kept) -> RunSummary:
    """Give a row with what is noted about its run: that it is a fork may tell its status.

    Args:
        row: what its reader made of the run, which knows no notes.
        kept: what is noted; the very row is given where that is nothing new.
    """
    if row.kept == kept:
        return row
    row = msgspec.structs.replace(row, kept=kept)
    if not kept.fork_of or row.fork_of or row.torn or row.status not in _MAY_GO_ON:
        return row
    prompted = 0 < kept.prompt_at == row.last_seq
    if not prompted and row.last_seq != kept.fork_at:
        return row
    status = fresh_fork(kept.fork_at, prompted=prompted)
    return msgspec.structs.replace(row, status=status.name, rule=status.rule)


def bill_of(row: RunSummary, prices: Mapping[str, Price]) -> tuple[Bill, Bill]:
    """Give what a run cost, and what of it a fork took over from its parent."""
    if row.models > 1:
        return Bill(None, reason=SEVERAL), Bill(None)
    whole = Spent(row.spent_input, row.spent_output, row.spent_cache_read, row.spent_cache_create)
    part = Spent(
        row.inherited_input, row.inherited_output, row.inherited_cache_read, row.inherited_cache_create
    )
    return bill(prices, ((row.model, whole),)), bill(prices, ((row.model, part),))


def summary_json(summary: RunSummary) -> dict[str, Json]:
    """Give the object of one line of `ls --json`: exactly the keys promised to scripts."""
    return {
        "id": summary.id,
        "link": summary.id,
        "path": summary.path,
        "format": summary.format,
        "status": summary.status,
        "rule": summary.rule,
        "model": summary.model,
        "created": summary.created,
        "updated": rfc3339(summary.updated),
        "turns": summary.turns,
        "calls": summary.calls,
        "errors": summary.errors,
        "tokens": summary.tokens,
        "prompt": summary.prompt,
        "problems": list(summary.problems),
        "star": summary.kept.star,
        "tags": list(summary.kept.tags),
        "name": summary.kept.name or None,
        "note": summary.kept.note or None,
        "noted_records": summary.kept.records,
    }


def rfc3339(seconds: float) -> str | None:
    """Write a time since 1970 as RFC 3339 in UTC; None where no calendar reaches it."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return None
