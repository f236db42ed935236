"""Fills a Timeline line by line, with the rules of the fold but without its objects.

The strict fold and the best-effort fold differ only where something is wrong: here the sums follow the
best-effort one, and the first place where the strict one stops is remembered (design/contracts.md
"Reading and folding").
"""

from __future__ import annotations

import msgspec

from refold.core.columns import (
    ASSISTANT,
    DAMAGE,
    ERROR,
    EVENT,
    FOLDED,
    META,
    OPEN,
    RECOVERED,
    REMOTE,
    RESULT,
    SEQUENCED,
    TERMINAL,
    USER,
    Mark,
    PackedColumns,
)
from refold.core.errors import BadRecord, CorruptJournal, FoldError, NoMeta, UnsupportedVersion
from refold.core.formats import Columns as Line
from refold.core.formats import Decoder
from refold.core.journal_text import is_blank
from refold.core.recover import recover
from refold.core.sequence import Problem, opening_problems, order_problems
from refold.core.state import in_64_bits
from refold.core.timeline import Timeline
from refold.core.timeline_fold import RESULTS, IndexFold, posix
from refold.core.timeline_usual import UsualLines

_KINDS = {"meta": META, "user": USER, "assistant": ASSISTANT, "tool_result": RESULT, "terminal": TERMINAL}
_NAN = float("nan")


class Snapshot(msgspec.Struct, array_like=True):
    """Everything a builder knows, as plain values, for a cache."""

    columns: PackedColumns
    call_names: memoryview
    names: list[str]
    loose_ids: dict[int, str]
    iterations: memoryview
    stop_reasons: memoryview
    reasons: list[tuple[int, str]]
    marks: list[tuple[int, str, int, int, str]]
    first_seconds: float | None
    fold: dict[str, object]


class Builder:
    """Feeds lines into a Timeline; the last, unterminated one can be taken back."""

    def __init__(self, decoder: Decoder) -> None:
        self.timeline = Timeline()
        self.decoder = decoder
        self._fold = IndexFold()
        self._names: dict[str, int] = {}
        self._usual = UsualLines(self.timeline, self._name)
        self._before_tail: tuple[IndexFold, tuple[int, ...]] | None = None

    def feed(self, line: bytes, offset: int, number: int, *, length: int | None = None) -> None:
        """Add one line.

        Args:
            line: its bytes, newline excluded (a huge line may come as its skeleton).
            offset: where it starts in the file.
            number: 1-based, blank lines counted.
            length: the true length in bytes where `line` is a skeleton.
        """
        self._confirm_suspect()
        if is_blank(line):
            return
        size = len(line) if length is None else length
        try:
            columns = self.decoder.columns(line)
        except BadRecord as error:
            self._damaged(line, offset, number, size, error, whole=length is None)
        else:
            self._record(columns, offset, size, number, recovered=False)
        self.timeline.changed()

    def feed_all(self, lines: list[bytes], offset: int, number: int) -> None:
        """Add complete lines that follow one another, newlines included: the same as `feed` for each."""
        taken, timeline = 0, self.timeline
        usual = self.decoder.usual
        while taken < len(lines):
            if usual is not None:
                count = self._usual.take(self._fold, usual, lines[taken:], offset, number)
                offset += sum(map(len, lines[taken : taken + count]))
                number += count
                taken += count
            if taken < len(lines):
                self.feed(lines[taken][:-1], offset, number)
                offset += len(lines[taken])
                number += 1
                taken += 1
        timeline.changed()

    def feed_tail(self, line: bytes, offset: int, number: int, *, length: int | None = None) -> None:
        """Add a last line without a newline; call `take_back` before the next feed."""
        self._before_tail = (self._fold.copy(), self._lengths())
        items = self.timeline.items
        self.feed(line, offset, number, length=length)
        if self.timeline.items > items and self._fold.suspect is None:
            self._mark("E_NO_FINAL_NL", items, offset, offset + (len(line) if length is None else length), "")
            self.timeline.changed()

    def take_back(self) -> None:
        """Undo `feed_tail`, so that the line can be read again in full."""
        if self._before_tail is None:
            return
        self._fold, lengths = self._before_tail
        self._before_tail = None
        self._cut(lengths)
        self.timeline.changed()

    def snapshot(self) -> bytes | None:
        """Give what is known, packed for a cache; None for a run with damage, or while a tail is fed."""
        t = self.timeline
        if t.fold_error is not None or t.bad_line is not None or self._fold.suspect or self._before_tail:
            return None
        fold = {name: getattr(self._fold, name) for name in self._fold.__struct_fields__ if name != "suspect"}
        kept = Snapshot(
            columns=t.columns.packed(),
            call_names=memoryview(t.call_names.tobytes()),
            names=t.names,
            loose_ids=t.loose_ids,
            iterations=memoryview(t.iterations.tobytes()),
            stop_reasons=memoryview(t.stop_reasons.tobytes()),
            reasons=t.reasons,
            marks=[(*mark,) for mark in t.marks],
            first_seconds=t.first_seconds,
            fold={**fold, "answered": sorted(self._fold.answered)},
        )
        return msgspec.msgpack.encode(kept)

    def restore(self, kept: bytes | msgspec.Raw) -> None:
        """Take over what a snapshot knows; only for a builder that has been fed nothing.

        Raises:
            msgspec.MsgspecError: it is no snapshot.
            ValueError: it does not belong together.
        """
        snapshot = msgspec.msgpack.decode(kept, type=Snapshot)
        t = self.timeline
        t.columns.restore(snapshot.columns)
        t.call_names.frombytes(snapshot.call_names)
        t.names, t.loose_ids, t.reasons = snapshot.names, snapshot.loose_ids, snapshot.reasons
        t.iterations.frombytes(snapshot.iterations)
        t.stop_reasons.frombytes(snapshot.stop_reasons)
        t.marks = [Mark(*mark) for mark in snapshot.marks]
        t.first_seconds = snapshot.first_seconds
        self._names = {name: index for index, name in enumerate(t.names)}
        self._fold = msgspec.convert(snapshot.fold, type=IndexFold)
        t.changed()

    def clear(self) -> None:
        """Forget every line, so that the run can be fed again."""
        self._fold = IndexFold()
        self._before_tail = None
        self._cut((0, 0, 0, 0, 0, -1, -1, -1, -1))
        self.timeline.changed()

    def _lengths(self) -> tuple[int, ...]:
        t = self.timeline
        return (
            t.items,
            len(t.call_names),
            len(t.iterations),
            len(t.reasons),
            len(t.marks),
            -1 if t.fold_error is None else 0,
            -1 if t.bad_line is None else 0,
            -1 if t.first_seconds is None else 0,
            -1 if t.last_line_mark is None else t.last_line_mark,
        )

    def _cut(self, lengths: tuple[int, ...]) -> None:
        t = self.timeline
        items, calls, turns, reasons, marks, fold_error, bad_line, seconds, last_line_mark = lengths
        t.columns.cut(items)
        del t.call_names[calls:]
        del t.iterations[turns:]
        del t.stop_reasons[turns:]
        del t.reasons[reasons:]
        for item in [item for item in t.loose_ids if item >= items]:
            del t.loose_ids[item]
        del t.marks[marks:]
        if fold_error < 0:
            t.fold_error = None
        if bad_line < 0:
            t.bad_line = None
        if seconds < 0:
            t.first_seconds = None
        t.last_line_mark = None if last_line_mark < 0 else last_line_mark

    def _confirm_suspect(self) -> None:
        """Another line follows an unreadable one: it was no torn tail."""
        suspect = self._fold.suspect
        if suspect is not None:
            if self.timeline.bad_line is None:
                self.timeline.bad_line = suspect
            self.timeline.last_line_mark = None
            self._fold.suspect = None
            self.timeline.changed()

    def _damaged(
        self, line: bytes, offset: int, number: int, size: int, error: BadRecord, *, whole: bool
    ) -> None:
        found = recover(line, self.decoder.columns, error) if whole else None
        first = self.timeline.items
        if found is None or not found.pieces:
            code = error.code if found is None else found.code
            self._append(DAMAGE, offset, size, number, 0, 0, _NAN)
        else:
            code = found.code
            for piece in found.pieces:
                if piece.columns is None:
                    self._append(DAMAGE, offset + piece.start, piece.end - piece.start, number, 0, 0, _NAN)
                else:
                    self._record(
                        piece.columns, offset + piece.start, piece.end - piece.start, number, recovered=True
                    )
        self._mark(code, first, offset, offset + size, error.reason)
        if found is None or not found.pieces:
            self.timeline.last_line_mark = len(self.timeline.marks) - 1
        self._fold.suspect = (self.timeline.items, number, error.reason)

    def _mark(self, code: str, item: int, start: int, end: int, reason: str) -> None:
        self.timeline.marks.append(Mark(item, code, start, end, reason))

    def _refuse(self, error: FoldError) -> None:
        if self.timeline.fold_error is None:
            self.timeline.fold_error = (self.timeline.items, error)

    def _record(self, line: Line, offset: int, size: int, number: int, *, recovered: bool) -> None:
        fold = self._fold
        kind = _KINDS.get(line.kind, -1)
        if recovered or not self._is_plain(line, kind):
            kind, problems = self._check(line, kind, recovered=recovered)
            for code, reason in problems:
                self._mark(code, self.timeline.items, offset, offset + size, reason)
        flags = SEQUENCED
        if recovered:
            flags |= RECOVERED
        if line.remote:
            flags |= REMOTE
        if line.is_error or line.reason == "error":
            flags |= ERROR
        seconds = _NAN
        if line.time:
            seconds = posix(line.time)
            if self.timeline.first_seconds is None and seconds == seconds:
                self.timeline.first_seconds = seconds
        if kind < 0:
            self._append(EVENT, offset, size, number, line.seq, flags, seconds)
        else:
            self._append(kind, offset, size, number, line.seq, flags | FOLDED, seconds, line)
        if not recovered:
            fold.first = False
            fold.last_seq = line.seq
        fold.seen_seq = line.seq

    def _is_plain(self, line: Line, kind: int) -> bool:
        """Say at little cost that nothing can be wrong with a record."""
        fold = self._fold
        if (
            fold.first
            or not fold.has_meta
            or fold.completed
            or line.seq != fold.seen_seq + 1
            or line.seq <= fold.last_seq
        ):
            return False
        if kind == RESULT:
            return line.tool_use_id in fold.waiting
        if kind == ASSISTANT:
            return not fold.left and (fold.iteration is None or line.iteration > fold.iteration)
        return kind == TERMINAL or (kind == USER and not fold.left)

    def _check(self, line: Line, kind: int, *, recovered: bool) -> tuple[int, list[Problem]]:
        """Apply the strict rules to one record; give its kind (-1: not folded) and what is wrong."""
        fold, problems = self._fold, list[Problem]()
        shape, _, detail = line.kind.partition(":")
        seq = line.seq
        if fold.first and not recovered:
            self._refuse_opening(shape)
            problems += opening_problems(shape, seq, self.decoder, has_meta=fold.has_meta)
        else:
            if not recovered and not fold.first and seq <= fold.last_seq:
                self._refuse(CorruptJournal(f"seq {seq} not increasing after {fold.last_seq}"))
            problems += order_problems(seq, fold.seen_seq)
        if shape == "incomplete":
            what = "duplicate meta" if detail == "meta" else f"{detail} record with no payload"
            self._corrupt(f"{what} at seq {seq}", recovered=recovered)
            return -1, [*problems, ("E_NO_PAYLOAD", f"{detail} at seq {seq}")]
        if shape == "unknown":
            self._corrupt(f'unknown record protocol "{detail}" at seq {seq}', recovered=recovered)
            return -1, [*problems, ("E_UNKNOWN_KIND", f"protocol {detail!r} at seq {seq}")]
        if kind == META and (fold.has_meta or not (fold.first or recovered)):
            self._corrupt(f"duplicate meta at seq {seq}", recovered=recovered)
            return (-1 if fold.has_meta else kind), [*problems, ("E_DUP_META", f"at seq {seq}")]
        if kind == RESULT and fold.assistant < 0:
            self._corrupt(f"tool_result before any assistant at seq {seq}", recovered=recovered)
            return -1, [*problems, ("E_TOOL_ORPHAN", f"no assistant turn is open at seq {seq}")]
        if fold.completed and kind != TERMINAL:
            problems.append(("E_AFTER_TERMINAL", f"seq {seq} follows the end"))
        return kind, problems + self._pairing(line, kind)

    def _refuse_opening(self, shape: str) -> None:
        if shape != "meta":
            self._refuse(NoMeta())
        elif not self.decoder.readable:
            self._refuse(UnsupportedVersion(self.decoder.version, self.decoder.supported))

    def _corrupt(self, detail: str, *, recovered: bool) -> None:
        """Let the strict fold refuse a record; one that was recovered it never sees."""
        if not recovered:
            self._refuse(CorruptJournal(detail))

    def _pairing(self, line: Line, kind: int) -> list[Problem]:
        fold = self._fold
        if kind == RESULT:
            if line.tool_use_id in fold.waiting:
                return []
            if line.tool_use_id in fold.answered:
                return [("E_TOOL_DUP", f"call {line.tool_use_id!r} was answered before")]
            return [("E_TOOL_ORPHAN", f"no call {line.tool_use_id!r} in the open turn")]
        if kind in {ASSISTANT, USER} and fold.assistant >= 0:
            span = self.timeline.span(fold.assistant)
            for call in fold.waiting:
                self._mark(
                    "E_CALL_UNANSWERED",
                    fold.assistant,
                    span.start,
                    span.end,
                    f"{call!r}, and the run went on",
                )
        if kind == ASSISTANT and fold.iteration is not None and line.iteration <= fold.iteration:
            return [("E_ITERATION", f"iteration {line.iteration} after {fold.iteration}")]
        return []

    def _name(self, name: str) -> int:
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = len(self.timeline.names)
            self.timeline.names.append(name)
        return known

    def _append(
        self,
        kind: int,
        offset: int,
        size: int,
        number: int,
        seq: int,
        flags: int,
        seconds: float,
        line: Line | None = None,
    ) -> None:
        """Add one entry to every column."""
        columns, fold = self.timeline.columns, self._fold
        link = -1 if line is None else self._count(kind, len(columns.kind), line)
        row = (
            offset, size, number, seq, kind, flags | OPEN if fold.assistant >= 0 else flags, fold.llm,
            fold.results, fold.remote, fold.calls, fold.errors, fold.left, fold.messages, link, seconds,
        )  # fmt: skip
        columns.add((row,))

    def _count(self, kind: int, item: int, line: Line) -> int:
        """Fold one record into the sums; give the ordinal of the call that a result answers, else -1."""
        t, fold = self.timeline, self._fold
        if kind == RESULT:
            fold.results += 1
            fold.remote += line.remote
            fold.errors += line.is_error
            if fold.last_role != RESULTS:
                fold.messages += 1
            link = self._answer(line.tool_use_id)
            if link < 0:
                t.loose_ids[item] = line.tool_use_id
            return link
        if kind == ASSISTANT:
            fold.llm += 1
            fold.in_tokens = in_64_bits(fold.in_tokens + line.in_tokens)
            fold.out_tokens = in_64_bits(fold.out_tokens + line.out_tokens)
            fold.cache_read = in_64_bits(fold.cache_read + line.cache_read_tokens)
            fold.cache_create = in_64_bits(fold.cache_create + line.cache_create_tokens)
            t.iterations.append(line.iteration)
            t.stop_reasons.append(self._name(line.stop_reason))
            t.columns.begin_turn(
                fold.in_tokens, fold.out_tokens, fold.cache_read, fold.cache_create, item + 1
            )
            self._open_turn(item, line)
        elif kind == USER:
            self._take_user(line.role)
        elif kind == META:
            fold.has_meta = True
        elif kind == TERMINAL:
            t.reasons.append((item, line.reason))
            fold.completed = line.reason == "completed"
        return -1

    def _take_user(self, role: str) -> None:
        """Let a user record join the message before it, or begin one; no turn is open after it."""
        fold = self._fold
        if fold.last_role in {"user", RESULTS}:
            fold.last_role = "user"
        else:
            fold.messages += 1
            fold.last_role = role
        fold.assistant, fold.left, fold.completed = -1, 0, False
        fold.waiting, fold.answered = {}, set()

    def _open_turn(self, item: int, line: Line) -> None:
        fold = self._fold
        fold.assistant, fold.left, fold.completed = item, len(line.calls), False
        fold.messages += 1
        fold.calls += len(line.calls)
        fold.last_role, fold.iteration = line.role, line.iteration
        fold.waiting, fold.answered = {}, set()
        for ordinal, call in enumerate(line.calls):
            self.timeline.call_names.append(self._name(call.name))
            fold.waiting.setdefault(call.id, []).append(ordinal)

    def _answer(self, call_id: str) -> int:
        """Take one result; give the ordinal of the call it answers, -1 where it answers none."""
        fold = self._fold
        fold.last_role, fold.completed = RESULTS, False
        fold.answered.add(call_id)
        ordinals = fold.waiting.pop(call_id, None)
        if ordinals is None:
            return -1
        fold.left -= len(ordinals)
        return ordinals[0]
