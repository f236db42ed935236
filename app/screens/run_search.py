"""What an open run offers to find something in it: a text, or a regular expression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from textual import work

from refold.app.loading import STILL_READING
from refold.app.present.landing import Landing
from refold.app.present.rows import TimelineRows
from refold.app.safe import Safe
from refold.app.screens.run_find import RunFind
from refold.app.screens.run_moves import RunMovesScreen
from refold.app.screens.run_pane import PaneName, RunPane
from refold.app.widgets.prompt_bar import PromptBar


class _Wanted(NamedTuple):
    """What the run was opened for."""

    text: str
    pane: PaneName


class RunSearchScreen(RunMovesScreen):
    """A screen of one run in which something can be found."""

    find: RunFind
    pane: RunPane
    _landing: Landing
    _wanted: _Wanted | None = None
    _marks: tuple[str, int] = ("", 0)
    """What was marked when rows and pane were drawn for a search."""

    def begin_with(self, landing: Landing, text: str, *, pane: PaneName = "record") -> None:
        """Open the run on a place, with a text searched for in it; said before the screen is shown."""
        self._landing = landing
        self._wanted = _Wanted(text, pane)

    def on_unmount(self) -> None:
        """Let no search go on."""
        self.find.stop()

    def _draw_top(self) -> None:
        """Draw the first row."""
        raise NotImplementedError

    def action_search(self) -> None:
        """Ask what to look for."""
        prompt = self.query_one(PromptBar)
        prompt.open(Safe("search"), self.find.query, purpose="search")
        prompt.remark(Safe("/…/ is a regular expression, words: … as in all runs"))

    def _search_for(self, text: str) -> None:
        """Look for what was typed, from the cursor on."""
        reading, item = self._reading, self.item
        if not text:
            self.action_stop_search()
        elif reading is None or reading.is_window or item is None:
            self.notify(STILL_READING, severity="warning")
        else:
            self.workers.cancel_group(self, "search")
            self.find.begin(reading.reader, text, item)
            self._mark_matches()
            self._search()

    def _search_what_was_wanted(self) -> None:
        """Look for what the run was opened for, once it is read; the cursor stays where it was put."""
        wanted, reading = self._wanted, self._reading
        if wanted is None or reading is None or reading.is_window:
            return
        self._wanted = None
        self.find.begin(reading.reader, wanted.text, self.item or 0)
        self._mark_matches()
        if wanted.pane != self.pane.open_pane:
            self.pane.open(wanted.pane)
        self._search(stay=True)

    @work(group="search", exclusive=True)
    async def _search(self, *, stay: bool = False) -> None:
        await self.find.work(_stay if stay else self._go_to_item, self._search_changed)
        if self.find.problem:
            self.notify(self.find.problem, title="The search has ended", severity="warning")
        elif self.find.query and not self.find.found and not stay:
            self.notify("No record of this run shows this text.", severity="warning")

    def _search_changed(self) -> None:
        self._mark_matches()
        self._draw_top()

    def key_words(self) -> Mapping[str, str]:
        """Offer the way through the matches while something is searched for, and name what Esc ends."""
        words = super().key_words()
        if self.find.query:
            # In the place of what is wanted less then.
            words = {**words, "run.detail": "", "run.play": ""}
            in_pane = self.has_class("-detail") or self.pane.pager.has_focus
            return words if in_pane else {**words, "run.back": "end search"}
        return {**words, "run.match_on": "", "run.match_back": ""}

    def action_stop_search(self) -> None:
        """Look for nothing any more."""
        self.workers.cancel_group(self, "search")
        self.find.stop()
        self._mark_matches()
        self._draw_top()

    def action_match(self, step: int) -> None:
        """Go to the match after or before."""
        if not self.find.query or self.item is None:
            self.notify("Nothing is searched for: / begins a search.")
            return
        found = self.find.neighbour(self.item, step)
        if found is not None:
            self._go_to_item(found)

    def _mark_matches(self) -> None:
        rows, marks = self.timeline.rows, self.find.marks
        if marks == self._marks:
            return
        before, self._marks = self._marks[0], marks
        if isinstance(rows, TimelineRows):
            rows.search = self.find.pattern_at
            self.timeline.refresh_rows()
        self.pane.search = self.find.pattern_beside
        if marks[0] != before:
            self.refresh_bindings()
        if marks[0] != before or self.pane.is_marked_anew:
            self.pane.fill()


def _stay(item: int) -> None:
    """Leave the cursor where it is."""
    del item
