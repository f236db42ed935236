"""A run against itself: one point is taken, then another, and both are put side by side."""

from __future__ import annotations

from refold.app.screens.run_moves import RunMovesScreen


class RunPointsScreen(RunMovesScreen):
    """A screen of one run of which two points can be compared."""

    _point: int | None = None
    """The sequence that was taken first."""

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
