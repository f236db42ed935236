"""A screen that is taken down does nothing more."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.widgets import Static

from refold.app.widgets.ground import GroundScreen


class Drawing(GroundScreen):
    """Draws on its only widget."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = 0

    def compose(self) -> ComposeResult:
        yield Static("nothing", id="only")

    def on_unmount(self) -> None:
        """By now the widget is gone; what a timer asked for is done behind this."""
        self.call_next(self.draw)

    def draw(self) -> None:
        self.query_one("#only", Static).update("drawn")
        self.drawn += 1


async def test_what_a_timer_asked_for_is_not_done_on_a_screen_that_is_taken_down() -> None:
    app, screen = App[None](), Drawing()
    async with app.run_test() as pilot:
        await app.push_screen(screen)
        screen.call_next(screen.draw)
        await pilot.pause()
        assert screen.drawn == 1
        await app.pop_screen()
        await pilot.pause()
        assert screen.drawn == 1


async def test_leaving_with_a_step_to_come_is_no_fault() -> None:
    app, screen = App[None](), Drawing()
    async with app.run_test():
        await app.push_screen(screen)
    assert screen.drawn == 0
