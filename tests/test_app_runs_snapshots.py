"""What the list of runs looks like, in every size and look."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import story
from textual.app import App
from textual.pilot import Pilot

from refold.app.lines import plain
from refold.app.main import RefoldApp
from refold.app.screens.runs import RunsScreen
from refold.app.settings import Settings
from refold.app.widgets.bars import TopBar
from refold.app.widgets.key_bar import KeyBar
from refold.app.widgets.line_pager import LinePager
from refold.core.store.roots import Root

Compare = Callable[..., bool]
SIZES = [(60, 20), (80, 24), (120, 40), (200, 60)]
LOOKS = {"dark": {}, "light": {"theme": "refold-light"}, "no-color": {"no_color": True}}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths on the screen are relative ones: the same on every machine."""
    monkeypatch.chdir(tmp_path)


def app(*roots: str, filter_text: str = "", **look: object) -> App[None]:
    settings = Settings(
        roots=tuple(Root(Path(root), "fisk-ai", "--root") for root in roots),
        state_dir=Path("state"),
        cache_dir=None,
        config_file=Path("config.toml"),
        utc=True,
        **look,  # type: ignore[arg-type]
    )
    return RefoldApp(settings, lambda: RunsScreen(settings, filter_text, now=lambda: story.NOW))


async def settled(pilot: Pilot[None], *pressed: str, preview: str = "") -> None:
    """Wait until everything is read and drawn, press keys, and wait for words in the preview."""
    screen = pilot.app.screen
    assert isinstance(screen, RunsScreen)
    end = time.monotonic() + 30
    while not screen.query("#preview"):
        assert time.monotonic() < end
        await asyncio.sleep(0.01)
    pager = screen.query_one("#preview", LinePager)

    def said() -> str:
        return "\n".join(plain(pager.rows.line(index, 200)) for index in range(len(pager.rows)))

    def top() -> str:
        return plain(screen.query_one(TopBar).line(200))

    while "reading" in top() or "watching" not in top():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)
    if pressed:
        await pilot.press(*pressed)
    while preview not in said():
        assert time.monotonic() < end, said()
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.15)
    await pilot.pause()
    # Under load the last row is told of what can be done now later than that.
    keys = screen.query_one(KeyBar)
    while keys._hints != keys._active():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)
    await pilot.pause()


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_runs(snap_compare: Compare, size: tuple[int, int], look: str) -> None:
    story.tell(Path("story"))

    async def ready(pilot: Pilot[None]) -> None:
        await settled(pilot, "down", "down", "down", "down", preview="27 bytes")

    assert snap_compare(app("story", **LOOKS[look]), terminal_size=size, run_before=ready)  # type: ignore[arg-type]


def test_runs_of_all_scripts(snap_compare: Compare) -> None:
    story.tell_hostile(Path("hostile"))

    async def ready(pilot: Pilot[None]) -> None:
        await settled(pilot, "down", "down", "down", "down", preview="␛[2J")

    assert snap_compare(app("hostile"), terminal_size=(120, 30), run_before=ready)


def test_runs_with_a_filter(snap_compare: Compare) -> None:
    story.tell(Path("story"))

    async def ready(pilot: Pilot[None]) -> None:
        await settled(pilot, "down", preview="replace_text")

    shown = app("story", filter_text="status:crashed,suspended,budget -clock o")
    assert snap_compare(shown, terminal_size=(100, 30), run_before=ready)


def test_runs_while_a_filter_is_typed(snap_compare: Compare) -> None:
    story.tell(Path("story"))

    async def ready(pilot: Pilot[None]) -> None:
        await settled(pilot, "slash", *"status", "colon", *"crashed", "space", *"model", "colon")

    assert snap_compare(app("story"), terminal_size=(100, 30), run_before=ready)


def test_no_runs(snap_compare: Compare) -> None:
    Path("bare").mkdir()
    Path("bare/notes.txt").touch()

    async def ready(pilot: Pilot[None]) -> None:
        await settled(pilot)

    assert snap_compare(app("missing", "bare"), terminal_size=(80, 24), run_before=ready)


def test_the_chooser_of_columns(snap_compare: Compare) -> None:
    story.tell(Path("story"))

    async def ready(pilot: Pilot[None]) -> None:
        await settled(pilot, "C", "down", "down")

    assert snap_compare(app("story"), terminal_size=(80, 24), run_before=ready)
