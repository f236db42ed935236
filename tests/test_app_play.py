"""A run played on the screen by a clock that the test moves: every key, and what can come between."""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import rivumi_cases
from tests import run_story as story
from tests.on_screen import settings, shown
from tests.test_app_run import Open

from refold.app.lines import cells
from refold.app.main import RefoldApp
from refold.app.present.playing import Player, playing_words
from refold.app.screens.help import HelpScreen
from refold.app.screens.run import RunScreen
from refold.app.widgets.prompt_bar import PromptBar
from refold.core.breakpoints import parse_breakpoints
from refold.core.playback import Loop, Pace, Playhead
from refold.core.seek import Watched
from refold.core.store.reader import RunReader


class Clock:
    """A clock that stands still until it is told how much time passes."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Played(Open):
    """A run on the screen, its clock, and what the first row says of playing it."""

    clock: Clock

    async def passes(self, seconds: float, *, seq: int | None = None) -> None:
        """Let time pass; wait until the screen stands where it then has to."""
        self.clock.now += seconds
        if seq is None:
            await asyncio.sleep(0.25)
            await self.pilot.pause()
        else:
            await self.until(lambda: self.seq == seq)

    async def says(self, *words: str) -> None:
        await self.until(lambda: all(word in self.top for word in words))

    async def enter(self, key: str, text: str) -> None:
        """Open a prompt, put a text into it, and press Enter."""
        await self.press(key)
        prompt = self.screen.query_one(PromptBar)
        await self.until(lambda: prompt.is_open)
        prompt.query_one("Input").value = text  # type: ignore[attr-defined]
        await self.press("enter")


@asynccontextmanager
async def played(
    path: Path, *, at: int | None = 1, size: tuple[int, int] = (160, 40)
) -> AsyncIterator[Played]:
    clock, chosen = Clock(), settings(path.parent)
    app = RefoldApp(chosen, lambda: RunScreen(path, at, settings=chosen, clock=clock))
    async with app.run_test(size=size, notifications=True) as pilot:
        screen = app.screen
        assert isinstance(screen, RunScreen)
        opened = Played(pilot, screen)
        opened.clock = clock
        await opened.until(lambda: screen.reader is not None and screen.reader.complete and opened.row >= 0)
        yield opened


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Due at 0, 0.4, 0.6, 2.6, 2.7, 3.4, 3.5, 5.5, 7.5 seconds."""
    return story.write(tmp_path / "fix-add.json", story.fix_add())


@pytest.fixture
def untimed(tmp_path: Path) -> Path:
    lines = [story.meta(1, "a", "p"), *(story.assistant(seq, seq, stop="end_turn") for seq in range(2, 9))]
    return story.write(tmp_path / "untimed.json", lines)


async def test_it_stands_where_the_clock_says(run: Path) -> None:
    async with played(run) as opened:
        assert "paused" not in opened.top
        await opened.press("space")
        await opened.says("▶ playing 1×  recorded")
        await opened.passes(0.39)
        assert opened.seq == 1
        await opened.passes(0.02, seq=2)
        await opened.passes(2.4, seq=5)
        await opened.press("space")
        await opened.says("▮ paused 1×  recorded")
        await opened.passes(60)
        assert opened.seq == 5
        await opened.press("space")
        await opened.passes(0.5)
        assert opened.seq == 5
        await opened.passes(0.1, seq=6)


async def test_the_footer_names_what_the_key_that_plays_does_now(run: Path) -> None:
    async with played(run, at=8) as opened:

        def footer() -> str:
            return shown(opened.pilot.app)[-1]

        await opened.until(lambda: "space play" in footer())
        await opened.press("space")
        await opened.until(lambda: "space pause" in footer())
        await opened.passes(2.1, seq=9)
        await opened.until(lambda: "space play" in footer())


@pytest.mark.parametrize("size", [(80, 24), (160, 40)])
@pytest.mark.parametrize("way", ["breakpoint", "end", "sought", "escape", "space", "replaced", "by hand"])
async def test_whatever_ends_playing_is_seen_in_the_footer(
    run: Path, way: str, size: tuple[int, int]
) -> None:
    async with played(run, size=size) as opened:

        def footer() -> str:
            return shown(opened.pilot.app)[-1]

        if way in ("breakpoint", "sought"):
            await opened.enter("b", "error:yes")
        await opened.press("space")
        await opened.until(lambda: "space pause" in footer())
        await opened.passes(0.45, seq=2)
        assert "space pause" in footer()
        match way:
            case "breakpoint":
                await opened.passes(4.0, seq=6)
            case "end":
                await opened.press("end")
            case "sought":
                await opened.press("B")
            case "replaced":
                new = run.with_suffix(".new")
                new.write_bytes(b"".join(story.fix_add()[:5]))
                new.replace(run)
            case "by hand":
                await opened.press("up")
                await opened.until(lambda: opened.seq == 1)
                assert "space pause" in footer()
                await opened.press("G")
            case _:
                await opened.press(way)
        await opened.until(lambda: not opened.screen.player.playing)
        await opened.until(lambda: "space play" in footer())


async def test_what_is_typed_about_a_run_moves_nothing_in_it(run: Path) -> None:
    async with played(run, at=4) as opened:
        await opened.press("colon")
        await opened.until(lambda: "enter accept  esc cancel" in shown(opened.pilot.app)[-1])
        await opened.press("up", "up", "escape")
        assert opened.seq == 4


async def test_speeds(run: Path) -> None:
    async with played(run) as opened:
        await opened.press("greater_than_sign", "greater_than_sign", "space")
        await opened.says("▶ playing 4×")
        await opened.passes(0.11, seq=2)
        for _ in range(9):
            await opened.press("less_than_sign")
        await opened.says("▶ playing 0.25×")
        await opened.passes(0.6)
        assert opened.seq == 2
        await opened.passes(0.1, seq=3)
        for _ in range(9):
            await opened.press("greater_than_sign")
        await opened.says("▶ playing 16×")
        await opened.passes(0.2, seq=7)


async def test_at_the_end_it_goes_along_with_it_and_then_from_the_beginning(run: Path) -> None:
    async with played(run, at=8) as opened:
        await opened.press("space")
        await opened.passes(2.1, seq=9)
        await opened.says("▮ paused", "following")
        await opened.press("space")
        await opened.until(lambda: opened.seq == 1)
        await opened.says("▶ playing")
        assert "following" not in opened.top


async def test_it_goes_on_from_where_the_cursor_is_put(run: Path) -> None:
    async with played(run) as opened:
        await opened.press("space")
        await opened.passes(0.45, seq=2)
        await opened.press(*["down"] * 9)
        await opened.until(lambda: opened.seq == 8)
        await opened.passes(1.9)
        assert opened.seq == 8
        await opened.passes(0.2, seq=9)


async def test_a_live_run_is_caught_up_with_and_followed(run: Path, tmp_path: Path) -> None:
    lines = story.fix_add()
    run.write_bytes(b"".join(lines[:3]))
    async with played(run) as opened:
        await opened.press("space")
        await opened.passes(0.45, seq=2)
        with run.open("ab") as file:
            file.write(b"".join(lines[3:5]))
        await opened.until(lambda: opened.screen.timeline.rows.__len__() > 6)
        assert opened.seq == 2
        await opened.passes(0.2, seq=3)
        await opened.passes(2.0, seq=4)
        await opened.passes(0.15, seq=5)
        await opened.says("following")
        with run.open("ab") as file:
            file.write(b"".join(lines[5:]))
        await opened.until(lambda: opened.seq == 9)


async def test_a_run_that_is_held_is_played_on_as_it_grows_until_a_breakpoint_stops_it(run: Path) -> None:
    lines = story.fix_add()
    run.write_bytes(b"".join(lines[:3]))
    with run.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        async with played(run) as opened:
            await opened.says("● running")
            await opened.enter("b", "error:yes")
            await opened.press("space")
            await opened.passes(0.65, seq=3)
            await opened.says("▶ following 1×")
            await opened.passes(4)
            with run.open("ab") as file:
                file.write(b"".join(lines[3:]))
            await opened.until(lambda: opened.seq == 6)
            await opened.says("▮ paused", "■ error:yes at 6")


async def test_breakpoints_stop_it_and_say_why(run: Path) -> None:
    async with played(run) as opened:
        await opened.enter("b", "error:yes; pending>1")
        await opened.press("space")
        await opened.passes(4.9, seq=4)
        await opened.says("▮ paused 1×  recorded  ■ pending>1 at 4")
        await opened.press("space")
        await opened.passes(4.9, seq=6)
        await opened.says("■ error:yes at 6")
        await opened.press("up")
        await opened.until(lambda: "■ error:yes" not in opened.top)
        await opened.press("b")
        await opened.until(lambda: "error:yes; pending>1" in opened.text)
        await opened.press("escape")
        await opened.enter("b", "")
        await opened.press("home", "space")
        await opened.passes(4.9, seq=7)


async def test_a_breakpoint_that_cannot_be_understood_stays_in_the_prompt(run: Path) -> None:
    async with played(run, size=(120, 30)) as opened:
        await opened.enter("b", "tool:bash; tokenz>5")
        await opened.until(lambda: "there is no number tokenz" in opened.text)
        prompt = opened.screen.query_one(PromptBar)
        await opened.until(lambda: prompt.is_open)
        assert prompt.text == "tool:bash; tokenz>5"
        assert opened.screen.player.conditions == ()
        await opened.press(*["backspace"] * len("z>5"), *"s>5", "enter")
        await opened.until(lambda: not prompt.is_open)
        assert opened.screen.player.typed == "tool:bash; tokens>5"
        assert opened.screen.focused is opened.screen.timeline


async def test_what_is_wrong_is_said_while_it_is_typed(run: Path) -> None:
    async with played(run, size=(100, 30)) as opened:
        await opened.press("b", *"error:x")
        await opened.until(lambda: "error: is yes or no, not “x”" in opened.text)
        await opened.press("backspace", *"yes")
        await opened.until(lambda: "is yes or no" not in opened.text)
        await opened.press("escape")
        assert opened.screen.player.conditions == ()


async def test_to_the_next_breakpoint_without_playing(run: Path) -> None:
    async with played(run) as opened:
        await opened.press("B")
        await opened.until(lambda: any("no breakpoint" in toast for toast in opened.toasts))
        await opened.enter("b", "tool:run; gap>1m")
        for seq, why in ((4, "tool:run"), (6, "tool:run"), (8, "gap>1m")):
            await opened.press("B")
            await opened.says(f"■ {why} at {seq}")
            assert opened.seq == seq
        await opened.press("B")
        await opened.until(lambda: any("No breakpoint stops after" in toast for toast in opened.toasts))
        assert opened.seq == 8


async def test_a_loop(run: Path) -> None:
    async with played(run, at=6) as opened:
        await opened.press("L")
        await opened.says("loop 6–")
        await opened.press("up", "up", "L")
        await opened.says("loop 4–6")
        await opened.press("home", "space")
        await opened.until(lambda: opened.seq == 4)
        await opened.passes(0.85, seq=6)
        await opened.passes(0.7)
        assert opened.seq == 6
        await opened.passes(0.1, seq=4)
        await opened.passes(0.85, seq=6)
        await opened.press("L")
        await opened.until(lambda: "loop" not in opened.top)
        await opened.passes(0.3, seq=7)


async def test_changes_of_what_is_watched(run: Path) -> None:
    async with played(run, at=9) as opened:
        await opened.press("comma")
        await opened.until(lambda: any("Nothing is watched" in toast for toast in opened.toasts))
        await opened.enter("w", "Pending")
        for key, seq, said in (
            ("comma", 6, "pending 1 → 0 at 6"),
            ("comma", 5, "pending 2 → 1 at 5"),
            ("full_stop", 6, "pending 1 → 0 at 6"),
            ("full_stop", 9, "pending 0 → 1 at 9"),
        ):
            await opened.press(key)
            await opened.says(said)
            assert opened.seq == seq
        await opened.press("full_stop")
        await opened.until(lambda: any("does not change after" in toast for toast in opened.toasts))
        await opened.enter("w", "phase")
        await opened.press("comma")
        await opened.says("phase suspended → model at 8")
        await opened.enter("w", "test_calc")
        await opened.press("comma")
        await opened.says("test_calc: no change known, named at 4")
        await opened.press("comma")
        await opened.until(lambda: any("and none names it" in toast for toast in opened.toasts))
        await opened.enter("w", "")
        assert opened.screen.player.watched is None


async def test_the_prompt_of_what_is_watched_says_what_can_be(run: Path) -> None:
    async with played(run) as opened:
        await opened.press("w")
        await opened.until(lambda: "phase pending tokens turns calls errors or a file" in opened.text)
        await opened.press(*"tokens")
        await opened.until(lambda: ", before, . after" in opened.text)
        await opened.press(*".py")
        await opened.until(lambda: "where a call changes this file" in opened.text)


async def test_from_call_to_call(run: Path) -> None:
    async with played(run) as opened:
        rows = []
        for key in ("plus", "plus", "plus", "minus", "minus"):
            await opened.press(key)
            rows.append(opened.row)
        assert rows == [2, 5, 6, 5, 2]
        await opened.press("minus")
        await opened.until(lambda: any("No call before" in toast for toast in opened.toasts))


async def test_the_pace(run: Path) -> None:
    async with played(run) as opened:
        await opened.press("p", "space")
        await opened.says("▶ playing 1×  fixed pace")
        await opened.passes(0.81, seq=3)
        await opened.press("p")
        await opened.says("recorded")
        await opened.passes(1.9)
        assert opened.seq == 3
        await opened.passes(0.2, seq=4)


async def test_a_run_without_times_is_played_at_one_pace(untimed: Path) -> None:
    async with played(untimed) as opened:
        await opened.press("p")
        await opened.until(lambda: any("carry no times" in toast for toast in opened.toasts))
        await opened.press("space")
        await opened.says("▶ playing 1×  fixed pace")
        await opened.passes(0.81, seq=3)


async def test_escape_pauses_before_it_leaves(run: Path) -> None:
    async with played(run) as opened:
        await opened.press("space")
        await opened.says("▶ playing")
        await opened.press("escape")
        await opened.says("▮ paused")
        await opened.passes(3)
        assert opened.seq == 1


async def test_escape_ends_a_long_look(tmp_path: Path) -> None:
    words = "x" * 400_000
    lines = [story.meta(1, "a", "p"), *(story.result(seq, "c", words) for seq in range(2, 120))]
    async with played(story.write(tmp_path / "long.json", lines)) as opened:
        await opened.enter("b", '"no such thing"')
        looked = opened.screen.player.seek_stop
        seeking = looked(opened.screen._reading, 0, 1).seeking  # type: ignore[arg-type]
        assert len(list(seeking.steps())) > 100, "it is looked at in many steps"
        opened.screen.action_next_stop()
        assert opened.screen.player.sought is not None
        opened.screen.action_back()
        assert opened.screen.player.sought is None
        await opened.until(lambda: "looking for" not in opened.top)
        await opened.passes(0)
        assert opened.seq == 1
        assert opened.toasts[-1].startswith("Breakpoints stop it")


async def test_time_stands_still_behind_a_dialog_and_while_the_program_is_stopped(run: Path) -> None:
    async with played(run) as opened:
        await opened.press("space")
        await opened.passes(0.45, seq=2)
        await opened.press("question_mark")
        await opened.until(lambda: isinstance(opened.pilot.app.screen, HelpScreen))
        await opened.passes(4)
        await opened.press("escape")
        await opened.until(lambda: opened.pilot.app.screen is opened.screen)
        await opened.says("▶ playing")
        assert opened.seq == 2
        await opened.passes(0.2, seq=3)
        await opened.passes(3600)
        assert opened.seq == 3
        await opened.passes(2.0, seq=4)


async def test_space_pages_down_where_a_text_is_read(run: Path) -> None:
    async with played(run, size=(120, 16)) as opened:
        await opened.press("4", "enter")
        await opened.until(lambda: opened.screen.pane.pager.has_focus)
        await opened.press("space")
        await opened.passes(1)
        assert not opened.screen.player.playing
        assert opened.seq == 1


async def test_a_file_that_is_replaced_is_not_played_on(run: Path) -> None:
    async with played(run) as opened:
        await opened.press("L", "space")
        await opened.passes(0.45, seq=2)
        new = run.with_suffix(".new")
        new.write_bytes(b"".join(story.fix_add()[:5]))
        new.replace(run)
        await opened.until(lambda: "was replaced" in opened.text)
        assert not opened.screen.player.playing
        assert opened.screen.player.loop is None


async def test_a_run_directory_is_played_by_the_same_keys(tmp_path: Path) -> None:
    run = rivumi_cases.make("04-tail-tool-started", tmp_path)
    async with played(run, at=0) as opened:
        await opened.enter("b", "pending>0")
        await opened.press("space")
        await opened.says("▶ playing 1×  recorded")
        for _ in range(30):
            await opened.passes(4.0)
            if "■" in opened.top:
                break
        await opened.says("■ pending>0 at")
        reader = opened.screen.reader
        assert reader is not None
        item = opened.screen.item
        assert item is not None
        assert reader.timeline.open_calls(item) == 1
        await opened.enter("w", "phase")
        await opened.press("comma")
        await opened.says("phase ", " → ")


async def test_the_pane_keeps_up_with_a_cursor_that_never_rests(untimed: Path) -> None:
    """At sixteen times the records come quicker than the pane would settle."""
    lines = [story.meta(1, "a", "p"), *(story.assistant(seq, seq, stop="end_turn") for seq in range(2, 900))]
    story.write(untimed, lines)
    async with played(untimed) as opened:
        await opened.press("2")
        await opened.pane_says("State after seq 1")
        for _ in range(6):
            await opened.press("greater_than_sign")
        seen: set[str] = set()
        await opened.press("space")
        for _ in range(80):
            opened.clock.now += 0.05
            await asyncio.sleep(0.02)
            seen.add(opened.pane.split("\n")[0])
        assert len(seen) >= 5


@given(
    room=st.integers(0, 120),
    text=st.sampled_from(["tool:bash error:yes", "\x1b[2Jevil", "核对" * 40, "x at 5 at 6"]),
    playing=st.booleans(),
    looped=st.booleans(),
    fixed=st.booleans(),
)
def test_what_is_said_is_never_wider_than_its_room(
    room: int, text: str, playing: bool, looped: bool, fixed: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:  # fmt: skip
    directory = tmp_path_factory.getbasetemp()
    path = directory / "said.json"
    if not path.exists():
        story.write(path, story.fix_add())
    with RunReader.open(path) as reader:
        timeline = reader.index_all()
    player = Player()
    player.touched, player.head = True, Playhead(3, 0.25).play(0.0) if playing else Playhead(3)
    player.loop = Loop(1, 5) if looped else None
    player.pace = Pace(recorded=not fixed)
    player.said = (f"■ {text} at 4", "accent")
    line = playing_words(player, timeline, 3, room)
    assert cells(line) <= room
    assert all(cell.text.isprintable() for cell in line)
    said = "".join(cell.text for cell in line)
    assert room < 60 or " at 4" in said


def test_nothing_is_said_of_a_run_that_was_never_played(run: Path) -> None:
    with RunReader.open(run) as reader:
        assert playing_words(Player(), reader.index_all(), 0, 80) == ()
    player = Player()
    player.conditions = parse_breakpoints("tool:x; error:yes", 0.0)
    player.watched = Watched("a.py")
    assert player.typed == "tool:x; error:yes"
    assert player.watched.is_file
