"""The conversations of Rivumi: what is typed filters at once, Enter opens or hands the id to a caller."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen

from refold.app import keys
from refold.app.lines import FixedRows
from refold.app.loading import slices
from refold.app.present import history as present
from refold.app.present.history import HistoryRows
from refold.app.present.times import zone_of
from refold.app.safe import Safe
from refold.app.screens.list_frame import divide, parts
from refold.app.widgets.bars import ColumnHeader, TopBar
from refold.app.widgets.line_list import GUTTER, LineList
from refold.app.widgets.line_pager import LinePager
from refold.app.widgets.prompt_bar import PromptBar
from refold.core.rivumi.conversation import matches
from refold.core.store.conversations import Listed, in_order, list_conversations

if TYPE_CHECKING:
    from refold.app.settings import Settings


class HistoryScreen(Screen[None]):
    """Lists the conversations, the one that was changed last first. It reads, and nothing else."""

    CSS_PATH = "../../styles/history.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("history")]

    def __init__(
        self,
        settings: Settings,
        filter_text: str = "",
        *,
        chosen: Callable[[str], None] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Show the conversations.

        Args:
            settings: Where to look.
            filter_text: The words to begin with.
            chosen: Told the id that was picked, and the program ends; None to open it here.
            now: The clock that ages count from.
        """
        super().__init__()
        self._settings = settings
        self._words = filter_text
        self._tell = chosen
        self._now = now
        self._zone = zone_of(utc=settings.utc)
        self._all: dict[str, Listed] = {}
        self._rows = HistoryRows((), now, self._zone)
        self._wanted = ""
        """The path of the conversation that the cursor is to stand on once it is read."""
        self._is_reading = True

    def compose(self) -> ComposeResult:
        """From top to bottom; arranged for the size from the first."""
        divide(self, self.app.size.height)
        yield from parts("chats")

    @property
    def listing(self) -> LineList:
        """The list."""
        return self.query_one("#chats", LineList)

    @property
    def hands_over(self) -> bool:
        """Whether a caller waits for the id of a conversation."""
        return self._tell is not None

    @property
    def prompt(self) -> PromptBar:
        """The line that words are typed into."""
        return self.query_one("#prompt", PromptBar)

    @property
    def conversation(self) -> Listed | None:
        """The conversation under the cursor."""
        return self._rows.at(self.listing.cursor)

    def on_mount(self) -> None:
        """Begin to read, ready for typing."""
        self.listing.focus()
        self._draw()
        self._read()
        self.action_filter()

    def on_screen_resume(self) -> None:
        """Read again: a fork may have been made."""
        if not self._is_reading:
            self._read()

    def on_resize(self, event: events.Resize) -> None:
        """Give the preview what the list can spare."""
        divide(self, event.size.height)

    @work(group="read", exclusive=True)
    async def _read(self) -> None:
        self._is_reading = True
        found: dict[str, Listed] = {}
        first = not self._all
        async with aclosing(slices(list_conversations(self._settings.conversations))) as steps:
            async for step in steps:
                read = [one for one in step if one is not None]
                found.update((one.path, one) for one in read)
                if first and read:
                    self._all = dict(found)
                    self._draw()
        self._all = found
        self._is_reading = False
        self._draw()

    def show_next(self, path: Path) -> None:
        """Put the cursor on a conversation that was just made, once it is read."""
        self._wanted = str(path)
        self._words = ""

    def _draw(self) -> None:
        """Bring the list in line with what is known and what is typed."""
        here = self.conversation
        kept = [one for one in self._all.values() if matches(one.conversation, self._words, one.hay)]
        ordered = in_order(kept)
        self._rows = HistoryRows(ordered, self._now, self._zone)
        # Nobody has gone anywhere yet: the newest stays in view while the list fills.
        stays = here is not None and self.listing.cursor > 0
        path = self._wanted or (here.path if here is not None and stays else "")
        places = {one.path: place for place, one in enumerate(ordered)}
        if self._wanted in places:
            self._wanted = ""
        self.listing.show(self._rows, places.get(path, 0))
        self._draw_header()
        left, right = present.top(len(ordered), len(self._all), self._is_reading)
        self.query_one("#top", TopBar).show(left, right)
        self.set_class(not ordered and not self._is_reading, "-nothing")
        if self.has_class("-nothing"):
            roots = [(str(root.path), root.origin) for root in self._settings.conversations]
            said = present.nothing_matches(len(self._all)) if self._all else present.nothing(roots)
            self.query_one("#nothing", LinePager).show(FixedRows(said))

    def show_times(self, *, utc: bool) -> None:
        """Write all times in UTC, or in local time."""
        self._settings = msgspec.structs.replace(self._settings, utc=utc)
        self._zone = zone_of(utc=utc)
        self._draw()
        self._draw_preview()

    @on(LineList.Resized, "#chats")
    def _draw_header(self) -> None:
        width = max(1, self.listing.scrollable_content_region.width - GUTTER)
        self.query_one("#header", ColumnHeader).show(present.columns(width), "updated", descending=True)

    @on(LineList.Moved, "#chats")
    @on(LinePager.Resized, "#preview")
    def _draw_preview(self) -> None:
        one, pager = self.conversation, self.query_one("#preview", LinePager)
        if one is None:
            pager.show(FixedRows(()))
            return
        lines = present.preview(one, pager.width, pager.size.height, self._now(), zone=self._zone)
        pager.show(FixedRows(lines))

    def action_open(self) -> None:
        """Open the conversation under the cursor, or hand its id over."""
        one = self.conversation
        if one is None or self.app.screen is not self:
            return
        if self._tell is not None:
            self._tell(one.conversation.name)
            self.app.exit()
            return
        from refold.app.screens.chat import ChatScreen

        self.app.push_screen(ChatScreen(Path(one.path), self))

    @on(LineList.Chosen, "#chats")
    def _chosen(self) -> None:
        self.action_open()

    def action_refresh(self) -> None:
        """Read the directories again."""
        self._read()

    def key_words(self) -> Mapping[str, str]:
        """Name what Enter and Esc do now."""
        take = "choose" if self.hands_over else "open"
        leave = "back" if len(self.app.screen_stack) > 1 else "quit"
        back = "show all" if self._words else leave
        return {"history.open": take, "prompt.accept": take, "history.back": back, "prompt.cancel": back}

    def action_filter(self) -> None:
        """Type words; the list follows every key."""
        if not self.prompt.is_open:
            self.prompt.open_to_add(Safe("find"), self._words)

    def action_back(self) -> None:
        """Show all conversations; where all are shown, leave."""
        if self._words:
            self._find("")
        else:
            self._leave()

    def _leave(self) -> None:
        """Go back to the screen below, or end the program where there is none."""
        if len(self.app.screen_stack) > 1:
            self.app.pop_screen()
        else:
            self.app.exit()

    def _find(self, text: str) -> None:
        if text != self._words:
            self._words = text
            self._draw()
            self.refresh_bindings()

    @on(PromptBar.Changed, "#prompt")
    def _typed(self, event: PromptBar.Changed) -> None:
        self._find(event.text)

    @on(PromptBar.Submitted, "#prompt")
    def _taken(self, event: PromptBar.Submitted) -> None:
        self._find(event.text)
        if self.conversation is None:
            self.action_filter()
        else:
            self.action_open()

    @on(PromptBar.Cancelled, "#prompt")
    def _left(self) -> None:
        if self._words:
            self._find("")
            self.action_filter()
        else:
            self._leave()

    @on(PromptBar.Stepped, "#prompt")
    def _stepped(self, event: PromptBar.Stepped) -> None:
        step = max(1, self.listing.size.height - 1) if event.pages else 1
        self.listing.move(event.delta * step)
