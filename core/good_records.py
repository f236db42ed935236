"""The whole records of a damaged run, each with its own bytes, and what is none. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec

from refold.core.columns import DAMAGE, RECOVERED
from refold.core.errors import BadRecord
from refold.core.findings import CODES
from refold.core.formats import Decoder
from refold.core.records import (
    AssistantRecord,
    IncompleteRecord,
    Message,
    Record,
    ToolResultRecord,
    UnknownRecord,
    UserRecord,
)
from refold.core.timeline import Timeline

_OF_BYTES: Final = frozenset(
    {
        "E_GLUED",
        "E_SPLICED",
        "E_NUL_RUN",
        "E_BAD_JSON",
        "E_BAD_UTF8",
        "E_BAD_RECORD",
        "E_NONFINITE",
        "E_TOO_DEEP",
        "E_BOM",
    }
)
"""The codes that say why bytes are no record."""
_BOM: Final = b"\xef\xbb\xbf"
_LONGEST_HALF: Final = 16 << 20
"""Halves of a record above this many bytes are not joined."""


class Source(NamedTuple):
    """A run, as its reader gives it."""

    timeline: Timeline
    record: Callable[[int], Record]
    """Decodes an item strictly; raises BadRecord."""
    hole: Callable[[int], tuple[int, int] | None]
    """Gives the bytes in the middle of an item that belong to another record."""
    read: Callable[[int, int], bytes]
    """Gives bytes of the file: place and size."""
    decoder: Decoder


class GoodRecord(NamedTuple):
    """A whole record: where its bytes lie, and what the fold has to see of it."""

    line: int
    ranges: tuple[tuple[int, int], ...]
    """The bytes of it, first and behind the last; two of them where another record stands in its middle."""
    record: Record
    """Without its texts."""
    calls: tuple[str, ...]
    """The ids of the calls it makes."""
    content: bytes
    """The hash of its bytes."""
    recovered: bool
    """Read out of a damaged line."""


class LeftOut(msgspec.Struct, frozen=True):
    """A record that cannot be used, or bytes that are none."""

    line: int
    start: int
    end: int
    seq: int | None
    code: str
    """A damage code, also for a whole record that has no place."""
    reason: str


class Gathered(NamedTuple):
    """What a run holds, in the order of its bytes."""

    records: list[GoodRecord]
    left_out: list[LeftOut]


def gather(source: Source) -> Gathered:
    """Decode whatever can be; the halves of a record that stand around others are joined."""
    timeline = source.timeline
    good: list[GoodRecord] = []
    bad: dict[int, LeftOut] = {}
    halves: list[tuple[int, int]] = []
    reasons = _reasons(timeline)
    for item in range(timeline.items):
        if timeline.columns.kind[item] == DAMAGE:
            line = timeline.columns.line[item]
            bad[item] = _left_out(timeline, item, *reasons.get(line, ("E_BAD_JSON", "")))
            second = _second_half(timeline, item)
            if second is not None:
                halves.append((item, second))
            continue
        try:
            record = source.record(item)
        except BadRecord as error:
            bad[item] = _left_out(timeline, item, error.code, error.reason)
            continue
        if isinstance(record, UnknownRecord | IncompleteRecord):
            code = "E_UNKNOWN_KIND" if isinstance(record, UnknownRecord) else "E_NO_PAYLOAD"
            bad[item] = _left_out(timeline, item, code, "")
            continue
        span, hole = timeline.span(item), source.hole(item)
        ranges: tuple[tuple[int, int], ...] = ((span.start, span.end),)
        if hole is not None:
            ranges = ((span.start, hole[0]), (hole[1], span.end))
        recovered = bool(timeline.columns.flags[item] & RECOVERED)
        good.append(_good(source, span.line, ranges, record, recovered=recovered))
    taken = {each.record.seq for each in good}
    for first, second in halves:
        joined = _joined(source, first, second)
        if joined is not None and joined.record.seq not in taken:
            taken.add(joined.record.seq)
            good.append(joined)
            del bad[first], bad[second]
    good.sort(key=lambda each: each.ranges[0][0])
    return Gathered(good, list(bad.values()))


def _good(
    source: Source, line: int, ranges: tuple[tuple[int, int], ...], record: Record, *, recovered: bool
) -> GoodRecord:
    digest = hashlib.blake2b(digest_size=16)
    for start, end in ranges:
        digest.update(source.read(start, end - start))
    calls: tuple[str, ...] = ()
    if isinstance(record, AssistantRecord):
        calls = tuple(call_id for call_id, _, _ in source.decoder.calls(record.message.content))
    return GoodRecord(line, ranges, _bare(record), calls, digest.digest(), recovered)


def _bare(record: Record) -> Record:
    """Give a record without its texts: by kind and place alone the fold takes or refuses it."""
    if isinstance(record, AssistantRecord | UserRecord):
        return msgspec.structs.replace(record, message=Message(record.message.role))
    if isinstance(record, ToolResultRecord):
        return msgspec.structs.replace(record, result=None)
    return record


def _left_out(timeline: Timeline, item: int, code: str, reason: str) -> LeftOut:
    span = timeline.span(item)
    return LeftOut(span.line, span.start, span.end, timeline.seq(item), code, reason or CODES[code].meaning)


def _reasons(timeline: Timeline) -> dict[int, tuple[str, str]]:
    """Give code and reason of each damaged line; what is odd about whole records on it is another matter."""
    reasons: dict[int, tuple[str, str]] = {}
    for index, mark in enumerate(timeline.marks):
        if mark.code in _OF_BYTES and mark.item < timeline.items:
            code = "E_TORN_TAIL" if index == timeline.last_line_mark else mark.code
            reasons[timeline.columns.line[mark.item]] = code, mark.reason
    return reasons


def _second_half(timeline: Timeline, item: int) -> int | None:
    """Find the other half of a record into which whole ones were written, the last with its newline.

    Its first half begins a line that ends with them; its second half is the whole next line.
    """
    columns, items = timeline.columns, timeline.items
    line = columns.line[item]
    if item and columns.line[item - 1] == line:
        return None
    second = item + 1
    while second < items and columns.line[second] == line and columns.flags[second] & RECOVERED:
        second += 1
    if second == item + 1 or second >= items or columns.kind[second] != DAMAGE:
        return None
    alone = second + 1 == items or columns.line[second + 1] > columns.line[second]
    follows = columns.offset[second] == timeline.span(second - 1).end + 1
    return second if alone and follows else None


def _joined(source: Source, first: int, second: int) -> GoodRecord | None:
    spans = source.timeline.span(first), source.timeline.span(second)
    if sum(span.end - span.start for span in spans) > _LONGEST_HALF:
        return None
    ranges = tuple((span.start, span.end) for span in spans)
    halves = [source.read(start, end - start) for start, end in ranges]
    if halves[0].endswith(_BOM) or halves[1].startswith(_BOM):
        # Nobody writes one in the middle of a record: it would be taken for a part of the text.
        return None
    try:
        record = source.decoder.record(b"".join(halves))
    except BadRecord:
        return None
    if isinstance(record, UnknownRecord | IncompleteRecord):
        return None
    return _good(source, spans[0].line, ranges, record, recovered=True)


def stretches(records: list[GoodRecord], ended: Callable[[int], bool]) -> Iterator[tuple[int, int, bool]]:
    """Yield the bytes of records in their order, those of neighbours together.

    Args:
        records: what is to stand on lines of its own.
        ended: says whether a newline stands at a place of the file.

    Yields:
        First byte, behind the last one, and whether a newline has to be added.
    """
    start = end = -1
    for each in records:
        for first, last in each.ranges[:-1]:
            if end > start:
                yield start, end, False
            start = end = -1
            yield first, last, False
        first, last = each.ranges[-1]
        if first != end:
            if end > start:
                yield start, end, False
            start = first
        end = last
        if ended(last):
            end += 1
        else:
            yield start, end, True
            start = end = -1
    if end > start:
        yield start, end, False
