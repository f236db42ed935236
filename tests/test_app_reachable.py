"""Whatever a screen can do is in its palette, and the palette opens by the mouse as well as by a key."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from tests.on_screen import settings, shown, until
from textual.actions import parse
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget

from refold.app import demo, keys
from refold.app.commands import Palette, RefoldCommands
from refold.app.main import RefoldApp
from refold.app.screens.run import RunScreen
from refold.app.screens.runs import RunsScreen
from refold.app.settings import Settings
from refold.app.widgets.bars import LineBar, TopBar
from refold.app.widgets.key_bar import KeyBar

NOW = datetime(2026, 7, 24, 12, 0, tzinfo=UTC)


class Way(NamedTuple):
    """How a screen is reached, and which rows of the table are its own."""

    place: str
    pressed: tuple[str, ...]
    run: str = "fix-date-parser"
    """The run that is opened first; empty: the list is."""
    title: str = ""
    """A text that is shown once it is there."""


WAYS = (
    Way("runs", (), ""),
    Way("run", ()),
    Way("run", ("enter",)),
    Way("columns", ("C",), ""),
    Way("resume", ("r",)),
    Way("fork", ("f",)),
    Way("lineage", ("l",)),
    Way("compare", ("c",), "fix-date-parser-again"),
    Way("postmortem", ("d",)),
    Way("mend", ("d", "m"), "index-photos"),
    Way("trash", ("X",), ""),
    Way("history", ("h",), ""),
    Way("chat", ("h", "enter"), ""),
    Way("chatfork", ("h", "enter", "f"), ""),
    Way("copymenu", ("Y",)),
    Way("directories", ("D",), ""),
    Way("export", ("e",)),
    Way("search", ("ctrl+f",), ""),
    Way("dialog", ("question_mark",)),
    Way("blind", ("d", "slash")),
)

TYPED = {"prompt"}
"""Places in which text is typed: their keys accept, leave and move, and nothing else hears any."""
MOVES = {"list", "pager"}
"""Places whose keys move the cursor or scroll; the mouse does that by its wheel and by a click."""
EVERYWHERE = {"app"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The runs of the demo."""
    where = tmp_path_factory.mktemp("demo") / "runs"
    demo.make(where, NOW)
    before = Path.cwd()
    os.chdir(where)
    yield where
    os.chdir(before)


def test_every_place_of_the_table_is_looked_at() -> None:
    assert {way.place for way in WAYS} | TYPED | MOVES | EVERYWHERE == {row.place for row in keys.TABLE}


def of_demo(place: Path) -> Settings:
    return msgspec.structs.replace(
        settings(place / "refold"), roots=demo.roots(place), conversations=(demo.conversations(place),)
    )


def bound(screen: Screen[object]) -> set[str]:
    return {binding.id or "" for _, binding, _, _ in screen.active_bindings.values()}


async def reach(pilot: Pilot[None], way: Way) -> None:
    """Press the keys one by one, each on a screen that is ready for it."""
    first = pilot.app.screen
    await until(pilot, lambda: "✓" in "\n".join(shown(pilot.app)) or "▾" in "\n".join(shown(pilot.app)))
    if isinstance(first, RunScreen):
        await until(pilot, lambda: first.reader is not None and first.reader.complete)
    for key in way.pressed:
        before, focused = pilot.app.screen, pilot.app.focused
        await pilot.press(key)
        if key not in {"down"}:
            await until(pilot, partial(_has_moved, pilot, before, focused))
            await until(pilot, lambda: pilot.app.screen.is_mounted)
        if key == "d":
            await until(pilot, lambda: "In flight" in "\n".join(shown(pilot.app)))
    await until(pilot, lambda: any(one.partition(".")[0] == way.place for one in bound(pilot.app.screen)))


def _has_moved(pilot: Pilot[None], screen: Screen[object], focused: Widget | None) -> bool:
    return pilot.app.screen is not screen or pilot.app.focused is not focused


def app_of(place: Path, way: Way) -> RefoldApp:
    given = of_demo(place)

    def start() -> Screen[None]:
        run = given.roots[0].path / f"{way.run}.json"
        return RunScreen(run, settings=given) if way.run else RunsScreen(given, now=NOW.timestamp)

    return RefoldApp(given, start)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join((way.place, *way.pressed)))
async def test_every_action_is_in_the_palette_of_its_screen(place: Path, way: Way) -> None:
    app = app_of(place, way)
    async with app.run_test(size=(120, 40)) as pilot:
        await reach(pilot, way)
        listed = {command.title for command in RefoldCommands(app.screen).commands()}
        missing = [
            row.id
            for row in keys.TABLE
            if row.place in {way.place, *EVERYWHERE}
            and row.label not in listed
            and app.screen.check_action(*parse(row.action)[1:])
        ]
        assert missing == []


_OUT = (" back", " cancel", " close", " quit", " esc")


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join((way.place, *way.pressed)))
async def test_a_click_opens_the_palette_and_a_click_leaves(place: Path, way: Way) -> None:
    app = app_of(place, way)
    async with app.run_test(size=(120, 40)) as pilot:
        await reach(pilot, way)
        screen = app.screen
        title = screen.query(TopBar).first() if screen.query(TopBar) else screen.query(LineBar).first()
        await pilot.click(title, offset=(2, 0))
        await until(pilot, lambda: isinstance(app.screen, Palette))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        bar = screen.query_one(KeyBar)
        shows = shown(app)[bar.region.y]
        out = next(
            word for word in (" show all", " back", " cancel", " close", " quit", " esc") if word in shows
        )
        if way.place not in {"runs", "run"}:
            await pilot.click(bar, offset=(shows.rindex(out) + 2 - bar.region.x, 0))
            await until(pilot, lambda: app.screen is not screen)


async def test_what_is_shadowed_by_a_text_is_done_from_its_palette(place: Path) -> None:
    app = app_of(place, Way("run", ()))
    async with app.run_test(size=(120, 40)) as pilot:
        await reach(pilot, Way("run", ("enter",)))
        screen = app.screen
        assert isinstance(screen, RunScreen)
        (play,) = [one for one in RefoldCommands(screen).commands() if one.title == "Play"]
        assert play.key == "", "the space bar scrolls the text"
        running = play.run()
        assert isinstance(running, Awaitable)
        await running
        await until(pilot, lambda: screen.player.playing)
