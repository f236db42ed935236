"""The Run screen as a picture (SVG), made by the very screen in a program without a terminal."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from refold.app.lines import Line
from refold.app.main import RefoldApp
from refold.app.present.lens import Lens
from refold.app.present.reading import Reading
from refold.app.safe import Safe, line
from refold.app.screens.run import RunScreen
from refold.app.widgets.bars import TopBar
from refold.core.errors import StoreError

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from refold.app.screens.standing import Stand
    from refold.app.settings import Settings
    from refold.core.rivumi.manifest import Request
    from refold.core.store.export import Source
    from refold.core.store.notes import Notes
    from refold.core.store.reader import RunReader

_LOOK: Final = 0.08
_SAME: Final = 4
"""A picture that was the same so often is done: a screen goes on looking at its file for ever."""
_MOST: Final = 60
"""So often it is looked at after the run was read; one that never rests is taken as it is."""


def picture(source: Source, stand: Stand, settings: Settings) -> str:
    """Draw the screen of a run. Blocks, and is for a thread on which no event loop runs.

    What the picture replaces is counted by the redactor of the source;
    what its `watch` raises ends the drawing.

    Args:
        source: The run, and what takes the secrets out of it.
        stand: How its screen stands.
        settings: The theme, and what else the screen depends on.
    """
    return asyncio.run(_picture(source, stand, settings))


async def _picture(source: Source, stand: Stand, settings: Settings) -> str:
    screen = _Pictured(source, stand, settings)
    title = line(f"refold · {source.redactor.another().text(source.reader.run_id)}", 80)
    app = _Studio(settings, lambda: screen)
    async with app.run_test(size=stand.size) as pilot:
        svg = await _at_rest(screen, pilot, title, source)
    source.redactor.counts += screen.hidden
    return without_network(svg)


async def _at_rest(screen: _Pictured, pilot: Pilot[None], title: Safe, source: Source) -> str:
    """Give the picture once the run is read and nothing on the screen changes any more.

    Raises:
        StoreError: the screen ended before, of a fault: no run would be read any more.
    """
    svg, same, looks = "", 0, 0
    while same < _SAME and looks < _MOST:
        await pilot.pause(_LOOK)
        source.watch(0)
        if not pilot.app.is_running:
            raise StoreError("the picture was not drawn: the screen of the run ended before it was read")
        if not screen.stands():
            continue
        now = pilot.app.export_screenshot(title=title)
        svg, same, looks = now, same + 1 if now == svg else 1, looks + 1
    return svg


class _Studio(RefoldApp):
    """The program beside the one that has the terminal, or where there is none."""

    HEEDS_SIGNALS = False


class _Pictured(RunScreen):
    """The screen of a run, in which nothing stands that an export would hide."""

    CSS_PATH = "../styles/run.tcss"

    def __init__(self, source: Source, stand: Stand, settings: Settings) -> None:
        super().__init__(source.reader.path, settings=settings, hint=source.reader.format.name)
        self._source = source
        self._stand = stand
        self._landed_there = stand.row is None
        self._said: dict[str, tuple[str, Counter[str]]] = {}
        self._seen_by: Lens | None = None
        self._top = _Top(self.let_out)
        self.pane.view = stand.view
        self.pane.open(stand.pane)

    @property
    def hidden(self) -> Counter[str]:
        """What was replaced, by its kind: in the records that are shown, and in what is said above them."""
        counts = self._seen_by.counts if self._seen_by is not None else Counter[str]()
        return sum((found for _, found in self._said.values()), counts)

    def stands(self) -> bool:
        """Put the cursor where it belongs once the run is read; say whether it is there."""
        reading = self._reading
        if reading is None:
            return self._refused
        if not reading.reader.complete or reading.is_window:
            return False
        if not self._landed_there and self._stand.row is not None and reading.timeline.rows:
            self._landed_there = True
            self.timeline.go(min(self._stand.row, reading.timeline.rows - 1))
            if self._stand.top is not None:
                self.timeline.scroll_to(y=self._stand.top, animate=False)
        return True

    def let_out(self, text: str) -> str:
        """Give a text without its secrets; they are counted once, however often it is drawn."""
        if text not in self._said:
            redactor = self._source.redactor.another()
            self._said[text] = (redactor.text(text), redactor.counts)
        return self._said[text][0]

    def seen_through(self, reading: Reading) -> Reading:
        """Look at the run through a lens, in its bytes too."""
        if self._source.redactor.on:
            self._seen_by = reading.lens = _Seen(reading.reader, self._source.redactor.allow)
            reading.hides_bytes = True
        return reading

    def _open(self) -> RunReader:
        try:
            return super()._open()
        except StoreError:
            return self._source.reader.again()

    def _look_back(self, reader: RunReader) -> None:
        """A picture remembers nothing of what it saw."""

    def _take(self, notes: Notes) -> None:
        records = [msgspec.structs.replace(note, text=self.let_out(note.text)) for note in notes.records]
        name, tags = self.let_out(notes.name), tuple(map(self.let_out, notes.tags))
        super()._take(msgspec.structs.replace(notes, name=name, tags=tags, records=tuple(records)))


class _Seen(Lens):
    """What a picture is seen through: the prompt of a run directory counts where it is in the picture."""

    def request(self, request: Request) -> Request:
        """Give what a run directory was asked to do, its secrets counted."""
        self.count_request(request)
        return super().request(request)


class _Top(TopBar):
    """The first row, without what looks like a secret."""

    def __init__(self, let_out: Callable[[str], str]) -> None:
        super().__init__(id="top")
        self._let_out = let_out

    def show(self, left: Line, right: Line = ()) -> None:
        """Show what may leave."""
        super().show(self._redacted(left), self._redacted(right))

    def _redacted(self, cells: Line) -> Line:
        return tuple(cell._replace(text=Safe(self._let_out(cell.text))) for cell in cells)


def without_network(svg: str) -> str:
    """Give a picture without its links to fonts: a picture fetches nothing."""
    svg = re.sub(r',?\s*url\("https?:[^)]*\) format\("[^"]*"\)', "", svg)
    return "\n".join(row.rstrip() for row in svg.split("\n")) + "\n"
