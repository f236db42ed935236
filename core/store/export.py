"""Reads a run for the writers of `core.export`; `core.store.export_target` puts what they give into a file.

Every record is redacted before it is decoded: whatever a writer shows has gone through the one pass.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Final

import msgspec

from refold.core.errors import BadRecord, FoldError
from refold.core.export.entries import Entry, Head, Problem
from refold.core.findings import Finding, finding_json
from refold.core.links import link
from refold.core.records import IncompleteRecord, Json, UnknownRecord
from refold.core.recover import without
from refold.core.redact import WINDOW, Redactor
from refold.core.state import Counters
from refold.core.state_json import state_json
from refold.core.store.cut_secrets import Cut, cut_secrets, masked
from refold.core.store.files import (
    write_all,
)
from refold.core.store.in_parent import nothing_began
from refold.core.store.reader import RunReader
from refold.core.version import __version__

LONGEST: Final = 4 << 20
"""A record above this many bytes is not decoded for a document; JSON holds it whole."""
BEGINNING: Final = 64 << 10
"""So many bytes of it, and of damage, are shown."""
_LARGEST: Final = 256 << 20
"""Records above this many bytes are not checked to be JSON, so they are not written as such."""


def _unwatched(_: int) -> None:
    """Go on."""


class Source:
    """A fully indexed run as the writers see it, from its first record up to one of them."""

    def __init__(
        self,
        reader: RunReader,
        redactor: Redactor,
        last: int | None = None,
        watch: Callable[[int], None] = _unwatched,
    ) -> None:
        """Look at a run.

        Args:
            reader: the run.
            redactor: what every text goes through.
            last: the last item that is written out; the last one there is where None.
            watch: told how many bytes of the run are written out; what it raises ends the export.
        """
        self.watch = watch
        timeline = reader.index_all()
        self.reader = reader
        self.redactor = redactor
        self._quiet = redactor.another()
        """For what is said again elsewhere: every secret of a record is counted once."""
        self._name = self._quiet.text(reader.run_id)
        self._glimpsed: set[int] = set()
        self.items = timeline.items if last is None else last + 1
        self._is_part = self.items < timeline.items
        self._nothing_began = reader.session is None and not self._is_part and nothing_began(reader)

    def head(self) -> Head:
        """Give the facts of the run."""
        timeline, meta, session = self.reader.timeline, self.reader.meta, self.reader.session
        last = self.items - 1
        text = self._quiet.text
        terminal = timeline.terminal(last) if self.items else None
        if session is not None:
            from refold.core.store.session_told import facts_of

            model, created, prompt = facts_of(session)
        elif meta is not None:
            model, created, prompt = meta.fingerprint.model, meta.created, meta.prompt
        else:
            model = created = prompt = ""
        findings = {finding.line for finding in self.findings() if finding.severity != "info"}
        return Head(
            run_id=text(self.reader.run_id),
            format=self.reader.format.name,
            model=text(model),
            created=text(created),
            prompt=text(prompt) if len(prompt) <= BEGINNING else "",
            items=self.items,
            up_to=timeline.seq(last) if self._is_part else None,
            turns=timeline.turn(last) if self.items else 0,
            calls=timeline.calls(last) if self.items else 0,
            counters=timeline.counters(last) if self.items else Counters(),
            ended=text(terminal[1]) if terminal is not None else "",
            open_calls=timeline.open_calls(last) if self.items else 0,
            nothing_began=self._nothing_began,
            damaged=len(findings),
            refold=__version__,
        )

    def counted_head(self) -> Head:
        """Give the same, and count the secrets of a prompt that stands beside the records."""
        head, session = self.head(), self.reader.session
        if session is not None and session.request is not None:
            self.redactor.text(session.request.instruction)
        return head

    def findings(self) -> Iterator[Finding]:
        """Give what the index noticed about the records that are written out."""
        if not self.items:
            return
        end = self.reader.timeline.span(self.items - 1).end
        for finding in self.reader.timeline.findings:
            if finding.start <= end:
                yield msgspec.structs.replace(finding, message=self._quiet.text(finding.message))

    def _all_findings(self) -> Iterator[Finding]:
        """Give what is wrong with the records, and with the files beside the log of a whole run directory."""
        session = self.reader.session
        if session is None or self._is_part:
            yield from self.findings()
            return
        from refold.core.store.session_told import findings_of

        for finding in findings_of(session):
            yield msgspec.structs.replace(finding, message=self._quiet.text(finding.message))

    def entries(self) -> Iterator[Entry]:
        """Give the records one by one; none is kept."""
        return map(self._filled, self.outlines())

    def outlines(self) -> Iterator[Entry]:
        """Give the same without what stands in them: nothing of it is read."""
        timeline = self.reader.timeline
        for item in range(self.items):
            span = timeline.span(item)
            entry = Entry(
                item=item,
                seq=timeline.seq(item),
                kind=timeline.kind(item),
                line=span.line,
                start=span.start,
                end=span.end,
                turn=timeline.turn(item),
                seconds=timeline.seconds(item),
                is_error=timeline.is_error(item),
                recovered=timeline.is_recovered(item),
                record=None,
                link=link(self._name, timeline.seq(item), span.line),
                problems=tuple(
                    Problem(each.code, self._quiet.text(each.message)) for each in timeline.findings_at(item)
                ),
                unanswered=self._unanswered(item),
            )
            self.watch(entry.end)
            yield entry

    def _unanswered(self, item: int) -> frozenset[int]:
        timeline = self.reader.timeline
        if self._nothing_began and timeline.columns.last_assistant[-1] == item + 1:
            return frozenset()
        first, following = timeline.first_row(item), timeline.first_row(item + 1)
        linked = (timeline.link(row) for row in range(first + 1, following))
        return frozenset(
            call for call, row in enumerate(linked) if row is None or timeline.item_of(row) >= self.items
        )

    def _filled(self, entry: Entry) -> Entry:
        length = entry.end - entry.start
        if entry.kind != "damage" and length <= LONGEST:
            raw = self.redactor.line(self._raw(entry.item))
            try:
                record = self.reader.decoder.record(raw)
            except BadRecord:
                return self._shortened(entry, raw, 0)
            # What no kind of record holds is shown as it was written.
            told = isinstance(record, UnknownRecord | IncompleteRecord)
            text = raw[:BEGINNING].decode("utf-8", "surrogateescape") if told else ""
            left = max(0, len(raw) - BEGINNING) if told else 0
            return msgspec.structs.replace(entry, record=record, text=text, left=left)
        # What reaches over the edge of the part that is shown has to be seen whole to be found.
        raw = self.redactor.line(self.masked(self.reader.raw(entry.item, 2 * BEGINNING), entry.start))
        return self._shortened(entry, raw, max(0, length - 2 * BEGINNING))

    def _shortened(self, entry: Entry, raw: bytes, left: int) -> Entry:
        text = raw[:BEGINNING].decode("utf-8", "surrogateescape")
        return msgspec.structs.replace(entry, text=text, left=left + max(0, len(raw) - BEGINNING))

    def masked(self, raw: bytes, start: int) -> bytes:
        """Give some bytes of the file, from `start` on, without what damage has cut off from a secret."""
        return masked(raw, start, self._cuts)

    @cached_property
    def _cuts(self) -> tuple[Cut, ...]:
        kind = self.reader.timeline.kind
        damaged = [item for item in range(self.items) if kind(item) == "damage"]
        cuts = cut_secrets(self.reader, self.redactor, damaged)
        self.redactor.counts.update(cut.kind for cut in cuts if cut.begins)
        return cuts

    def _raw(self, item: int) -> bytes:
        raw = self.reader.raw(item)
        hole = self.reader.hole(item)
        if hole is None:
            return raw
        start = self.reader.timeline.span(item).start
        return without(raw, hole[0] - start, hole[1] - start)

    def glimpse(self, item: int, limit: int | None = None) -> bytes:
        """Give the first bytes of an item, redacted: what its row is made of."""
        size = BEGINNING if limit is None else limit
        redactor = self.redactor.another()
        start = self.reader.timeline.span(item).start
        self.watch(start)
        raw = redactor.line(self.masked(self.reader.raw(item, size + BEGINNING), start))
        if item not in self._glimpsed:
            self._glimpsed.add(item)
            self.redactor.counts += redactor.counts
        return raw[:size]

    def spelled(self, entry: Entry) -> Iterator[str] | Entry:
        """Give the JSON text of a record in pieces; where its bytes are no JSON the entry with their text."""
        item, length = entry.item, entry.end - entry.start
        if entry.kind == "damage" or length > _LARGEST:
            return self._filled(entry)
        if length > LONGEST:
            # Looked at once to be sure that it is JSON, and read again piece by piece.
            if not _is_huge_json(self._raw(item)):
                return self._filled(entry)
            parts: Iterable[bytes] = self._parts(entry.start, entry.end)
        else:
            raw = self._raw(item)
            if not _is_json(raw):
                return self._filled(entry)
            parts = (raw,)
        return _decoded(self.redactor.pieces(parts))

    def _parts(self, start: int, end: int) -> Iterator[bytes]:
        for at in range(start, end, WINDOW):
            yield self.reader.bytes_at(at, min(WINDOW, end - at))

    def state(self) -> tuple[Json, str]:
        """Give the state after the last record, its messages only counted, and why there is none."""
        last = self.items - 1
        if last < 0:
            return None, "no records"
        timeline = self.reader.timeline
        spans = (timeline.span(item) for item in range(max(0, last - 1000), self.items))
        if any(span.end - span.start > LONGEST for span in spans):
            return None, "a record is too long for the state to be written down"
        session = self.reader.session
        try:
            if session is not None:
                from refold.core.store.session_told import state_of

                return self._quiet.value(state_of(session, last)), ""
            state = self.reader.state_at(last)
        except (FoldError, BadRecord) as error:
            return None, self._quiet.text(str(error))
        told = state_json(msgspec.structs.replace(state, messages=()))
        told["messages"] = len(state.messages)
        return self._quiet.value(told), ""

    def end_json(self) -> dict[str, Json]:
        """Give what stands at the end of an export in JSON."""
        state, reason = self.state()
        findings: list[Json] = [finding_json(self._name, finding) for finding in self._all_findings()]
        counts: dict[str, Json] = dict(sorted(self.redactor.counts.items()))
        return {
            "findings": findings,
            "state": state,
            "state_error": reason or None,
            "redacted": counts if self.redactor.on else None,
        }


def as_text(pieces: Iterable[str]) -> Callable[[int], None]:
    """Give what puts text into a descriptor, for `write_file` and `write_new_file`."""

    def write(fd: int) -> None:
        for data in gathered(pieces):
            write_all(fd, data)

    return write


def gathered(pieces: Iterable[str]) -> Iterator[bytes]:
    """Give text as UTF-8 in pieces that are worth a write each."""
    held: list[str] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= 1 << 16:
            yield "".join(held).encode("utf-8", "backslashreplace")
            held, size = [], 0
    yield "".join(held).encode("utf-8", "backslashreplace")


def _decoded(parts: Iterable[bytes]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    for part in parts:
        yield decoder.decode(part)
    yield decoder.decode(b"", final=True)


def _is_json(raw: bytes) -> bool:
    try:
        json.loads(
            raw.decode("utf-8", "surrogateescape"), parse_int=str, parse_float=str, parse_constant=_refuse
        )
    except (ValueError, RecursionError):
        return False
    return True


def _is_huge_json(raw: bytes) -> bool:
    try:
        msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(constant)
