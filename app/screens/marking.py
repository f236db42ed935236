"""A list in which runs are marked, and two of them compared."""

from __future__ import annotations

from pathlib import Path

from refold.app.present.marks import Marked, Marks
from refold.app.screens.going_on import Chosen, GoingOnScreen


class MarkingScreen(GoingOnScreen):
    """A screen with a list of runs some of which are marked."""

    marks = Marks()
    """The runs that are marked."""

    def here(self) -> Marked | None:
        """Give the run under the cursor as it would be marked; None where there is none."""
        raise NotImplementedError

    def draw_marks(self) -> None:
        """Draw the rows that are marked, or are not any more."""
        raise NotImplementedError

    def action_mark(self) -> None:
        """Mark the run under the cursor, or take its mark away."""
        here = self.here()
        if here is not None:
            self._mark(self.marks.toggled(here))

    def forget_mark(self, path: str) -> None:
        """Take the mark of a run away that is gone."""
        if path in self.marks.paths:
            self._mark(self.marks.without(path))

    def _mark(self, marks: Marks) -> None:
        self.marks = marks
        self.draw_marks()

    def to_export(self) -> tuple[Chosen, ...]:
        """Give the marked runs, else the one under the cursor."""
        chosen = self.chosen()
        if chosen is None or not self.marks.runs:
            return super().to_export()
        return tuple(chosen._replace(path=Path(run.path), hint=run.format) for run in self.marks.runs)

    def action_compare(self) -> None:
        """Compare two marked runs, or the marked one with this one, or this one with its parent."""
        chosen, here, runs = self.chosen(), self.here(), self.marks.runs
        if chosen is None or here is None or self.app.screen is not self:
            return
        if len(runs) == 1 and runs[0].path != here.path:
            runs = (*runs, here)
        if len(runs) > 2:
            self.notify("Two runs are compared at a time: take the marks of the others away.")
        elif len(runs) == 2:
            from refold.app.comparing import Compared

            a, b = runs
            compared = Compared(Path(a.path), Path(b.path), (a.format, b.format))
            self.app.push_screen(compared.screen(chosen.settings))
        else:
            super().action_compare()
