"""How the cursor of an open run moves: by row, turn, problem and fork point, to a place that is named."""

from __future__ import annotations

from collections.abc import Mapping

from refold.app.present import landing
from refold.app.present.landing import Landing
from refold.app.safe import Safe
from refold.app.screens.run_going_on import RunGoingOnScreen
from refold.app.widgets.prompt_bar import PromptBar


class RunMovesScreen(RunGoingOnScreen):
    """A screen of one run with a cursor on its rows."""

    _point: int | None = None
    """The sequence that was taken first, to be compared with another."""

    @property
    def item(self) -> int | None:
        """The record that the cursor stands on."""
        if self._reading is None or not 0 <= self.timeline.cursor < self._reading.timeline.rows:
            return None
        return self._reading.timeline.row(self.timeline.cursor).item

    def key_words(self) -> Mapping[str, str]:
        """Name what keys do that now do one thing, now another."""
        return {}

    def note_items(self) -> int | None:
        """Give the record under the cursor."""
        return self.item

    def _go_to_item(self, item: int) -> None:
        if self._reading is not None:
            self.timeline.go(self._reading.timeline.first_row(item))

    def action_step(self, delta: int) -> None:
        """Move by a row."""
        self.timeline.move(delta)

    def action_turn(self, step: int) -> None:
        """Go to the turn before or after."""
        if self._reading is None or self.item is None:
            return
        row = self._reading.timeline.next_turn(self.timeline.cursor, step)
        if row is None:
            self.notify("This is the last turn." if step > 0 else "This is the first turn.")
        else:
            self.timeline.go(row)

    def action_call(self, step: int) -> None:
        """Go to the call before or after."""
        if self._reading is None or self.item is None:
            return
        from refold.core.moves import next_call

        row = next_call(self._reading.timeline, self.timeline.cursor, step)
        if row is None:
            self.notify(f"No call {'after' if step > 0 else 'before'} this row.")
        else:
            self.timeline.go(row)

    def action_problem(self, step: int) -> None:
        """Go to the problem before or after."""
        if self._reading is None or self.item is None:
            return
        row = self._reading.timeline.next_problem(self.timeline.cursor, step)
        if row is None:
            self.notify(f"No error and no damage {'after' if step > 0 else 'before'} this row.")
        else:
            self.timeline.go(row)

    def action_point(self, step: int) -> None:
        """Go to the legal fork point before or after."""
        item = self.item
        if self._reading is None or item is None:
            return
        from refold.core.fork import next_legal

        found = next_legal(self._reading.timeline, item, step)
        if found is None:
            self.notify(f"No legal fork point {'after' if step > 0 else 'before'} this row.")
        else:
            self._go_to_item(found)

    def action_follow(self) -> None:
        """Go to the end and along with it, or stop doing so."""
        self.timeline.follow = not self.timeline.follow

    def action_go_to(self) -> None:
        """Ask for a sequence number."""
        self.query_one(PromptBar).open(Safe("go to seq"), purpose="go_to")

    def _go_to(self, text: str) -> None:
        wanted = landing.parse(text)
        if self._reading is None or not text.strip():
            return
        if wanted is None:
            self.notify("Type a sequence number, or # and a line number.", severity="warning")
        else:
            self.land(wanted)

    def land(self, wanted: Landing) -> None:
        """Put the cursor on a place, or say why it cannot be put there."""
        if self._reading is None:
            return
        timeline, complete = self._reading.timeline, self._reading.reader.complete
        row = landing.row_of(wanted, timeline, complete=complete)
        if row is not None:
            self.timeline.go(row)
        else:
            self.notify(landing.absence(wanted, timeline, complete=complete), severity="warning")

    def action_compare_points(self) -> None:
        """Take the record under the cursor; the second one that is taken is compared with the first."""
        chosen = self.chosen()
        if chosen is None or self.item is None or self.app.screen is not self:
            return
        seq = None if chosen.at is None else chosen.at.seq
        if seq is None:
            self.notify("This row has no sequence number: choose a record.", severity="warning")
        elif self._point is None:
            self._point = seq
            self.notify(f"seq {seq} is taken: the same key at another record compares both, here forgets it.")
        elif self._point == seq:
            self._point = None
            self.notify(f"seq {seq} is forgotten.")
        else:
            from refold.app.screens.compare import CompareScreen

            first, last = sorted((self._point, seq))
            self._point = None
            self.app.clear_notifications()  # what the first press told to do is done
            self.app.push_screen(
                CompareScreen(
                    chosen.path,
                    chosen.path,
                    first,
                    last,
                    settings=chosen.settings,
                    hints=(chosen.hint, chosen.hint),
                )
            )
