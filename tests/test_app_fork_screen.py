"""The dialog before a fork: what it says, what it refuses, and the run that it makes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.on_screen import shown, type_into, until
from textual.pilot import Pilot

from refold.app.cli import main
from refold.app.demo_runs import KILLED
from refold.app.forking import proposed_id
from refold.app.lines import Line, plain
from refold.app.main import RefoldApp
from refold.app.present.fork_plan import ForkDraft, fork_lines, verdict
from refold.app.screens.fork import ForkScreen
from refold.app.screens.notice import NoticeScreen
from refold.app.screens.postmortem import PostmortemScreen
from refold.app.screens.run import RunScreen
from refold.app.screens.runs import RunsScreen
from refold.app.settings import Settings
from refold.core.records import MetaRecord
from refold.core.store.fork import plan_at
from refold.core.store.notes import NotesStore
from refold.core.store.reader import RunReader

Compare = Callable[..., bool]
NOW = datetime(2026, 7, 24, 12, 0, tzinfo=UTC)


def killed(demo_settings: Settings) -> Path:
    return demo_settings.roots[0].path / f"{KILLED}.json"


def of_run(demo_settings: Settings, path: Path, at: int | None = None, hint: str = "refold") -> RefoldApp:
    return RefoldApp(demo_settings, lambda: RunScreen(path, at, settings=demo_settings, hint=hint))


def dialog(pilot: Pilot[None]) -> ForkScreen:
    screen = pilot.app.screen
    assert isinstance(screen, ForkScreen)
    return screen


async def opened(pilot: Pilot[None], *before: str) -> ForkScreen:
    """Press keys, then `f`, and wait for the plan."""
    run = pilot.app.screen
    assert isinstance(run, RunScreen)
    await until(pilot, lambda: run.reader is not None and run.reader.complete and run.item is not None)
    await pilot.press(*before, "f")
    await until(
        pilot, lambda: isinstance(pilot.app.screen, ForkScreen) and pilot.app.screen.draft is not None
    )
    return dialog(pilot)


async def typed(pilot: Pilot[None], key: str, text: str) -> None:
    """Type into a prompt of the dialog, and wait for the plan that comes of it."""
    await type_into(pilot, key, text)
    await until(pilot, lambda: dialog(pilot).is_planned)


def text_of(lines: Sequence[Line]) -> str:
    return "\n".join(plain(line) for line in lines)


async def test_a_fork_at_the_cursor_holds_the_bytes_of_its_parent_and_opens(demo_settings: Settings) -> None:
    path = killed(demo_settings)
    before, stamp = path.read_bytes(), path.stat().st_mtime_ns
    app = of_run(demo_settings, path, at=4)
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        screen = await opened(pilot)
        assert screen.draft is not None
        assert screen.draft.seq == 4
        await typed(pilot, "n", "again-from-4")
        await typed(pilot, "w", "because [/x] of it")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.path != path)
        await until(pilot, lambda: any("was forked into again-from-4" in row for row in shown(app)))
        child = path.with_name("again-from-4.json")
        assert isinstance(app.screen, RunScreen)
        assert app.screen.path == child
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.path == path)
        assert app.background_faults == []
    lines = before.split(b"\n")
    assert child.read_bytes().split(b"\n")[1:] == [*lines[1:4], b""]
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, stamp)
    with RunReader.open(child) as reader:
        reader.index_all()
        meta = reader.meta
    assert isinstance(meta, MetaRecord)
    assert meta.forked_from is not None
    assert meta.forked_from.run_id == KILLED
    assert meta.forked_from.seq == 4
    assert meta.forked_from.reason == "because [/x] of it"
    assert meta.forked_from.prefix_sha256 == hashlib.sha256(b"\n".join([*lines[:4], b""])).hexdigest()


async def test_points_are_walked_and_a_prompt_stands_only_between_turns(demo_settings: Settings) -> None:
    app = of_run(demo_settings, killed(demo_settings), at=5)
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await opened(pilot)
        assert screen.draft is not None
        assert screen.draft.plan is not None
        assert screen.draft.plan.point == "inside"
        await typed(pilot, "p", "Use fromisoformat.")
        assert screen.draft.plan is None
        assert "calls are open" in screen.draft.refusal
        assert "seq 4" in screen.draft.remedy
        await until(pilot, lambda: "Comes along   5 records" in "\n".join(shown(app)))
        assert "Pending in the new run" in "\n".join(shown(app))
        assert "What will be written" not in "\n".join(shown(app))
        assert screen.check_action("go", ()) is None
        await pilot.press("enter")
        await pilot.pause()
        assert app.screen is screen
        await pilot.press("(")
        await until(pilot, lambda: screen.draft is not None and screen.draft.seq == 4)
        assert screen.draft.plan is not None
        await until(pilot, lambda: "Use fromisoformat." in "\n".join(shown(app)))
        await pilot.press("left", "left", "left", "left", "left")
        await until(pilot, lambda: screen.draft is not None and screen.draft.seq == 1)
        await pilot.press(")")
        await until(pilot, lambda: screen.draft is not None and screen.draft.seq == 2)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert app.background_faults == []
    assert len(list(killed(demo_settings).parent.glob("*-2.json"))) == 0


async def test_an_id_that_is_none_or_taken_is_refused_before_anything_is_written(
    demo_settings: Settings,
) -> None:
    path = killed(demo_settings)
    before = {entry.name for entry in path.parent.iterdir()}
    app = of_run(demo_settings, path, at=4)
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await opened(pilot)
        for name in ("", "a b", "../x", "-x", "x" * 129, KILLED):
            await typed(pilot, "n", name)
            await until(pilot, lambda name=name: screen.draft is not None and screen.draft.child == name)  # type: ignore[misc]
            await pilot.press("enter")
            await pilot.pause()
            assert app.screen is screen
            assert screen.draft is not None
            assert screen.draft.plan is None
            assert screen.draft.refusal
        assert app.background_faults == []
    assert {entry.name for entry in path.parent.iterdir()} == before


async def test_a_run_that_is_there_already_is_never_overwritten(demo_settings: Settings) -> None:
    path = killed(demo_settings)
    taken = path.with_name("summarise-tickets.json")
    before = taken.read_bytes()
    app = of_run(demo_settings, path, at=4)
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await opened(pilot)
        await typed(pilot, "n", "summarise-tickets")
        await until(pilot, lambda: screen.draft is not None and "already there" in screen.draft.refusal)
        await typed(pilot, "n", "late")
        await until(pilot, lambda: screen.draft is not None and screen.draft.plan is not None)
        path.with_name("late.json").write_text("made meanwhile")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, NoticeScreen))
        assert "already there" in "\n".join(shown(app))
        await pilot.press("escape", "escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert app.background_faults == []
    assert taken.read_bytes() == before
    assert path.with_name("late.json").read_text() == "made meanwhile"


async def test_from_the_list_a_run_is_forked_at_its_last_legal_point(demo_settings: Settings) -> None:
    app = RefoldApp(demo_settings, lambda: RunsScreen(demo_settings, "refactor-imports", now=NOW.timestamp))
    async with app.run_test(size=(100, 30)) as pilot:
        runs = app.screen
        assert isinstance(runs, RunsScreen)
        await until(pilot, lambda: runs.run is not None and runs.run.id == "refactor-imports")
        await pilot.press("f", "f", "f")
        await until(pilot, lambda: isinstance(app.screen, ForkScreen) and app.screen.draft is not None)
        assert len(app.screen_stack) == 2, "a key that repeats opens one dialog"
        screen = dialog(pilot)
        assert screen.draft is not None
        assert screen.draft.plan is not None
        assert screen.draft.plan.stays == 1, "a completed run is forked before its end"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert isinstance(app.screen, RunScreen)
        assert app.screen.path.stem == "refactor-imports-2"
        assert app.background_faults == []


@pytest.mark.parametrize("name", ["fix-date-parser", "index-photos", "crawl-docs", "summarise-tickets"])
async def test_the_list_the_post_mortem_and_the_command_line_propose_one_point(
    name: str, demo_settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    app = RefoldApp(
        demo_settings, lambda: RunsScreen(demo_settings, f"{name} -status:ready", now=NOW.timestamp)
    )
    async with app.run_test(size=(100, 40)) as pilot:
        runs = app.screen
        assert isinstance(runs, RunsScreen)
        await until(pilot, lambda: runs.run is not None and runs.run.id == name)
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, ForkScreen) and app.screen.is_planned)
        first = dialog(pilot).draft
        await pilot.press("escape", "d")
        await until(pilot, lambda: isinstance(app.screen, PostmortemScreen) and app.screen.is_read)
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, ForkScreen) and app.screen.is_planned)
        second = dialog(pilot).draft
        assert first is not None
        assert second is not None
        assert (first.seq, first.proposed) == (second.seq, second.proposed)
        opened = first.plan is not None and first.plan.stays > 0
        why = "before the turn whose calls have no result"
        if name == "index-photos":
            why += "; one result of that turn stays behind, a fork after seq 5 keeps it"
        assert first.proposed == (f"proposed: {why}" if opened else "")
        if opened:
            await pilot.press("right_parenthesis")
            await until(pilot, lambda: dialog(pilot).is_planned and dialog(pilot).draft != second)
            said = f"proposed is seq {second.seq}, {why}"
            assert said in " ".join(" ".join(shown(app)).replace("│", " ").split())
        assert app.background_faults == []
    assert main(["fork", str(demo_settings.roots[0].path / f"{name}.json"), "--plan", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["seq"] == first.seq


async def test_a_fork_of_a_foreign_run_notes_where_it_comes_from(demo_settings: Settings) -> None:
    parent = next(demo_settings.roots[1].path.glob("nightly-audit.json"))
    app = of_run(demo_settings, parent, at=3, hint="fisk-ai")
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot)
        text = "\n".join(shown(app))
        assert "Refold's own notes" in text
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.path != parent)
        assert app.background_faults == []
    noted = NotesStore(demo_settings.state_dir / "notes").read(parent.with_name("nightly-audit-2.json"))
    assert noted.forked_from is not None
    assert (noted.forked_from.run_id, noted.forked_from.seq) == ("nightly-audit", 3)


async def test_a_point_after_damage_says_why_and_names_the_nearest_legal_one(demo_settings: Settings) -> None:
    path = demo_settings.roots[0].path / "rename-notes.json"
    app = of_run(demo_settings, path)
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await opened(pilot, "end")
        assert screen.draft is not None
        assert screen.draft.plan is None
        text = "\n".join(shown(app))
        assert "do not fold" in text
        assert "nearest legal point before it is seq 6" in text
        await pilot.press("(")
        await until(pilot, lambda: screen.draft is not None and screen.draft.plan is not None)
        assert screen.draft.seq == 6
        assert app.background_faults == []


@pytest.mark.parametrize("name", ["never-began", "not-a-journal", "from-a-newer-version"])
async def test_what_cannot_be_forked_says_so_and_can_be_left(demo_settings: Settings, name: str) -> None:
    app = RefoldApp(
        demo_settings, lambda: RunsScreen(demo_settings, f"{name} -status:ready", now=NOW.timestamp)
    )
    async with app.run_test(size=(60, 20)) as pilot:
        runs = app.screen
        assert isinstance(runs, RunsScreen)
        await until(pilot, lambda: runs.run is not None and runs.run.id == name)
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, ForkScreen) and app.screen.draft is not None)
        assert any("✗ no fork here" in row for row in shown(app))
        await pilot.press("enter", "(", ")", "escape")
        await until(pilot, lambda: app.screen is runs)
        assert app.background_faults == []


async def test_a_run_that_vanished_can_be_left(demo_settings: Settings) -> None:
    path = killed(demo_settings)
    app = of_run(demo_settings, path)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.item is not None)
        path.unlink()
        await pilot.press("f")
        await until(pilot, lambda: any("cannot be forked" in row for row in shown(app)))
        await pilot.press("enter", "n", "p", "(", "escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert app.background_faults == []


async def test_legal_points_are_walked_in_the_timeline(demo_settings: Settings) -> None:
    path = demo_settings.roots[0].path / "rename-notes.json"
    app = of_run(demo_settings, path, at=1)
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        run = app.screen
        assert isinstance(run, RunScreen)
        await until(pilot, lambda: run.reader is not None and run.reader.complete and run.item == 0)
        for item in range(1, 6):
            await pilot.press(")")
            await until(pilot, lambda item=item: run.item == item)  # type: ignore[misc]
        await pilot.press(")")
        await until(pilot, lambda: any("No legal fork point after" in row for row in shown(app)))
        assert run.item == 5
        await pilot.press("end", "(")
        await until(pilot, lambda: run.item == 5)
        assert app.background_faults == []


def test_every_fact_of_a_plan_is_said_in_any_width(demo_settings: Settings) -> None:
    with RunReader.open(killed(demo_settings)) as reader:
        reader.index_all()
        plan = plan_at(reader, 6, child="child", reason="[bold]\x1b[2J")
    draft = ForkDraft(KILLED, 7, 7, "child", reason=plan.reason, plan=plan, directory="/runs/\x1b")
    for width in (20, 40, 60, 110, 200):
        lines = fork_lines(draft, width)
        text = " ".join(text_of(lines).split())
        assert "Pending in the new run: 1 call" in text
        assert "replace_text" in text
        assert "not restored" in text
        assert "\x1b" not in text
    assert "inside a batch" in plain(verdict(draft))


def test_the_proposed_id_is_free_and_legal(tmp_path: Path) -> None:
    parent = tmp_path / "fix-add.json"
    parent.touch()
    assert proposed_id(parent) == "fix-add-2"
    (tmp_path / "fix-add-2.json").touch()
    assert proposed_id(parent) == "fix-add-3"
    assert proposed_id(tmp_path / "fix-add-2.json") == "fix-add-3"
    assert len(proposed_id(tmp_path / "3MqGT45w9QhVAxv4SGKRdE66WHD.json")) == 27
    assert len(proposed_id(tmp_path / "no id.json")) == 27
    assert len(proposed_id(Path(os.fsdecode(b"\xff.json")))) == 27


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_fork(snap_compare: Compare, demo_settings: Settings, size: tuple[int, int]) -> None:
    async def ready(pilot: Pilot[None]) -> None:
        await opened(pilot)
        await typed(pilot, "w", "try the other way")

    app = of_run(demo_settings, killed(demo_settings), at=4)
    assert snap_compare(app, terminal_size=size, run_before=ready)
