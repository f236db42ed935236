"""Words that are typed where nothing asks for any: no letter of them is a key, no Enter writes anything."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.on_screen import shown, until
from tests.terminal.program import environment, refold
from tests.terminal.terminal import Terminal
from textual.pilot import Pilot

from refold.app import demo
from refold.app.main import RefoldApp
from refold.app.screens.fork import ForkScreen
from refold.app.screens.postmortem import PostmortemScreen
from refold.app.screens.run import RunScreen
from refold.app.screens.runs import RunsScreen
from refold.app.screens.typed_blind import TypedBlindScreen
from refold.app.settings import Settings
from refold.core.store.lock import RunLock

Compare = Callable[..., bool]
NOW = datetime(2026, 7, 24, 12, 0, tzinfo=UTC)


def everything(demo_settings: Settings) -> dict[Path, bytes]:
    store = demo_settings.roots[0].path
    return {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}


def explaining(demo_settings: Settings, name: str = "index-photos") -> RefoldApp:
    path = demo_settings.roots[0].path / f"{name}.json"
    return RefoldApp(
        demo_settings, lambda: PostmortemScreen(path, "refold", demo_settings, clock=NOW.timestamp)
    )


async def read(pilot: Pilot[None]) -> PostmortemScreen:
    await until(pilot, lambda: isinstance(pilot.app.screen, PostmortemScreen))
    screen = pilot.app.screen
    assert isinstance(screen, PostmortemScreen)
    await until(pilot, lambda: screen.is_read)
    return screen


@pytest.mark.parametrize("dialog", ["", "r", "f", "m", "l"])
async def test_what_is_typed_for_a_filter_that_is_not_here_does_nothing(
    demo_settings: Settings, dialog: str
) -> None:
    before = everything(demo_settings)
    app = explaining(demo_settings)
    async with app.run_test(size=(80, 40)) as pilot:
        first = await read(pilot)
        if dialog:
            await pilot.press(dialog)
            await until(pilot, lambda: app.screen is not first and app.screen.is_mounted)
        here = app.screen
        await pilot.press("slash", *"refactor", "enter", "enter")
        await until(pilot, lambda: isinstance(app.screen, TypedBlindScreen))
        assert any("/ filters the list of runs" in row for row in shown(app))
        await pilot.press("slash", "colon", "q", "enter")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is here)
    assert everything(demo_settings) == before


async def test_where_words_are_asked_for_the_key_still_asks(demo_settings: Settings) -> None:
    app = RefoldApp(demo_settings, lambda: RunsScreen(demo_settings, now=NOW.timestamp))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: any("index-photos" in row for row in shown(app)))
        await pilot.press("slash", *"index", "enter")
        await until(pilot, lambda: not any("crawl-docs" in row for row in shown(app)))
        assert isinstance(app.screen, RunsScreen)


async def test_the_first_enter_behind_a_word_without_meaning_forks_nothing(demo_settings: Settings) -> None:
    before = everything(demo_settings)
    app = explaining(demo_settings)
    async with app.run_test(size=(80, 40), notifications=True) as pilot:
        await read(pilot)
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, ForkScreen) and app.screen.is_planned)
        await pilot.press(*"actor", "enter")
        await until(pilot, lambda: any("'actor' means" in row for row in shown(app)))
        assert isinstance(app.screen, ForkScreen)
        assert everything(demo_settings) == before
        await until(pilot, lambda: any("✓ legal" in row for row in shown(app)))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
    assert everything(demo_settings) != before


async def test_a_key_with_a_meaning_between_makes_good_those_without(demo_settings: Settings) -> None:
    app = explaining(demo_settings)
    async with app.run_test(size=(80, 40)) as pilot:
        await read(pilot)
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, ForkScreen) and app.screen.is_planned)
        dialog = app.screen
        assert isinstance(dialog, ForkScreen)
        await pilot.press("a", "z", "left_parenthesis")
        await until(pilot, lambda: dialog.is_planned)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("x", "x means nothing here. ? shows the keys."),
        ("S", "Nothing goes on with this run that could be suspended"),
        ("s", "Nothing goes on with this run that could be suspended"),
        ("w", "Nothing is watched."),
    ],
)
async def test_a_key_that_does_nothing_says_so(key: str, told: str, demo_settings: Settings) -> None:
    path = demo_settings.roots[0].path / "fix-date-parser.json"
    app = RefoldApp(demo_settings, lambda: RunScreen(path, settings=demo_settings))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        run = app.screen
        assert isinstance(run, RunScreen)
        await until(pilot, lambda: run.reader is not None and run.reader.complete and run.item is not None)
        await pilot.press(key)
        if key == "w":
            await until(pilot, lambda: "watch" in shown(app)[-2] or "watch" in shown(app)[-1])
            await pilot.press("enter")
        await until(pilot, lambda: told[:30] in "\n".join(shown(app)))


async def test_of_a_run_that_is_held_it_is_said_who_can_suspend_it(demo_settings: Settings) -> None:
    path = demo_settings.roots[0].path / "fix-date-parser.json"
    lock = RunLock.take(path.with_suffix(".lock"))
    app = RefoldApp(demo_settings, lambda: RunScreen(path, settings=demo_settings))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        run = app.screen
        assert isinstance(run, RunScreen)
        await until(pilot, lambda: any("running" in row for row in shown(app)))
        await pilot.press("s")
        await until(pilot, lambda: any("Another process holds the run" in row for row in shown(app)))
    lock.release()


async def test_of_many_keys_that_do_nothing_the_last_one_is_answered(demo_settings: Settings) -> None:
    app = explaining(demo_settings)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await read(pilot)
        await pilot.press("a", "x", "z")
        await until(pilot, lambda: any("z means nothing here" in row for row in shown(app)))
        assert not any("a means" in row or "x means" in row for row in shown(app))


def test_an_enter_that_came_before_the_warning_is_no_answer_to_it(tmp_path: Path) -> None:
    where = tmp_path / "demo"
    demo.make(where, datetime.now(UTC))
    store = where / "refold" / "runs"
    before = sorted(store.iterdir())
    with Terminal(refold(store / "index-photos.json"), env=environment(tmp_path)) as terminal:
        terminal.wait("Tag the photos")
        terminal.press("d")
        terminal.wait("no silence before the end")
        terminal.press("f")
        terminal.wait("✓ legal")
        terminal.settle(0.2)
        terminal.send("actor\r\r\r")
        terminal.wait("Press it again")
        assert sorted(store.iterdir()) == before
        terminal.settle(0.5)
        terminal.send("enter")
        terminal.wait("ψ ready")
    assert sorted(store.iterdir()) != before


def test_looks(demo_settings: Settings, snap_compare: Compare) -> None:
    async def blind(pilot: Pilot[None]) -> None:
        await read(pilot)
        await pilot.press("slash")
        await until(pilot, lambda: any("esc" in row for row in shown(pilot.app)))

    assert snap_compare(explaining(demo_settings), run_before=blind, terminal_size=(80, 24))
