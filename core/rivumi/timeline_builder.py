"""Fills an EventTimeline line by line: of most events only the envelope is decoded, no payload is kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from refold.core.columns import (
    ASSISTANT,
    CALL,
    DAMAGE,
    ERROR,
    EVENT,
    FOLDED,
    META,
    OPEN,
    RECOVERED,
    RESULT,
    SEQUENCED,
    TERMINAL,
    Mark,
    PackedColumns,
)
from refold.core.errors import BadRecord
from refold.core.formats import Decoder
from refold.core.formats.rivumi import KINDS, EventDecoder
from refold.core.records import Json
from refold.core.rivumi.budget import seconds_of
from refold.core.rivumi.events import BOM, Event, damage_code
from refold.core.rivumi.history import KeptHistory
from refold.core.rivumi.kinds import ENDS
from refold.core.rivumi.manifest import tokens_of
from refold.core.rivumi.members import Members, capped
from refold.core.rivumi.replay import MAX_LINE
from refold.core.rivumi.timeline import EventTimeline
from refold.core.sizes import sized

_BLANK: Final = b" \t\r\n\v\f"
_BRACE: Final = 0x7B
_NAN: Final = float("nan")
_raw_decode = json.JSONDecoder().raw_decode
_START: Final = re.compile(rb'\{"(?:created_at|data|sequence)":')
"""How an event begins, and what is glued to the end of another."""
_MOST_PIECES: Final = 64
_MOST_GAPS: Final = 1000
_CODES: Final = {
    "meta": META,
    "assistant": ASSISTANT,
    "call": CALL,
    "result": RESULT,
    "terminal": TERMINAL,
}
_TELLING: Final = re.compile(
    r"run\.|model\.(?:requested|completed|failed)|tool\.|approval\.|verification\.|session\.|subagents\.transaction"
    r"|result$"
)
"""The types whose data counts for more than its own row."""
_LONG: Final = ("arguments", "preview", "content")
"""Members that nothing but the row of their own event needs."""
_FAILURES: Final = frozenset({"run.error", "run.failed", "model.failed", "role_lane.failed"})


class _Line(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    sequence: int
    event_type: str
    run_id: str
    task_id: str | None = None
    data: msgspec.Raw = msgspec.Raw(b"{}")
    event_id: str = ""
    created_at: str | int | float | None = None


_decode = msgspec.json.Decoder(_Line).decode


class _Sums(msgspec.Struct):
    """What the builder must remember between two lines."""

    run_id: str = ""
    highest: int = -1
    """Of the sequences so far."""
    expected: int = 0
    """The sequence that a whole log has next."""
    missing: list[tuple[int, int]] = []
    """Stretches of sequences that were left out, and may still come."""
    llm: int = 0
    results: int = 0
    calls: int = 0
    errors: int = 0
    in_tokens: int = 0
    out_tokens: int = 0
    cached: int = 0
    last_assistant: int = 0
    left: int = 0

    def copy(self) -> _Sums:
        return msgspec.structs.replace(self, missing=self.missing.copy())


class _Kept(msgspec.Struct, array_like=True):
    """Everything a builder knows, as plain values."""

    columns: PackedColumns
    types: bytes
    names: list[str]
    reasons: list[tuple[int, str]]
    marks: list[tuple[int, str, int, int, str]]
    first_seconds: float | None
    external: bool
    sums: _Sums
    history: KeptHistory


class EventBuilder:
    """Feeds lines into an EventTimeline; the last, unterminated one can be taken back."""

    def __init__(self, decoder: Decoder) -> None:
        self.timeline = EventTimeline()
        self.decoder = decoder
        self._events = EventDecoder()
        self._sums = _Sums()
        self._names: dict[str, int] = {"": 0}
        self._before_tail: tuple[_Sums, tuple[int, ...]] | None = None

    def feed(self, line: bytes, offset: int, number: int, *, length: int | None = None) -> None:
        """Add one line.

        Args:
            line: its bytes, newline excluded (a huge line may come as its skeleton).
            offset: where it starts in the file.
            number: 1-based, blank lines counted.
            length: the true length in bytes where `line` is a skeleton.
        """
        if number == 1 and line.startswith(BOM):
            self._mark("E_BOM", offset, offset + len(BOM), "")
            line = line[len(BOM) :]
        if not line.strip(_BLANK):
            return
        size = len(line) if length is None else length
        try:
            event = self._event(line)
        except BadRecord as error:
            self._damaged(line, offset, number, size, error, whole=length is None)
        else:
            self._take(event, offset, size, number, recovered=False)
        self.timeline.changed()

    def feed_all(self, lines: list[bytes], offset: int, number: int) -> None:
        """Add complete lines that follow one another, newlines included: the same as `feed` for each."""
        for number_, line in enumerate(lines, number):
            self.feed(line[:-1], offset, number_)
            offset += len(line)

    def feed_tail(self, line: bytes, offset: int, number: int, *, length: int | None = None) -> None:
        """Add a last line without a newline; call `take_back` before the next feed."""
        t = self.timeline
        t.history.mark()
        self._before_tail = (
            self._sums.copy(),
            (
                t.items,
                len(t.reasons),
                len(t.marks),
                -1 if t.breaks is None else t.breaks,
                int(t.first_seconds is None),
            ),
        )
        items = t.items
        self.feed(line, offset, number, length=length)
        if t.items == items + 1 and t.columns.kind[items] == DAMAGE:
            t.last_line_mark = len(t.marks) - 1
        elif t.items > items:
            end = offset + (len(line) if length is None else length)
            self._mark("E_NO_FINAL_NL", offset, end, "", item=t.items - 1)
        t.changed()

    def take_back(self) -> None:
        """Undo `feed_tail`, so that the line can be read again in full."""
        if self._before_tail is None:
            return
        t = self.timeline
        self._sums, (items, reasons, marks, breaks, timeless) = self._before_tail
        self._before_tail = None
        t.history.take_back(items)
        t.columns.cut(items)
        del t.types[items:]
        del t.reasons[reasons:]
        del t.marks[marks:]
        t.breaks = None if breaks < 0 else breaks
        t.last_line_mark = None
        if timeless:
            t.first_seconds = None
        t.changed()

    def snapshot(self) -> bytes | None:
        """Give what is known, packed for a cache; None for a log with damage, or while a tail is fed."""
        t = self.timeline
        if t.breaks is not None or self._before_tail is not None or DAMAGE in t.columns.kind:
            return None
        kept = _Kept(
            columns=t.columns.packed(),
            types=t.types.tobytes(),
            names=t.names,
            reasons=t.reasons,
            marks=[(*mark,) for mark in t.marks],
            first_seconds=t.first_seconds,
            external=t.external,
            sums=self._sums,
            history=t.history.kept(),
        )
        return msgspec.msgpack.encode(kept)

    def restoring(self, kept: bytes | msgspec.Raw) -> Iterator[None]:
        """Take over what a snapshot knows, piece by piece; only for a builder that has been fed nothing.

        The rows are there once all is taken over.

        Raises:
            msgspec.MsgspecError: it is no snapshot.
            ValueError: it does not belong together.
        """
        snapshot = msgspec.msgpack.decode(kept, type=_Kept)
        t = self.timeline
        yield from t.history.restoring(snapshot.history)
        t.types.frombytes(snapshot.types)
        t.names, t.reasons = snapshot.names, snapshot.reasons
        t.marks = [Mark(*mark) for mark in snapshot.marks]
        t.first_seconds, t.external = snapshot.first_seconds, snapshot.external
        self._names = {name: index for index, name in enumerate(t.names)}
        self._sums = snapshot.sums
        t.columns.restore(snapshot.columns)
        t.changed()

    def _event(self, line: bytes) -> Event:
        """Decode what counts; raise BadRecord where the line is no event."""
        try:
            found = _decode(line)
            kind = found.event_type
            data: Json = {}
            if _TELLING.match(kind):
                data = msgspec.json.decode(found.data)
            elif memoryview(found.data)[0] != _BRACE:
                return self._slowly(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
            return self._slowly(line)
        if not isinstance(data, dict) or not 0 <= found.sequence < 2**63 or not kind or kind != kind.strip():
            return self._slowly(line)
        return Event(
            found.sequence,
            kind,
            0,
            0,
            0,
            found.run_id,
            found.task_id,
            data,
            found.event_id,
            found.created_at,
        )

    def _slowly(self, line: bytes) -> Event:
        return self._events.event(line)

    def _damaged(
        self, line: bytes, offset: int, number: int, size: int, error: BadRecord, *, whole: bool
    ) -> None:
        """Take in a line that is no event, and the events that are glued together in it."""
        first = self.timeline.items
        pieces = self._pieces(line) if whole else []
        if self.timeline.breaks is None:
            self.timeline.breaks = first
        code = "E_GLUED" if any(event is not None for _, _, event in pieces) else damage_code(line, error)
        self._mark(code, offset, offset + size, error.reason)
        if code != "E_GLUED":
            self._append(DAMAGE, 0, "", offset, size, number, 0, _NAN)
            return
        for start, end, event in pieces:
            if event is None:
                self._append(DAMAGE, 0, "", offset + start, end - start, number, 0, _NAN)
            else:
                self._take(event, offset + start, end - start, number, recovered=True)

    def _pieces(self, line: bytes) -> list[tuple[int, int, Event | None]]:
        """The events that stand whole in a line, and the bytes between them."""
        # Structure is ASCII: so read, places in the text are places in the bytes.
        text = line.decode("latin-1")
        pieces: list[tuple[int, int, Event | None]] = []
        end = 0
        for found, _ in zip(_START.finditer(line), range(_MOST_PIECES), strict=False):
            start = found.start()
            if start < end:
                continue
            try:
                _, stop = _raw_decode(text, start)
                event = self._events.event(line[start:stop])
            except (ValueError, RecursionError, BadRecord):
                continue
            if start > end:
                pieces.append((end, start, None))
            pieces.append((start, stop, event))
            end = stop
        return [*pieces, (end, len(line), None)] if end < len(line) else pieces

    def _take(self, event: Event, offset: int, size: int, number: int, *, recovered: bool) -> None:
        """Take in one event."""
        t, sums, item, end = self.timeline, self._sums, self.timeline.items, offset + size
        kind = _CODES.get(KINDS.get(event.event_type, ""), EVENT)
        flags = SEQUENCED | FOLDED | (RECOVERED if recovered else 0)
        if not recovered:
            self._order(event, offset, end)
        if event.odd:
            self._mark("E_BAD_RECORD", offset, end, "; ".join(event.odd))
        if size > MAX_LINE:
            self._mark("E_OVERSIZE", offset, end, sized(size))
        sums.run_id = sums.run_id or event.run_id
        if event.run_id != sums.run_id:
            self._mark("E_FOREIGN_RUN", offset, end, f"the event is of run {event.run_id}")
        t.external = t.external or not event.run_id
        own = Members(event.data)
        if self._count(event, kind, own, item):
            flags |= ERROR
        if not recovered:
            sums.left = t.history.feed(item, self._kept(event))
        flags |= OPEN if sums.left else 0
        seconds = _seconds(event.created_at)
        if t.first_seconds is None and seconds == seconds:
            t.first_seconds = seconds
        self._append(kind, event.sequence, event.event_type, offset, size, number, flags, seconds)

    @staticmethod
    def _kept(event: Event) -> Event:
        """The event without what is long: nobody holds payloads."""
        if any(name in event.data for name in _LONG):
            data = {name: value for name, value in event.data.items() if name not in _LONG}
            return msgspec.structs.replace(event, data=data)
        return event

    def _count(self, event: Event, kind: int, own: Members, item: int) -> bool:
        """Take an event into the sums; say whether it tells of a failure."""
        t, sums = self.timeline, self._sums
        failed = event.event_type in _FAILURES
        if kind == ASSISTANT:
            tokens = tokens_of(own.object("usage"))
            cached = min(tokens.cached, tokens.input)
            sums.llm += 1
            sums.last_assistant = item + 1
            sums.in_tokens = capped(sums.in_tokens + tokens.input - cached)
            sums.out_tokens = capped(sums.out_tokens + tokens.output)
            sums.cached = capped(sums.cached + cached)
            t.columns.begin_turn(sums.in_tokens, sums.out_tokens, sums.cached, 0, sums.last_assistant)
        elif kind == CALL:
            sums.calls += 1
        elif kind == RESULT:
            failed = own.flag("ok") is False
            sums.results += 1
            sums.errors += failed
        elif kind == TERMINAL:
            word = ENDS.get(event.event_type) or own.text("status") or "ended"
            failed = word == "failed"
            t.reasons.append((item, word))
        elif event.event_type in {"session.resumed", "session.continued"} and t.reasons:
            t.reasons.append((item, ""))
        return failed

    def _order(self, event: Event, start: int, end: int) -> None:
        """Compare a sequence with those before it."""
        sums, seq = self._sums, event.sequence
        if seq != sums.expected and self.timeline.breaks is None:
            self.timeline.breaks = self.timeline.items
        sums.expected += 1
        if seq == sums.highest + 1:
            sums.highest = seq
        elif seq > sums.highest:
            self._mark("E_SEQ_GAP", start, end, f"sequence {seq} follows {sums.highest}")
            if len(sums.missing) < _MOST_GAPS:
                sums.missing.append((sums.highest + 1, seq - 1))
            sums.highest = seq
        else:
            gap = next((gap for gap in sums.missing if gap[0] <= seq <= gap[1]), None)
            if gap is None:
                self._mark(
                    "E_SEQ_DUP", start, end, f"sequence {seq} stands twice: shown in the order of the file"
                )
                return
            self._mark("E_SEQ_BACK", start, end, f"sequence {seq} stands after {sums.highest}")
            sums.missing.remove(gap)
            sums.missing += [part for part in ((gap[0], seq - 1), (seq + 1, gap[1])) if part[0] <= part[1]]

    def _mark(self, code: str, start: int, end: int, reason: str, *, item: int | None = None) -> None:
        at = self.timeline.items if item is None else item
        self.timeline.marks.append(Mark(at, code, start, end, reason))

    def _append(
        self,
        kind: int,
        seq: int,
        event_type: str,
        offset: int,
        size: int,
        number: int,
        flags: int,
        seconds: float,
    ) -> None:
        """Add one entry to every column."""
        t, sums = self.timeline, self._sums
        known = self._names.get(event_type)
        if known is None:
            known = self._names[event_type] = len(t.names)
            t.names.append(event_type)
        t.types.append(known)
        row = (
            offset, size, number, seq, kind, flags, sums.llm, sums.results, 0, sums.calls, sums.errors,
            sums.left, 0, -1, seconds,
        )  # fmt: skip
        t.columns.add((row,))


def _seconds(created: str | float | None) -> float:
    """Give a recorded time as seconds since 1970; NaN where it is none."""
    if isinstance(created, str):
        found = seconds_of(created)
        return _NAN if found is None else found
    try:
        return _NAN if created is None else float(created)
    except OverflowError:
        return _NAN
