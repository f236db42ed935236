"""The one table of keys: nothing twice, nothing without an action, and the same on every surface."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.on_screen import settings, shown, until
from textual.screen import Screen

from refold.app import keys
from refold.app.commands import RefoldCommands
from refold.app.key_clashes import TOGETHER, clash
from refold.app.keys import Place
from refold.app.main import RefoldApp
from refold.app.present import help as help_page
from refold.app.screens.chat import ChatForkScreen, ChatScreen
from refold.app.screens.columns import ColumnsScreen
from refold.app.screens.compare import CompareScreen
from refold.app.screens.copy_menu import CopyMenuScreen
from refold.app.screens.directories import DirectoriesScreen
from refold.app.screens.export import ExportScreen
from refold.app.screens.fork import ForkScreen
from refold.app.screens.help import HelpScreen
from refold.app.screens.history import HistoryScreen
from refold.app.screens.lineage import LineageScreen
from refold.app.screens.mend import MendScreen
from refold.app.screens.notice import NoticeScreen
from refold.app.screens.postmortem import PostmortemScreen
from refold.app.screens.resume import ResumeScreen
from refold.app.screens.run import RunScreen
from refold.app.screens.runs import RunsScreen
from refold.app.screens.search import SearchScreen
from refold.app.screens.trash import TrashScreen
from refold.app.screens.typed_blind import TypedBlindScreen
from refold.app.widgets.line_list import LineList
from refold.app.widgets.line_pager import LinePager
from refold.app.widgets.prompt_bar import PromptBar
from refold.core.status import STATUSES

OWNERS: dict[str, tuple[type, ...]] = {
    "app": (RefoldApp,),
    "runs": (RunsScreen,),
    "run": (RunScreen,),
    "list": (LineList,),
    "pager": (LinePager,),
    "prompt": (PromptBar,),
    "columns": (ColumnsScreen,),
    "resume": (ResumeScreen,),
    "postmortem": (PostmortemScreen,),
    "mend": (MendScreen,),
    "fork": (ForkScreen,),
    "lineage": (LineageScreen,),
    "compare": (CompareScreen,),
    "trash": (TrashScreen,),
    "history": (HistoryScreen,),
    "search": (SearchScreen,),
    "chat": (ChatScreen,),
    "chatfork": (ChatForkScreen,),
    "copymenu": (CopyMenuScreen,),
    "export": (ExportScreen,),
    "directories": (DirectoriesScreen,),
    "dialog": (HelpScreen, NoticeScreen),
    "blind": (TypedBlindScreen,),
}
"""Who carries out the actions of each place."""

MEANT = {
    ("copymenu", "q"),
    ("export", "q"),
    ("directories", "q"),
    ("pager", "space"),
    ("mend", "q"),
    ("columns", "q"),
    ("chatfork", "q"),
    ("dialog", "q"),
    ("resume", "q"),
    ("fork", "q"),
}
"""Keys that a dialog takes from the program while it is open, and a text from a run while it is read."""


def test_every_place_is_heard_together_with_something() -> None:
    assert {place for places in TOGETHER for place in places} == set(OWNERS)


@pytest.mark.parametrize(
    ("keymap", "found"),
    [
        ({"runs.postmortem": "r"}, ("r", "runs.postmortem", "runs.resume")),
        ({"run.search": "ctrl+f, space"}, ("space", "run.search", "run.play")),
        ({"run.search": "f5", "run.play": "f5"}, ("f5", "run.search", "run.play")),
        ({"run.play": "?"}, ("question_mark", "run.play", "app.help")),
        ({"list.down": "d"}, ("d", "list.down", "runs.postmortem")),
        ({"runs.postmortem": "r", "runs.resume": "d"}, None),
        ({"runs.postmortem": "f5", "compare.back": "f5"}, None),
        ({"fork.close": "q,escape"}, None),
    ],
)
def test_a_key_that_would_start_two_actions_is_found(
    keymap: dict[str, str], found: tuple[str, str, str] | None
) -> None:
    """In the same place, in a list on its screen, everywhere; not in places that are never heard together."""
    assert clash(keymap) == found


def test_ids_are_unique_and_name_their_place() -> None:
    assert len(keys.ROWS) == len(keys.TABLE)
    assert {key.place for key in keys.TABLE} == set(OWNERS)


@pytest.mark.parametrize("key", keys.TABLE, ids=lambda key: key.id)
def test_every_action_is_there(key: keys.Key) -> None:
    name = key.action.partition("(")[0]
    for owner in OWNERS[key.place]:
        assert callable(getattr(owner, f"action_{name}", None)), f"{owner.__name__} has no action_{name}"


@pytest.mark.parametrize("key", keys.TABLE, ids=lambda key: key.id)
def test_every_row_is_made_for_reading(key: keys.Key) -> None:
    assert key.label
    assert key.group in keys.GROUPS
    assert "[" not in key.tooltip, "the palette reads it as markup"
    assert len(key.hint) < 12
    assert not set(keys.keys_of(key, {})) & {"ctrl+h", "ctrl+i", "ctrl+j", "ctrl+m", "ctrl+s", "ctrl+z"}


@pytest.mark.parametrize("places", TOGETHER, ids="+".join)
def test_no_key_is_bound_twice(places: tuple[Place, ...]) -> None:
    bound = Counter(
        (one if (key.place, one) not in MEANT else f"{key.place}:{one}")
        for key in keys.rows(*places)
        for one in keys.keys_of(key, {})
    )

    assert [key for key, count in bound.items() if count > 1] == []


@pytest.mark.parametrize("place", OWNERS)
def test_bindings_are_the_table(place: str) -> None:
    owner = OWNERS[place][0]
    declared = {binding.id: binding for binding in owner.BINDINGS}  # type: ignore[attr-defined]

    assert [*declared] == [key.id for key in keys.TABLE if key.place == place]
    for key in keys.TABLE:
        if key.place == place:
            assert declared[key.id].key == key.keys
            assert declared[key.id].show == bool(key.hint)


def test_keys_are_shown_as_on_the_keyboard() -> None:
    assert [*map(keys.shown, ("left", "question_mark", "ctrl+p", "shift+left", "G", "plus", "+", "f1"))] == [
        "←",
        "?",
        "^p",
        "shift+←",
        "G",
        "+",
        "+",
        "f1",
    ]


@pytest.mark.parametrize("width", [60, 120])
def test_the_help_page_names_every_action(width: int) -> None:
    text = "\n".join("".join(cell.text for cell in line) for line in help_page.lines(width, "run", {}))

    for key in keys.TABLE:
        assert key.label in text, key.id
        assert f"{key.label}{key.tooltip[:9]}" not in text or not key.tooltip, f"{key.id}: words run together"
    assert set(help_page.STATUSES) == set(STATUSES)
    assert all(name in text for name in STATUSES)
    assert "replay" in text
    assert "never executes" in text


def test_the_help_page_shows_remapped_keys() -> None:
    page = help_page.lines(80, "runs", {"runs.sort": "o,f5"})
    rows = ["".join(cell.text for cell in line) for line in page]

    assert any("o f5" in row and "Sort" in row for row in rows)


@pytest.mark.parametrize("place", ["runs", "run"])
async def test_the_palette_lists_every_action(place: str, tmp_path: Path) -> None:
    journal = tmp_path / "a.json"
    journal.write_bytes(b"")
    given = settings(tmp_path)

    def start() -> Screen[None]:
        return RunsScreen(given) if place == "runs" else RunScreen(journal, settings=given)

    app = RefoldApp(given, start)
    async with app.run_test() as pilot:
        await pilot.pause()
        listed = {command.title for command in RefoldCommands(app.screen).commands()}
        here = {
            key.label
            for key in keys.TABLE
            if key.place in {place, "app"} and app.screen.check_action(key.action.partition("(")[0], ())
        }
        assert len(here) > 5
        assert here <= listed

        await pilot.press("ctrl+p")
        await until(pilot, lambda: any("Search for commands" in row for row in shown(app)))
        await pilot.press(*"theme")
        await until(pilot, lambda: any("Theme: light" in row for row in shown(app)))
        await pilot.press("escape")
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        title = {"runs": "In the list of runs", "run": "In a run"}[place]
        assert title in shown(app)[1]
