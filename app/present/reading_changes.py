"""What an open run says to the Changes pane: which calls a row is about, and what became of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from refold.app.lines import Line
from refold.app.present.view import View
from refold.core.columns import ASSISTANT, RESULT
from refold.core.store.touching import TELLING

if TYPE_CHECKING:
    from refold.app.present.changes import Fate, Here
    from refold.app.present.changing import Changing
    from refold.app.present.lens import Lens
    from refold.core.store.reader import RunReader
    from refold.core.timeline import Timeline
    from refold.core.touches import Place

_MOST_IN_A_TURN = 10_000


class ReadingChanges(ABC):
    """An open run whose changes can be asked for."""

    reader: RunReader
    is_window: bool
    lens: Lens | None
    _changing: Changing | None = None

    @property
    @abstractmethod
    def timeline(self) -> Timeline:
        """The rows that are read."""

    def waits(self, *, held: bool) -> bool:
        """Say whether a call may still get its result: somebody is at work, or nobody has begun it here."""
        return held

    @property
    def changing(self) -> Changing:
        """What is known of the changes; made when it is first asked for."""
        if self._changing is None or self._changing.lens is not self.lens:
            from refold.app.present.changing import Changing

            known = None if self._changing is None else self._changing.index
            self._changing = Changing(self.reader, self.lens, known)
        return self._changing

    def changes(self, index: int, width: int, view: View, *, held: bool = False) -> Iterator[Line | None]:
        """Give the lines of the Changes pane for a row, and None where work was done but no line is ready."""
        from refold.app.present.changes import changes_lines

        yield from changes_lines(
            self._here(index, held=held), self.changing, self.timeline.columns.seq, width, view
        )

    def touched(self, item: int, width: int, *, held: bool = False) -> Iterator[Line | None]:
        """Give what State says of the agent's own list of steps and of files, None where no line is ready."""
        from refold.app.present.touched import touched_lines

        waiting = self._waiting(item)
        waits = self.waits(held=held)
        yield from touched_lines(self.changing, waiting, self.timeline.columns.seq, item, width, held=waits)

    def _here(self, index: int, *, held: bool) -> Here:
        from refold.app.present.changes import Here

        timeline = self.timeline
        if index < 0:
            return Here(None, (), (), -1, self.is_window)
        item = timeline.row(index).item
        places = [(place, self._fate(place, held=held)) for place in self._places(index)]
        return Here(timeline.seq(item), places, self._waiting(item), item, self.is_window)

    def _places(self, index: int) -> Sequence[Place]:
        """Give the calls that a row is about."""
        from refold.core.touches import Place

        timeline = self.timeline
        row = timeline.row(index)
        if row.kind == "result":
            linked = timeline.link(index)
            if linked is None:
                return ()
            row = timeline.row(linked)
        if row.call >= 0:
            return (Place(row.item, row.call, row.item),)
        return [Place(row.item, call, row.item) for call in range(timeline.own_calls(row.item))]

    def _fate(self, place: Place, *, held: bool) -> Fate:
        """Say what became of a call."""
        from refold.app.present.changes import Fate, recorded_as_failed

        timeline = self.timeline
        end = self._result_of(place)
        if end < 0:
            held = self.waits(held=held)
            words = "no result yet" if held else "no result recorded: outcome unknown"
            return Fate("·" if held else "?", words, "dim" if held else "warn")
        seq = timeline.seq(end)
        if self.reader.outcome_unknown(end, TELLING):
            return recorded_as_failed(seq)
        if timeline.is_error(end):
            return Fate("✗", f"failed at seq {seq}: not counted as a change", "problem")
        if self.reader.denied(end, TELLING):
            return Fate("✗", f"denied at seq {seq}: it changed nothing", "warn")
        return Fate("✓", f"done at seq {seq}", "good", happened=True)

    def _result_of(self, place: Place) -> int:
        """Give the item of the result of a call; -1 where it has none."""
        timeline = self.timeline
        columns = timeline.columns
        for item in range(place.call + 1, min(timeline.items, place.call + 1 + _MOST_IN_A_TURN)):
            if columns.last_assistant[item] != place.call + 1:
                break
            if columns.kind[item] == RESULT and columns.link[item] == place.ordinal:
                return item
        return -1

    def _waiting(self, item: int) -> Sequence[Place]:
        """Give the calls that have no end up to an item."""
        from refold.core.touches import Place

        timeline = self.timeline
        if not timeline.open_calls(item):
            return ()
        columns = timeline.columns
        first = columns.last_assistant[item] - 1
        if first < 0 or columns.kind[first] != ASSISTANT:
            return ()
        answered = {columns.link[at] for at in range(first + 1, item + 1) if columns.kind[at] == RESULT}
        calls = range(timeline.own_calls(first))
        return [Place(first, call, item, unknown=True) for call in calls if call not in answered]
