"""The runs that were marked in a list, in the order in which that was done."""

from __future__ import annotations

from typing import Final, NamedTuple

from refold.app.lines import Cell
from refold.app.safe import Safe

MARK: Final = Cell(Safe("▸ "), "accent")
"""What stands before the name of a marked run."""


class Marked(NamedTuple):
    """One marked run."""

    path: str
    format: str
    """What its directory holds, where its bytes do not tell."""


class Marks(NamedTuple):
    """All that are marked."""

    runs: tuple[Marked, ...] = ()

    @property
    def paths(self) -> frozenset[str]:
        """Where they lie."""
        return frozenset(run.path for run in self.runs)

    def toggled(self, run: Marked) -> Marks:
        """Mark a run, or take its mark away."""
        others = tuple(other for other in self.runs if other.path != run.path)
        return Marks(others if len(others) < len(self.runs) else (*others, run))

    def without(self, path: str) -> Marks:
        """Forget a run that is gone."""
        return Marks(tuple(run for run in self.runs if run.path != path))
