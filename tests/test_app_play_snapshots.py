"""What a run looks like while it is played, by a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests import run_story as story
from tests.on_screen import settings, until
from textual.app import App
from textual.pilot import Pilot

from refold.app.lines import plain
from refold.app.main import RefoldApp
from refold.app.screens.run import RunScreen
from refold.app.widgets.prompt_bar import PromptBar

Compare = Callable[..., bool]
SIZES = [(80, 24), (120, 40)]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths on the screen are relative ones: the same on every machine."""
    monkeypatch.chdir(tmp_path)


class Film:
    """A run whose clock stands still until a scene moves it."""

    def __init__(self) -> None:
        self.now = 100.0
        chosen = settings(Path.cwd())
        path = story.write(Path("fix-add.json"), story.fix_add())
        self.app: App[None] = RefoldApp(
            chosen, lambda: RunScreen(path, 1, settings=chosen, clock=lambda: self.now)
        )

    def ready(self, scene: Callable[[Pilot[None]], object]) -> Callable[[Pilot[None]], object]:
        """Wait until everything is read, then play a scene."""

        async def before(pilot: Pilot[None]) -> None:
            screen = pilot.app.screen
            assert isinstance(screen, RunScreen)
            await until(pilot, lambda: screen.reader is not None and screen.reader.complete)
            await until(pilot, lambda: screen.timeline.cursor >= 0)
            await scene(pilot)  # type: ignore[misc]

        return before

    async def top(self, pilot: Pilot[None], text: str, pane: str) -> None:
        """Wait for words in the first row and in the pane."""
        screen = pilot.app.screen
        assert isinstance(screen, RunScreen)
        rows = screen.pane.pager
        await until(pilot, lambda: text in plain(screen.query_one("#top").line(400)))  # type: ignore[attr-defined]
        await until(
            pilot, lambda: any(pane in plain(rows.rows.line(at, 200)) for at in range(len(rows.rows)))
        )


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_playing_in_a_loop(snap_compare: Compare, size: tuple[int, int]) -> None:
    film = Film()

    async def scene(pilot: Pilot[None]) -> None:
        await pilot.press("2", "L", *["down"] * 7, "L", "greater_than_sign", "space")
        film.now += 0.16
        await film.top(pilot, "seq 1 / 9", "State after seq 1")
        film.now += 1.2
        await film.top(pilot, "▶", "State after seq 5")

    assert snap_compare(film.app, terminal_size=size, run_before=film.ready(scene))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_stopped_at_a_breakpoint(snap_compare: Compare, size: tuple[int, int]) -> None:
    film = Film()

    async def scene(pilot: Pilot[None]) -> None:
        await pilot.press("2", "b")
        prompt = pilot.app.screen.query_one(PromptBar)
        await until(pilot, lambda: prompt.is_open)
        prompt.query_one("Input").value = "tool:run error:yes; tokens>100k"  # type: ignore[attr-defined]
        await pilot.press("enter", "space")
        film.now += 4.9
        await film.top(pilot, "error:yes at 6", "State after seq 6")
        pilot.app.clear_notifications()

    assert snap_compare(film.app, terminal_size=size, run_before=film.ready(scene))


def test_a_breakpoint_that_cannot_be_understood(snap_compare: Compare) -> None:
    film = Film()

    async def scene(pilot: Pilot[None]) -> None:
        await pilot.press("b", *"tool:run; tokenz>1")
        prompt = pilot.app.screen.query_one(PromptBar)
        await until(pilot, lambda: prompt.text.endswith("z>1"))
        await film.top(pilot, "seq 1 / 9", "Fix add()")

    assert snap_compare(film.app, terminal_size=(80, 24), run_before=film.ready(scene))
