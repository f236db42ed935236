"""The lineage of a run: its parents and forks as a tree, across all directories."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType

from refold.app import keys
from refold.app.family import family_of
from refold.app.given_names import GivenNames
from refold.app.lines import Cell, FixedRows
from refold.app.loading import aside, slices
from refold.app.present import lineage as present
from refold.app.present.layout import cell
from refold.app.present.lineage import LineageRows
from refold.app.present.marks import Marked
from refold.app.safe import Safe
from refold.app.screens.going_on import Chosen
from refold.app.screens.list_frame import draw_heading, headed_parts
from refold.app.screens.marking import MarkingScreen
from refold.app.widgets.bars import TopBar
from refold.app.widgets.line_list import LineList
from refold.app.widgets.line_pager import LinePager
from refold.core.errors import RefoldError
from refold.core.lineage import Branch, Tree

if TYPE_CHECKING:
    from refold.app.settings import Settings


_LOW: Final = 24


class LineageScreen(MarkingScreen):
    """Shows the family of one run; it is read again whenever the screen comes back into sight."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("lineage")]
    NO_RUN: ClassVar[str] = "This run is not here: only its forks know of it."

    def __init__(self, path: Path, hint: str, settings: Settings) -> None:
        """Show a family.

        Args:
            path: The run that is asked about.
            hint: The format to assume where the bytes do not tell.
            settings: Where to look, and where notes and caches lie.
        """
        super().__init__()
        self._path = path
        self._hint = hint
        self._settings = settings
        self._names: GivenNames = GivenNames()
        self._tree: Tree | None = None
        self._finished = False

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield from headed_parts("lineage")

    @property
    def listing(self) -> LineList:
        """The tree."""
        return self.query_one("#lineage", LineList)

    @property
    def family(self) -> Tree | None:
        """The family as far as it is read; None before there is any."""
        return self._tree

    @property
    def is_read(self) -> bool:
        """Whether all of the family was read."""
        return self._finished

    @property
    def branch(self) -> Branch | None:
        """The row under the cursor."""
        cursor = self.listing.cursor
        return (
            self._tree.rows[cursor] if self._tree is not None and 0 <= cursor < len(self._tree.rows) else None
        )

    def on_mount(self) -> None:
        """Take the keys."""
        self.listing.focus()
        self._draw_top()

    def on_resize(self, event: events.Resize) -> None:
        """Give the panel what the tree can spare."""
        self.set_class(event.size.height < _LOW, "-low")
        self.call_after_refresh(self._draw_heading)

    @on(events.ScreenResume)
    def _in_sight(self) -> None:
        self._read()

    @work(group="family", exclusive=True)
    async def _read(self) -> None:
        self._finished = False
        self._names = await aside(lambda: GivenNames.of(self._settings))
        try:
            async with aclosing(slices(family_of(self._path, self._hint, self._settings))) as steps:
                async for produced in steps:
                    for tree in produced:
                        if tree is not None:
                            self._show(tree)
        except RefoldError as error:
            self.notify(f"{error}\n{error.remedy}", title="Not all of it could be read", severity="warning")
        self._finished = True
        self._draw_top()

    def _show(self, tree: Tree) -> None:
        """Show a better tree, the cursor on the run it stood on."""
        branch = self.branch
        before = None if branch is None else branch.kin.path
        self._tree = tree
        paths = [row.kin.path for row in tree.rows]
        cursor = paths.index(before) if before is not None and before in paths else tree.focus
        for path in self.marks.paths.difference(paths):
            self.forget_mark(path)
        self.listing.show(LineageRows(tree, self.marks.paths, self._names), cursor, keep=before is not None)
        self._draw_top()

    def _draw_top(self) -> None:
        name = self._names(str(self._path)) or self._path.stem
        title = (Cell(Safe("ψ lineage "), "fork"), cell(name, "strong", 60))
        right = (
            ()
            if self._tree is None
            else present.summary(self._tree, finished=self._finished, prices=self._settings.prices)
        )
        self.query_one(TopBar).show(title, right or (Cell(Safe("reading the runs"), "accent"),))

    def _draw_heading(self) -> None:
        draw_heading(self, self.listing, present.heading)

    @on(LineList.Moved, "#lineage")
    @on(LinePager.Resized, "#preview")
    def _draw_details(self) -> None:
        branch, pager = self.branch, self.query_one("#preview", LinePager)
        if branch is not None and pager.width > 0:
            name = self._names(branch.kin.path)
            pager.show(FixedRows(present.details(branch, pager.width, self._settings.prices, name)))
        self.refresh_bindings()

    def chosen(self) -> Chosen | None:
        """The run under the cursor, where it is there."""
        branch = self.branch
        if branch is None or not branch.kin.path:
            return None
        return Chosen(Path(branch.kin.path), branch.kin.format or self._hint, self._settings)

    def here(self) -> Marked | None:
        """Give the run under the cursor as it would be marked."""
        branch = self.branch
        if branch is None or not branch.kin.path:
            return None
        return Marked(branch.kin.path, branch.kin.format or self._hint)

    def draw_marks(self) -> None:
        """Draw the tree with what is marked now."""
        rows = self.listing.rows
        if isinstance(rows, LineageRows):
            rows.marked = self.marks.paths
            self.listing.refresh_rows()

    def action_open(self) -> None:
        """Open the run under the cursor."""
        from refold.app.screens.run import RunScreen

        chosen = self.chosen()
        if chosen is None:
            self.notify(self.NO_RUN, severity="warning")
        elif self.app.screen is self:
            self.app.push_screen(RunScreen(chosen.path, settings=self._settings, hint=chosen.hint))

    @on(LineList.Chosen, "#lineage")
    def _picked(self) -> None:
        self.action_open()

    def action_back(self) -> None:
        """Go back."""
        self.dismiss()
