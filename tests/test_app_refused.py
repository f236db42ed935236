"""What is said to a key that is refused, and where it stands: never over the keys, and few at once."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests import run_story
from tests.on_screen import settings, shown, until
from tests.test_app_resume_screen import EDIT, PRINT, case, on_stage, planned
from textual.app import App
from textual.notifications import Notification
from textual.pilot import Pilot
from textual.widgets._toast import Toast

from refold.app.few_notices import MOST, FewNotices
from refold.app.main import RefoldApp
from refold.app.screens.postmortem import PostmortemScreen
from refold.app.screens.runs import RunsScreen
from refold.app.screens.trash import TrashScreen
from refold.app.settings import Settings
from refold.core.store.roots import Root


def runs_of(directory: Path, *names: str) -> Settings:
    (directory / "runs").mkdir()
    for name in names:
        run_story.write(directory / "runs" / f"{name}.json", run_story.fix_add())
    return msgspec.structs.replace(settings(directory), roots=(Root(directory / "runs", "refold", "test"),))


def told(app: App[None]) -> list[str]:
    return [toast.message for toast in app._notifications]


async def says(pilot: Pilot[None], text: str) -> None:
    await until(pilot, lambda: any(text in message for message in told(pilot.app)))


def test_two_notices_under_one_title_do_not_swallow_each_other_and_of_too_many_the_newest_stay() -> None:
    notices = FewNotices()
    for message in ("a cannot go on", "b cannot go on", "a cannot go on"):
        notices.add(Notification(message, title="Not this one", severity="warning"))
    assert [one.message for one in notices] == ["b cannot go on", "a cannot go on"]
    notices.add(Notification("a cannot go on", title="Another title", severity="warning"))
    assert len(notices) == 3
    for number in range(9):
        notices.add(Notification(f"moved {number}"))
        notices.add(Notification("the same"))
    assert len(notices) == MOST
    assert [one.message for one in notices] == ["moved 7", "moved 8", "the same"]


async def test_what_does_not_hold_any_more_is_not_told_beside_what_does(tmp_path: Path) -> None:
    app, _ = on_stage(tmp_path, case(tmp_path, EDIT))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await planned(pilot)
        usual = app.settings.utc
        for utc in (not usual, usual, not usual):
            app.action_utc()
            said = "Times are in UTC now." if utc else "Times are local now."
            await until(pilot, lambda: told(app) == [said])  # noqa: B023 - awaited in the round itself


async def test_enter_says_what_has_to_be_decided_first(tmp_path: Path) -> None:
    app, stage = on_stage(tmp_path, case(tmp_path, EDIT))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await planned(pilot)
        await pilot.press("enter")
        await says(pilot, "First decide about 1 call.")
        assert stage.answers == []


async def test_enter_says_why_a_resume_is_refused_and_which_key_helps(tmp_path: Path) -> None:
    of = case(tmp_path, now=None)
    unnamed = "which agent it runs is not known"
    facts = msgspec.structs.replace(
        of.facts, problem=f"{unnamed}: name it with --agent package.module:factory"
    )
    app, stage = on_stage(tmp_path, of._replace(facts=facts))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await planned(pilot)
        await pilot.press("enter")
        await says(pilot, f"{unnamed}: c names it")
        rows = shown(app)
        assert not any("name it with" in row for row in rows)
        assert "esc back" in rows[-3]
        assert stage.answers == []


async def test_a_changed_fingerprint_is_named_to_enter(tmp_path: Path) -> None:
    now = msgspec.structs.replace(PRINT, system_hash="9be0" * 16)
    app, _ = on_stage(tmp_path, case(tmp_path, now=now))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await planned(pilot)
        await pilot.press("enter")
        await says(pilot, "system prompt")


@pytest.mark.parametrize("key", ["u", "D"])
async def test_an_empty_trash_says_so(tmp_path: Path, key: str) -> None:
    made = runs_of(tmp_path)
    screen = TrashScreen(made)
    app = RefoldApp(made, lambda: screen)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: screen.is_read)
        await pilot.press(key)
        await says(pilot, "The trash is empty.")


async def test_keys_that_need_a_run_say_so_where_there_is_none(tmp_path: Path) -> None:
    made = runs_of(tmp_path)
    app = RefoldApp(made, lambda: RunsScreen(made))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: any("No runs yet" in row for row in shown(app)))
        for key in ("r", "f", "d", "l", "c", "x", "T", "e", "Y", "space"):
            app.clear_notifications()
            await pilot.press(key)
            await says(pilot, RunsScreen.NO_RUN)
        assert app.screen_stack[-1] is app.screen_stack[0]


async def test_what_was_told_does_not_stand_under_a_dialog(tmp_path: Path) -> None:
    made = runs_of(tmp_path, "one")
    screen = RunsScreen(made)
    app = RefoldApp(made, lambda: screen)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: screen.run is not None)
        await pilot.press("c")
        await until(pilot, lambda: any("forked from no run" in row for row in shown(app)))
        assert "? help" in shown(app)[-1]
        await pilot.press("D")
        await until(pilot, lambda: app.screen is not screen and not told(app) and not screen.query(Toast))


async def test_a_mistyped_filter_asks_in_the_prompt_what_was_meant(tmp_path: Path) -> None:
    made = runs_of(tmp_path, "one")
    screen = RunsScreen(made)
    app = RefoldApp(made, lambda: screen)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: screen.run is not None)
        await pilot.press("slash", *"statsu:crashed")
        await until(pilot, lambda: "did you mean status:?" in shown(app)[-2])
        await pilot.press("enter")
        await until(pilot, lambda: screen.prompt.is_open and "did you mean status:?" in shown(app)[-2])
        await pilot.press("escape")
        await until(pilot, lambda: screen.run is not None and not screen.prompt.is_open)
        await pilot.press("slash", *"crahsed")
        await until(pilot, lambda: "did you mean status:crashed?" in shown(app)[-2])
        await pilot.press("enter")
        await until(pilot, lambda: any("did you mean status:crashed?" in row for row in shown(app)[:4]))


async def test_the_frame_of_a_dialog_says_that_its_text_goes_on(tmp_path: Path) -> None:
    app, _ = on_stage(tmp_path, case(tmp_path, EDIT))
    async with app.run_test(size=(60, 20)) as pilot:
        await planned(pilot)
        await until(pilot, lambda: any("lines, ↑ ↓ ─╯" in row for row in shown(app)))
        await pilot.resize_terminal(120, 60)
        await until(pilot, lambda: not any("lines, ↑ ↓" in row for row in shown(app)))


async def test_enter_on_a_line_of_a_postmortem_that_leads_nowhere_says_so(tmp_path: Path) -> None:
    made = runs_of(tmp_path, "one")
    screen = PostmortemScreen(tmp_path / "runs" / "one.json", "refold", made)
    app = RefoldApp(made, lambda: screen)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: screen.is_read)
        await pilot.press("enter")
        await says(pilot, "This line leads nowhere")
        assert app.screen is screen


async def test_help_begins_with_the_keys_of_the_screen_that_it_was_opened_from(tmp_path: Path) -> None:
    made = runs_of(tmp_path, "one")
    screen = PostmortemScreen(tmp_path / "runs" / "one.json", "refold", made)
    app = RefoldApp(made, lambda: screen)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: screen.is_read)
        await pilot.press("question_mark")
        await until(pilot, lambda: "In a post-mortem" in shown(app)[1])
