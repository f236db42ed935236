"""Stars, tags, names and notes by keys: in the list and in a run, seen where they belong."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import story
from tests.on_screen import shown, type_into, until
from tests.test_app_runs_snapshots import app, settled
from tests.test_readonly import picture
from textual.pilot import Pilot
from textual.widgets import Input

from refold.app import noted_rows
from refold.app.noted_rows import NotedRows
from refold.app.screens.run import RunScreen
from refold.app.widgets.prompt_bar import PromptBar
from refold.core.store.catalog import Catalog, Root
from refold.core.store.keep import Change, naming, noting, noting_record, starring, tagging
from refold.core.store.notes import Notes, NotesStore
from refold.core.summary import RunSummary

Compare = Callable[..., bool]
NOTES = Path("state/notes")
RUNS = Path("story")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    story.tell(Path("story"))


def a_run() -> Path:
    return Path("story/billing-sweep.json").absolute()


def keep_something() -> None:
    store, run = NotesStore(NOTES), a_run()
    store.update(run, starring(on=True))
    store.update(run, naming("july sweep"))
    store.update(run, tagging(["bug", "july"]))
    store.update(run, noting("waits for the new queue"))
    store.update(run, noting_record(2, "0" * 64, "here it went wrong"))


async def said(pilot: Pilot[None], text: str) -> None:
    await until(pilot, lambda: any(text in row for row in shown(pilot.app)))


async def test_the_list_keeps_what_is_typed_and_leaves_the_runs_alone() -> None:
    before = picture(Path("story"))
    run = app("story")
    async with run.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await pilot.press("asterisk")
        await said(pilot, "* starred")
        await type_into(pilot, "E", "july sweep")
        await said(pilot, "* july sweep")
        await type_into(pilot, "T", "bug, two")
        await said(pilot, "bug, two")
        await type_into(pilot, "m", "my words")
        await said(pilot, "my words")
        await pilot.press("T")
        prompt = pilot.app.screen.query_one(PromptBar)
        await until(pilot, lambda: prompt.is_open)
        prompt.query_one(Input).value = "a\x1b[31m"
        await pilot.press("enter")
        # What was typed stays, to be mended.
        await until(pilot, lambda: bool(pilot.app._notifications) and prompt.is_open)
        assert any("no escape" in toast.message for toast in pilot.app._notifications)
        await pilot.press("escape")
        await type_into(pilot, "m", "")
        await until(pilot, lambda: not any("my words" in row for row in shown(pilot.app)))
        await pilot.press("slash", *"name:july")
        await said(pilot, "1 of")
        await pilot.press("enter", "asterisk")
        await until(pilot, lambda: not any("starred" in row for row in shown(pilot.app)))
    assert picture(Path("story")) == before
    (notes,) = NotesStore(NOTES).each()
    assert (notes.star, notes.name, notes.tags, notes.note) == (False, "july sweep", ("bug", "two"), "")


def spoil_the_notes() -> None:
    NOTES.rename("state/aside")
    NOTES.write_text("")


def mend_the_notes() -> None:
    NOTES.unlink()
    Path("state/aside").rename(NOTES)


async def test_a_note_that_cannot_be_written_is_not_typed_again() -> None:
    NotesStore(NOTES).update(a_run(), starring(on=True))
    async with app("story").run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        screen = RunScreen(a_run(), settings=pilot.app.screen._settings)  # type: ignore[attr-defined]
        await pilot.app.push_screen(screen)
        await until(pilot, lambda: screen.reader is not None and screen.reader.complete)
        await pilot.press("home", "down")
        await pilot.press("m", *"mine")
        prompt = screen.query_one(PromptBar)
        await until(pilot, lambda: prompt.is_open and prompt.text == "mine")
        spoil_the_notes()
        await pilot.press("enter")
        await until(pilot, lambda: bool(pilot.app._notifications) and prompt.is_open)
        assert prompt.text == "mine"
        await said(pilot, "note on seq 2")
        mend_the_notes()
        await pilot.press("enter")
        await said(pilot, "▪ Note  mine")


async def test_no_key_ends_a_save_and_neither_does_leaving(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, begun, real = threading.Event(), threading.Event(), NotesStore.update

    def update(store: NotesStore, path: Path, change: Change) -> Notes:
        begun.set()
        assert gate.wait(20)
        return real(store, path, change)

    monkeypatch.setattr(NotesStore, "update", update)
    async with app("story").run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        screen = RunScreen(a_run(), settings=pilot.app.screen._settings)  # type: ignore[attr-defined]
        await pilot.app.push_screen(screen)
        await until(pilot, lambda: screen.reader is not None and screen.reader.complete)
        await pilot.press("home", "down")
        await type_into(pilot, "E", "of mine")
        await until(pilot, begun.is_set)
        await pilot.press("asterisk", "m", "T", "escape")
        await until(pilot, lambda: pilot.app.screen is not screen)
        gate.set()
        await until(pilot, lambda: NotesStore(NOTES).read(a_run()).star)
    assert NotesStore(NOTES).read(a_run()).name == "of mine"


async def test_an_open_prompt_is_not_covered() -> None:
    async with app("story").run_test(size=(80, 24), notifications=True) as pilot:
        await settled(pilot)
        pilot.app.screen.notify("something was said, at some length, so that it takes a row or two")
        await until(pilot, lambda: bool(pilot.app._notifications))
        await pilot.press("m")
        prompt = pilot.app.screen.query_one(PromptBar)
        await until(pilot, lambda: prompt.is_open)
        assert not pilot.app._notifications
        pilot.app.screen.notify("something new was said, at some length, so that it takes a row or two")
        await said(pilot, "something new was")
        assert "empty takes it away" in shown(pilot.app)[-2]


async def test_what_others_wrote_into_the_notes_commands_nothing() -> None:
    run = a_run()
    NotesStore(NOTES).update(run, starring(on=True))
    file = NotesStore(NOTES).path_of(run)
    hostile = "a\x1b]0;title\x07\x9b31m\u202eb" * 900
    records = [{"seq": 2, "sha256": "0", "text": hostile}]
    values = json.loads(file.read_text()) | {"tags": [hostile] * 50, "name": hostile, "note": hostile}
    file.write_text(json.dumps(values | {"records": records}))
    async with app("story").run_test(size=(120, 40)) as pilot:
        await settled(pilot, "down", preview="a␛]0;title")
        assert not {"\x1b", "\x9b", "\u202e"} & set("".join(shown(pilot.app)))
        screen = RunScreen(run, settings=pilot.app.screen._settings)  # type: ignore[attr-defined]
        await pilot.app.push_screen(screen)
        await until(pilot, lambda: screen.reader is not None and screen.reader.complete)
        await pilot.press("home", "down")
        await said(pilot, "▪ Note")
        assert not {"\x1b", "\x9b", "\u202e"} & set("".join(shown(pilot.app)))


def test_many_notes_do_not_keep_the_rows_back(monkeypatch: pytest.MonkeyPatch) -> None:
    store = NotesStore(NOTES)
    for run in sorted(RUNS.glob("*.json")):
        if run.is_file():
            store.update(run, starring(on=True))
    monkeypatch.setattr(noted_rows, "_PATIENCE", -1.0)
    rows, catalog = NotedRows(NOTES, None), Catalog([Root(RUNS, "fisk-ai", "test")], cache=None)
    first = [item for item in rows.joined(catalog.scan()) if isinstance(item, RunSummary)]
    assert len(first) == 12
    assert rows.is_behind
    assert not any(row.kept for row in first)
    later = [item for item in rows.again() if isinstance(item, RunSummary)]
    assert sum(row.kept.star for row in later) == len(later) == 11
    assert not rows.is_behind
    assert not [item for item in rows.again() if isinstance(item, RunSummary)]
    catalog.close()


async def test_a_name_and_a_note_are_replaced_by_what_is_typed_and_tags_are_added_to() -> None:
    async with app("story").run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await type_into(pilot, "E", "july sweep")
        await type_into(pilot, "T", "bug")
        await type_into(pilot, "m", "my words")
        prompt = pilot.app.screen.query_one(PromptBar)

        async def typed(key: str, *keys: str) -> str:
            await pilot.press(key)
            await until(pilot, lambda: prompt.is_open)
            await pilot.press(*keys)
            text = prompt.text
            await pilot.press("escape")
            await until(pilot, lambda: not prompt.is_open)
            return text

        assert await typed("E", *"may") == "may"
        assert await typed("E", "end", *"s") == "july sweeps"
        assert await typed("E") == "july sweep"
        assert await typed("m", *"no") == "no"
        assert await typed("T", *"s") == "bugs"


async def test_the_id_of_another_run_is_no_name_and_what_was_typed_stays() -> None:
    async with app("story").run_test(size=(120, 40), notifications=True) as pilot:
        await settled(pilot)
        chosen = pilot.app.screen.chosen()  # type: ignore[attr-defined]
        here = chosen.path
        assert here != a_run()
        await pilot.press("E")
        prompt = pilot.app.screen.query_one(PromptBar)
        await until(pilot, lambda: prompt.is_open)
        await pilot.press(*"billing", "minus", *"sweep", "enter")
        await until(pilot, lambda: bool(pilot.app._notifications) and prompt.is_open)
        assert any("billing-sweep is the id of another run" in t.message for t in pilot.app._notifications)
        assert prompt.text == "billing-sweep"
        assert NotesStore(NOTES).read(here).name == ""
        await pilot.press("escape")
        await type_into(pilot, "E", "billing")
        await until(pilot, lambda: NotesStore(NOTES).read(here).name == "billing")
        await until(
            pilot, lambda: any("begins the id billing-sweep" in t.message for t in pilot.app._notifications)
        )


async def test_what_another_refold_notes_is_seen() -> None:
    async with app("story").run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        NotesStore(NOTES).update(a_run(), naming("from elsewhere"))
        await said(pilot, "from elsewhere")


async def test_a_record_of_a_run_is_noted_and_a_changed_one_is_said() -> None:
    async with app("story").run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        screen = RunScreen(a_run(), settings=pilot.app.screen._settings)  # type: ignore[attr-defined]
        await pilot.app.push_screen(screen)
        await until(pilot, lambda: screen.reader is not None and screen.reader.complete)
        await pilot.press("home", "down")
        await type_into(pilot, "m", "look here")
        await said(pilot, "▪ Note  look here")
        await pilot.press("asterisk")
        await said(pilot, "* billing-sweep")
        await type_into(pilot, "E", "other")
        await said(pilot, "* other  billing-sweep")
        notes = NotesStore(NOTES).read(a_run())
        (note,) = notes.records
        assert (note.text, notes.name, notes.star) == ("look here", "other", True)
        NotesStore(NOTES).update(a_run(), noting_record(note.seq, "0" * 64, "look here"))
        await said(pilot, "The record has changed since: look here")
        await type_into(pilot, "m", "")
        await until(pilot, lambda: not any("look here" in row for row in shown(pilot.app)))


def test_a_list_in_which_something_is_kept(snap_compare: Compare) -> None:
    keep_something()

    async def ready(pilot: Pilot[None]) -> None:
        await settled(pilot, "down", preview="july sweep")

    given = app("story", columns=("status", "id", "star", "tags", "model", "updated", "prompt"))
    assert snap_compare(given, terminal_size=(120, 40), run_before=ready)


def test_a_run_in_which_something_is_kept(snap_compare: Compare) -> None:
    keep_something()

    async def ready(pilot: Pilot[None]) -> None:
        await settled(pilot)
        screen = RunScreen(a_run(), settings=pilot.app.screen._settings)  # type: ignore[attr-defined]
        await pilot.app.push_screen(screen)
        end = time.monotonic() + 20
        await until(pilot, lambda: screen.reader is not None and screen.reader.complete)
        await pilot.press("home", "down")
        await said(pilot, "The record has changed")
        while "warn" not in screen.noted.values():
            assert time.monotonic() < end
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        await pilot.pause()

    assert snap_compare(app("story"), terminal_size=(120, 40), run_before=ready)
