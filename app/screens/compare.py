"""Two runs side by side: first the point where they part, then row by row, state against state below."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container

from refold.app import keys
from refold.app.lines import Cell, FixedRows
from refold.app.loading import slices
from refold.app.present import compare as present
from refold.app.present.compare import CompareRows, Side
from refold.app.present.layout import cell
from refold.app.present.reading import Reading, reading_of
from refold.app.safe import Safe
from refold.app.screens.run_pane import notice
from refold.app.widgets.bars import TopBar
from refold.app.widgets.ground import GroundScreen
from refold.app.widgets.key_bar import KeyBar
from refold.app.widgets.line_list import GUTTER, LineList
from refold.app.widgets.line_pager import LinePager
from refold.app.widgets.words import Words
from refold.core.errors import RefoldError
from refold.core.records import MetaRecord
from refold.core.store.compare import (
    Comparison,
    Parting,
    common_messages,
    compare,
    standing_at,
)
from refold.core.store.reader import RunReader

if TYPE_CHECKING:
    from refold.app.settings import Settings

_LOW: Final = 36
_LOWEST: Final = 20
_SLICE: Final = 0.003


class CompareScreen(GroundScreen):
    """Shows two runs, or one run at two points; it reads and writes nothing."""

    CSS_PATH = "../../styles/compare.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("compare")]

    def __init__(
        self,
        path_a: Path,
        path_b: Path,
        at_a: int | None = None,
        at_b: int | None = None,
        *,
        settings: Settings,
        hints: tuple[str, str] = ("refold", "refold"),
    ) -> None:
        """Compare two runs.

        Args:
            path_a: The one run.
            path_b: The other; may be the same.
            at_a: The last sequence of the one that counts; None for all of it.
            at_b: The last sequence of the other that counts.
            settings: Where the cache lies.
            hints: The formats to assume where the bytes do not tell.
        """
        super().__init__()
        self._paths = (path_a, path_b)
        self._places = (at_a, at_b)
        self._settings = settings
        self._hints = hints
        self._readings: tuple[Reading, Reading] | None = None
        self._found: Comparison | None = None
        self._leaves: list[present.Leaf] = []
        self._side: Side = "a"
        self._stands: tuple[int, Side] | None = None
        self._finished = False

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield TopBar(id="top")
        yield Words(id="compare-heading")
        yield LineList(id="differences")
        with Container(id="panel"):
            yield LinePager(id="states")
        yield KeyBar(id="keys")

    @property
    def listing(self) -> LineList:
        """The rows of both."""
        return self.query_one("#differences", LineList)

    @property
    def found(self) -> Comparison | None:
        """The comparison; None while it is not made."""
        return self._found

    @property
    def side(self) -> Side:
        """The run that the keys act on."""
        return self._side

    @property
    def is_read(self) -> bool:
        """Whether both runs were read, or cannot be."""
        return self._finished

    def on_mount(self) -> None:
        """Take the keys, and begin to read."""
        self.listing.focus()
        self._draw_top("reading")
        self._read()

    def on_unmount(self) -> None:
        """Close both files."""
        for reading in self._readings or ():
            reading.reader.close()

    def on_resize(self, event: events.Resize) -> None:
        """Divide the screen anew: beside each other, or above each other."""
        self.set_class(event.size.height < _LOW, "-low")
        self.set_class(event.size.height < _LOWEST, "-lowest")
        self.call_after_refresh(self._divide)

    @work(group="compare", exclusive=True)
    async def _read(self) -> None:
        known = ""
        try:
            async with aclosing(slices(self._compared())) as steps:
                async for produced in steps:
                    for step in produced:
                        if isinstance(step, Parting):
                            known = "" if step.seq is None else f"common through seq {step.seq}, "
                            self._draw_top(f"{known}reading")
                        elif isinstance(step, Comparison):
                            self._show(step)
                        elif step is not None:
                            self._draw_top(f"{known}aligning {step:.0%}")
        except RefoldError as error:
            self._draw_top("")
            self._refuse(error)
        self._finished = True

    def _refuse(self, error: RefoldError) -> None:
        """Say why there is nothing to compare, once there is room to say it."""
        width = self.listing.size.width
        if not width:
            self.call_after_refresh(self._refuse, error)
            return
        self.listing.show(notice([(str(error), "problem"), (error.remedy, "dim")], width))

    def _compared(self) -> Iterator[Parting | Comparison | float | None]:
        """Open both runs, find the points, compare."""
        readers: list[RunReader] = []
        stops: list[int | None] = []
        try:
            for path, hint in zip(self._paths, self._hints, strict=True):
                readers.append(RunReader.open(path, hint=hint, cache=self._settings.cache_dir))
        except BaseException:
            for reader in readers:
                reader.close()
            raise
        a, b = readers
        self._readings = (reading_of(a), reading_of(b))
        for reader, at in zip(readers, self._places, strict=True):
            while at is not None and not reader.step(_SLICE):
                yield None
            item = None if at is None else reader.timeline.item_at(at)
            stops.append(None if item is None else item + 1)
        yield from compare(a, b, *stops)

    def _show(self, found: Comparison) -> None:
        """Show a comparison, the cursor on the first difference."""
        if self._readings is None:
            return
        a, b = self._readings
        self._found = found
        self._leaves = present.leaves(found, a.timeline, b.timeline)
        self._divide()
        self._draw_top(present.parting_words(found))

    @property
    def _stacked(self) -> bool:
        return self.size.width < present.WIDE

    def _rows(self) -> CompareRows | None:
        rows = self.listing.rows
        return rows if isinstance(rows, CompareRows) else None

    def _divide(self) -> None:
        """Make the rows for this width; the cursor stays on its record."""
        self._draw_heading()
        if self._found is None or self._readings is None:
            return
        before = self._rows()
        if before is not None and before.stacked == self._stacked:
            return
        a, b = self._readings
        common = present.common_line(
            self._found,
            a.reader.meta or MetaRecord(),
            b.reader.meta or MetaRecord(),
            named=a.reader.session is not None and b.reader.session is not None,
        )
        rows = CompareRows(self._leaves, a.rows(), b.rows(), common, stacked=self._stacked)
        cursor = 1 if self._stands is None else rows.index(*self._stands)
        self.listing.show(rows, cursor, keep=before is not None)

    def _draw_top(self, words: str) -> None:
        names = [path.name.removesuffix(".json") for path in self._paths]
        ats = ["" if at is None else f"@{at}" for at in self._places]
        left = (
            Cell(Safe("compare "), "accent"),
            cell(f"{names[0]}{ats[0]}", "strong", 60),
            Cell(Safe(" with "), "dim"),
            cell(f"{names[1]}{ats[1]}", "strong", 60),
        )
        self.query_one(TopBar).show(left, (cell(words, "accent"),) if words else ())

    def _draw_heading(self) -> None:
        width = self.listing.scrollable_content_region.width - GUTTER
        if width > 0:
            names = tuple(path.name.removesuffix(".json") for path in self._paths)
            line = present.heading(
                (names[0], names[1]), self._places, self._side, width, stacked=self._stacked
            )
            self.query_one("#compare-heading", Words).show((Cell(Safe(" ")), *line))

    @on(LineList.Moved, "#differences")
    @on(LinePager.Resized, "#states")
    def _moved(self) -> None:
        """Follow the cursor: the side of its row, and the states behind it."""
        rows, pager = self._rows(), self.query_one("#states", LinePager)
        if rows is None:
            return
        place = rows.place(self.listing.cursor)
        if place is not None:
            leaf = self._leaves[place[0]]
            alone: Side | None = "a" if leaf.b is None else "b" if leaf.a is None else None
            side = alone or (place[1] if rows.stacked and not leaf.same else self._side)
            self._side, self._stands = side, (place[0], side)
        self._draw_heading()
        if pager.width > 0:
            self._draw_states(pager)
        self.refresh_bindings()

    def _draw_states(self, pager: LinePager) -> None:
        if self._readings is None or self._found is None:
            return
        item_a, item_b = self._items()
        a, b = self._readings
        shared = common_messages(a.reader, self._found)
        try:
            lines = list(
                present.state_lines(
                    standing_at(a.reader, item_a), standing_at(b.reader, item_b), shared, pager.width
                )
            )
        except RefoldError as error:
            lines = [(cell(str(error), "problem", 1000),)]
        pager.show(FixedRows(lines))

    def _items(self) -> tuple[int, int]:
        """Give the last item of each run that stands at the cursor or above it."""
        found, rows = self._found, self._rows()
        place = rows.place(self.listing.cursor) if rows is not None else None
        if place is not None:
            leaf = self._leaves[place[0]]
            return leaf.item_a, leaf.item_b
        return (found.common_a - 1, found.common_b - 1) if found is not None else (-1, -1)

    def action_difference(self, step: int) -> None:
        """Go to the next or the previous difference."""
        rows = self._rows()
        if rows is None:
            return
        place = rows.place(self.listing.cursor)
        leaf = rows.difference(-1 if place is None else place[0], step)
        if leaf is None:
            self.notify("There is no further difference." if step > 0 else "There is no difference before.")
        else:
            self.listing.go(rows.index(leaf, self._side))

    def action_side(self) -> None:
        """Let the keys act on the other run."""
        rows = self._rows()
        if rows is None:
            return
        other: Side = "b" if self._side == "a" else "a"
        place = rows.place(self.listing.cursor)
        if place is not None:
            leaf = self._leaves[place[0]]
            if leaf.a is None or leaf.b is None:
                self.notify(f"Only {'B' if leaf.a is None else 'A'} has this record.")
                return
        self._side = other
        if place is not None:
            self._stands = (place[0], other)
            self.listing.go(rows.index(place[0], other))
        self._moved()

    def action_open(self) -> None:
        """Open the run of this side, at the record under the cursor."""
        from refold.app.screens.run import RunScreen

        if self._readings is None or self.app.screen is not self:
            return
        index = 0 if self._side == "a" else 1
        item, timeline = self._items()[index], self._readings[index].timeline
        seq = timeline.seq(item) if 0 <= item < timeline.items else None
        line = timeline.span(item).line if seq is None and 0 <= item < timeline.items else None
        self.app.push_screen(
            RunScreen(self._paths[index], seq, line=line, settings=self._settings, hint=self._hints[index])
        )

    @on(LineList.Chosen, "#differences")
    def _picked(self) -> None:
        self.action_open()

    def action_back(self) -> None:
        """Go back."""
        if len(self.app.screen_stack) > 1:
            self.dismiss()
        else:
            self.app.exit()
