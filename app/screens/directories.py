"""Which directories are watched and how big they are, measured beside everything else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import ClassVar, Final

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from refold.app import keys
from refold.app.lines import Cell, FixedRows
from refold.app.loading import aside
from refold.app.present.directories import Directory, directory_lines
from refold.app.safe import Safe
from refold.app.widgets.dialog import Dialog
from refold.app.widgets.key_bar import KeyBar
from refold.app.widgets.line_pager import LinePager
from refold.app.widgets.words import Words
from refold.core.store.roots import RootReport
from refold.core.store.sizes import Measured, measure

_AT_ONCE: Final = 10
"""So many steps of the measuring are made between two drawings."""


class DirectoriesScreen(Dialog[None]):
    """Shows the directories; it reads names and sizes, and nothing else."""

    CSS_PATH = "../../styles/dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("directories")]
    ROWS: ClassVar[int] = 7

    def __init__(self, reports: Sequence[RootReport], mode: str, why: str = "") -> None:
        """Show directories.

        Args:
            reports: What was found in each.
            mode: `watching` or `polling`.
            why: Why changes are polled for.
        """
        super().__init__()
        self._directories = tuple(Directory(report) for report in reports)
        self._mode, self._why = mode, why

    def compose(self) -> ComposeResult:
        """Title, directories, keys."""
        with Vertical(classes="dialog"):
            yield Words((Cell(Safe("Directories"), "accent"),))
            yield LinePager(id="directories")
            yield KeyBar()

    def on_mount(self) -> None:
        """Begin to measure."""
        self.query_one(LinePager).focus()
        self._draw()
        self._measure()

    @on(LinePager.Resized, "#directories")
    def _draw(self) -> None:
        pager = self.query_one("#directories", LinePager)
        lines = list(directory_lines(self._directories, self._mode, self._why, max(20, pager.width)))
        self.fit(pager, len(lines))
        pager.show(FixedRows(lines), top=pager.top)

    @work(group="measure", exclusive=True)
    async def _measure(self) -> None:
        for place, directory in enumerate(self._directories):
            steps = measure(directory.report.root.path)
            while (found := await aside(partial(_some, steps))) is not None:
                mine = (*self._directories[:place], directory._replace(measured=found))
                self._directories = (*mine, *self._directories[place + 1 :])
                self._draw()
                if found.done:
                    break

    def action_close(self) -> None:
        """Go back."""
        self.dismiss()


def _some(steps: Iterator[Measured]) -> Measured | None:
    found = list(islice(steps, _AT_ONCE))
    return found[-1] if found else None
