"""What lies in the trash: put back by a key, deleted for good by a word that is typed."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType

from refold.app import keys
from refold.app.lines import FixedRows
from refold.app.loading import aside
from refold.app.present import trash as present
from refold.app.present import units
from refold.app.present.trash import TrashRows
from refold.app.safe import Safe
from refold.app.screens.list_frame import draw_heading, headed_parts
from refold.app.screens.notice import NoticeScreen
from refold.app.trashing import is_due, kept_until, trashed
from refold.app.widgets.bars import TopBar
from refold.app.widgets.ground import GroundScreen
from refold.app.widgets.line_list import LineList
from refold.app.widgets.line_pager import LinePager
from refold.app.widgets.prompt_bar import PromptBar
from refold.core.errors import RefoldError
from refold.core.store.notes import NotesStore
from refold.core.store.trash_list import Entry, delete, restore

if TYPE_CHECKING:
    from refold.app.settings import Settings

_LOW: Final = 20
_WORD: Final = "delete"


class TrashScreen(GroundScreen):
    """Lists the trash of all directories. What it shows at the foot is what a restore would do."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("trash")]

    def __init__(
        self,
        settings: Settings,
        *,
        look: Callable[[Settings], list[Entry]] = trashed,
        now: Callable[[], float] = time.time,
        came_back: Callable[[Path], None] | None = None,
    ) -> None:
        """Show the trash.

        Args:
            settings: Which directories there are, and for how long a run is kept.
            look: Gives what lies in the trash of them; called on a thread of its own.
            now: The clock that ages count from.
            came_back: Is told where a run lies that was put back.
        """
        super().__init__()
        self._came_back = came_back
        self._settings = settings
        self._look = look
        self._now = now
        self._entries: tuple[Entry, ...] = ()
        self._doomed: Entry | None = None
        """What the open prompt asks about."""
        self._read_once = False

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield from headed_parts("trash", prompt=True)

    def on_mount(self) -> None:
        """Take the keys."""
        self.listing.focus()

    @property
    def listing(self) -> LineList:
        """The entries."""
        return self.query_one("#trash", LineList)

    @property
    def entry(self) -> Entry | None:
        """The entry under the cursor."""
        cursor = self.listing.cursor
        return self._entries[cursor] if 0 <= cursor < len(self._entries) else None

    @property
    def is_read(self) -> bool:
        """Whether the trash was looked at."""
        return self._read_once

    def on_resize(self, event: events.Resize) -> None:
        """Give the panel what the list can spare."""
        self.set_class(event.size.height < _LOW, "-low")
        self.call_after_refresh(self._draw_heading)

    @on(events.ScreenResume)
    def _in_sight(self) -> None:
        self._read()

    @work(group="trash", exclusive=True)
    async def _read(self) -> None:
        settings, now = self._settings, self._now()
        self._entries = tuple(await aside(lambda: self._look(settings)))
        said = [
            present.words_of(entry, kept_until(entry, settings), due=is_due(entry, settings, now))
            for entry in self._entries
        ]
        cursor = max(0, min(self.listing.cursor, len(self._entries) - 1))
        self.listing.show(TrashRows(self._entries, said, now), cursor)
        self._read_once = True
        left, right = present.top(self._entries, settings.trash_days)
        self.query_one(TopBar).show(left, right)
        self._draw_entry()
        self.refresh_bindings()

    def _draw_heading(self) -> None:
        draw_heading(self, self.listing, present.heading)

    @on(LineList.Moved, "#trash")
    @on(LinePager.Resized, "#preview")
    def _draw_entry(self) -> None:
        pager, entry = self.query_one("#preview", LinePager), self.entry
        if pager.width <= 0:
            return
        if entry is not None:
            zone = UTC if self._settings.utc else None
            pager.show(FixedRows(present.entry_lines(entry, pager.width, zone)))
        elif self._read_once:
            pager.show(FixedRows(present.nothing()))

    def show_times(self, *, utc: bool) -> None:
        """Write all times in UTC, or in local time."""
        self._settings = msgspec.structs.replace(self._settings, utc=utc)
        self._draw_entry()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey out what needs an entry where there is none."""
        if action in ("put_back", "delete"):
            return True if self.entry is not None else None
        return super().check_action(action, parameters)

    def why_not(self, action: str) -> str:
        """Say why an action is refused now; empty where it is not."""
        return "The trash is empty." if action in ("put_back", "delete") and self.entry is None else ""

    @work(group="act", exclusive=True)
    async def action_put_back(self) -> None:
        """Put the run under the cursor back where it lay."""
        entry = self.entry
        if entry is None:
            return
        try:
            path = await aside(lambda: restore(entry))
        except RefoldError as error:
            self.app.push_screen(NoticeScreen.of(Safe("It was not put back"), error))
        else:
            self.notify(f"It is back: {path}")
            if self._came_back is not None:
                self._came_back(path)
        self._read()

    def action_delete(self) -> None:
        """Ask for the word before the entry is deleted for good."""
        if self.entry is not None:
            self._doomed = self.entry
            self.query_one(PromptBar).open(Safe(f"type {_WORD} to delete it for good"), purpose=_WORD)

    @on(PromptBar.Submitted)
    def _typed(self, event: PromptBar.Submitted) -> None:
        entry, self._doomed = self._doomed, None
        if entry is None:
            return
        if event.text.strip() == _WORD:
            self._delete(entry)
        else:
            self.notify(f"Nothing was deleted: the word is {_WORD}.")

    @work(group="act", exclusive=True)
    async def _delete(self, entry: Entry) -> None:
        notes = NotesStore(self._settings.notes_dir)
        try:
            size = await aside(lambda: delete(entry, notes))
        except RefoldError as error:
            self.app.push_screen(NoticeScreen.of(Safe("It was not deleted as a whole"), error))
        else:
            self.notify(f"Deleted for good: {units.size(size)} are free.")
        self._read()

    def action_refresh(self) -> None:
        """Look at the trash again."""
        self._read()

    def action_back(self) -> None:
        """Go back to the runs."""
        self.dismiss()
