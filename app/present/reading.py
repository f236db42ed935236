"""Joins an open run to the panes: reads a bounded part of what the cursor stands on, and says what holds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from refold.app.lines import Line
from refold.app.present import units
from refold.app.present.layout import BLANK, cell, flow
from refold.app.present.peek import peek
from refold.app.present.reading_changes import ReadingChanges
from refold.app.present.rows import TimelineRows
from refold.app.present.run_top import Judged, RunTop
from refold.app.present.view import WINDOW
from refold.core.blocks import read_blocks
from refold.core.columns import ASSISTANT, RESULT
from refold.core.errors import BadRecord, CorruptJournal, FoldError
from refold.core.findings import is_damage
from refold.core.keeping import NOTHING
from refold.core.records import AssistantRecord, Fingerprint, Json, MetaRecord, Record, UnknownRecord
from refold.core.standing import facts_of, opening_meta
from refold.core.state import RunState
from refold.core.status import Status, derive
from refold.core.store.in_parent import Untouched
from refold.core.store.reader import RunReader
from refold.core.timeline import Timeline

if TYPE_CHECKING:
    from refold.app.present.lens import Lens
    from refold.app.present.money import Money, Prices
    from refold.app.present.record import Answer, Subject
    from refold.app.present.state import Moment, PendingCall, StateView
    from refold.app.present.view import View
    from refold.core.resume import ResumePlan
    from refold.core.subagents import Stretch

LONGEST: Final = 32_768
"""So many bytes of a record are shown where the exact ones are hidden."""
_MOST_IN_A_TURN: Final = 10_000
_PER_MESSAGE_RECORD: Final = 16_384
LARGE: Final = 262_144
"""Runs of this many bytes and more may be shown from their end before they are read."""


class Reading(ReadingChanges):
    """Answers what the panes ask about one run; every answer costs a bounded number of bytes."""

    def __init__(self, reader: RunReader, window: Timeline | None = None) -> None:
        """Read a run.

        Args:
            reader: The open run.
            window: Rows of its end alone, to be read while the index is not complete.
        """
        self.reader = reader
        self.is_window = window is not None
        """The rows are a window on the end: what holds before them is not known yet."""
        self.lens: Lens | None = None
        """Hides in rows and panes what an export would hide; the exact bytes stay what they are."""
        self.hides_bytes = False
        """The lens lies over the exact bytes too: what is shown leaves the program."""
        self.kept = NOTHING
        """What is noted about the run, once it is known: a fork of some formats is told by that alone."""
        self._untouched = Untouched(reader)
        self._window = window
        self._shortened = False
        self._damaged: tuple[int, int | None, int] = (0, None, 0)

    @staticmethod
    def of_end(reader: RunReader) -> Reading | None:
        """Read the end of a large run that has not ended, before all of it is read; None for others."""
        if reader.size < LARGE:
            return None
        window = reader.tail_timeline()
        kinds = {window.kind(item) for item in range(window.items)}
        if kinds <= {"damage"} or window.kind(window.items - 1) == "terminal":
            return None
        return reading_of(reader, window)

    @property
    def timeline(self) -> Timeline:
        """The rows that are read."""
        return self.reader.timeline if self._window is None else self._window

    def raw(self, item: int, limit: int | None = None) -> bytes:
        """Give the first bytes of an item, through the lens where there is one."""
        if self.lens is not None and not self.is_window:
            return self.lens.head(item, limit)
        return self.raw_part(item, 0, limit)

    def raw_part(self, item: int, start: int, size: int | None = None) -> bytes:
        """Give some bytes of an item, counted from its own start."""
        where = self.timeline.span(item)
        length = max(0, where.end - where.start - start)
        return self.reader.bytes_at(where.start + start, length if size is None else min(size, length))

    def bytes_shown(self, item: int, start: int, size: int) -> bytes:
        """Give some bytes of an item as the pane of exact bytes shows them."""
        if self.lens is not None and self.hides_bytes:
            return self.lens.head(item, LONGEST)[start : start + size]
        return self.raw_part(item, start, size)

    def calls(self, item: int) -> Sequence[tuple[str, Json]]:
        """Give tool and arguments of the calls of an item; nothing where it cannot be read."""
        try:
            record = self.reader.record(item)
        except BadRecord:
            return ()
        if not isinstance(record, AssistantRecord):
            return ()
        blocks = read_blocks(record.message.content)
        return [(block.name, block.input) for block in blocks if block.kind == "call"]

    @property
    def inherited_to(self) -> int | None:
        """The last sequence taken from the parent of a fork; None where the run records no parent."""
        meta = self.reader.meta
        return meta.forked_from.seq if meta is not None and meta.forked_from is not None else None

    def rows(self) -> TimelineRows:
        """Give the rows of the timeline list."""
        return TimelineRows(
            self.timeline,
            self.raw,
            self.reader.decoder,
            inherited_to=self.inherited_to,
            partial=self.is_window,
        )

    @property
    def beside(self) -> bool:
        """Whether files beside the records say something even where there are none."""
        return False

    @property
    def nothing(self) -> str:
        """Why there are no rows, where there are none."""
        return "no records: the file is empty"

    @property
    def damaged(self) -> int:
        """The number on the damage badge: findings that count, what a crash leaves not among them."""
        marks, torn = self.timeline.marks, self.timeline.last_line_mark
        if self._damaged[:2] != (len(marks), torn):
            count = sum(is_damage(mark.code) for index, mark in enumerate(marks) if index != torn)
            self._damaged = (len(marks), torn, count)
        return self._damaged[2]

    def status(self, *, held: bool) -> Status:
        """Give the status as far as the records read so far tell it."""
        meta = opening_meta(self.timeline, self.reader.meta)
        return derive(facts_of(self.timeline, meta, self.reader.decoder, self.kept), held=held)

    def waits(self, *, held: bool) -> bool:
        """Say whether a call may still get its result: somebody is at work, or nobody has begun it here."""
        if held or self.is_window or not self.reader.complete:
            return held
        return self._untouched.nothing_began(self.kept)

    def _is_open(self, item: int) -> bool:
        """Say whether an item is the last reply, whose results may still come."""
        return bool(self.timeline.items) and self.timeline.columns.last_assistant[-1] == item + 1

    def top(self, *, held: bool) -> RunTop:
        """Give what the first row of the screen says about the run."""
        reader, timeline, meta = self.reader, self.timeline, self.reader.meta
        top = RunTop(
            reader.run_id,
            format=reader.format.name,
            model=meta.fingerprint.model if meta is not None else "",
            fork_of=meta.forked_from.run_id if meta is not None and meta.forked_from is not None else "",
        )
        return self._counted(top, timeline, held=held)

    def _counted(self, top: RunTop, timeline: Timeline, *, held: bool) -> RunTop:
        if self.is_window:
            return top
        top = top._replace(damaged=self.damaged, torn=timeline.torn is not None)
        if self.reader.complete:
            top = top._replace(status=self.status(held=held).name)
        if not timeline.items:
            return top
        last = timeline.items - 1
        return top._replace(
            turns=timeline.turn(last), calls=timeline.calls(last), tokens=timeline.counters(last).tokens
        )

    def judge(self, plan: Callable[[Path], ResumePlan]) -> Judged | None:
        """Say whether the run can go on, where only all its files tell; blocks while they are read.

        Args:
            plan: Gives the plan of its resume.
        """
        return None

    def lanes(self) -> tuple[Stretch, ...]:
        """Give while which records other agents were at work."""
        from refold.core.subagents import remote_stretches

        return () if self.is_window else remote_stretches(self.timeline)

    def nested(self, index: int, width: int, view: View) -> Iterator[Line | None]:
        """Give the rows of the runs that a row names, and None where work was done but no line is ready."""
        paths = self.inner(index) if index >= 0 else ()
        if paths:
            from refold.app.present.nested import nested_lines

            yield from nested_lines(paths, width, view, redacted=self.lens is not None)

    def inner(self, index: int) -> tuple[Path, ...]:
        """Give the runs of its own agents that a row names."""
        return ()

    def record(self, index: int, width: int, view: View) -> Iterator[Line]:
        """Give the lines of the Record pane for a row."""
        from refold.app.present.record import record_lines

        yield from record_lines(self.subject(index), width, view)

    def money(self, item: int, prices: Prices) -> Money | None:
        """Give what the run cost up to an item; None where no tokens are recorded, or none read yet."""
        from refold.app.present.money import money_at

        timeline, upto = self.timeline, self.inherited_to
        if self.is_window or item < 0 or not timeline.counters(timeline.items - 1).tokens:
            return None
        inherited = None if upto is None else timeline.item_at(upto)
        return money_at(timeline, item, self.models(), prices, inherited=inherited)

    def models(self) -> Sequence[tuple[int, str]]:
        """Give from which item on which model was used."""
        meta = self.reader.meta
        return ((0, meta.fingerprint.model if meta is not None else ""),)

    def state(
        self, item: int, width: int, *, held: bool = False, prices: Prices | None = None
    ) -> Iterator[Line | None]:
        """Give the lines of the State pane after an item, None where work was done but no line is ready."""
        from refold.app.present.state import now_lines, print_lines

        view = self.state_view(item, held=held)
        yield from now_lines(view, width)
        if view.now is not None:
            yield from self._money_lines(item, width, prices)
            yield from self.touched(item, width, held=held)
            yield from print_lines(view.now, width)

    def _money_lines(self, item: int, width: int, prices: Prices | None) -> Iterator[Line]:
        money = None if prices is None else self.money(item, prices)
        if money is not None:
            from refold.app.present.money import money_lines

            yield BLANK
            yield from money_lines(money, width)

    def subject(self, index: int) -> Subject:
        """Give what the Record pane shows for a row."""
        from refold.app.present.record import READ, Subject

        timeline = self.timeline
        row = timeline.row(index)
        where = timeline.span(row.item)
        head = self.raw(row.item, READ)
        whole = len(head) >= where.end - where.start
        record = self._peek(row.kind, head, whole=whole)
        upto = self.inherited_to
        return Subject(
            row,
            where,
            head,
            record,
            findings=timeline.findings_at(row.item),
            seconds=timeline.seconds(row.item),
            turn=0 if self.is_window else timeline.turn(row.item),
            answers=self._answers(index, row.item),
            recovered=timeline.is_recovered(row.item),
            inherited=upto is not None and row.seq is not None and row.seq <= upto,
            waits=self._is_open(row.item) and self.waits(held=False),
        )

    def _peek(self, kind: str, head: bytes, *, whole: bool) -> Record | None:
        return None if kind == "damage" else peek(self.reader.decoder, head, whole=whole)

    def state_view(self, item: int, *, held: bool = False) -> StateView:
        """Give what the State pane shows after an item.

        Args:
            item: The last item that counts.
            held: A process is seen holding the lock: more may come.
        """
        from refold.app.present.state import StateView
        from refold.core.since import Since, since

        timeline = self.timeline
        if self.is_window:
            return StateView(
                timeline.seq(item), None, ending="still reading: known when the whole run was read"
            )
        now, error = self._moment(item)
        before: Moment | None = None
        if now is not None and item > 0:
            before, _ = self._moment(item - 1)
        seqs = Since(*(None if at is None else timeline.seq(at) for at in since(timeline, item)))
        ending = self.ending(item, held=held)
        return StateView(timeline.seq(item), now, before, error, ending, self.waits(held=held), seqs)

    def ending(self, item: int, *, held: bool) -> str:
        """Say how the run ends where an item is its last one and no terminal record; else nothing."""
        timeline = self.timeline
        if self.is_window or not self.reader.complete or item != timeline.items - 1:
            return ""
        if timeline.kind(item) == "terminal":
            return ""
        if held:
            return "● a process is seen holding the lock: more may follow"
        calls = timeline.open_calls(item)
        if self.status(held=held).name == "ready":
            return fresh(calls, is_fork=self._is_fork)
        unanswered = f", {units.plural(calls, 'call')} without a result: outcome unknown" if calls else ""
        return f"✗ end of file: no terminal record{unanswered}"

    @property
    def _is_fork(self) -> bool:
        meta = self.reader.meta
        return bool(self.kept.fork_of) or (meta is not None and meta.forked_from is not None)

    def conversation(self, item: int, width: int, view: View, window: int = WINDOW) -> Iterator[Line | None]:
        """Give the lines of the Conversation pane, and None where work was done but no line is ready."""
        from refold.app.present.conversation import (
            Sent,
            earlier_line,
            empty_line,
            message_lines,
            open_turn_lines,
            unrecorded_lines,
        )
        from refold.app.present.state import error_lines

        state, error = (None, None) if self.is_window else self._state(item)
        if state is None:
            yield empty_line() if not self.is_window else (cell("still reading the run", "dim"),)
            if error is not None:
                yield from flow((cell(str(error), "problem", 1000),), width)
            return
        if error is not None:
            yield from error_lines(error, width, has_state=True)
            yield BLANK
        ready: list[list[Line]] = []
        made, number = 0, len(state.messages)
        while number > 0 and made < window:
            self._shortened = False
            message = state.messages[number - 1]
            lines: list[Line] = []
            for count, line in enumerate(message_lines(Sent(number, message, self._shortened), width, view)):
                lines.append(line)
                if count % 16 == 0:
                    yield None
            ready.append(lines)
            made += len(lines)
            number -= 1
        yield from unrecorded_lines(_hashes(state.fingerprint), width)
        if number:
            yield from earlier_line(number, width, view.unfold_key)
        for lines in reversed(ready):
            yield from lines
        if not state.messages:
            yield empty_line()
        calls = self._open_calls(item)
        if state.pending is not None and calls is not None:
            waits = self.waits(held=False)
            yield from open_turn_lines(state.pending.assistant, calls, width, view, waits=waits)

    def _moment(self, item: int) -> tuple[Moment | None, FoldError | None]:
        from refold.app.present.state import moment

        state, error = self._state(item)
        if state is None:
            return None, error
        return moment(state, self._open_calls(item), self._last_role(len(state.messages))), error

    def _state(self, item: int) -> tuple[RunState | None, FoldError | None]:
        from refold.core.timeline_state import state_at

        timeline = self.timeline
        error = timeline.error_at(item)
        if error is not None and not isinstance(error, CorruptJournal):
            return None, error
        try:
            meta = self.reader.meta or MetaRecord()
            meta = self.lens.meta(meta) if self.lens is not None else meta
            state = state_at(timeline, item, self._load, self.reader.decoder, meta)
        except BadRecord:
            return None, error or CorruptJournal("the open turn cannot be read")
        except FoldError as refused:
            return None, refused
        return state, error

    def _load(self, item: int) -> Record:
        """Decode an item from its first bytes only: a record of 50 MB costs what one of 16 KB does."""
        head = self.raw(item, _PER_MESSAGE_RECORD)
        where = self.timeline.span(item)
        whole = len(head) >= where.end - where.start
        self._shortened = self._shortened or not whole
        record = peek(self.reader.decoder, head, whole=whole)
        return record if record is not None else UnknownRecord("")

    def _open_calls(self, item: int) -> tuple[PendingCall, ...] | None:
        from refold.app.present.state import PendingCall

        timeline = self.timeline
        if not timeline.open_calls(item):
            return None
        assistant = timeline.columns.last_assistant[item] - 1
        inputs = self._inputs(assistant)
        answered = {
            timeline.columns.link[place]
            for place in range(assistant + 1, item + 1)
            if timeline.columns.kind[place] == RESULT
        }
        later = self._results(assistant)
        return tuple(
            PendingCall(
                str(call),
                timeline.call_name(assistant, call),
                inputs[call] if call < len(inputs) else None,
                answered=call in answered,
                later=answer.seq if (answer := later[call]) is not None and call not in answered else None,
            )
            for call in range(len(later))
        )

    def _inputs(self, assistant: int) -> list[Json]:
        record = self._load(assistant)
        if not isinstance(record, AssistantRecord):
            return []
        return [block.input for block in read_blocks(record.message.content) if block.kind == "call"]

    def _last_role(self, messages: int) -> str:
        """Give the role of the last message from the index alone."""
        if not messages:
            return ""
        columns = self.timeline.columns
        first = bisect_left(columns.messages, messages)
        return "assistant" if first < len(columns.kind) and columns.kind[first] == ASSISTANT else "user"

    def _answers(self, index: int, item: int) -> tuple[Answer | None, ...]:
        from refold.app.present.record import Answer

        timeline = self.timeline
        columns = timeline.columns
        kind = columns.kind[item]
        if kind == RESULT:
            linked = timeline.link(index)
            if linked is None:
                return ()
            return (Answer(timeline.row(linked).seq, timeline.tool_name(index)),)
        return self._results(item) if kind == ASSISTANT else ()

    def _results(self, assistant: int) -> tuple[Answer | None, ...]:
        """Give the result of each call of an assistant record, wherever in its turn that stands."""
        from refold.app.present.record import Answer
        from refold.core.store.touching import TELLING

        timeline = self.timeline
        columns = timeline.columns
        found: dict[int, Answer] = {}
        for place in range(assistant + 1, min(timeline.items, assistant + 1 + _MOST_IN_A_TURN)):
            if columns.last_assistant[place] != assistant + 1:
                break
            call = columns.link[place]
            if columns.kind[place] == RESULT and call >= 0 and call not in found:
                unknown = self.reader.outcome_unknown(place, TELLING)
                error = timeline.is_error(place)
                found[call] = Answer(timeline.seq(place), "", error=error, unknown=unknown)
        return tuple(found.get(call) for call in range(timeline.own_calls(assistant)))


def fresh(calls: int, *, is_fork: bool) -> str:
    """Say that nothing was done in a run since it was made, and how many calls it begins with."""
    open_ = f", with {units.plural(calls, 'call')} of its parent pending" if calls else ""
    return f"ψ a fork that nobody has gone on with yet{open_}" if is_fork else f"· nothing ran yet{open_}"


def _hashes(recorded: Fingerprint) -> str:
    """Give what is recorded of system prompt and tools."""
    names = (("system", recorded.system_hash), ("tools", recorded.tools_hash))
    found = [f"{name} {text[:8]}…" for name, text in names if text]
    return f", only hashes of them ({', '.join(found)})" if found else ""


def reading_of(reader: RunReader, window: Timeline | None = None) -> Reading:
    """Join an open run to the panes in the way that it needs."""
    if reader.session is None:
        return Reading(reader, window)
    from refold.app.present.session_reading import SessionReading

    return SessionReading(reader.session, window)
