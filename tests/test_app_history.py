"""Conversations on the screen and on the command line; a choice that is printed for a caller."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.conversation_story import chat
from tests.rivumi_cases import make
from tests.terminal.program import environment, refold, run
from tests.terminal.terminal import Terminal
from tests.test_readonly import picture
from textual.geometry import Size
from textual.pilot import Pilot
from textual.screen import Screen

from refold.app.lines import cells, plain
from refold.app.main import RefoldApp
from refold.app.present import history as present
from refold.app.screens.chat import ChatForkScreen, ChatScreen
from refold.app.screens.choose_run import ChooseRunScreen
from refold.app.screens.history import HistoryScreen
from refold.app.screens.notice import NoticeScreen
from refold.app.screens.resume import ResumeScreen
from refold.app.screens.runs import RunsScreen
from refold.app.settings import Settings
from refold.app.widgets.line_list import LineList
from refold.app.widgets.line_pager import LinePager
from refold.core.store.conversations import list_conversations, load_conversation
from refold.core.store.roots import Root

PARSER = "0a" * 16
NOW = datetime(2026, 12, 1, 12, tzinfo=UTC).timestamp()
Compare = Callable[..., bool]


def settings(root: Path) -> Settings:
    roots = (Root(root, "rivumi", "default"),)
    return Settings(
        roots=roots,
        state_dir=root.parent / "state",
        cache_dir=None,
        config_file=root.parent / "config.toml",
        utc=True,
        conversations=roots,
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    root = tmp_path / "conversations"
    turns = (("Fix add()", "Done.", "completed"), ("Now docs", "", "failed"), ("More", "Yes.", "completed"))
    chat(root, *turns, minute=4)
    chat(root, ("Rename notes", "Renamed.", "completed"), name="1b" * 16, title="", minute=9)
    chat(root, ("Read [pressure]\x1b[31m", "So", ""), name="2c" * 16, title="Pressure", minute=7)
    chat(root, ("x", "y", "completed"), name="3d" * 16, title="Broken", minute=1, turn_count=4)
    return root


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(15):
        while not condition():  # noqa: ASYNC110 - the screen is what is waited for
            await asyncio.sleep(0.005)


def names(screen: HistoryScreen) -> list[str]:
    rows = screen._rows
    return [one.conversation.name[:2] for n in range(len(rows)) if (one := rows.at(n)) is not None]


def text(screen: Screen[None], name: str) -> str:
    pager = screen.query_one(name, LinePager)
    return "\n".join(plain(pager.rows.line(index, 110)) for index in range(len(pager.rows)))


def _top(pilot: Pilot[None]) -> Screen[None]:
    screen = pilot.app.screen
    assert isinstance(screen, ChatForkScreen | NoticeScreen)
    return screen


@asynccontextmanager
async def opened(
    root: Path, *, chosen: Callable[[str], None] | None = None, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[Pilot[None], HistoryScreen]]:
    screen = HistoryScreen(settings(root), chosen=chosen, now=lambda: 1_800_000_000.0)
    async with RefoldApp(settings(root), lambda: screen).run_test(size=size) as pilot:
        await until(lambda: not screen._is_reading and screen.prompt.is_open)
        await pilot.pause()
        yield pilot, screen


async def test_typing_filters_at_once_and_the_arrows_move(store: Path) -> None:
    before = picture(store)
    async with opened(store) as (pilot, screen):
        assert names(screen) == ["1b", "2c", "0a", "3d"]
        assert "Rename notes" in text(screen, "#preview")
        await pilot.press("down", "down")
        assert screen.listing.cursor == 2
        assert "/resume " + PARSER in text(screen, "#preview")
        await pilot.press(*"pressure")
        await until(lambda: names(screen) == ["2c"])
        assert "never ended" in text(screen, "#preview")
        await pilot.press("escape")
        await until(lambda: len(names(screen)) == 4)
        assert screen.prompt.is_open
        await pilot.press(*"nothing at all")
        await until(lambda: screen.has_class("-nothing"))
        await pilot.press("enter")
        await pilot.pause()
        assert screen.is_current
        await pilot.press("escape", "down", "pagedown", "pageup", "escape")
        await until(lambda: not pilot.app.is_running or pilot.app._exit)
    assert picture(store) == before


async def test_enter_opens_a_conversation_and_f_forks_it(store: Path) -> None:
    async with opened(store, size=(80, 24)) as (pilot, screen):
        before = picture(store / PARSER)
        await pilot.press(*"parser", "enter")
        await until(lambda: isinstance(pilot.app.screen, ChatScreen))
        opened_chat = pilot.app.screen
        assert isinstance(opened_chat, ChatScreen)
        await until(lambda: "Prompt of turn 3" in text(opened_chat, "#turn"))
        await pilot.press("up")
        await until(lambda: "429 from upstream" in text(opened_chat, "#turn"))
        await pilot.press("enter", "escape", "y", "f")
        await until(lambda: isinstance(pilot.app.screen, ChatForkScreen))
        await until(lambda: "Ends before turn 2: Now docs" in text(_top(pilot), "#fork-plan"))
        assert len(list(store.iterdir())) == 4
        await pilot.press("escape", "f")
        await until(lambda: isinstance(pilot.app.screen, ChatForkScreen))
        await pilot.press("enter")
        await until(lambda: pilot.app.screen is screen and len(names(screen)) == 5)
        one = screen.conversation
        assert one is not None
        assert [turn.prompt for turn in one.conversation.turns] == ["Fix add()"]
        assert picture(store / PARSER) == before


async def test_what_cannot_be_forked_says_why(store: Path) -> None:
    async with opened(store) as (pilot, screen):
        for words, reason in (("broken", "would not load"), ("pressure", "is open")):
            await pilot.press(*words, "enter")
            await until(lambda: isinstance(pilot.app.screen, ChatScreen))
            await pilot.press("f")
            await until(lambda: isinstance(pilot.app.screen, NoticeScreen))
            assert reason in text(_top(pilot), "#notice-text")
            await pilot.press("escape", "escape")
            await until(lambda: pilot.app.screen is screen)
            await pilot.press("escape", "slash")
        assert len(list(store.iterdir())) == 4


async def test_the_chosen_id_goes_to_the_caller(store: Path) -> None:
    told: list[str] = []
    async with opened(store, chosen=told.append) as (pilot, _):
        await pilot.press("down", "enter")
        await until(lambda: bool(told))
    assert told == ["2c" * 16]


async def test_ctrl_c_leaves_a_caller_without_a_choice(store: Path) -> None:
    told: list[str] = []
    async with opened(store, chosen=told.append) as (pilot, _):
        await pilot.press("P", "ctrl+c")
        await until(lambda: not pilot.app.is_running)
    assert told == []


async def test_no_conversation_at_all_says_where_they_are_looked_for(tmp_path: Path) -> None:
    async with opened(tmp_path / "none") as (_, screen):
        assert str(tmp_path / "none") in text(screen, "#nothing")


@pytest.mark.parametrize("width", [20, 60, 120, 200])
def test_every_line_takes_its_width_and_holds_no_control(store: Path, width: int) -> None:
    listed = [one for one in list_conversations([Root(store, "rivumi", "default")]) if one is not None]
    rows = present.HistoryRows(listed, lambda: 0.0)
    drawn = [rows.line(index, width) for index in range(len(rows))]
    for one in listed:
        drawn += present.preview(one, width, 9, 0.0)
    assert {cells(line) for line in drawn} == {width}
    for one in listed:
        for turn in one.conversation.turns:
            drawn += present.turn_lines(turn, width)
    assert not any("\x1b" in plain(line) or "\n" in plain(line) for line in drawn)


async def test_resume_without_a_run_filters_and_chooses(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for case in ("03-running-clean", "12-terminal-completed", "16-pending-approval"):
        make(case, runs)
    told: list[str] = []
    for chosen in (told.append, None):
        screen = ChooseRunScreen(settings(runs), "status:suspended,crashed", chosen)
        async with RefoldApp(settings(runs), lambda: screen).run_test(size=Size(120, 40)) as pilot:  # noqa: B023
            await until(lambda: len(screen._rows) == 2 and screen.prompt.is_open)  # noqa: B023
            await pilot.press(*"pending", "enter")
            if chosen is None:
                await until(lambda: isinstance(pilot.app.screen, ResumeScreen | NoticeScreen))
            else:
                await until(lambda: bool(told))
    assert told == ["16-pending-approval"]


async def test_a_run_that_cannot_go_on_is_not_handed_to_a_caller(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    make("03-running-clean", runs)
    make("20-run-id-drift", runs)
    told: list[str] = []
    screen = ChooseRunScreen(settings(runs), "status:suspended,crashed", told.append)
    async with RefoldApp(settings(runs), lambda: screen).run_test(size=Size(120, 40)) as pilot:
        await until(lambda: len(screen._rows) == 2 and screen.prompt.is_open)
        await pilot.press(*"drift", "enter")
        await until(lambda: any("cannot go on" in toast.message for toast in pilot.app._notifications))
        await until(lambda: screen.prompt.is_open)
        await pilot.press(*"clean", "enter")
        await until(lambda: told == ["03-running-clean"])


async def test_esc_gives_the_list_back_and_leaves(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    make("03-running-clean", runs)
    make("16-pending-approval", runs)
    screen = ChooseRunScreen(settings(runs), "status:suspended,crashed")
    async with RefoldApp(settings(runs), lambda: screen).run_test(size=Size(120, 40)) as pilot:
        await until(lambda: len(screen._rows) == 2 and screen.prompt.is_open)
        await pilot.press(*"xyz")
        await until(lambda: len(screen._rows) == 0)
        await pilot.press("enter")
        await until(lambda: screen.prompt.is_open)
        await pilot.press("escape")
        await until(lambda: len(screen._rows) == 2)
        await pilot.press("down")
        assert screen.query_one(LineList).cursor == 1
        await pilot.press("escape")
        await until(lambda: pilot.app._exit)


def lines(*arguments: str | Path, home: Path) -> list[str]:
    done = run("history", *arguments, home=home)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().split("\n")[:-1]


def test_without_a_terminal_it_is_printed(store: Path, tmp_path: Path) -> None:
    before = picture(store)
    where = ("--only", "--root", store)
    shown = lines(*where, home=tmp_path)
    assert "Conversation" in shown[0]
    assert "Rename notes" in shown[1]
    assert [json.loads(row)["id"][:2] for row in lines(*where, "--json", home=tmp_path)] == [
        "1b",
        "2c",
        "0a",
        "3d",
    ]
    assert lines(*where, "--print", "--find", "add()", home=tmp_path) == [PARSER]
    (one,) = lines(*where, "0a", "--json", home=tmp_path)
    assert [turn["end"] for turn in json.loads(one)["conversation"]] == ["completed", "failed", "completed"]
    assert any("429 from upstream" in row for row in lines(*where, "0a", home=tmp_path))
    assert picture(store) == before


def test_a_fork_from_the_command_line(store: Path, tmp_path: Path) -> None:
    where = ("--only", "--root", store)
    (plan,) = lines(*where, "0a" * 16, "--fork-before", "3", "--plan", "--json", home=tmp_path)
    assert (json.loads(plan)["made"], json.loads(plan)["turns"]) == (False, 2)
    assert any(
        "Ends before" in row
        for row in lines(*where, "0a" * 16, "--fork-before", "3", "--plan", home=tmp_path)
    )
    assert len(list(store.iterdir())) == 4
    (made,) = lines(*where, "0a" * 16, "--fork-before", "3", home=tmp_path)
    assert load_conversation(store / made).refusal == ""
    (shown,) = lines(*where, "0a" * 16, "--fork-before", "2", "--json", home=tmp_path)
    assert json.loads(shown)["made"] is True
    for wrong, code in (
        (("0a" * 16, "--fork-before", "9"), 3),
        (("2c", "--fork-before", "1"), 3),
        (("zz",), 3),
        (("--fork-before", "1"), 2),
        (("0a" * 16, "--plan"), 2),
    ):
        done = run("history", *where, *wrong, home=tmp_path)
        assert done.returncode == code, done.stderr
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["history", "resume"])
def test_a_caller_reads_the_choice_from_standard_output(store: Path, tmp_path: Path, command: str) -> None:
    make("16-pending-approval", tmp_path / "runs")
    root = store if command == "history" else tmp_path / "runs"
    out = tmp_path / "out"
    script = 'import subprocess, sys; sys.exit(subprocess.call(sys.argv[2:], stdout=open(sys.argv[1], "wb")))'
    python = refold()[0]
    line = [python, "-c", script, str(out), *refold(command, "--print", "--only", "--root", root)]
    with Terminal(line, env=environment(tmp_path)) as terminal:
        terminal.wait("enter choose", limit=30)
        terminal.wait("4 conversations" if command == "history" else "16-pending", limit=30)
        terminal.press("down" if command == "history" else "p", "enter", settle=0.1)
        assert terminal.ended() == 0
    assert (
        out.read_bytes().decode() == {"history": "2c" * 16, "resume": "16-pending-approval"}[command] + "\n"
    )
    with Terminal(line, env=environment(tmp_path)) as terminal:
        terminal.wait("enter choose", limit=30)
        terminal.press("escape", settle=0.1)
        assert terminal.ended() == 1
    assert out.read_bytes() == b""
    done = run(command, "--print", "--only", "--root", root, home=tmp_path)
    assert len(done.stdout.split()) == (4 if command == "history" else 1)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_history(
    snap_compare: Compare, store: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(store.parent)
    given = settings(Path(store.name))
    screen = HistoryScreen(given, now=lambda: NOW)

    async def ready(pilot: Pilot[None]) -> None:
        await until(lambda: not screen._is_reading and screen.prompt.is_open)
        await pilot.press(*"re", "down")
        await until(lambda: len(names(screen)) == 3)
        await pilot.pause()

    assert snap_compare(RefoldApp(given, lambda: screen), terminal_size=size, run_before=ready)


def test_a_conversation_and_the_plan_of_a_fork(
    snap_compare: Compare, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda count: "5e" * count)
    given = settings(store)

    async def ready(pilot: Pilot[None]) -> None:
        await pilot.pause()
        await pilot.press("f")
        await until(lambda: isinstance(pilot.app.screen, ChatForkScreen))
        await pilot.pause()

    app = RefoldApp(given, lambda: ChatScreen(store / PARSER))
    assert snap_compare(app, terminal_size=(120, 40), run_before=ready)


def test_r_gives_the_terminal_to_its_own_program(store: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "rivumi").write_text('#!/bin/sh\necho "rivumi was started with $# arguments"\nread answer\n')
    (tools / "rivumi").chmod(0o755)
    given = environment(tmp_path)
    given["PATH"] = f"{tools}:{given['PATH']}"
    with Terminal(refold("history", "0a", "--only", "--root", store), env=given) as terminal:
        terminal.wait("Prompt of turn 3", limit=30)
        terminal.press("r", settle=0.1)
        terminal.wait(f"In rivumi, type /resume {PARSER}")
        terminal.wait("Press Enter to start rivumi")
        assert "rivumi was started" not in terminal.text
        terminal.press("enter", settle=0.1)
        terminal.wait("rivumi was started with 0 arguments")
        terminal.press("enter", settle=0.1)
        terminal.wait("rivumi ended with exit code 0")
        terminal.wait("Prompt of turn 3")
        assert terminal.quit() == 0


async def test_the_list_of_runs_leads_to_the_conversations_and_back(store: Path) -> None:
    given = settings(store)
    screen = RunsScreen(given)
    async with RefoldApp(given, lambda: screen).run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("h")
        await until(lambda: isinstance(pilot.app.screen, HistoryScreen))
        found = pilot.app.screen
        assert isinstance(found, HistoryScreen)
        await until(lambda: len(names(found)) == 4 and found.prompt.is_open)
        await pilot.press("escape")
        await until(lambda: pilot.app.screen is screen)
