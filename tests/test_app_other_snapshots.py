"""What the screens look like that have no tests of their own looks: help, a notice, directories, a choice."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests import story
from tests.on_screen import settings, shown, until
from textual.pilot import Pilot
from textual.widgets import Input

from refold.app.main import RefoldApp
from refold.app.safe import Safe
from refold.app.screens.choose_run import ChooseRunScreen
from refold.app.screens.help import HelpScreen
from refold.app.screens.notice import NoticeScreen
from refold.app.screens.runs import RunsScreen
from refold.app.settings import Settings
from refold.app.widgets.key_bar import KeyBar
from refold.app.widgets.line_pager import LinePager
from refold.core.errors import RunLocked
from refold.core.store.roots import Root

Compare = Callable[..., bool]
SIZES = [(80, 24), (120, 40)]
EACH_SIZE = pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")


@pytest.fixture(autouse=True)
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A directory of runs that is called the same on every machine, and one that is not there."""
    monkeypatch.chdir(tmp_path)
    story.tell(Path("story"))
    Path("story").chmod(0o750)
    roots = (Root(Path("story"), "fisk-ai", "--root"), Root(Path("missing"), "refold", "config"))
    return msgspec.structs.replace(settings(Path()), roots=roots)


def said(pilot: Pilot[None]) -> str:
    return "\n".join(shown(pilot.app))


async def still(pilot: Pilot[None]) -> None:
    """Wait until the last row tells what can be done now."""
    keys = pilot.app.screen.query_one(KeyBar)
    await until(pilot, lambda: keys._hints == keys._active())


@EACH_SIZE
def test_help(chosen: Settings, snap_compare: Compare, size: tuple[int, int]) -> None:
    async def ready(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "watching" in said(pilot))
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))
        await until(pilot, lambda: len(pilot.app.screen.query_one(LinePager).rows) > size[1])
        # The keys stand in the README and in test_app_keys; what follows them stands here.
        await pilot.press("end")
        await until(pilot, lambda: "updated" in said(pilot))
        await still(pilot)

    app = RefoldApp(chosen, lambda: RunsScreen(chosen, now=lambda: story.NOW))
    assert snap_compare(app, terminal_size=size, run_before=ready)


@EACH_SIZE
def test_a_notice(chosen: Settings, snap_compare: Compare, size: tuple[int, int]) -> None:
    error = RunLocked(
        "story/fix-add.json: another process writes this run (pid 4711)",
        remedy="wait until it ends, open the run read-only, or fork it",
    )

    async def ready(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "watching" in said(pilot) and "Prompt" in said(pilot))
        await still(pilot)
        await pilot.app.push_screen(NoticeScreen.of(Safe("The run was not resumed"), error))
        await until(pilot, lambda: "4711" in said(pilot))

    app = RefoldApp(chosen, lambda: RunsScreen(chosen, now=lambda: story.NOW))
    assert snap_compare(app, terminal_size=size, run_before=ready)


@EACH_SIZE
def test_directories(
    chosen: Settings, snap_compare: Compare, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = os.statvfs(".")
    monkeypatch.setattr(
        os, "statvfs", lambda _: os.statvfs_result((4096, 4096, 1, 1, 2_600_000, *disk[5:10]))
    )

    async def ready(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "watching" in said(pilot) and "Prompt" in said(pilot))
        await still(pilot)
        await pilot.press("D")
        await until(pilot, lambda: "free on its disk" in said(pilot))
        await still(pilot)

    app = RefoldApp(chosen, lambda: RunsScreen(chosen, now=lambda: story.NOW))
    assert snap_compare(app, terminal_size=size, run_before=ready)


@EACH_SIZE
def test_a_choice(chosen: Settings, snap_compare: Compare, size: tuple[int, int]) -> None:
    screen = ChooseRunScreen(chosen, "status:suspended,crashed", now=lambda: story.NOW)

    async def ready(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "watching" in said(pilot) and screen.prompt.is_open)
        await pilot.press(*"fix")
        await until(pilot, lambda: screen.prompt.query_one(Input).value == "fix" and "hidden" in said(pilot))
        screen.prompt.query_one(Input).cursor_blink = False
        await still(pilot)

    assert snap_compare(RefoldApp(chosen, lambda: screen), terminal_size=size, run_before=ready)
