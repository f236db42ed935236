"""From one run on disk to its row of the list."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from refold.core.barred import WITHHOLDS, barred_at_once, barred_by
from refold.core.columns import RESULT
from refold.core.errors import BadRecord, NotPermitted, NotRegular, StoreError
from refold.core.findings import CODES, is_damage
from refold.core.formats import HEAD_BYTES, Decoder
from refold.core.formats.registry import by_name, format_of
from refold.core.records import MetaRecord
from refold.core.standing import facts_of, opening_meta
from refold.core.state import Counters
from refold.core.status import Facts, derive
from refold.core.store.files import odd_kind, open_error, open_regular, read_range
from refold.core.store.reader import RunReader
from refold.core.store.roots import Candidate
from refold.core.store.run_id import is_run_id
from refold.core.summary import RunSummary
from refold.core.timeline import Timeline
from refold.core.timeline_builder import Builder
from refold.core.usual_sums import sums_of

LONGEST_PROMPT = 65_536
"""Characters of a prompt that a row keeps."""
_LONGEST_WORDS = 500
_LARGEST_RECORD = 1 << 18
"""Records above this many bytes are not decoded for the last words."""
_TURNS_LOOKED_AT = 8
_MOST_NAMES = 64
_PIECE = 8192
SHORT: Final = 1 << 17
"""Runs up to this many bytes are read at once."""
_NO_META: Final = MetaRecord()


def summarise(found: Candidate, reader: RunReader) -> RunSummary:
    """Give the row of a run whose reader has reached the end of the file."""
    timeline = reader.timeline
    last = timeline.items - 1
    if last < 0:
        return _row(found, reader.format.name, Facts(blank=True), problems=("E_EMPTY",))
    meta = opening_meta(timeline, reader.meta)
    codes = _codes(timeline)
    if meta is not None and meta.run_id != found.stem:
        codes.append("E_FOREIGN_RUN")
    counters = timeline.counters(last)
    return _row(
        found,
        reader.format.name,
        facts_of(timeline, meta, reader.decoder),
        meta,
        turns=counters.llm_calls,
        calls=timeline.calls(last),
        errors=timeline.errors(last),
        tokens=counters.tokens,
        **_spent("spent", counters),
        **_spent("inherited", _inherited(timeline, meta)),
        problems=tuple(sorted(set(codes))),
        damaged=sum(map(is_damage, codes)),
        in_flight=_in_flight(timeline),
        last_words=_last_words(reader),
        tools=timeline.tool_names(),
        barred=_barred(found, reader),
    )


def summarise_usual(found: Candidate, *, hint: str) -> RunSummary | None:
    """Give the row of a short run that is all of the usual shape, from one read and without an index.

    Args:
        found: what is known of its file; of no more than `SHORT` bytes.
        hint: the format to assume where the bytes do not tell.

    Returns:
        The same row as that of `summarise`; None where only that can tell.

    Raises:
        StoreError: the file cannot be opened or read.
    """
    try:
        fd = open_regular(found.path)
    except NotRegular:  # it was one a moment ago: whoever reads it in full says what it is now
        return None
    try:
        data = read_range(fd, 0, found.size, found.path)
    finally:
        os.close(fd)
    first, *lines = data.split(b"\n")
    if len(data) != found.size or not lines or lines.pop():
        return None
    kind = format_of(data, hint=hint)
    decoder = kind.decoder(data)
    try:
        meta = decoder.record(first)
    except BadRecord:
        return None
    if not isinstance(meta, MetaRecord) or meta.forked_from is not None or meta.run_id != found.stem:
        return None
    sums = sums_of(meta, lines, decoder)
    if sums is None or sums.stop_reason in WITHHOLDS:
        return None
    completed = sums.terminal == "completed" and not sums.after_terminal
    reason = barred_at_once(meta.run_id, found.stem, completed=completed, native=kind.keeps_lineage)
    return _row(
        found,
        kind.name,
        Facts(
            has_meta=True,
            version=decoder.version,
            supported=decoder.supported,
            terminal=sums.terminal,
            after_terminal=sums.after_terminal,
            last_seq=sums.last_seq,
        ),
        meta,
        turns=sums.counters.llm_calls,
        calls=sums.calls,
        errors=sums.errors,
        tokens=sums.counters.tokens,
        **_spent("spent", sums.counters),
        in_flight=sums.waiting[:_MOST_NAMES],
        last_words=_last_of(_texts(decoder, lines[place]) for place in reversed(sums.replies)),
        tools=sums.tools,
        barred="" if reason is None else reason.message,
    )


def _texts(decoder: Decoder, line: bytes) -> tuple[str, ...]:
    try:
        return decoder.texts(line)
    except BadRecord:
        return ()


def _last_of(replies: Iterable[Iterable[str]]) -> str:
    """Give the words of the last replies that has any; the replies are given last one first."""
    for texts in islice(replies, _TURNS_LOOKED_AT):
        words = "\n".join([said for text in texts if (said := text.strip())])
        if words:
            return words[:_LONGEST_WORDS]
    return ""


def _barred(found: Candidate, reader: RunReader) -> str:
    """Say why no resume can go on with a run; empty where one may."""
    error = reader.timeline.strict_error
    if error is not None:
        return str(error)
    timeline, meta = reader.timeline, reader.meta or MetaRecord()
    last = timeline.strict_item(timeline.items - 1)
    native = by_name(reader.format.name).keeps_lineage
    end = timeline.terminal(last)
    completed = end is not None and end[1] == "completed"
    reason = barred_at_once(meta.run_id, found.stem, completed=completed, native=native)
    if reason is not None:
        return reason.message
    if timeline.stop_reason(last) not in WITHHOLDS:
        return ""  # as nearly every run: nothing more has to be read
    try:
        reason = barred_by(reader.state_at(last), found.stem, native=native)
    except BadRecord:
        # It changed meanwhile, and will be read again.
        return ""
    return "" if reason is None else reason.message


def _spent(name: str, counters: Counters) -> dict[str, int]:
    return {
        f"{name}_input": counters.in_tokens,
        f"{name}_output": counters.out_tokens,
        f"{name}_cache_read": counters.cache_read_tokens,
        f"{name}_cache_create": counters.cache_create_tokens,
    }


def _inherited(timeline: Timeline, meta: MetaRecord | None) -> Counters:
    """Give what stands in the prefix that a fork took over."""
    fork = None if meta is None else meta.forked_from
    item = None if fork is None else timeline.item_at(fork.seq)
    return Counters() if item is None else timeline.counters(item)


def preview(found: Candidate, *, hint: str) -> RunSummary:
    """Give a first row from some bytes of the head and of the tail; its counters are not known yet.

    Raises:
        StoreError: the file cannot be opened or read.
        BadRecord: the first line does not end within the head, so nothing can be told of it yet.
    """
    head, tail = _ends(found)
    if b"\n" not in head and len(head) < found.size:
        raise BadRecord("the first line is longer than what was read")
    kind = format_of(head, hint=hint)
    meta = kind.meta(head.partition(b"\n")[0])
    decoder = kind.decoder(head) if meta is None else kind.decoder_for(meta.version)
    builder = Builder(decoder)
    for line in tail:
        builder.feed(line, 0, 0)
    # What the end alone lacks, the run may have further up.
    facts = msgspec.structs.replace(facts_of(builder.timeline, meta, decoder), blank=False, note="")
    return _row(
        found,
        kind.name,
        facts,
        meta,
        in_flight=_in_flight(builder.timeline),
        complete=False,
    )


def empty(found: Candidate, *, hint: str) -> RunSummary:
    """Give the row of a file of zero bytes, without opening it."""
    return _row(found, hint, Facts(blank=True), problems=("E_EMPTY",))


def not_a_file(found: Candidate, *, hint: str) -> RunSummary:
    """Give the row of an entry that is a directory, link, pipe or device, or that cannot be looked at."""
    if found.note:
        return _closed(found, f"it cannot be looked at: {found.note}", ("E_PERM",), hint)
    return _closed(found, f"it is {odd_kind(found.mode)}, not a file", ("E_NOT_REGULAR",), hint)


def unopened(found: Candidate, error: StoreError, *, hint: str) -> RunSummary:
    """Give the row of a file that could not be opened or read."""
    if isinstance(error, NotPermitted):
        return _closed(found, "not permitted to read it", ("E_PERM",), hint)
    if isinstance(error, NotRegular):
        return _closed(found, "it is not a plain file", ("E_NOT_REGULAR",), hint)
    return _closed(found, str(error), (), hint)


def failed_on(found: Candidate, error: Exception, *, hint: str) -> RunSummary:
    """Give the row of a file that we could not make sense of by a fault of our own."""
    return _closed(found, f"a fault in refold: {type(error).__name__} while reading it", (), hint)


def _closed(found: Candidate, note: str, problems: tuple[str, ...], hint: str) -> RunSummary:
    return _row(found, hint, Facts(opened=False, note=note), problems=problems)


def _row(
    found: Candidate, kind: str, facts: Facts, meta: MetaRecord | None = None, **counted: object
) -> RunSummary:
    """Join what is known of the file, of its meta record and of its records to a row."""
    status = derive(facts)
    rule, note, said = status.rule, "" if facts.opened else facts.note, meta or _NO_META
    if not is_run_id(found.stem):
        why = "its name is no run id"
        rule, note = f"{rule}; {why}", note or why
    row = RunSummary(
        id=found.stem,
        path=found.path,
        format=kind,
        status=status.name,
        rule=rule,
        model=said.fingerprint.model,
        created=said.created,
        updated=found.mtime_ns / 1e9,
        size=found.size,
        prompt=said.prompt[:LONGEST_PROMPT],
        last_seq=facts.last_seq,
        reason=facts.terminal or "",
        provider_version="" if meta is None else f"{kind} v{meta.version}",
        torn=facts.torn,
        fork_of="" if said.forked_from is None else said.forked_from.run_id,
        note=note,
    )
    return msgspec.structs.replace(row, **counted) if counted else row


def _codes(timeline: Timeline) -> list[str]:
    """Give the code of every finding that is more than a remark."""
    codes = [mark.code for mark in timeline.marks]
    torn = timeline.torn
    if torn is not None and timeline.last_line_mark is not None:
        codes[timeline.last_line_mark] = torn.code
    return [code for code in codes if CODES[code].severity != "info"]


def _in_flight(timeline: Timeline) -> tuple[str, ...]:
    last = timeline.items - 1
    if last < 0 or not timeline.open_calls(last):
        return ()
    columns = timeline.columns
    turn = columns.last_assistant[last] - 1
    answered = {columns.link[item] for item in range(turn + 1, last + 1) if columns.kind[item] == RESULT}
    waiting = [call for call in range(timeline.own_calls(turn)) if call not in answered][:_MOST_NAMES]
    return tuple(timeline.call_name(turn, call) for call in waiting)


def _last_words(reader: RunReader) -> str:
    """Give the last text that the model wrote, from one of its last turns."""
    return _last_of(map(partial(_texts_at, reader), _last_turns(reader.timeline)))


def _last_turns(timeline: Timeline) -> Iterator[int]:
    """Give the items of the assistant records, last one first."""
    before = timeline.columns.last_assistant
    turn = before[-1] - 1
    while turn >= 0:
        yield turn
        turn = before[turn - 1] - 1 if turn else -1


def _texts_at(reader: RunReader, item: int) -> tuple[str, ...]:
    if reader.timeline.columns.length[item] > _LARGEST_RECORD:
        return ()
    try:
        return reader.texts(item)
    except BadRecord:
        return ()


def _ends(found: Candidate) -> tuple[bytes, list[bytes]]:
    """Read the first line and the last lines of a file, a bounded piece of each."""
    path = Path(found.path)
    fd = open_regular(path)
    try:
        head = os.pread(fd, _PIECE, 0)
        if b"\n" not in head:
            head = os.pread(fd, HEAD_BYTES, 0)
        start = max(0, found.size - _PIECE)
        tail = os.pread(fd, _PIECE, start)
    except OSError as error:
        raise open_error(path, error) from error
    finally:
        os.close(fd)
    lines = tail.split(b"\n")
    return head, [line for line in (lines[1:] if start else lines) if line]
