"""A part of the screen is drawn by the widgets that are seen in it, and looks as the whole does."""

from __future__ import annotations

from collections.abc import Mapping

from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from refold.app.widgets.ground import GroundScreen

PARTS = (
    Region(0, 0, 20, 4),
    Region(0, 2, 20, 1),
    Region(20, 0, 20, 4),
    Region(18, 1, 4, 2),
    Region(0, 0, 40, 10),
    Region(5, 3, 30, 4),
    Region(39, 9, 1, 1),
)


class Letters(Widget):
    """Rows of one letter; counts how often it is asked for them."""

    def __init__(self, letter: str) -> None:
        super().__init__(id=letter)
        self.letter = letter
        self.drawn = 0

    def render(self) -> str:
        return "\n".join([self.letter * self.size.width] * self.size.height)

    def render_lines(self, crop: Region) -> list[Strip]:
        self.drawn += 1
        return super().render_lines(crop)


class Four(GroundScreen):
    """Two beside each other, one below them, one over the middle."""

    def compose(self) -> ComposeResult:
        for letter in "abcd":
            yield Letters(letter)


class FourApp(App[None]):
    """Shows them."""

    CSS = """
    Letters { position: absolute; }
    #a { width: 20; height: 5; }
    #b { width: 20; height: 5; offset: 20 0; }
    #c { width: 40; height: 5; offset: 0 5; }
    #d { width: 6; height: 4; offset: 17 3; layer: above; }
    Four { layout: horizontal; layers: below above; }
    """

    def get_default_screen(self) -> Four:
        return Four()


def _rows(screen: Four, crop: Region) -> list[str]:
    """Give what the rows of a part hold within it."""
    chops = screen._compositor._render_chops(crop, lambda y: crop.y <= y < crop.bottom)
    rows = []
    for y in range(crop.y, crop.bottom):
        text: dict[int, str] = {}
        known: Mapping[int, Strip | None] = chops[y]
        for x, strip in known.items():
            if strip is not None:
                text.update(enumerate(strip.text, x))
        rows.append("".join(text.get(x, "?") for x in range(crop.x, crop.right)))
    return rows


async def test_a_part_is_drawn_as_the_whole_is() -> None:
    async with FourApp().run_test(size=(40, 10)) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, Four)
        whole = [strip.text for strip in screen._compositor.render_strips()]
        assert whole[4] == "a" * 17 + "d" * 6 + "b" * 17
        for part in PARTS:
            expected = [row[part.x : part.right] for row in whole[part.y : part.bottom]]
            assert _rows(screen, part) == expected, part


async def test_what_is_not_seen_in_a_part_is_not_drawn() -> None:
    async with FourApp().run_test(size=(40, 10)) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, Four)
        letters = {widget.letter: widget for widget in screen.query(Letters)}
        for part, seen in ((PARTS[0], "ad"), (PARTS[2], "bd"), (Region(18, 4, 2, 1), "d"), (PARTS[6], "c")):
            for widget in letters.values():
                widget.drawn = 0
            _rows(screen, part)
            assert "".join(name for name, widget in letters.items() if widget.drawn) == seen, part
