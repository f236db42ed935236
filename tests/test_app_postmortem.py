"""The post-mortem on the screen: what it says, where its lines lead, and what its keys do."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec
import pytest
from tests import run_story as story
from tests.on_screen import shown, until
from textual.pilot import Pilot
from textual.screen import Screen

from refold.app.demo_agent import FACTORY
from refold.app.demo_runs import KILLED
from refold.app.forking import notes_of
from refold.app.main import RefoldApp
from refold.app.screens.fork import ForkScreen
from refold.app.screens.mend import MendScreen
from refold.app.screens.notice import NoticeScreen
from refold.app.screens.postmortem import PostmortemScreen
from refold.app.screens.resume import ResumeScreen
from refold.app.screens.run import RunScreen
from refold.app.screens.runs import RunsScreen
from refold.app.settings import Settings
from refold.core.rivumi.task import Check, Limits, Task
from refold.core.store.reader import RunReader
from refold.core.store.repair import undo
from refold.core.store.session import SessionStore

Compare = Callable[..., bool]
NOW = datetime(2026, 7, 24, 12, 0, tzinfo=UTC)
DEMO_CRASHES = {
    "fix-date-parser": {"r": "resume", "f": "fork after seq 6"},
    "7f3c2a9e": {"r": "note a decision", "f": "fork after seq 8"},
    "nightly-audit": {"r": "resume", "f": "fork after seq 4"},
    "index-photos": {"r": "resume", "f": "fork after seq 3", "m": "repair the end"},
    "rename-notes": {"f": "fork after seq 5", "s": "salvage into a new run"},
}
"""What can be done with the runs of the demo that crashed or are damaged."""


def run_of(demo_settings: Settings, name: str) -> Path:
    return demo_settings.roots[0].path / f"{name}.json"


def explaining(demo_settings: Settings, path: Path, hint: str = "refold") -> RefoldApp:
    return RefoldApp(demo_settings, lambda: PostmortemScreen(path, hint, demo_settings, clock=NOW.timestamp))


def dialog(pilot: Pilot[None]) -> PostmortemScreen:
    screen = pilot.app.screen
    assert isinstance(screen, PostmortemScreen)
    return screen


async def read(pilot: Pilot[None]) -> PostmortemScreen:
    await until(pilot, lambda: dialog(pilot).is_read)
    return dialog(pilot)


def page(screen: PostmortemScreen) -> str:
    rows = screen.listing.rows
    return "\n".join("".join(cell.text for cell in rows.line(index, 200)) for index in range(len(rows)))


def row_with(screen: PostmortemScreen, words: str) -> int:
    return next(index for index, row in enumerate(page(screen).split("\n")) if words in row)


async def test_from_a_run_and_back_to_the_record_of_a_line(demo_settings: Settings) -> None:
    path = run_of(demo_settings, KILLED)
    before, stamp = path.read_bytes(), path.stat().st_mtime_ns
    app = RefoldApp(demo_settings, lambda: RunScreen(path, 1, settings=demo_settings))
    async with app.run_test(size=(100, 40)) as pilot:
        run = app.screen
        assert isinstance(run, RunScreen)
        await until(pilot, lambda: run.reader is not None and run.reader.complete and run.item is not None)
        await pilot.press("d")
        screen = await read(pilot)
        assert "replace_text (dates/parser.py) was in flight" in page(screen)
        assert "effect unknown" in page(screen)
        screen.listing.go(row_with(screen, "may have run without a result"))
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is run)
        assert run.reader is not None
        assert run.item is not None
        assert run.reader.timeline.seq(run.item) == 7
        await pilot.press("d")
        await read(pilot)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is run)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, stamp)


async def test_from_the_list_a_line_opens_the_run_there(demo_settings: Settings) -> None:
    app = RefoldApp(demo_settings, lambda: RunsScreen(demo_settings, "rename-notes"))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: any("rename-notes" in row for row in shown(app)[3:]))
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, PostmortemScreen))
        screen = await read(pilot)
        screen.listing.go(row_with(screen, "run of NUL bytes"))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        run = app.screen
        assert isinstance(run, RunScreen)
        await until(pilot, lambda: run.reader is not None and run.reader.complete and run.item is not None)
        assert run.reader is not None
        assert run.item is not None
        assert run.reader.timeline.span(run.item).line == 7
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PostmortemScreen))


async def test_the_keys_lead_to_the_dialogs(demo_settings: Settings) -> None:
    app = explaining(demo_settings, run_of(demo_settings, KILLED))
    async with app.run_test(size=(100, 40)) as pilot:
        screen = await read(pilot)
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, ForkScreen) and app.screen.draft is not None)
        fork = app.screen
        assert isinstance(fork, ForkScreen)
        assert fork.draft is not None
        assert fork.draft.plan is not None
        assert fork.draft.plan.at == 6
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        await until(pilot, lambda: screen.is_read)
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, ResumeScreen))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        await until(pilot, lambda: screen.is_read)
        await pilot.press("s", "m")
        assert app.screen is screen
        screen.listing.go(row_with(screen, "Salvage into a new run"))
        await pilot.press("enter")
        await until(pilot, lambda: any("nothing is damaged" in row for row in shown(app)))


@pytest.mark.parametrize("width", [80, 120])
async def test_a_call_in_flight_is_shown_with_all_that_it_was_given_and_where_it_works(
    width: int, demo_settings: Settings
) -> None:
    path = run_of(demo_settings, KILLED)
    place = str(Path("demo/work").absolute())
    notes_of(demo_settings).update(
        path, lambda notes: msgspec.structs.replace(notes, agent=FACTORY, cwd=place)
    )
    app = explaining(demo_settings, path)
    async with app.run_test(size=(width, 24)) as pilot:
        screen = await read(pilot)
        rows = page(screen).split("\n")
        told = rows[row_with(screen, "In flight") : row_with(screen, "What happened last")]
        assert screen.postmortem is not None
        (flying,) = screen.postmortem.in_flight
        assert isinstance(flying.call.input, dict)
        for value in flying.call.input.values():
            assert isinstance(value, str)
            for line in value.strip("\n").split("\n"):
                assert any(row.rstrip().endswith(line.rstrip()) for row in told), line
        assert f"itsagentworksin{place}" in "".join("".join(told).split())
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, ResumeScreen) and app.screen.plan is not None)
        await until(pilot, lambda: any("its agent works in" in row for row in shown(app)))
        assert any("f fork" in row for row in shown(app))


async def fork_point(pilot: Pilot[None], *pressed: str) -> int | None:
    """Press keys that lead to the dialog before a fork, and give the point it stands on."""
    for key in pressed:
        before = pilot.app.screen
        await pilot.press(key)
        await until(pilot, partial(_led_on, pilot, before))
    fork = pilot.app.screen
    assert isinstance(fork, ForkScreen)
    await until(pilot, lambda: fork.is_planned)
    assert fork.draft is not None
    return fork.draft.seq


def _led_on(pilot: Pilot[None], before: Screen[object]) -> bool:
    here = pilot.app.screen
    return here is not before and (not isinstance(here, ResumeScreen) or here.plan is not None)


@pytest.mark.parametrize("name", [KILLED, "index-photos", "nightly-audit", "rivumi"])
async def test_one_key_forks_at_one_point_here_and_in_the_dialog_before_a_resume(
    name: str, demo_settings: Settings
) -> None:
    pattern = "7f3c*" if name == "rivumi" else f"{name}.json"
    path, hint = next((run, root.hint) for root in demo_settings.roots for run in root.path.glob(pattern))
    app = explaining(demo_settings, path, hint)
    async with app.run_test(size=(100, 40)) as pilot:
        screen = await read(pilot)
        assert screen.postmortem is not None
        (proposed,) = (each.at for each in screen.postmortem.actions if each.name == "fork")
        assert await fork_point(pilot, "f") == proposed
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen and screen.is_read)
        assert await fork_point(pilot, "r", "f") == proposed


async def test_the_end_is_mended_only_when_agreed_to(demo_settings: Settings) -> None:
    path = run_of(demo_settings, "index-photos")
    before = path.read_bytes()
    app = explaining(demo_settings, path)
    async with app.run_test(size=(100, 40)) as pilot:
        screen = await read(pilot)
        assert "E_TORN_TAIL" in page(screen)
        await pilot.press("m")
        await until(pilot, lambda: isinstance(app.screen, MendScreen))
        await until(pilot, lambda: any("will be kept in" in row for row in shown(app)))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen and screen.is_read)
        assert path.read_bytes() == before
        await pilot.press("m")
        await until(pilot, lambda: isinstance(app.screen, MendScreen))
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is screen and path.read_bytes() != before)
        await until(pilot, lambda: screen.is_read and "the end is clean" in page(screen))
    assert before.startswith(path.read_bytes())
    assert b"".join(each.read_bytes() for each in path.parent.glob("index-photos.json.*")) in before


async def test_a_salvage_shows_what_it_leaves_out_and_opens_the_new_run(demo_settings: Settings) -> None:
    path = run_of(demo_settings, "rename-notes")
    before = path.read_bytes()
    app = explaining(demo_settings, path)
    async with app.run_test(size=(100, 40)) as pilot:
        await read(pilot)
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, MendScreen))
        await until(pilot, lambda: any("good records" in row for row in shown(app)))
        assert any("E_NUL_RUN" in row for row in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        made = app.screen
        assert isinstance(made, RunScreen)
    assert path.read_bytes() == before
    with RunReader.open(made.path) as reader:
        assert reader.index_all().strict_error is None
    app = explaining(demo_settings, made.path)
    async with app.run_test(size=(100, 60)) as pilot:
        screen = await read(pilot)
        report = page(screen).partition("Left out when it was salvaged")[2]
        assert "E_NUL_RUN" in report.partition("Lock")[0], "the report can be read again"
    app = explaining(demo_settings, path)
    async with app.run_test(size=(100, 60)) as pilot:
        assert "Left out when it was salvaged" not in page(await read(pilot))


@pytest.mark.parametrize("name", sorted(DEMO_CRASHES))
async def test_what_can_be_done_is_in_sight_at_once_and_what_cannot_is_in_no_footer(
    demo_settings: Settings, name: str
) -> None:
    beside = [each for root in demo_settings.roots for each in root.path.glob(f"{name}*")]
    path = next(each for each in beside if each.suffix != ".lock")
    hint = next(root.hint for root in demo_settings.roots if root.path == path.parent)
    async with explaining(demo_settings, path, hint).run_test(size=(80, 24)) as pilot:
        screen = await read(pilot)
        await until(pilot, lambda: "? help" in shown(pilot.app)[-1])
        await pilot.pause()
        *rows, foot = shown(pilot.app)
        for key, action in DEMO_CRASHES[name].items():
            assert any(row.strip(" ▌▁▂▃▄▅▆▇█").startswith(f"{key}    {action}") for row in rows), (key, rows)
        assert {key for key in "rfsm" if f" {key} " in foot} == DEMO_CRASHES[name].keys()
        assert "esc back" in foot
        assert screen.postmortem is not None
        refused = [each for each in screen.postmortem.actions if not each.possible]
        for each in refused:
            assert screen.why_not(each.name) == each.why_not


async def test_a_line_of_what_can_be_done_does_it(demo_settings: Settings) -> None:
    async with explaining(demo_settings, run_of(demo_settings, "fix-date-parser")).run_test(
        size=(80, 24)
    ) as pilot:
        screen = await read(pilot)
        await pilot.press(*["down"] * screen._drawn.targets.index("fork"), "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, ForkScreen))


async def test_the_verdict_names_the_keys_as_they_were_remapped(demo_settings: Settings) -> None:
    keymap = {"postmortem.resume": "f5", "postmortem.fork": "k", "postmortem.repair": "ctrl+e"}
    remapped = msgspec.structs.replace(demo_settings, keymap=keymap)
    app = explaining(remapped, run_of(demo_settings, "index-photos"))
    async with app.run_test(size=(100, 40)) as pilot:
        text = " ".join(page(await read(pilot)).split())
    assert "then resume (f5) and decide, or fork it after seq 3 (k), before that whole turn" in text
    assert "repair (^e, or the resume itself)" in text


async def test_what_is_missing_is_said(demo_settings: Settings) -> None:
    app = explaining(demo_settings, run_of(demo_settings, "not-there"))
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await read(pilot)
        assert "not-there" in page(screen)
        await pilot.press("r", "f", "s", "m", "enter")
        await pilot.pause()
        assert not isinstance(app.screen, NoticeScreen | MendScreen)


async def test_a_run_that_is_a_directory_is_explained_by_its_own_rules(demo_settings: Settings) -> None:
    directory = next(each for each in sorted(demo_settings.roots[2].path.iterdir()) if each.is_dir())
    app = explaining(demo_settings, directory, "rivumi")
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await read(pilot)
        assert "It died in turn 2 while replace_text (calc.py) was in flight." in page(screen)
        for heading in ("In flight", "What happened last", "Damage", "Lock, lease and manifest", "Patterns"):
            assert heading in page(screen)
        assert "outcome unknown: it may have run without a result" in page(screen)
        assert "session.json and the log end at the same event" in page(screen)
        screen.listing.move(row_with(screen, "writes"))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))


async def test_the_end_of_a_log_is_mended_from_the_screen(demo_settings: Settings) -> None:
    directory = next(each for each in sorted(demo_settings.roots[2].path.iterdir()) if each.is_dir())
    whole = (directory / "events.jsonl").read_bytes()
    torn = whole + b'{"created_at":"2026-'
    (directory / "events.jsonl").write_bytes(torn)
    app = explaining(demo_settings, directory, "rivumi")
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await read(pilot)
        assert "repair (m) keeps them aside" in page(screen)
        await pilot.press("m")
        await until(pilot, lambda: isinstance(app.screen, MendScreen))
        await pilot.press("enter")
        await until(pilot, lambda: (directory / "events.jsonl").read_bytes() == whole)
        await until(pilot, lambda: screen.is_read and "the end is clean" in page(screen))
    undo(directory, notes=notes_of(demo_settings))
    assert (directory / "events.jsonl").read_bytes() == torn


async def test_what_keeps_happening_in_a_directory_is_found(demo_settings: Settings) -> None:
    root = demo_settings.roots[2].path
    repository = root.parent / "again"
    repository.mkdir()
    task = Task(
        repository=str(repository.absolute()),
        base_sha="c" * 40,
        instruction="Go.",
        checks=(Check("tests", ("true",)),),
        limits=Limits(max_steps=5),
    )
    with SessionStore(root).create(
        task, provider="p", model="m", protocol="openai_chat", run_id="loops"
    ) as run:
        for step in range(1, 6):
            run.emit("model.requested", {"step": step}, state={"step": step})
            run.emit(
                "model.completed",
                {"step": step, "usage": {"input_tokens": 1000 * step, "output_tokens": 1}},
            )
            given_to = {"tool_call_id": f"c{step}", "name": "grep", "effect": "read"}
            run.emit("tool.requested", {**given_to, "arguments": {"pattern": "x"}})
            run.emit("tool.started", given_to)
            run.emit("tool.completed", {**given_to, "ok": False, "error": "no such file"})
    app = explaining(demo_settings, root / "loops", "rivumi")
    async with app.run_test(size=(100, 40)) as pilot:
        text = page(await read(pilot))
    assert "grep was called 5 times with the same arguments, without a break, and failed each time" in text
    assert "the last 5 results were errors" in text
    assert "5 of 5 model turns are used: nothing is left" in text
    assert "the context grew from 2,000 to 5,000 tokens" in text or "the context grew from 1,000" in text


async def test_hostile_text_stays_text(demo_settings: Settings, tmp_path: Path) -> None:
    lines = [story.meta(1, "hostile", "go", time="2026-07-24T09:00:00Z")]
    calls: list[dict[str, object]] = [
        {"type": "tool_use", "id": f"t{n}", "name": text, "input": {"path": text, text: text}}
        for n, text in enumerate(story.HOSTILE)
    ]
    lines.append(story.assistant(2, 1, *calls))
    path = story.write(tmp_path / "hostile.json", lines)
    with path.open("ab") as file:
        file.write(b'\x1b]0;pwned\x07\x00\xff{"seq":3' + "\u202e".encode())
    app = explaining(demo_settings, path)
    async with app.run_test(size=(80, 60)) as pilot:
        screen = await read(pilot)
        for _ in range(len(screen.listing.rows)):
            screen.listing.move(10)
            text = "\n".join(shown(app))
            assert not set(text) & set("\x1b\x07\x00\x9b\u202e\u2028")
        await pilot.press("enter")


async def test_looking_changes_nothing(demo_settings: Settings, demo_directory: Path) -> None:
    def digest() -> dict[str, str]:
        return {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest() + str(path.stat().st_mtime_ns)
            for path in Path("demo").rglob("*")
            if path.is_file()
        }

    before = digest()
    for name in ("never-began", "not-a-journal", "from-a-newer-version", "crawl-docs"):
        async with explaining(demo_settings, run_of(demo_settings, name)).run_test(size=(80, 24)) as pilot:
            await read(pilot)
    assert digest() == before


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", [KILLED, "rename-notes"])
def test_post_mortem(
    snap_compare: Compare, demo_settings: Settings, name: str, size: tuple[int, int]
) -> None:
    async def before(pilot: Pilot[None]) -> None:
        await read(pilot)

    assert snap_compare(
        explaining(demo_settings, run_of(demo_settings, name)), terminal_size=size, run_before=before
    )


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_post_mortem_of_a_directory(
    snap_compare: Compare, demo_settings: Settings, size: tuple[int, int]
) -> None:
    directory = next(each for each in sorted(demo_settings.roots[2].path.iterdir()) if each.is_dir())
    token = json.loads((directory / "session.json").read_bytes())["active_writer_token"]
    (directory / ".writer.lock").write_text(f"pid=4242 token={token}\n")

    async def before(pilot: Pilot[None]) -> None:
        await read(pilot)

    app = explaining(demo_settings, directory, "rivumi")
    assert snap_compare(app, terminal_size=size, run_before=before)


def test_the_plan_of_a_salvage(snap_compare: Compare, demo_settings: Settings) -> None:
    async def before(pilot: Pilot[None]) -> None:
        await read(pilot)
        await pilot.press("s")
        await until(pilot, lambda: isinstance(pilot.app.screen, MendScreen))
        await until(pilot, lambda: any("good records" in row for row in shown(pilot.app)))

    app = explaining(demo_settings, run_of(demo_settings, "rename-notes"))
    assert snap_compare(app, terminal_size=(80, 24), run_before=before)
