"""The Timeline of a run: offsets and running sums, never objects.

One item stands for one record or one damaged stretch of bytes; every column holds one number an item.
Because the sums run, the counters at any item are read, not folded, and a message of the conversation is
a range of items (design/speed.md 3). `core.timeline_builder` fills the columns; this file answers questions.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from refold.core.columns import (
    ASSISTANT,
    ERROR,
    FOLDED,
    KINDS,
    OPEN,
    RECOVERED,
    RESULT,
    SEQUENCED,
    STRICT,
    TERMINAL,
    WITH_ERROR,
    Columns,
    Mark,
    Row,
    Span,
    place_of,
)
from refold.core.errors import CorruptJournal, EmptyJournal, FoldError
from refold.core.findings import CODES, Allowed, Finding, blocks_resume, forks_before, remedy_for
from refold.core.state import Counters

_STRIDES = 4
"""So many items are looked at one by one; among more a search is quicker."""
_LOOKED_BACK = 64
"""So many damaged places are passed over to find the record before them."""


class Timeline:
    """The rows of one run and what holds after each of them. Filled only by its builder."""

    def __init__(self) -> None:
        self.columns = Columns()
        self.call_names = array("I")
        """One entry a call, in order: an index into `names`."""
        self.names: list[str] = []
        self.loose_ids: dict[int, str] = {}
        """Results that answer no waiting call: item to the call id they name."""
        self.iterations = array("q")
        """One entry an assistant record."""
        self.stop_reasons = array("I")
        """One entry an assistant record: an index into `names`."""
        self.reasons: list[tuple[int, str]] = []
        """Terminal records: item and reason."""
        self.marks: list[Mark] = []
        self.fold_error: tuple[int, FoldError] | None = None
        """The first item that the strict fold refuses, and why."""
        self.bad_line: tuple[int, int, str] | None = None
        """The first unreadable line that other lines follow: first item after it, its number, the reason."""
        self.last_line_mark: int | None = None
        """Index into `marks` of the unreadable last line, while nothing follows it."""
        self.first_seconds: float | None = None
        """The first recorded time, as a POSIX time stamp; None where no record has one."""
        self._near = 0
        """The item of the row that was asked for last."""
        self._last_seq: tuple[int, int | None] = (0, None)
        """How many items were looked at for the last sequence, and that."""
        self._problems: list[int] | None = None
        self._marked: list[int] | None = None
        self._marks_at: dict[int, list[int]] | None = None
        self._first_strict = -1
        """The first record that the original program would read; -1 while nobody has asked."""

    @property
    def items(self) -> int:
        """How many records and damaged stretches there are."""
        return len(self.columns.kind)

    @property
    def rows(self) -> int:
        """How many rows there are: an item has one, an assistant record one more for each call."""
        return len(self.columns.kind) + len(self.call_names)

    def first_row(self, item: int) -> int:
        """Give the first row of an item."""
        return item + (self.columns.calls[item - 1] if item else 0)

    def item_of(self, row: int) -> int:
        """Give the item that a row belongs to."""
        # An item has a row at least: it is no more items away from the last answer than the row is.
        last = self.items - 1
        near = max(0, min(self._near, last))
        ahead = row - self.first_row(near)
        low, high = (near, min(last, near + ahead)) if ahead >= 0 else (max(0, near + ahead), near - 1)
        if high - low > _STRIDES:
            low += bisect_right(range(low + 1, high + 1), row, key=self.first_row)
        else:
            while low < high and row >= self.first_row(low + 1):
                low += 1
        self._near = low
        return low

    def row(self, index: int) -> Row:
        """Give the row at an index.

        Raises:
            IndexError: there is no such row.
        """
        if not 0 <= index < self.rows:
            raise IndexError(index)
        item = self.item_of(index)
        call = index - self.first_row(item) - 1
        kind = "call" if call >= 0 else KINDS[self.columns.kind[item]]
        return Row(kind, item, self.seq(item), call)

    def kind(self, item: int) -> str:
        """Give the kind of an item, one of `KINDS`."""
        return KINDS[self.columns.kind[item]]

    def seq(self, item: int) -> int | None:
        """Give the recorded sequence of an item; None for damage."""
        return self.columns.seq[item] if self.columns.flags[item] & SEQUENCED else None

    def span(self, item: int) -> Span:
        """Give the bytes and the line of an item."""
        start = self.columns.offset[item]
        return Span(start, start + self.columns.length[item], self.columns.line[item])

    def item_at(self, seq: int) -> int | None:
        """Give the first item with this recorded sequence, or None."""
        seqs, flags = self.columns.seq, self.columns.flags
        guess = bisect_left(seqs, seq)
        if (
            guess < len(seqs)
            and seqs[guess] == seq
            and flags[guess] & SEQUENCED
            and self.fold_error is None
            and self.bad_line is None
        ):
            return guess
        return self._first_from(seq, 0)

    def _first_from(self, seq: int, start: int) -> int | None:
        """Give the first item from one on that recorded this sequence, whatever their order."""
        seqs, flags = self.columns.seq, self.columns.flags
        while True:
            try:
                found = place_of(seq, seqs, start)
            except ValueError:
                return None
            if flags[found] & SEQUENCED:
                return found
            start = found + 1

    def item_at_line(self, line: int) -> int | None:
        """Give the first item that stands on this line, or None."""
        found = bisect_left(self.columns.line, line)
        return found if found < self.items and self.columns.line[found] == line else None

    def row_at(self, seq: int) -> int | None:
        """Give the first row whose record has this sequence, or None."""
        item = self.item_at(seq)
        return None if item is None else self.first_row(item)

    def neighbours(self, seq: int) -> tuple[int | None, int | None]:
        """Give the nearest recorded sequences below and above one that is not recorded."""
        below: int | None = None
        above: int | None = None
        for item, value in enumerate(self.columns.seq):
            if not self.columns.flags[item] & SEQUENCED:
                continue
            if value < seq and (below is None or value > below):
                below = value
            if value > seq and (above is None or value < above):
                above = value
        return below, above

    @property
    def last_seq(self) -> int | None:
        """The sequence of the last record in file order that has one."""
        seen, last = self._last_seq
        # The last item may have been a torn line, and be a record now.
        for item in range(self.items - 1, max(0, seen - 1) - 1, -1):
            if self.columns.flags[item] & SEQUENCED:
                last = self.columns.seq[item]
                break
        self._last_seq = (self.items, last)
        return last

    def turn(self, item: int) -> int:
        """Give the number of assistant records up to and including an item."""
        return self.columns.llm[item]

    def counters(self, item: int) -> Counters:
        """Give the sums over all readable records up to and including an item."""
        columns = self.columns
        return Counters(
            llm_calls=columns.llm[item],
            tool_calls=columns.results[item],
            remote_tool_calls=columns.remote[item],
            in_tokens=columns.in_tokens[item],
            out_tokens=columns.out_tokens[item],
            cache_read_tokens=columns.cache_read[item],
            cache_create_tokens=columns.cache_create[item],
        )

    def errors(self, item: int) -> int:
        """Give the number of results that report an error, up to and including an item."""
        return self.columns.errors[item]

    def calls(self, item: int) -> int:
        """Give the number of calls requested, up to and including an item."""
        return self.columns.calls[item]

    def own_calls(self, item: int) -> int:
        """Give the number of calls that an item itself requests."""
        return self.columns.calls[item] - (self.columns.calls[item - 1] if item else 0)

    def own_tokens(self, item: int) -> int:
        """Give the tokens of all four kinds that an item itself took."""
        return self.counters(item).tokens - (self.counters(item - 1).tokens if item else 0)

    def is_error(self, item: int) -> bool:
        """Say whether a result reports an error or a terminal record says so."""
        return bool(self.columns.flags[item] & ERROR)

    def is_recovered(self, item: int) -> bool:
        """Say whether a record was read out of a damaged line."""
        return bool(self.columns.flags[item] & RECOVERED)

    def answered(self, item: int) -> int:
        """Give what names the call that a result answers, within its turn; -1 where it answers none."""
        return self.columns.link[item]

    def may_have_run(self, key: int) -> bool:
        """Say whether a call that never came to its end may have been run."""
        return True

    def open_calls(self, item: int) -> int:
        """Give the number of calls that stand unanswered after an item."""
        return self.columns.answered_left[item] if self.columns.flags[item] & OPEN else 0

    def iteration(self, item: int) -> int | None:
        """Give the iteration of the last assistant record up to an item."""
        turns = self.columns.llm[item]
        return self.iterations[turns - 1] if turns else None

    def stop_reason(self, item: int) -> str:
        """Give the stop reason of the last assistant record up to an item."""
        turns = self.columns.llm[item]
        return self.names[self.stop_reasons[turns - 1]] if turns else ""

    def terminal(self, item: int) -> tuple[int, str] | None:
        """Give the item and reason of the last terminal record up to an item."""
        found = bisect_right(self.reasons, item, key=lambda pair: pair[0])
        return self.reasons[found - 1] if found else None

    def phase(self, item: int) -> str:
        """Say what a run waits for after an item: `model`, `calls`, nothing (`answered`), or how it ended."""
        flags, kinds = self.columns.flags, self.columns.kind
        near = range(item, max(-1, item - _LOOKED_BACK), -1)
        last = next((place for place in near if flags[place] & FOLDED), item)
        if kinds[last] == TERMINAL:
            return (self.terminal(last) or (0, ""))[1] or "ended"
        if self.open_calls(last):
            return "calls"
        return "answered" if kinds[last] == ASSISTANT else "model"

    def seconds(self, item: int) -> float | None:
        """Give the seconds since the first recorded time; None where an item has no time."""
        own = self.columns.seconds[item]
        return None if own != own or self.first_seconds is None else own - self.first_seconds

    def call_name(self, item: int, call: int) -> str:
        """Give the tool name of a call of an assistant record."""
        before = self.columns.calls[item - 1] if item else 0
        return self.names[self.call_names[before + call]]

    def tool_names(self) -> tuple[str, ...]:
        """Give the names of all tools called, sorted."""
        return tuple(sorted({self.names[index] for index in set(self.call_names)}))

    def tool_name(self, row: int) -> str:
        """Give the tool name of a call row, or of the call that a result row answers; else empty."""
        found = self.row(row)
        if found.kind == "result":
            linked = self.link(row)
            if linked is None:
                return ""
            found = self.row(linked)
        return self.call_name(found.item, found.call) if found.call >= 0 else ""

    def link(self, row: int) -> int | None:
        """Give the result row of a call row, or the call row of a result row; None where there is none."""
        found = self.row(row)
        columns = self.columns
        if found.kind == "result":
            ordinal = columns.link[found.item]
            assistant = columns.last_assistant[found.item]
            return self.first_row(assistant - 1) + 1 + ordinal if ordinal >= 0 and assistant else None
        if found.kind != "call":
            return None
        for item in range(found.item + 1, self.items):
            if columns.last_assistant[item] != found.item + 1:
                break
            if columns.kind[item] == RESULT and columns.link[item] == found.call:
                return self.first_row(item)
        return None

    def next_turn(self, row: int, step: int) -> int | None:
        """Give the first row of the next (step 1) or previous (step -1) assistant record, or None."""
        if not self.items:
            return None
        llm = self.columns.llm
        item = self.item_of(row)
        if step > 0:
            found = bisect_right(llm, llm[item])
            return self.first_row(found) if found < self.items else None
        inside = llm[item] - (1 if self._is_turn_start(row, item) else 0)
        return self.first_row(bisect_left(llm, inside)) if inside > 0 else None

    def _is_turn_start(self, row: int, item: int) -> bool:
        return (
            self.columns.kind[item] == ASSISTANT
            and row == self.first_row(item)
            and bool(self.columns.flags[item] & FOLDED)
        )

    def problem_items(self) -> Sequence[int]:
        """Give the items with a problem, in order: findings, error results, error ends."""
        if self._problems is None:
            found = set(self.marked_items())
            found.update(match.start() for match in WITH_ERROR.finditer(self.columns.flags))
            self._problems = sorted(found)
        return self._problems

    def marked_items(self) -> Sequence[int]:
        """The items with a finding that is a problem, in order."""
        if self._marked is None:
            self._marked = sorted({mark.item for mark in self.marks if CODES[mark.code].severity != "info"})
        return self._marked

    def next_problem(self, row: int, step: int) -> int | None:
        """Give the first row of the next (step 1) or previous (step -1) item with a problem, or None."""
        if not self.items:
            return None
        problems = self.problem_items()
        item = self.item_of(row)
        index = bisect_right(problems, item) if step > 0 else bisect_left(problems, item) - 1
        return self.first_row(problems[index]) if 0 <= index < len(problems) else None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything noticed while reading, in the order of the file."""
        order = sorted(range(len(self.marks)), key=lambda index: (self.marks[index].item, index))
        return tuple(self._finding(index) for index in order)

    def finding(self, item: int) -> Finding | None:
        """Give the first finding on an item, or None."""
        found = self._marks_on(item)
        return self._finding(found[0]) if found else None

    def findings_at(self, item: int) -> tuple[Finding, ...]:
        """Give all findings on an item, in the order they were made."""
        return tuple(self._finding(index) for index in self._marks_on(item))

    def _marks_on(self, item: int) -> Sequence[int]:
        if self._marks_at is None:
            self._marks_at = {}
            for index, mark in enumerate(self.marks):
                self._marks_at.setdefault(mark.item, []).append(index)
        return self._marks_at.get(item, ())

    def problem_codes(self, item: int) -> Iterator[str]:
        """Yield the codes of the findings on an item that are more than a remark."""
        for index in self._marks_on(item):
            code = self._code(index)
            if CODES[code].severity != "info":
                yield code

    @property
    def torn(self) -> Finding | None:
        """The torn tail, while the run ends in one."""
        if self.last_line_mark is not None:
            return self._finding(self.last_line_mark)
        return None

    def _code(self, index: int) -> str:
        return "E_TORN_TAIL" if index == self.last_line_mark else self.marks[index].code

    def _finding(self, index: int) -> Finding:
        mark, code = self.marks[index], self._code(index)
        entry = CODES[code]
        said = not mark.reason or mark.reason.startswith(entry.meaning)
        message = (mark.reason or entry.meaning) if said else f"{entry.meaning}: {mark.reason}"
        line = self.columns.line[mark.item] if mark.item < self.items else 0
        allowed = self.allowed(mark.item, code)
        return Finding(
            code=code,
            severity=entry.severity,
            seq=self.seq(mark.item) if mark.item < self.items else None,
            line=line,
            start=mark.start,
            end=mark.end,
            message=message,
            remedy=remedy_for(code, allowed),
            allowed=allowed,
        )

    def allowed(self, item: int, code: str) -> Allowed:
        """Say what a finding on an item still allows: the last legal fork, and a resume."""
        last = item - 1 if forks_before(code) else self.items - 1
        completed = self.items > 0 and (self.terminal(self.items - 1) or (0, ""))[1] == "completed"
        resume = not blocks_resume(code) and self.strict_error is None and not completed
        return Allowed(view=True, fork_to=self.legal_fork(last), resume=resume)

    def legal_fork(self, last_item: int) -> int | None:
        """Give the last sequence up to an item at which a fork is legal (design/contracts.md "Forks")."""
        item = self.legal_item(last_item)
        return None if item is None else self.columns.seq[item]

    def legal_item(self, last_item: int) -> int | None:
        """Give the last item, up to one, after which a fork is legal."""
        for item in range(min(last_item, self.strict_end - 1), -1, -1):
            if self.is_legal(item):
                return item
        return None

    def is_legal(self, item: int) -> bool:
        """Say whether a fork after an item is legal: all readable, it folds, and it does not end there."""
        return (
            item < self.strict_end
            and self.columns.flags[item] & (SEQUENCED | RECOVERED) == SEQUENCED
            and not self.is_completed(item)
        )

    def is_completed(self, item: int) -> bool:
        """Say whether an item is a terminal record that says completed."""
        return self.columns.kind[item] == TERMINAL and self.terminal(item) == (item, "completed")

    @property
    def strict_end(self) -> int:
        """The first item with which the records do not fold strictly any more; `items` where all do."""
        end = self.items if self.bad_line is None else min(self.items, self.bad_line[0])
        return end if self.fold_error is None else min(end, self.fold_error[0])

    @property
    def strict_error(self) -> FoldError | None:
        """Why the whole run does not fold strictly; None where it does."""
        if self.bad_line is not None:
            return CorruptJournal(f"line {self.bad_line[1]}: {self.bad_line[2]}", line=self.bad_line[1])
        return EmptyJournal() if self.items == 0 else self.error_at(self.items - 1)

    def error_at(self, item: int) -> FoldError | None:
        """Say why the records up to and including an item do not fold strictly; None where they do.

        A line that cannot be read comes before every other error, but not while it is the last line
        of the prefix (formats/fisk-ai.md 2.1).
        """
        if self.bad_line is not None and item >= self.bad_line[0]:
            return CorruptJournal(f"line {self.bad_line[1]}: {self.bad_line[2]}", line=self.bad_line[1])
        if self.fold_error is not None and item >= self.fold_error[0]:
            return self.fold_error[1]
        if not self.has_strict_record(item):
            return EmptyJournal()
        return None

    def strict_item(self, item: int) -> int:
        """Give the last item up to this one that the strict fold has read: what was recovered it has not."""
        flags, lines = self.columns.flags, self.columns.line
        first = item
        while first > 0 and lines[first - 1] == lines[item]:
            first -= 1
        recovered = any(flags[place] & RECOVERED for place in range(first, item + 1))
        return first - 1 if recovered else item

    def has_strict_record(self, item: int) -> bool:
        """Say whether a record that the original program would read stands at or before an item."""
        if self._first_strict < 0:
            found = STRICT.search(self.columns.flags)
            self._first_strict = self.items if found is None else found.start()
        return self._first_strict <= item

    def changed(self) -> None:
        """Forget what was derived; the builder calls it after each change."""
        self._problems = None
        self._marked = None
        self._marks_at = None
        self._first_strict = -1
