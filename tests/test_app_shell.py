"""The application around the screens: looks, gates, the error door, help and notices."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from tests.on_screen import segments, settings, shown, until
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.css.query import NoMatches
from textual.pilot import Pilot
from textual.screen import Screen
from textual.theme import Theme
from textual.widgets import Static

from refold.app import main, themes
from refold.app.failure import Fault, fault, words
from refold.app.lines import ROLES, Cell, Column, FixedRows, RulerCell
from refold.app.main import RefoldApp
from refold.app.safe import Safe
from refold.app.screens.help import HelpScreen
from refold.app.screens.notice import NoticeScreen
from refold.app.screens.runs import RunsScreen
from refold.app.settings import Settings
from refold.app.widgets.bars import ColumnHeader, TopBar
from refold.app.widgets.key_bar import KeyBar
from refold.app.widgets.line_list import LineList
from refold.app.widgets.line_pager import LinePager
from refold.app.widgets.prompt_bar import PromptBar
from refold.app.widgets.ruler import Ruler
from refold.core.errors import RunNotFound

HOSTILE = "x \x1b]52;c;aGk=\x07 \x9b2J \u202e [/nope] [@click=app.quit]y[/] [type=a, v={'b[0]'}] [$z]"


OWN = ("muted", "here", "kind-call", "kind-fork")
"""The variables that our styles use and Textual does not have."""


class Everything(Screen[None]):
    """All widgets of Refold at once, with a row of every role."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "fail", "fail"),
        Binding("w", "fail_in_background", "fail"),
    ]

    def compose(self) -> ComposeResult:
        yield TopBar()
        yield Ruler()
        yield ColumnHeader()
        yield LineList()
        yield LinePager()
        yield Static(HOSTILE, markup=False)
        yield PromptBar()
        yield KeyBar()

    def on_mount(self) -> None:
        rows = FixedRows([(Cell(Safe(f"{role} ● ├ ▁ … é 漢"), role),) for role in ROLES])
        self.query_one(TopBar).show((Cell(Safe("148 runs")),), (Cell(Safe("seq 1 / 2")),))
        self.query_one(Ruler).show([RulerCell(Safe("▆"), "call")] * 20, 0.5)
        columns = [Column("a", Safe("Name"), 10), Column("b", Safe("Size"), 8, "right")]
        self.query_one(ColumnHeader).show(columns, "a", descending=True)
        self.query_one(LineList).show(rows, 2)
        self.query_one(LinePager).show(rows)
        self.query_one(LineList).focus()

    def action_fail(self) -> None:
        local = "sk-live-secret"
        raise ValueError(f"{local}\x1b[2J")

    def action_fail_in_background(self) -> None:
        self.run_worker(self._failing())

    async def _failing(self) -> None:
        raise RunNotFound(f"no run {HOSTILE}", remedy="look elsewhere")


@asynccontextmanager
async def running(
    given: Settings, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[Pilot[None], RefoldApp]]:
    app = RefoldApp(given, Everything)
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        yield pilot, app


async def test_every_theme_draws_every_role(tmp_path: Path) -> None:
    async with running(settings(tmp_path)) as (pilot, app):
        before: set[str] = set()
        for name in (*themes.NAMES, "nord", "textual-light", "ansi-dark"):
            app.theme = name
            await pilot.pause()
            assert any("▌strong" in row for row in shown(app)), name
            style = next(one.style for row in segments(app) for one in row if "strong ●" in one.text)
            before.add(str(style))
        for theme in app.available_themes.values():
            own = themes.own_variables(theme)
            assert all(Color.parse(own[name]) for name in OWN), theme.name
        assert len(before) >= 5


@pytest.mark.parametrize("theme", [themes.DARK, themes.LIGHT, themes.CONTRAST], ids=lambda theme: theme.name)
def test_text_stands_out_from_its_ground(theme: Theme) -> None:
    """WCAG: 4.5 for text, 7 in the theme that is made for contrast."""
    grounds = [theme.background, theme.panel, theme.variables["here"]]
    inks = [
        theme.foreground,
        theme.primary,
        theme.secondary,
        theme.warning,
        theme.error,
        theme.success,
        theme.accent,
        *(theme.variables[name] for name in ("muted", "kind-call", "kind-fork")),
    ]
    least = 7.0 if theme is themes.CONTRAST else 4.5
    faint = [
        (ink, ground, round(_contrast(str(ink), str(ground)), 2))
        for ground in grounds[:2]
        for ink in inks
        if _contrast(str(ink), str(ground)) < least
    ]
    assert faint == []
    assert all(_contrast(str(ink), str(grounds[2])) > 3.0 for ink in inks)


def _contrast(one: str, other: str) -> float:
    lighter, darker = sorted((_luminance(Color.parse(one)), _luminance(Color.parse(other))), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: Color) -> float:
    parts = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized
    ]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


async def test_no_colour_is_no_colour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running(settings(tmp_path, no_color=True)) as (pilot, app):
        app.screen.query_one(LineList).show(FixedRows([(Cell(Safe("strong ●"), "strong"),)]))
        wide = FixedRows([(Cell(Safe("wide " * 40), "user"),), (Cell(Safe("short")),)])
        app.screen.query_one(LinePager).show(wide)
        await pilot.pause()
        app.screen.query_one(LinePager).action_scroll_right()
        app.screen.query_one(PromptBar).remark(Safe("3 of 5"))
        app.screen.query_one(PromptBar).open(Safe("filter"), "x")
        app.screen.query_one(LineList).focus()
        app.notify("done")
        await pilot.pause()
        assert "de wide" in "".join(shown(app))
        drawn = [segment for row in segments(app) for segment in row]

        assert [one for one in drawn if one.style and (one.style.color or one.style.bgcolor)] == []
        cursor = next(one for one in drawn if one.text.startswith("strong ●"))
        assert cursor.style is not None
        assert cursor.style.reverse
        assert any(one.style and one.style.dim for one in drawn)


async def test_the_settings_decide_about_colour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    async with running(settings(tmp_path)) as (_, app):
        assert any(
            one.style and one.style.color and one.style.color.triplet and len({*one.style.color.triplet}) > 1
            for row in segments(app)
            for one in row
        )


async def test_a_terminal_of_ascii_gets_ascii(tmp_path: Path) -> None:
    async with running(settings(tmp_path, ascii_only=True)) as (pilot, app):
        app.notify("ü ●")
        await pilot.pause()

        assert all(row.isascii() for row in shown(app))
        assert all(len(row) == 80 for row in shown(app))
        assert any("user * + - . ? ??" in row for row in shown(app))


async def test_an_unknown_theme_is_said(tmp_path: Path) -> None:
    async with running(settings(tmp_path, theme="[/x]\x1b")) as (pilot, app):
        assert app.theme == "refold-dark"
        await until(pilot, lambda: any("There is no theme" in row for row in shown(app)))
        assert all(row.isprintable() for row in shown(app))


async def test_nothing_hostile_leaves_the_application(tmp_path: Path) -> None:
    async with running(settings(tmp_path), (160, 50)) as (pilot, app):
        app.notify(HOSTILE, title=HOSTILE)
        app.notify("x" * 100_000)
        await pilot.pause()
        text = "\n".join(shown(app))

        assert all(row.isprintable() for row in shown(app))
        assert "[/nope] [@click=app.quit]y[/]" in text
        assert "␛]52;c;aGk=␇" in text


async def test_every_dialog_can_be_quit_from(tmp_path: Path) -> None:
    async with running(settings(tmp_path)) as (pilot, app):
        app.push_screen(NoticeScreen.of(Safe("Not found"), RunNotFound("x")))
        await until(pilot, lambda: isinstance(app.screen, NoticeScreen))
        await pilot.press("ctrl+q")
        await until(pilot, lambda: not app.is_running)


async def test_ctrl_c_asks_once_whether_it_is_meant(tmp_path: Path) -> None:
    async with running(settings(tmp_path)) as (pilot, app):
        await pilot.press("ctrl+c")
        await until(pilot, lambda: any("Press ^c once more" in row for row in shown(app)))
        assert app.is_running
        await pilot.press("ctrl+c")
        await until(pilot, lambda: not app.is_running)


async def test_a_notice_says_what_and_what_now(tmp_path: Path) -> None:
    async with running(settings(tmp_path)) as (pilot, app):
        app.push_screen(NoticeScreen.of(Safe("Not found"), RunNotFound(HOSTILE, remedy="look elsewhere")))
        await until(pilot, lambda: any("Not found" in row for row in shown(app)))
        text = "\n".join(shown(app))
        assert "look elsewhere" in text
        assert "[/nope]" in text
        assert all(row.isprintable() for row in shown(app))

        await pilot.resize_terminal(30, 10)
        await pilot.pause()
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, Everything))


def test_the_words_of_others_are_not_quoted() -> None:
    assert words(ValueError("sk-live-secret")) == ("ValueError", "")
    assert words(RunNotFound("no \x1b run", remedy="go")) == ("no ␛ run", "go")


async def test_work_in_the_background_that_fails_is_told(tmp_path: Path) -> None:
    given = settings(tmp_path)
    async with running(given) as (pilot, app):
        await pilot.press("w")
        await until(pilot, lambda: any("This did not work" in row for row in shown(app)))
        assert any("no run x" in row for row in shown(app))
        assert [type(fault) for fault in app.background_faults] == [RunNotFound]
        await pilot.press("down")
        assert app.screen.query_one(LineList).cursor == 3
    assert given.log_file is not None
    assert "RunNotFound" in given.log_file.read_text()


async def test_a_fault_ends_the_program_with_a_report_and_a_code(tmp_path: Path) -> None:
    given = settings(tmp_path)
    app = RefoldApp(given, Everything)

    async def press() -> None:
        async with app.run_test() as pilot:
            await pilot.press("x")
            await pilot.pause()

    with pytest.raises(Fault) as caught:
        await press()
    report = str(caught.value)
    assert app.return_code == 70
    assert "ValueError" in report
    assert "test_app_shell.py" in report
    assert str(given.log_file) in report
    assert "secret" not in report
    assert all(row.isprintable() for row in report.split("\n"))
    assert given.log_file is not None
    assert given.log_file.stat().st_mode & 0o777 == 0o600
    assert "secret" not in given.log_file.read_text()


def test_a_fault_without_a_log_is_reported_all_the_same() -> None:
    assert "could not be logged" in str(fault(OSError(28, "No space left"), None))
    assert "No space left" in str(fault(OSError(28, "No space left"), None))


def test_a_fault_in_a_library_names_the_line_of_ours_that_led_there(tmp_path: Path) -> None:
    with pytest.raises(NoMatches) as caught:
        _ = RunsScreen(settings(tmp_path)).listing
    place = str(fault(caught.value, None)).split("\n")[1]
    assert re.fullmatch(
        r"It arose in dom\.py, line \d+, query_one, called from runs\.py, line \d+, listing\.", place
    )


async def test_help_opens_once_and_closes(tmp_path: Path) -> None:
    async with running(settings(tmp_path)) as (pilot, app):
        await pilot.press("question_mark", "question_mark", "f1")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        assert len(app.screen_stack) == 2
        await pilot.press("end")
        await until(pilot, lambda: any("updated" in row for row in shown(app)))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, Everything))


async def test_the_configuration_moves_keys(tmp_path: Path) -> None:
    async with running(settings(tmp_path, keymap={"list.down": "n", "app.help": "h"})) as (pilot, app):
        listed = app.screen.query_one(LineList)
        await pilot.press("n", "down", "j")
        assert listed.cursor == 3
        await pilot.press("h")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        assert "h help" in shown(app)[-1]


@pytest.mark.parametrize("size", [(1, 1), (10, 3), (3, 40)], ids=str)
async def test_terminals_of_any_size(tmp_path: Path, size: tuple[int, int]) -> None:
    async with running(settings(tmp_path), size) as (pilot, app):
        await pilot.press("down", "end", "pageup", "question_mark", "pagedown", "escape", "ctrl+p", "escape")
        app.push_screen(NoticeScreen.of(Safe("t"), RunNotFound("m" * 300)))
        await pilot.pause()
        await pilot.press("escape")
        app.screen.query_one(PromptBar).open(Safe("filter"))
        await pilot.press("a", "enter")
        await pilot.click(offset=(0, 0))

        assert [len(row) for row in shown(app)] == [_cells(row, size[0]) for row in shown(app)]
        assert len(shown(app)) == size[1]


def _cells(row: str, width: int) -> int:
    """How long a row of so many cells is: a wide character fills two."""
    return width - row.count("漢")


async def test_answers_of_the_terminal_are_no_keys(tmp_path: Path) -> None:
    async with running(settings(tmp_path)) as (pilot, app):
        listed = app.screen.query_one(LineList)
        app._deaf_until = time.monotonic() + 60
        app.post_message(events.Key("down", None))
        app.post_message(events.Paste("q"))
        await pilot.pause()
        await asyncio.sleep(0.02)
        assert listed.cursor == 2

        app._deaf_until = 0
        await pilot.press("down")
        assert listed.cursor == 3
    assert main.DEAF_SECONDS <= 0.1


def test_the_screen_starts_without_what_it_does_not_need() -> None:
    code = (
        "import json, sys\n"
        "import refold.app.main, refold.app.widgets.line_list, refold.app.widgets.line_pager\n"
        "import refold.app.widgets.bars, refold.app.widgets.key_bar, refold.app.widgets.prompt_bar\n"
        "import refold.app.widgets.ruler\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    loaded = set(json.loads(done.stdout))
    assert (
        loaded & {"pydantic", "watchfiles", "msgspec", "rich.traceback", "textual.widgets._markdown"} == set()
    )


class Last(Static):
    """Says when it is being taken away."""

    async def on_unmount(self) -> None:
        """Let the screen's work go on while its widgets go."""
        assert isinstance(self.screen, Reading)
        self.screen.goes_on.set()
        for _ in range(5):
            await asyncio.sleep(0)


class Reading(Screen[None]):
    """Looks for a widget as soon as what it waits for has come."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = asyncio.Event()
        self.ended = ""

    def compose(self) -> ComposeResult:
        yield Static("what is shown", id="shown")
        yield Last()

    def on_mount(self) -> None:
        self.run_worker(self._read(), group="read", exclusive=True)

    async def _read(self) -> None:
        try:
            await self.goes_on.wait()
            self.query_one("#shown", Static).update("read")
        except asyncio.CancelledError:
            self.ended = "cancelled"
            raise


async def test_a_screen_that_was_left_is_not_heard_of_any_more(tmp_path: Path) -> None:
    app = RefoldApp(settings(tmp_path), Everything)
    async with app.run_test() as pilot:
        popped, switched = Reading(), Reading()
        await app.push_screen(popped)
        await pilot.pause()
        app.pop_screen()
        await until(pilot, lambda: popped.ended == "cancelled")
        await app.push_screen(switched)
        app.switch_screen(Reading())
        await until(pilot, lambda: switched.ended == "cancelled")
        assert app.background_faults == []


class NeverComplete(Screen[None]):
    """Looks for a widget that it does not have."""

    def on_mount(self) -> None:
        self.query_one("#missing")


async def test_what_fails_on_the_way_out_does_not_change_how_it_ends(tmp_path: Path) -> None:
    app = RefoldApp(settings(tmp_path), Everything)
    log = app.settings.log_file
    assert log is not None
    async with app.run_test():
        app.exit(return_code=143)
        app.push_screen(NeverComplete())
        end = time.monotonic() + 20
        while not log.exists():
            assert time.monotonic() < end, "nothing failed"
            await asyncio.sleep(0.01)
    assert app.return_code == 143
    assert "NoMatches" in log.read_text()
