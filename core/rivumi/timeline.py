"""The Timeline of an event log: one row an event, calls joined by their id and never by position."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from refold.core.columns import ASSISTANT, RECOVERED, RESULT, SEQUENCED, Row
from refold.core.findings import Allowed, Finding, forks_before
from refold.core.rivumi.calls import CallLife
from refold.core.rivumi.events_state import EventsState
from refold.core.rivumi.history import History, Since
from refold.core.timeline import Timeline

_REMEDIES: Final[Mapping[str, str]] = {
    "E_SEQ_GAP": "its own program resumes no log with gaps",
    "E_OVERSIZE": "its own program's replay refuses it; Raw shows every byte",
}
"""Where a log is not like a journal."""


class Life:
    """One call or check with the items that tell of it."""

    __slots__ = ("moments", "now")

    def __init__(self, moments: tuple[tuple[int, CallLife], ...]) -> None:
        self.moments = moments
        self.now = moments[-1][1]
        """What has become of it in all that was read."""

    @property
    def first(self) -> int:
        """The item with which it begins."""
        return self.moments[0][0]

    def started(self) -> int | None:
        """Give the item that started it."""
        return next((item for item, life in self.moments if life.started is not None), None)

    def ended(self) -> int | None:
        """Give the item that ended it."""
        return next((item for item, life in self.moments if life.ended is not None), None)

    def asked(self) -> int | None:
        """Give the item that asked whether it may run, the last one where it was asked twice."""
        found = [item for item, life in self.moments if life.asked is not None and life.decided is None]
        return found[-1] if found else None


class EventTimeline(Timeline):
    """The rows of one event log and what holds after each of them. Filled only by its builder."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History()
        self.types = array("I")
        """One entry an item: the type of the event, an index into `names`; 0 for damage."""
        self.names.append("")
        self.breaks: int | None = None
        """The first item with which sequences and lines are no longer whole and in their place."""
        self._open: frozenset[int] | None = None
        self.external = False
        """Another program wrote the log: its events name no run."""

    @property
    def rows(self) -> int:
        """How many rows there are: one an item."""
        return len(self.columns.kind)

    def first_row(self, item: int) -> int:
        """Give the row of an item."""
        return item

    def item_of(self, row: int) -> int:
        """Give the item of a row."""
        return row

    def row(self, index: int) -> Row:
        """Give the row at an index.

        Raises:
            IndexError: there is no such row.
        """
        if not 0 <= index < self.rows:
            raise IndexError(index)
        return Row(self.kind(index), index, self.seq(index), -1)

    def item_at(self, seq: int) -> int | None:
        """Give the first item with this sequence: a log may hold one twice, or out of order."""
        seqs = self.columns.seq
        in_place = 0 <= seq < len(seqs) and seqs[seq] == seq and self.breaks is None
        return self._first_from(seq, seq if in_place else 0)

    def type_of(self, item: int) -> str:
        """Give the type of an event; nothing for damage."""
        return self.names[self.types[item]]

    def life(self, item: int) -> Life | None:
        """Give the call or check that an item is about."""
        found = self.history.life_of(item)
        return None if found < 0 else Life(self.history.moments(found))

    def of_type(self, name: str, most: int) -> list[int]:
        """Give the first items of a type, so many at most."""
        found: list[int] = []
        wanted = self.names.index(name) if name in self.names else -1
        start = 0
        while wanted >= 0 and len(found) < most:
            try:
                start = self.types.index(wanted, start) + 1
            except ValueError:
                break
            found.append(start - 1)
        return found

    def answered(self, item: int) -> int:
        """Give the number of the call or check that an item is about; -1 where it is about none.

        Of a call that runs again it is that of the call that was asked for.
        """
        found = self.history.life_of(item)
        begun = None if found < 0 else self.history.moments(found)[0][1]
        if begun is None or begun.requested is None or begun.started is None:
            return found
        asked = self.item_at(begun.requested)
        return found if asked is None else self.history.life_of(asked)

    def may_have_run(self, key: int) -> bool:
        """Say whether a call was started."""
        return self.history.moments(key)[-1][1].started is not None

    def link(self, row: int) -> int | None:
        """Give the other end of a call: the row that ended it, or the one it began with."""
        life = self.life(row)
        if life is None:
            return None
        other = life.first if self.columns.kind[row] == RESULT else life.ended()
        return None if other == row else other

    def tool_name(self, row: int) -> str:
        """Give the name of the call or check that a row is about."""
        life = self.life(row)
        return "" if life is None else life.now.name

    def call_name(self, item: int, call: int) -> str:
        """Give the name of the call of an item."""
        return self.tool_name(item)

    def tool_names(self) -> tuple[str, ...]:
        """Give the names of all tools called, sorted."""
        lives = self.history.lives_at(self.items)
        return tuple(sorted({life.name for life in lives if life.name and not life.is_check}))

    def turn(self, item: int) -> int:
        """Give the number of replies of the model up to and including an item."""
        return self.columns.llm[item]

    def _is_turn_start(self, row: int, item: int) -> bool:
        return self.columns.kind[item] == ASSISTANT

    def iteration(self, item: int) -> int | None:
        """Give the model turn that an item belongs to."""
        return self.history.step_at(item)

    def stop_reason(self, item: int) -> str:
        """Give nothing: an event says it of its own turn."""
        return ""

    def phase(self, item: int) -> str:
        """Give the phase that the events up to an item prove."""
        return self.history.phase_at(item)

    def terminal(self, item: int) -> tuple[int, str] | None:
        """Give the item and the word of the end of the run, unless it was continued after it."""
        found = super().terminal(item)
        return found if found is not None and found[1] else None

    def problem_items(self) -> Sequence[int]:
        """Give the items with a problem, in order: findings, failures, what was started and never ended."""
        if self._problems is None:
            found = {*super().problem_items(), *self.history.started_open()}
            self._problems = sorted(found)
        return self._problems

    def is_open(self, item: int) -> bool:
        """Say whether an item started what has no end in all that was read."""
        if self._open is None:
            self._open = frozenset(self.history.started_open())
        return item in self._open

    def changed(self) -> None:
        """Forget what was derived; the builder calls it after each change."""
        super().changed()
        self._open = None

    def is_legal(self, item: int) -> bool:
        """Say whether a fork after an item is legal: up to there all lines are whole and in their place."""
        return (
            self.columns.flags[item] & (SEQUENCED | RECOVERED) == SEQUENCED
            and not self.external
            and (self.breaks is None or item < self.breaks)
        )

    def _finding(self, index: int) -> Finding:
        found = super()._finding(index)
        remedy = _REMEDIES.get(found.code)
        return found if remedy is None else msgspec.structs.replace(found, remedy=remedy)

    def legal_item(self, last_item: int) -> int | None:
        """Give the last item, up to one, after which a fork is legal."""
        last = last_item if self.breaks is None else min(last_item, self.breaks - 1)
        return last if last >= 0 and self.is_legal(last) else None

    def allowed(self, item: int, code: str) -> Allowed:
        """Say what a finding on an item still allows; if the run can go on, its directory tells."""
        last = item - 1 if forks_before(code) else self.items - 1
        return Allowed(view=True, fork_to=self.legal_fork(last), resume=False)

    def is_completed(self, item: int) -> bool:
        """Say that no event closes a run for good: it may be continued, and forked at its end."""
        return False

    def last_event(self, item: int) -> int | None:
        """Give the last item up to one that is an event of the log, not a piece of a damaged line."""
        flags = self.columns.flags
        for place in range(item, -1, -1):
            if flags[place] & (SEQUENCED | RECOVERED) == SEQUENCED:
                return place
        return None

    def state_at(self, item: int) -> EventsState:
        """Give what the events up to and including an item prove: a cut, nothing is folded."""
        last = self.last_event(item)
        if last is None:
            return EventsState()
        return self.history.at(item, self.columns.seq[last], self.type_of(last))

    def since(self, item: int) -> Since:
        """Give the items that changed last what is one value at a time."""
        return self.history.since(item)

    def gap(self, item: int) -> float | None:
        """Give the seconds since the event before it, below zero where the clock was set back."""
        seconds = self.columns.seconds
        before = item - 1
        while before >= 0 and seconds[before] != seconds[before]:
            before -= 1
        if before < 0 or seconds[item] != seconds[item]:
            return None
        return seconds[item] - seconds[before]

    def between(self, first: int | None, last: int | None) -> float | None:
        """Give the seconds from one item to another, where both recorded a time."""
        if first is None or last is None:
            return None
        span = self.columns.seconds[last] - self.columns.seconds[first]
        return None if span != span else span

    def next_turn(self, row: int, step: int) -> int | None:
        """Give the row of the next (step 1) or previous (step -1) reply of the model, or None."""
        if not self.items:
            return None
        llm = self.columns.llm
        if step > 0:
            found = bisect_left(llm, llm[row] + 1)
            return found if found < self.items else None
        inside = llm[row] - self._is_turn_start(row, row)
        return bisect_left(llm, inside) if inside > 0 else None
