"""Words in all runs: hits stream in while typing stops, Enter opens the run on the record."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.timer import Timer

from refold.app import keys
from refold.app.lines import FixedRows
from refold.app.loading import aside
from refold.app.present import search as present
from refold.app.present.landing import Landing
from refold.app.present.search import HitRows
from refold.app.present.units import ago
from refold.app.safe import Safe
from refold.app.screens.list_frame import divide, parts
from refold.app.searching import Searching
from refold.app.widgets.bars import ColumnHeader, TopBar
from refold.app.widgets.ground import GroundScreen
from refold.app.widgets.line_list import GUTTER, LineList
from refold.app.widgets.line_pager import LinePager
from refold.app.widgets.prompt_bar import PromptBar
from refold.core.search import in_words
from refold.core.search_hits import Hit
from refold.core.search_text import QueryError, parse_query

if TYPE_CHECKING:
    from refold.app.settings import Settings

_PAUSE: Final = 0.12
"""Seconds without a key before a query is asked: the word may not be typed to its end."""
_REDRAW: Final = 0.1
"""Seconds between two drawings while hits stream in."""


class SearchScreen(GroundScreen):
    """Searches the records of all runs. It reads runs, and writes nothing but the index in the cache."""

    CSS_PATH = "../../styles/search.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("search")]

    def __init__(self, settings: Settings, words: str = "", *, now: Callable[[], float] = time.time) -> None:
        """Show a search.

        Args:
            settings: Where to look, and where the index lies.
            words: What to begin with.
            now: The clock that ages count from.
        """
        super().__init__()
        self._settings = settings
        self._words = words
        self._now = now
        self._searching = Searching(settings)
        self._problem = ""
        self._names: Callable[[str], str] = present.unnamed
        self._rows = HitRows((), None, self._ago)
        self._asking: Timer | None = None
        self._drawing: Timer | None = None
        self._drawn = float("-inf")

    def compose(self) -> ComposeResult:
        """From top to bottom; arranged for the size from the first."""
        divide(self, self.app.size.height)
        yield from parts("hits")

    @property
    def listing(self) -> LineList:
        """The list of hits."""
        return self.query_one("#hits", LineList)

    @property
    def prompt(self) -> PromptBar:
        """The line that words are typed into."""
        return self.query_one("#prompt", PromptBar)

    @property
    def hit(self) -> Hit | None:
        """The hit under the cursor."""
        cursor = self.listing.cursor
        return self._rows.hits[cursor] if 0 <= cursor < len(self._rows) else None

    @property
    def is_searching(self) -> bool:
        """Whether more hits may come."""
        return self._asking is not None or self._searching.is_searching

    @property
    def is_indexing(self) -> bool:
        """Whether the index is being brought up to date."""
        return self._searching.is_indexing

    def on_mount(self) -> None:
        """Begin to search, ready for typing."""
        self.listing.focus()
        self._draw()
        self._listen()
        self._read_names()
        if self._words:
            self._ask()
        self.action_words()

    def on_unmount(self) -> None:
        """End the process that searches."""
        self._searching.close()

    def on_resize(self, event: events.Resize) -> None:
        """Give the preview what the list can spare."""
        divide(self, event.size.height)

    def show_times(self, *, utc: bool) -> None:
        """Open runs with their times in UTC, or in local time; here are only ages."""
        self._settings = msgspec.structs.replace(self._settings, utc=utc)

    @work(group="search", exclusive=True)
    async def _listen(self) -> None:
        async with aclosing(self._searching.changes()) as changes:
            async for _ in changes:
                self._draw_soon(at_once=not self._searching.is_searching)

    @work(group="names", exclusive=True)
    async def _read_names(self) -> None:
        """Find out what the runs are called; the rows that are there already say it then."""
        from refold.app.given_names import GivenNames

        self._names = await aside(lambda: GivenNames.of(self._settings))
        if self._rows.hits:
            self._put_rows(self._rows.hits)

    def _ask(self) -> None:
        """Search for what is typed."""
        if self._asking is not None:
            self._asking.stop()
            self._asking = None
        self._problem = ""
        if self._words.strip():
            try:
                parse_query(self._words)
            except QueryError as error:
                self._problem = f"{error}: {error.remedy}"
        self._searching.ask("" if self._problem else self._words)
        self._draw_soon()

    def _draw_soon(self, *, at_once: bool = False) -> None:
        wait = self._drawn + _REDRAW - time.monotonic()
        if wait <= 0 or at_once:
            self._draw()
        elif self._drawing is None:
            self._drawing = self.set_timer(wait, self._draw)

    def _draw(self) -> None:
        """Bring the list in line with what was found; the hit under the cursor stays where it is."""
        if self._drawing is not None:
            self._drawing.stop()
            self._drawing = None
        self._drawn = time.monotonic()
        search = self._searching
        hits = search.hits()
        if tuple(hits) != self._rows.hits:
            self._put_rows(hits)
        self.set_class(not hits, "-nothing")
        if not hits:
            pager = self.query_one("#nothing", LinePager)
            said = present.nothing(
                self._words.strip(),
                search.reach,
                searching=self.is_searching and bool(self._words.strip()),
                problem=self._problem or search.problem,
                width=pager.width or 60,
            )
            pager.show(FixedRows(said))
        self._draw_top()

    def _put_rows(self, hits: Sequence[Hit]) -> None:
        here = self.hit
        self._rows = HitRows(hits, self._searching.query, self._ago, self._names)
        # Nobody has gone anywhere yet: the best hit stays in view while more come.
        stays = here is not None and self.listing.cursor > 0
        places = {hit.place: number for number, hit in enumerate(hits)} if stays else {}
        cursor = places.get(here.place) if here is not None else None
        self.listing.show(self._rows, cursor or 0, keep=cursor is not None)
        self._draw_header()
        self._draw_preview()

    @on(LineList.Resized, "#hits")
    def _draw_header(self) -> None:
        width = max(1, self.listing.scrollable_content_region.width - GUTTER)
        self.query_one("#header", ColumnHeader).show(present.columns(width), "", descending=True)

    def _draw_top(self) -> None:
        asked = bool(self._words.strip()) and not self._problem
        left, right = present.top(
            self._rows.hits,
            self._searching.reach,
            asked=asked,
            searching=asked and self.is_searching,
            indexing=self._searching.index_words,
        )
        self.query_one("#top", TopBar).show(left, right)

    @on(LineList.Moved, "#hits")
    @on(LinePager.Resized, "#preview")
    def _draw_preview(self) -> None:
        hit, query, pager = self.hit, self._searching.query, self.query_one("#preview", LinePager)
        if hit is None or query is None or not pager.width:
            pager.show(FixedRows(()))
            return
        name = self._names(hit.run)
        in_run = self._rows.in_run(hit)
        pager.show(FixedRows(present.preview(hit, query, pager.width, self._ago, name, in_run)))

    def _ago(self, moment: float) -> str:
        return ago(self._now() - moment)

    def action_open(self) -> None:
        """Open the run of the hit on its record, with the whole query searched for in it."""
        hit, query = self.hit, self._searching.query
        if hit is None or query is None or self.app.screen is not self:
            return
        from refold.app.screens.run import RunScreen

        screen = RunScreen(Path(hit.run), settings=self._settings, hint=hit.hint)
        text = in_words(query.source)
        if hit.is_of_log:
            screen.begin_with(Landing(start=hit.start), text)
        else:
            screen.begin_with(Landing(), text, pane="conversation")
        self.app.push_screen(screen)

    @on(LineList.Chosen, "#hits")
    def _chosen(self) -> None:
        self.action_open()

    def action_words(self) -> None:
        """Type words; the hits follow."""
        if not self.prompt.is_open:
            self.prompt.open_to_add(Safe("search"), self._words)
            self.prompt.remark(Safe(present.GRAMMAR) if self.size.width >= 120 else Safe(""))

    def key_words(self) -> Mapping[str, str]:
        """Name what Esc does now, and what Enter does while words are typed."""
        back = "clear" if self._words else "back" if len(self.app.screen_stack) > 1 else "quit"
        return {"prompt.accept": "open", "prompt.cancel": back, "search.back": back}

    def action_back(self) -> None:
        """Take the words away; where there are none, leave."""
        if self._words:
            self._typed_words("")
            self._ask()
            self.action_words()
        else:
            self._leave()

    def _leave(self) -> None:
        """Go back to the screen below, or end the program where there is none."""
        if len(self.app.screen_stack) > 1:
            self.dismiss()
        else:
            self.app.exit()

    def _typed_words(self, text: str) -> None:
        if text == self._words:
            return
        self._words = text
        self.refresh_bindings()
        if self._asking is not None:
            self._asking.stop()
        self._asking = self.set_timer(_PAUSE, self._ask)

    @on(PromptBar.Changed, "#prompt")
    def _typed(self, event: PromptBar.Changed) -> None:
        self._typed_words(event.text)

    @on(PromptBar.Submitted, "#prompt")
    def _taken(self, event: PromptBar.Submitted) -> None:
        pending = self._asking is not None or event.text != self._words
        self._words = event.text
        if pending:
            # What was typed a moment ago was not searched for yet: the list has the keys, and fills.
            self._ask()
        elif self.hit is None:
            self.action_words()
        else:
            self.action_open()

    @on(PromptBar.Cancelled, "#prompt")
    def _left(self) -> None:
        self.action_back()

    @on(PromptBar.Stepped, "#prompt")
    def _stepped(self, event: PromptBar.Stepped) -> None:
        step = max(1, self.listing.size.height - 1) if event.pages else 1
        self.listing.move(event.delta * step)
