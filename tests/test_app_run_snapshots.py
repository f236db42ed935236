"""What one run looks like, in every size and look, and each of its panes."""

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

Compare = Callable[..., bool]
SIZES = [(60, 20), (80, 24), (120, 40), (200, 60)]
LOOKS = ["dark", "light", "no-color"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths on the screen are relative ones: the same on every machine."""
    monkeypatch.chdir(tmp_path)


def app(lines: list[bytes], name: str = "fix-add", *, at: int | None = None, look: str = "dark") -> App[None]:
    theme = "refold-light" if look == "light" else "refold-dark"
    chosen = settings(Path.cwd(), theme=theme, no_color=look == "no-color")
    path = story.write(Path(f"{name}.json"), lines)
    return RefoldApp(chosen, lambda: RunScreen(path, at, settings=chosen))


def ready(*pressed: str, pane: str = "", top: str = "") -> Callable[[Pilot[None]], object]:
    """Wait until everything is read and drawn, press keys, and wait for words in the pane and the top row."""

    async def before(pilot: Pilot[None]) -> None:
        screen = pilot.app.screen
        assert isinstance(screen, RunScreen)
        await until(
            pilot,
            lambda: screen.reader is not None and screen.reader.complete and screen.timeline.cursor >= 0,
        )
        await pilot.press(*pressed)
        rows = screen.pane.pager

        def said() -> str:
            return "\n".join(plain(rows.rows.line(index, 200)) for index in range(len(rows.rows)))

        await until(pilot, lambda: pane in said())
        await until(pilot, lambda: top in plain(screen.query_one("#top").line(400)))  # type: ignore[attr-defined]

    return before


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_run(snap_compare: Compare, size: tuple[int, int], look: str) -> None:
    """The State pane of the fourth record; on the lowest screen the pane has no room."""
    keys = ("2",) if size[1] > 20 else ()
    before = ready(*keys, pane="State after seq 4" if keys else "", top="seq 4 / 9")
    assert snap_compare(app(story.fix_add(), at=4, look=look), terminal_size=size, run_before=before)


@pytest.mark.parametrize(
    ("key", "pane"),
    [
        ("1", "call replace_text"),
        ("2", "end of file"),
        ("3", "open turn"),
        ("4", "replace_text"),
        ("5", '{"seq":9'),
    ],
    ids=["record", "state", "conversation", "changes", "raw"],
)
def test_panes(snap_compare: Compare, key: str, pane: str) -> None:
    before = ready(key, pane=pane, top="following")
    assert snap_compare(app(story.fix_add()), terminal_size=(120, 40), run_before=before)


def test_the_pane_of_a_low_screen(snap_compare: Compare) -> None:
    before = ready("2", pane="State after seq 4", top="seq 4 / 9")
    assert snap_compare(app(story.fix_add(), at=4), terminal_size=(60, 20), run_before=before)


def test_damage(snap_compare: Compare) -> None:
    before = ready("right_curly_bracket", "1", pane="E_NUL_RUN")
    assert snap_compare(app(story.damaged(), at=4), terminal_size=(120, 40), run_before=before)


def test_damage_in_hex(snap_compare: Compare) -> None:
    before = ready("right_curly_bracket", "5", pane="7b 22 73 65")
    assert snap_compare(app(story.damaged(), at=4), terminal_size=(120, 40), run_before=before)


def test_beyond_damage(snap_compare: Compare) -> None:
    before = ready("2", pane="reconstructed: line 5", top="seq 9 / 9")
    assert snap_compare(app(story.damaged(), at=9), terminal_size=(120, 40), run_before=before)


def test_text_of_all_scripts(snap_compare: Compare) -> None:
    before = ready("1", pane="tool clear ␛[2J", top="seq 2 / 17")
    assert snap_compare(app(story.hostile(), "hostile", at=2), terminal_size=(120, 40), run_before=before)


def test_text_of_all_scripts_without_colour(snap_compare: Compare) -> None:
    before = ready("5", pane="\\u001b[2J", top="seq 2 / 17")
    shown = app(story.hostile(), "hostile", at=2, look="no-color")
    assert snap_compare(shown, terminal_size=(80, 40), run_before=before)


def test_search(snap_compare: Compare) -> None:
    before = ready("slash", *"calc", "enter", pane="calc.py", top="/calc 1 of 3")
    assert snap_compare(app(story.fix_add(), at=1), terminal_size=(120, 40), run_before=before)


def test_by_time(snap_compare: Compare) -> None:
    before = ready("t", top="seq 5 / 9")
    assert snap_compare(app(story.fix_add(), at=5), terminal_size=(120, 40), run_before=before)


def test_a_file_that_cannot_be_opened(snap_compare: Compare) -> None:
    chosen = settings(Path.cwd())
    shown = RefoldApp(chosen, lambda: RunScreen(Path("nowhere.json"), settings=chosen))

    async def before(pilot: Pilot[None]) -> None:
        screen = pilot.app.screen
        assert isinstance(screen, RunScreen)
        await until(pilot, lambda: len(screen.timeline.rows) > 0)

    assert snap_compare(shown, terminal_size=(80, 24), run_before=before)
