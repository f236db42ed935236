"""What an open run gives away: a record to the clipboard, pager or editor, and what that would hide."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from textual import work

from refold.app.loading import STILL_READING, aside
from refold.app.present import units
from refold.app.present.reading import Reading
from refold.app.safe import Safe
from refold.app.screens.run_banner import Banner
from refold.app.screens.run_moves import RunMovesScreen
from refold.core.errors import StoreError

if TYPE_CHECKING:
    from refold.app.outside import Program
    from refold.app.present.lens import Lens
    from refold.app.screens.going_on import Chosen
    from refold.app.screens.run_pane import RunPane
    from refold.app.screens.standing import Stand
    from refold.app.settings import Settings
    from refold.core.store.reader import RunReader

_COUNTED: Final = 64
"""So many records are looked at between two drawings of the count."""


class RunSharingScreen(RunMovesScreen):
    """A screen of one run that can be shown as an export would show it."""

    pane: RunPane
    _settings: Settings | None

    def __init__(self) -> None:
        super().__init__()
        self._lens_banner = Banner(lambda: self.query_one("#ruler"), id="lens")
        self._lens: Lens | None = None
        self._counter = 0
        """Which count goes on: one that was begun anew, or is of no lens any more, ends."""

    def on_mount(self) -> None:
        """Show times as it is wanted, and say so where this is a bundle."""
        chosen = self.chosen()
        if chosen is not None:
            self._times(utc=chosen.settings.utc)
        if chosen is not None and chosen.settings.bundle:
            Banner(lambda: self.query_one("#ruler"), id="bundle").say(f"■ {chosen.settings.bundle}", "accent")

    def _times(self, *, utc: bool) -> None:
        self.pane.view = self.pane.view._replace(times="utc" if utc else "local")

    def show_times(self, *, utc: bool) -> None:
        """Write all times in UTC, or in local time."""
        if self._settings is not None:
            self._settings = msgspec.structs.replace(self._settings, utc=utc)
        self._times(utc=utc)
        self.pane.fill()

    def seen_through(self, reading: Reading) -> Reading:
        """Give a reading that shows the run as it was shown so far."""
        if self._lens is not None:
            self._put_lens(reading)
        return reading

    def _put_lens(self, reading: Reading) -> None:
        from refold.app.present.lens import Lens

        self._lens = reading.lens = Lens(reading.reader, self._allowed)

    @property
    def _allowed(self) -> tuple[str, ...]:
        chosen = self.chosen()
        return chosen.settings.allow if chosen is not None else ()

    def action_lens(self) -> None:
        """Show in rows and panes what an export would hide, or all again."""
        reading = self._reading
        if reading is None or reading.is_window:
            self.notify(STILL_READING, severity="warning")
            return
        if self._lens is None:
            self._put_lens(reading)
            self.lens_follows()
        else:
            self._lens = reading.lens = None
            self.workers.cancel_group(self, "lens")
            self._lens_banner.say("")
        self.show_anew()

    def show_anew(self) -> None:
        """Make all rows and lines again."""
        raise NotImplementedError

    @work(group="lens", exclusive=True)
    async def lens_follows(self) -> None:
        """Count what is hidden, up to the end that there is now."""
        lens, reading = self._lens, self._reading
        if lens is None or reading is None:
            return
        self._counter += 1
        counter = self._counter

        def is_over() -> bool:
            return lens is not self._lens or counter != self._counter

        self._say_hidden(lens, reading)
        while not is_over() and lens.seen < reading.timeline.items:
            await aside(partial(lens.count, _COUNTED, is_over))
            self._say_hidden(lens, reading)

    def _say_hidden(self, lens: Lens, reading: Reading) -> None:
        if lens is not self._lens:
            return
        counts, items = lens.counts, reading.timeline.items
        total = counts.total()
        kinds = ", ".join(f"{count:,} × {kind}" for kind, count in counts.most_common())
        said = f"as an export shows it: {units.plural(total, 'secret')} hidden" + (
            f" ({kinds})" if kinds else ""
        )
        if lens.seen < items:
            said += f" so far, {lens.seen / items:.0%} looked at"
        self._lens_banner.say(f"◌ {said}", "accent")

    def open_again(self, chosen: Chosen) -> RunReader:
        """Open the run once more; where its file is gone, what was read of it."""
        reader = self._reading.reader if self._reading is not None else None
        try:
            return super().open_again(chosen)
        except StoreError:
            if reader is None:
                raise
            return reader.again()

    def stand(self) -> Stand:
        """Give how this screen stands."""
        known = self._reading is not None and not self._reading.is_window and self.item is not None
        row, top = (self.timeline.cursor, self.timeline.scroll_offset.y) if known else (None, None)
        return super().stand()._replace(row=row, top=top, pane=self.pane.open_pane, view=self.pane.view)

    def action_copy(self) -> None:
        """Send the record to the clipboard without its secrets, however often it is asked for."""
        self._copy(as_it_is=False)

    def action_copy_raw(self) -> None:
        """Send the bytes of the record to the clipboard as they are."""
        self._copy(as_it_is=True)

    @work(group="copy", exclusive=True)
    async def _copy(self, *, as_it_is: bool) -> None:
        from refold.app.present.clip import LONGEST, clip
        from refold.core.redact import Redactor, explain

        item, reading = self.item, self._reading
        if reading is None or item is None:
            return
        where = reading.timeline.span(item)
        if where.end - where.start > LONGEST:
            size = units.size(where.end - where.start)
            self.notify(f"{size} is too long for the clipboard of a terminal.", severity="warning")
            return
        raw = reading.raw_part(item, 0)
        redactor = Redactor(allow=self._allowed)
        redacted = await aside(lambda: redactor.line(raw))
        hidden = redactor.total
        found = clip(raw if as_it_is else redacted, controls=as_it_is)
        said = found.said
        if hidden and as_it_is:
            said += f" {units.plural(hidden, 'secret')} went with it."
        elif hidden:
            said += f" {explain(redactor.counts).capitalize()}."
        if not as_it_is and (hidden or not found.exact):
            said += self._how_as_it_is()
        self.app.copy_to_clipboard(found.text)
        self.notify(said, severity="information" if found.exact and not (hidden and as_it_is) else "warning")

    def _how_as_it_is(self) -> str:
        """Name the key that leaves nothing out: one of its own, no second press of this one."""
        from refold.app import keys

        key = keys.shown_of("run.copy_raw", self._settings.keymap if self._settings is not None else {})
        return f" {key} sends the record as it is." if key else ""

    @work(group="outside", exclusive=True)
    async def action_outside(self, program: Program) -> None:
        """Open a copy of the record in the pager or the editor; Refold steps back meanwhile."""
        from refold.app.outside import as_text, show_outside
        from refold.app.screens.notice import NoticeScreen
        from refold.core.errors import RefoldError

        item, reading, chosen = self.item, self._reading, self.chosen()
        if reading is None or item is None or chosen is None or self.app.screen is not self:
            return
        seq = reading.timeline.seq(item)
        place = reading.timeline.span(item).line if seq is None else seq
        try:
            text = await aside(lambda: as_text(reading.raw(item).rstrip()))
            if self.app.screen is not self:
                return
            name = f"{reading.reader.run_id}-{place}"
            ended = show_outside(program, name, text, chosen.settings, self.app.suspend)
        except RefoldError as error:
            self.app.push_screen(NoticeScreen.of(Safe(f"The {program} was not opened"), error))
            return
        if not ended.fine:
            self.notify(f"The {program} {ended.sentence}.", severity="warning")
