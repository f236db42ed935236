"""The search over all runs on the screen and on the command line, and expressions in one run."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests import run_story as story
from tests.on_screen import shown, until
from tests.search_story import hits as found_in
from tests.search_story import journal, record, session
from tests.test_readonly import picture
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input

from refold.app.cli import main
from refold.app.hunt_child import compiled
from refold.app.lines import plain
from refold.app.main import RefoldApp
from refold.app.own_child import OwnChild
from refold.app.present import search as present
from refold.app.present.landing import Landing
from refold.app.present.search import HitRows
from refold.app.screens.run import RunScreen
from refold.app.screens.runs import RunsScreen
from refold.app.screens.search import SearchScreen
from refold.app.settings import Settings
from refold.app.widgets.bars import TopBar
from refold.app.widgets.line_pager import LinePager
from refold.app.widgets.prompt_bar import PromptBar
from refold.core.search import in_words
from refold.core.search_text import parse_query
from refold.core.store.notes import NotesStore
from refold.core.store.roots import Root
from refold.core.store.search_database import NAME
from refold.core.store.search_index import open_to_build

Compare = Callable[..., bool]
EVIL = "\x1b[31m\u202eledger\x07"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    directory = tmp_path / "runs"
    directory.mkdir()
    journal(
        directory / "first.json", [("user", "Reconcile the ledger"), ("tool_result", "a\nno such file\nb")]
    )
    journal(directory / "second.json", [("call", "ledger of July"), ("tool_result", "ledger ledger")], age=9)
    journal(directory / "hostile.json", [("tool_result", EVIL)], age=20)
    session(directory / "dir", ["event"], [("user", "x"), ("tool", "a message of the ledger")], age=30)
    return directory


def settings(root: Path, cache: Path | None = None) -> Settings:
    return Settings(
        roots=(Root(root, "refold", "--root"),),
        state_dir=Path("state"),
        cache_dir=cache,
        config_file=Path("config.toml"),
        utc=True,
    )


def text(screen: SearchScreen, name: str) -> str:
    pager = screen.query_one(name, LinePager)
    return "\n".join(plain(pager.rows.line(index, 110)) for index in range(len(pager.rows)))


def rows(screen: SearchScreen) -> list[str]:
    listed = screen.listing.rows
    return [plain(listed.line(index, 100)) for index in range(len(listed))]


@asynccontextmanager
async def opened(
    root: Path, cache: Path | None = None, words: str = "", size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[Pilot[None], SearchScreen]]:
    made = settings(root, cache)
    screen = SearchScreen(made, words, now=lambda: 1_800_000_000.0)
    async with RefoldApp(made, lambda: screen).run_test(size=size) as pilot:
        await until(pilot, lambda: screen.is_mounted and screen.prompt.is_open)
        yield pilot, screen


async def search(pilot: Pilot[None], screen: SearchScreen, words: str) -> None:
    """Type words and wait for the last hit."""
    await pilot.press(*(("space" if char == " " else char) for char in words))
    await until(pilot, lambda: screen.prompt.text.endswith(words) and not screen.is_searching)
    await until(pilot, lambda: screen._drawing is None)


async def test_hits_come_while_typing_stops_and_enter_opens_the_record(store: Path) -> None:
    before = picture(store)
    async with opened(store) as (pilot, screen):
        await search(pilot, screen, "ledger")
        assert "5 hits in 4 runs" in plain(screen.query_one(TopBar).line(120))
        assert rows(screen)[0].startswith("first ")
        assert "● prompt" in rows(screen)[0]
        assert "Reconcile the ledger" in rows(screen)[0]
        assert [cell.text for cell in screen.listing.rows.line(0, 120) if cell.role == "match"] == ["ledger"]
        await pilot.press("down")
        await until(pilot, lambda: "second@" in text(screen, "#preview"))
        await pilot.press("up", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        run = pilot.app.screen
        assert isinstance(run, RunScreen)
        await until(pilot, lambda: run.find.query == "words: ledger" and run.item is not None)
        await until(pilot, lambda: run.reader is not None and run.reader.timeline.seq(run.item or 0) == 2)
        await until(
            pilot, lambda: "words ledger 1 of 1 record " in plain(run.query_one("#top", TopBar).line(120))
        )
        await pilot.press("escape", "escape")
        await until(pilot, lambda: pilot.app.screen is screen)
        assert len(rows(screen)) == 5
    assert picture(store) == before


@pytest.mark.parametrize("typed", ["ledger", "no file", '"no such file"', "led* july", "result:ledger"])
async def test_a_run_opened_from_a_hit_counts_what_all_runs_counted_of_it(store: Path, typed: str) -> None:
    """The same words, all of them, find the same records in the run."""
    async with opened(store, words=typed) as (pilot, screen):
        await until(pilot, lambda: not screen.is_searching and len(screen.listing.rows) > 0)
        hits = screen._rows.hits
        counted = {hit.run: sum(each.run == hit.run and each.is_of_log for each in hits) for hit in hits}
        for path, count in counted.items():
            run = RunScreen(Path(path), settings=settings(store), hint="refold")
            run.begin_with(Landing(), in_words(typed))
            pilot.app.push_screen(run)
            said = f"{count} record" if count == 1 else f"{count} records"
            await until(
                pilot,
                lambda: any(f"words {typed} " in row and said in row for row in shown(pilot.app)),  # noqa: B023
            )
            pilot.app.pop_screen()


async def test_the_query_of_an_open_run_can_be_edited_and_marks_only_what_it_finds(tmp_path: Path) -> None:
    path = journal(
        tmp_path / "run.json", [("user", "big ledger"), ("user", "a ledger"), ("user", "a big one")]
    )
    async with run_opened(path) as (pilot, screen):
        screen._search_for("words: big ledger")
        await until(pilot, lambda: "words big ledger 1 of 1 record " in top(screen))
        rows = screen.timeline.rows
        lines = [rows.line(index, 60) for index in range(len(rows))]
        marked = [[cell.text for cell in line if cell.role == "match"] for line in lines]
        assert [each for each in marked if each] == [["big", "ledger"]]
        await pilot.press("slash")
        await until(pilot, lambda: screen.query_one(PromptBar).text == "words: big ledger")
        await pilot.press("end", *["backspace"] * len("big ledger"), *"LED", "asterisk", "enter")
        await until(pilot, lambda: "words LED* " in top(screen) and "of 2 records" in top(screen))
        screen._search_for("words: !?")
        await until(pilot, lambda: "nothing to look for" in toasts(pilot))


def test_the_preview_says_how_much_was_found_in_the_run_of_a_hit(store: Path) -> None:
    hits = found_in(store, "ledger")
    rows = HitRows(hits, parse_query("ledger"), lambda _: "")
    said = {Path(hit.run).name: rows.in_run(hit) for hit in hits}
    assert said["second.json"] == "2 records of this run"
    assert said["dir"] == "1 message of this run"
    query = parse_query("ledger")
    lines = present.preview(hits[0], query, 100, lambda _: "", in_run=rows.in_run(hits[0]))
    assert "1 record of this run" in plain(lines[0])


async def test_a_run_is_called_by_its_name(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    NotesStore(settings(store).notes_dir).update(
        store / "first.json", lambda notes: msgspec.structs.replace(notes, name="billing sweep")
    )
    async with opened(store) as (pilot, screen):
        await search(pilot, screen, "ledger")
        await until(pilot, lambda: rows(screen)[0].startswith("billing sweep "))
        assert rows(screen)[1].startswith("second ")
        await until(pilot, lambda: text(screen, "#preview").startswith("billing sweep  first@2  "))


async def test_a_message_of_a_manifest_opens_the_conversation(store: Path) -> None:
    async with opened(store, words="message") as (pilot, screen):
        await until(pilot, lambda: len(screen.listing.rows) == 1)
        assert " msg " in rows(screen)[0]
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        run = pilot.app.screen
        assert isinstance(run, RunScreen)
        await until(pilot, lambda: run.pane.open_pane == "conversation")


async def test_what_a_run_says_cannot_reach_the_terminal(store: Path) -> None:
    async with opened(store, words="ledger") as (pilot, screen):
        await until(pilot, lambda: len(screen.listing.rows) == 5)
        said = "\n".join([*rows(screen), text(screen, "#preview")])
        assert "\x1b" not in said
        assert "\u202e" not in said
        assert "␛[31m" in said


async def test_the_footer_says_what_the_keys_of_the_prompt_do(store: Path) -> None:
    async with opened(store) as (pilot, screen):
        await until(pilot, lambda: "esc quit" in shown(pilot.app)[-1])
        await search(pilot, screen, "ledger")
        await until(pilot, lambda: "enter open  ↑ ↓ move  esc clear" in shown(pilot.app)[-1])


async def test_escape_takes_the_words_away_and_then_leaves(store: Path) -> None:
    made = settings(store)
    async with RefoldApp(made, lambda: RunsScreen(made)).run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: isinstance(pilot.app.screen, RunsScreen))
        await pilot.press("ctrl+f")
        await until(pilot, lambda: isinstance(pilot.app.screen, SearchScreen))
        screen = pilot.app.screen
        assert isinstance(screen, SearchScreen)
        await until(pilot, lambda: screen.prompt.is_open)
        await search(pilot, screen, "ledger")
        pid = screen._searching._child.pid if screen._searching._child is not None else 0
        assert os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, 0)
        await pilot.press("escape")
        await until(pilot, lambda: not screen.prompt.text and not len(screen.listing.rows))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunsScreen))
        await until(pilot, lambda: not Path(f"/proc/{pid}/cmdline").exists() or not _alive(pid))


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("nowhere", "Nothing found for nowhere"),
        ("...", "nothing to look for"),
        ("", "both words in one record"),
    ],
)
async def test_a_search_without_hits_says_why(store: Path, typed: str, said: str) -> None:
    async with opened(store) as (pilot, screen):
        await search(pilot, screen, typed)
        await until(pilot, lambda: said in text(screen, "#nothing"))


async def test_the_index_is_made_beside_the_screen_and_kept_up_to_date(store: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    async with opened(store, cache) as (pilot, screen):
        assert not (cache / NAME).exists()
        await search(pilot, screen, "ledger")
        await until(pilot, lambda: screen._searching._indexed is not None and not screen.is_indexing)
        assert "index " in plain(screen.query_one(TopBar).line(120))
        assert stat.S_IMODE((cache / NAME).stat().st_mode) == 0o600
        with (store / "first.json").open("ab") as file:
            file.write(record(30, "assistant", "the ledger grew"))
        await search(pilot, screen, " grew")
        assert len(screen.listing.rows) == 1
        assert screen._searching.reach is not None
        await until(pilot, lambda: not screen.is_indexing)
    database = sqlite3.connect(cache / NAME)
    assert database.execute("SELECT count(*) FROM source WHERE alive").fetchone()[0] >= 4
    database.close()


async def test_another_refold_that_builds_and_a_dying_child_end_nothing(store: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with open_to_build(cache):
        async with opened(store, cache) as (pilot, screen):
            await search(pilot, screen, "ledger")
            assert len(screen.listing.rows) == 5
            child = screen._searching._child
            assert child is not None
            os.kill(child.pid, 9)
            await until(pilot, lambda: screen._searching._child is not child)
            await until(pilot, lambda: not screen.is_searching and len(screen.listing.rows) > 0)
            assert len(screen.listing.rows) == 5
            await search(pilot, screen, " july")
            await until(pilot, lambda: len(screen.listing.rows) == 1)


async def test_without_a_cache_there_is_no_index(store: Path, tmp_path: Path) -> None:
    async with opened(store) as (pilot, screen):
        await search(pilot, screen, "ledger")
        assert "no index: the cache is off" in plain(screen.query_one(TopBar).line(120))
    assert not list(tmp_path.glob("**/*.db"))


async def test_a_child_ends_with_its_parent(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "refold.app.search_child"], stdin=subprocess.PIPE, cwd=tmp_path
    )
    assert child.stdin is not None
    child.stdin.write(b'{"roots":[],"cache":null}\n')
    child.stdin.close()
    assert await asyncio.to_thread(child.wait, 20) == 0


@pytest.mark.parametrize("width", [40, 80, 120])
def test_rows_fit_their_width(store: Path, width: int) -> None:
    query = parse_query("ledger")
    made = present.HitRows(found_in(store, "ledger"), query, lambda moment: f"{moment:.0f} ago"[-9:])
    for index in range(len(made)):
        line = made.line(index, width)
        assert sum(len(cell.text) for cell in line) == width
    assert plain(made.line(0, width)).startswith("first ")
    assert (" ago" in plain(made.line(0, width))) is (width >= 100)


def test_the_screen(snap_compare: Compare, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(store.parent)
    screen = SearchScreen(settings(Path("runs")), "ledger", now=lambda: 1_700_100_000.0)

    async def ready(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(screen.listing.rows) == 5 and not screen.is_searching)
        await pilot.press("down", "down")
        await until(pilot, lambda: "second@3" in text(screen, "#preview"))
        # It blinks: when a picture is taken must not matter.
        screen.query_one(Input)._pause_blink(visible=False)
        await asyncio.sleep(0.2)
        await pilot.pause()

    app: App[None] = RefoldApp(settings(Path("runs")), lambda: screen)
    assert snap_compare(app, terminal_size=(100, 26), run_before=ready)


# The command line.


@pytest.fixture
def refold(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Any:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(*arguments: str) -> tuple[int, list[str], str]:
        code = main(["search", "--only", "--root", str(store), *arguments])
        out, error = capsys.readouterr()
        return code, out.splitlines(), error

    return run


def test_the_command_prints_the_best_hit_first(refold: Any) -> None:
    code, out, _ = refold("ledger", "--limit", "2")
    assert code == 0
    assert out[0] == "first@2  ● prompt  Reconcile the ledger"
    assert len(out) == 2
    code, out, error = refold("no such file")
    assert (code, out, error) == (0, ["first@3  └ result  no such file"], "")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nowhere",), 1, "nothing found in 6 files"),
        (("status:crashed", "ledger"), 1, "status: narrows the list of runs"),
        (("/led.er/",), 1, "is looked for in an open run"),
        (("...",), 2, "nothing to look for"),
        (("😀",), 2, "there is no word in it"),
        ((), 2, "nothing to look for"),
        (("x", "--limit", "0"), 2, "no number of hits"),
        (("x", "--index", "--no-cache"), 2, "--index needs the cache"),
    ],
)
def test_the_command_answers_as_grep_does(refold: Any, words: tuple[str, ...], code: int, said: str) -> None:
    got, out, error = refold(*words)
    assert (got, out) == (code, [])
    assert said in error


def test_the_command_finds_the_same_with_the_index(refold: Any, tmp_path: Path) -> None:
    plainly = refold("ledger", "--json")[1]
    assert json.loads(plainly[0])["scopes"] == ["prompt"]
    code, out, error = refold("--index")
    assert (code, out) == (0, [])
    assert "is up to date" in error
    assert refold("ledger", "--json")[1] == plainly
    assert refold("ledger", "--json", "--no-cache")[1] == plainly
    with open_to_build(tmp_path / "cache" / "refold"):
        assert refold("--index")[0] == 2
        code, out, error = refold("--index", "ledger", "--json")
        assert (code, out) == (0, plainly)
        assert "the runs themselves were read" in error
        assert refold("ledger", "--json")[1] == plainly
    (tmp_path / "cache" / "refold" / NAME).write_bytes(b"nothing of ours" * 400)
    code, out, error = refold("ledger", "--json")
    assert out == plainly
    assert "is damaged; the runs themselves were read" in error


def test_secrets_are_left_out_of_a_pipe(refold: Any, store: Path) -> None:
    key = "ghp_" + "a1B2" * 9
    journal(store / "secret.json", [("tool_result", f"token {key} ledger")])
    _, out, error = refold("token")
    assert key not in out[0]
    assert "[redacted: github token]" in out[0]
    assert "1 secret was replaced" in error
    assert key in refold("token", "--no-redact")[1][0]


# Expressions in one run.


@asynccontextmanager
async def run_opened(path: Path) -> AsyncIterator[tuple[Pilot[None], RunScreen]]:
    screen = RunScreen(path, settings=settings(path.parent))
    async with RefoldApp(settings(path.parent), lambda: screen).run_test(size=(120, 40)) as pilot:
        await until(
            pilot, lambda: screen.reader is not None and screen.reader.complete and screen.item is not None
        )
        yield pilot, screen


async def expression(pilot: Pilot[None], screen: RunScreen, typed: str) -> None:
    screen._search_for(typed)
    await until(pilot, lambda: not [w for w in pilot.app.workers if w.group == "search" and w.is_running], 60)


def toasts(pilot: Pilot[None]) -> str:
    return "\n".join(note.message for note in pilot.app._notifications)


def top(screen: RunScreen) -> str:
    return plain(screen.query_one("#top", TopBar).line(120))


async def test_an_expression_is_found_counted_and_walked_through(tmp_path: Path) -> None:
    path = story.write(tmp_path / "fix-add.json", story.fix_add())
    async with run_opened(path) as (pilot, screen):
        await pilot.press("g", "slash")
        await pilot.press(*"/cal", "full_stop", "full_stop", *"py/", "enter")
        await until(pilot, lambda: "/cal..py/ " in top(screen) and " of 3" in top(screen))
        first = screen.item
        await pilot.press("n")
        assert screen.item != first
        assert screen.item is not None
        pattern = screen.find.pattern_at(screen.item)
        assert pattern is not None
        assert pattern.pattern == r"calc\.py"
        await pilot.press("escape")
        assert screen.find.query == ""


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("/(ab/", "/(ab/ is no regular expression: missing ), unterminated subpattern at position 0"),
        ("/x*/", "/x*/ matches where nothing stands, and so everywhere"),
        ("/zz[0-9]{9}/", "No record of this run shows this text."),
    ],
)
async def test_an_expression_that_finds_nothing_says_why(tmp_path: Path, typed: str, said: str) -> None:
    path = story.write(tmp_path / "fix-add.json", story.fix_add())
    async with run_opened(path) as (pilot, screen):
        await expression(pilot, screen, typed)
        await until(pilot, lambda: said in toasts(pilot))


async def test_an_expression_that_never_ends_is_stopped_and_the_screen_stays_alive(tmp_path: Path) -> None:
    path = journal(
        tmp_path / "run.json", [("user", "short"), ("tool_result", "a" * 60 + "!"), ("user", "a!")]
    )
    async with run_opened(path) as (pilot, screen):
        await pilot.press("g")
        screen._search_for("/(a+)+$/")
        moved = 0
        while not toasts(pilot):
            await pilot.press("down" if moved % 2 else "up")
            moved += 1
        assert "took more than a second on seq 3" in toasts(pilot)
        assert moved > 3
        assert "stopped" in top(screen)


async def test_escape_ends_an_expression_at_once(tmp_path: Path) -> None:
    path = journal(tmp_path / "run.json", [("tool_result", "a" * 60 + "!")])
    async with run_opened(path) as (pilot, screen):
        screen._search_for("/(a+)+$/")
        await asyncio.sleep(0.1)
        await pilot.press("escape")
        assert screen.find.query == ""
        await until(pilot, lambda: not [w for w in pilot.app.workers if w.group == "search" and w.is_running])
        assert toasts(pilot) == ""


async def test_what_an_expression_matched_is_marked_only_where_it_matched(tmp_path: Path) -> None:
    path = journal(tmp_path / "run.json", [("user", "one"), ("user", "not one")])
    async with run_opened(path) as (pilot, screen):
        await expression(pilot, screen, "/^one/")
        await until(pilot, lambda: " of 1" in top(screen) or "1 found" in top(screen))
        rows = screen.timeline.rows
        marked = {
            plain(line).strip(): [cell.text for cell in line if cell.role == "match"]
            for line in (rows.line(index, 60) for index in range(len(rows)))
        }
        assert [found for text, found in marked.items() if "not one" in text] == [[]]
        assert [found for found in marked.values() if found] == [["one"]]


async def test_an_expression_looks_at_damage_and_at_what_is_added(tmp_path: Path) -> None:
    path = journal(tmp_path / "run.json", [("user", "one"), ("user", "two")])
    with path.open("ab") as file:
        file.write(b"no JSON at all: thr33\n")
    async with run_opened(path) as (pilot, screen):
        await expression(pilot, screen, r"/thr\d+|^two/")
        assert "2" in top(screen).partition("two/")[2]
        with path.open("ab") as file:
            file.write(record(9, "user", "thr4"))
        await until(pilot, lambda: " of 3" in top(screen) or "3 found" in top(screen), 30)


@pytest.mark.parametrize("bad", ["(", "[", "(?P<a>)(?P<a>)", "\\", "a{99999999999}", "(?=x)*", "|"])
def test_what_is_no_expression_is_refused_with_a_sentence(bad: str) -> None:
    with pytest.raises(ValueError, match=r"regular expression|stands") as caught:
        compiled(bad)
    assert str(caught.value).startswith(f"/{bad}/ ")


async def test_a_child_that_says_much_at_once_leaves_the_loop_free() -> None:
    child = OwnChild(
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    )
    for said in (*(b"%d\n" % number for number in range(200)), b""):
        child._said.put_nowait(said)
    turns = 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(turn)

    turn()
    heard = [value async for value in child.each()]
    child.kill()
    assert heard == list(range(200))
    assert turns >= 200


def test_many_hits_are_told_in_small_messages(tmp_path: Path) -> None:
    journal(tmp_path / "many.json", [("user", f"ledger {number}") for number in range(350)])
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "refold.app.search_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    where = {"roots": [[str(tmp_path), "refold"]], "cache": None}
    child.stdin.write(json.dumps(where).encode() + b'\n{"number":1,"text":"ledger"}\n')
    child.stdin.flush()
    counts = []
    for line in child.stdout:
        value = json.loads(line)
        if value["type"] == "Found":
            counts.append(len(value["hits"]))
        elif value["ended"]:
            break
    child.communicate(timeout=20)
    assert sum(counts) == 350
    assert max(counts) <= 100
