"""The lineage on the screen: the tree, what is said of parents, and the ways on from it."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from tests.on_screen import settings, shown, until
from textual.pilot import Pilot

from refold.app.forking import notes_of
from refold.app.lines import cells, plain
from refold.app.main import RefoldApp
from refold.app.present.lineage import LineageRows, details, heading, rails
from refold.app.screens.fork import ForkScreen
from refold.app.screens.lineage import LineageScreen
from refold.app.screens.run import RunScreen
from refold.app.screens.runs import RunsScreen
from refold.app.settings import Settings
from refold.core.lineage import Branch, Kin, Sums, Tree, family
from refold.core.records import AssistantRecord, ForkOrigin, Message, MetaRecord
from refold.core.store.forks import forks_of
from refold.core.store.journal import JournalStore
from refold.core.store.notes import Notes, NotesStore
from refold.core.store.roots import Root

Compare = Callable[..., bool]


def write(
    store: JournalStore, run_id: str, origin: ForkOrigin | None = None, *, turns: int = 1, created: str = ""
) -> Path:
    """Write a run of some turns."""
    meta = MetaRecord(
        version=2, prompt=f"work on {run_id}", forked_from=origin, created=created or "2026-07-24T09:00:00Z"
    )
    with store.create(run_id, meta) as journal:
        for turn in range(turns):
            text: Sequence[dict[str, str]] = [{"type": "text", "text": f"turn {turn}"}]
            journal.append(
                AssistantRecord(Message("assistant", tuple(text)), turn, "end_turn", in_tokens=100)  # type: ignore[arg-type]
            )
    return store.path_of(run_id)


def origin_of(path: Path, seq: int, reason: str = "") -> ForkOrigin:
    """Say of a fork that it took the first records of a run."""
    taken = b"".join(line + b"\n" for line in path.read_bytes().split(b"\n")[:seq])
    return ForkOrigin(path.stem, seq, hashlib.sha256(taken).hexdigest(), reason)


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A family over two directories, with everything that can be wrong about parents."""
    monkeypatch.chdir(tmp_path)
    here, there = JournalStore(Path("here")), JournalStore(Path("there"))
    root = write(here, "root", turns=3)
    again = write(here, "again", origin_of(root, 2, "try [/x] the \x1b[31mother way"), turns=2)
    write(here, "deeper", origin_of(again, 2), turns=1)
    write(there, "moved", origin_of(root, 3, "on the other disk"), turns=1)
    write(here, "rewritten", ForkOrigin("root", 3, "0" * 64, "from what was there before"), turns=1)
    write(here, "orphan", ForkOrigin("nowhere", 4, "0" * 64), turns=1)
    write(here, "sibling", ForkOrigin("nowhere", 2, "0" * 64), turns=1)
    write(here, "hen", ForkOrigin("egg", 1, "0" * 64), created="2026-07-24T08:00:00Z")
    write(here, "egg", ForkOrigin("hen", 1, "0" * 64))
    write(here, "narcissus", ForkOrigin("narcissus", 1, "0" * 64))
    chain = write(here, "link-0")
    for number in range(1, 40):
        chain = write(here, f"link-{number}", origin_of(chain, 1))
    usual = settings(Path())
    roots = tuple(Root(Path(name), "refold", "--root") for name in ("here", "there"))
    return Settings(
        roots=roots,
        **{
            name: getattr(usual, name)
            for name in ("state_dir", "cache_dir", "config_file", "utc", "log_file")
        },
    )


def of(given: Settings, run_id: str) -> RefoldApp:
    return RefoldApp(given, lambda: LineageScreen(Path("here") / f"{run_id}.json", "refold", given))


def lineage(pilot: Pilot[None]) -> LineageScreen:
    screen = pilot.app.screen
    assert isinstance(screen, LineageScreen)
    return screen


async def read(pilot: Pilot[None]) -> list[str]:
    """Wait until all is read, and give the rows of the screen."""
    await until(pilot, lambda: isinstance(pilot.app.screen, LineageScreen) and pilot.app.screen.is_read, 10)
    return shown(pilot.app)


async def test_parents_and_forks_of_two_directories_hang_together(given: Settings) -> None:
    app = of(given, "again")
    async with app.run_test(size=(120, 40)) as pilot:
        rows = await read(pilot)
        tree = [row.rstrip() for row in rows[2:7]]
        assert [row.split("  ")[0].strip(" ▌") for row in tree] == [
            "root", "├ again", "│ ╰ deeper", "├ rewritten", "╰ moved",
        ]  # fmt: skip
        assert "ψ 2" in tree[1]
        assert "try [/x] the ␛[31mother way" in tree[1]
        assert "parent rewritten" in tree[3]
        assert "parent moved" in tree[4]
        screen = lineage(pilot)
        assert screen.branch is not None
        assert screen.branch.kin.id == "again", "the cursor stands on the run that was asked for"
        text = "\n".join(rows)
        assert "Forked      from root after seq 2" in text
        assert "Own         1 turn · 0 calls · 100 tokens" in text
        assert "Inherited   1 turn · 0 calls · 100 tokens" in text
        await pilot.press("down", "down")
        await until(pilot, lambda: "not the bytes that were taken" in "\n".join(shown(app)))
        assert app.background_faults == []


@pytest.mark.parametrize(
    ("run_id", "said"),
    [
        ("orphan", "no run of its parent's id is there"),
        ("hen", "it descends from its own fork"),
        ("egg", "not the bytes"),
        ("narcissus", "it descends from its own fork"),
        ("link-39", "still begins with the bytes"),
    ],
)
async def test_whatever_the_runs_say_of_their_parents_the_tree_stands(
    given: Settings, run_id: str, said: str
) -> None:
    app = of(given, run_id)
    async with app.run_test(size=(60, 20)) as pilot:
        text = " ".join(" ".join(await read(pilot)).split())
        assert run_id in text
        assert said in text
        assert app.background_faults == []


async def test_a_run_is_called_by_its_name(given: Settings) -> None:
    NotesStore(given.notes_dir).update(
        Path("here") / "again.json", lambda notes: msgspec.structs.replace(notes, name="billing sweep")
    )
    async with of(given, "again").run_test(size=(120, 40)) as pilot:
        rows = await read(pilot)
        assert "ψ lineage billing sweep  " in rows[0]
        assert [row.split("  ")[0].strip(" ▌") for row in rows[2:5]] == [
            "root",
            "├ billing sweep",
            "│ ╰ deeper",
        ]
        assert "Run         billing sweep  again" in "\n".join(rows)


async def test_a_parent_that_is_missing_is_a_row_that_leads_nowhere(given: Settings) -> None:
    app = of(given, "orphan")
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await read(pilot)
        await pilot.press("home")
        screen = lineage(pilot)
        await until(pilot, lambda: screen.branch is not None and screen.branch.kin.id == "nowhere")
        assert screen.check_action("fork", ()) is None
        await pilot.press("f", "enter")
        await until(pilot, lambda: any("This run is not here" in row for row in shown(app)))
        assert app.screen is screen
        assert app.background_faults == []


async def test_from_the_list_to_a_fork_and_back_the_tree_is_read_again(given: Settings) -> None:
    app = RefoldApp(given, lambda: RunsScreen(given, "root"))
    async with app.run_test(size=(100, 30)) as pilot:
        runs = app.screen
        assert isinstance(runs, RunsScreen)
        await until(pilot, lambda: runs.run is not None and runs.run.id == "root")
        await pilot.press("l", "l")
        await read(pilot)
        assert len(app.screen_stack) == 2
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, ForkScreen) and app.screen.draft is not None)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, LineageScreen))
        await until(pilot, lambda: any("root-2" in row for row in shown(app)))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert isinstance(app.screen, RunScreen)
        assert app.screen.path.stem == "root"
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, LineageScreen))
        await pilot.press("escape", "escape", "escape")
        await until(pilot, lambda: app.screen is runs)
        assert app.background_faults == []


async def test_a_directory_that_vanishes_leaves_the_run_alone_in_its_tree(given: Settings) -> None:
    shutil.rmtree("here")
    app = of(given, "root")
    async with app.run_test(size=(80, 24)) as pilot:
        await read(pilot)
        assert lineage(pilot).family is not None
        assert app.background_faults == []


async def test_where_forks_left_is_marked_in_timeline_ruler_and_first_row(given: Settings) -> None:
    app = RefoldApp(given, lambda: RunScreen(Path("here/root.json"), 2, settings=given))
    async with app.run_test(size=(120, 40)) as pilot:
        run = app.screen
        assert isinstance(run, RunScreen)
        await until(pilot, lambda: any("ψ forked 2×" in row for row in shown(app)))
        assert [(fork.run_id, fork.seq) for fork in run.forks] == [("again", 2), ("rewritten", 3)]
        rows = shown(app)
        assert "ψ again  seq 2" in rows[0]
        assert rows[1].count("ψ") == 1, "the other one stands under the cursor"
        assert [row[1:6].split() for row in rows if row[1:2] == "ψ"] == [["ψ", "2┤"], ["ψ", "3┤"]]
        await pilot.press("down", "down")
        await until(pilot, lambda: "ψ  seq 4" in shown(app)[0])
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, ForkScreen) and app.screen.draft is not None)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen is not run)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is run and "ψ forked 3×" in shown(app)[0])
        await pilot.press("t")
        assert app.background_faults == []


def test_forks_are_found_beside_their_parent_and_in_the_notes(given: Settings) -> None:
    notes = notes_of(given)
    Path("there/foreign.json").write_text("{}\n")
    notes.update(Path("there/foreign.json"), lambda _: Notes(forked_from=ForkOrigin("hen", 7, "0" * 64)))
    notes.update(Path("there/gone.json"), lambda _: Notes(forked_from=ForkOrigin("hen", 8, "0" * 64)))
    Path("here/odd.json").mkdir()
    Path("here/broken.json").write_bytes(b'{"forked_from": "hen" \xff')
    found = sorted((fork.run_id, fork.seq) for fork in forks_of(Path("here/hen.json"), notes) if fork)
    assert found == [("egg", 1), ("foreign", 7)]
    Path("there/foreign.json").write_text('{"another": "run"}\n')
    assert [fork.run_id for fork in forks_of(Path("here/hen.json"), notes) if fork] == ["egg"]
    assert [fork for fork in forks_of(Path("here/hen.json")) if fork] != []
    assert [fork for fork in forks_of(Path("nowhere/hen.json")) if fork] == []


def test_rails_of_deep_trees_are_cut_and_say_how_deep() -> None:
    chain = [Kin(f"/r/{n}.json", f"run-{n}", origin=ForkOrigin(f"run-{n - 1}", 1)) for n in range(1, 100)]
    tree = family([Kin("/r/0.json", "run-0"), *chain], "/r/99.json")
    assert tree.rows[99].depth == 99
    drawn = rails(tree.rows[99], 5)
    assert drawn == "⋯99           ╰ "
    for width in (20, 40, 60, 80, 200):
        assert cells(LineageRows(tree).line(99, width)) == width
        assert cells(heading(width)) == width
        for line in details(tree.rows[99], width):
            assert cells(line) <= width


def test_numbers_are_those_of_the_run_itself() -> None:
    kin = Kin("/r/a.json", "a", status="completed", total=Sums(5, 8, 1, 900), inherited=Sums(2, 3, 0, 400))
    row = plain(LineageRows(Tree((Branch(kin, 0, (), "", "none"),), 0)).line(0, 100))
    assert row.split()[-3:] == ["3", "5", "500"]


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_lineage(snap_compare: Compare, given: Settings, size: tuple[int, int]) -> None:
    async def ready(pilot: Pilot[None]) -> None:
        await read(pilot)
        await pilot.press("down", "down", "down")
        await until(pilot, lambda: "other disk" in "".join(shown(pilot.app)[-8:]))

    assert snap_compare(of(given, "again"), terminal_size=size, run_before=ready)
