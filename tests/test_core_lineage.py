"""Families of runs: put together from whatever the runs say, and read from real files."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import generate
from tests.damage import damage

from refold.core.lineage import Branch, Kin, Sums, Tree, family, tree_json
from refold.core.records import ForkOrigin, Message, UserRecord
from refold.core.store.catalog import Catalog, Root
from refold.core.store.fork import carry_out, plan_at
from refold.core.store.journal import JournalStore
from refold.core.store.lineage import read_family
from refold.core.store.notes import NotesStore
from refold.core.store.reader import RunReader
from refold.core.store.salvage import carry_out as carry_out_salvage
from refold.core.store.salvage import salvage_of
from refold.core.summary import RunSummary


def kin(name: str, parent: str = "", seq: int = 3, *, directory: str = "/runs", run_id: str = "") -> Kin:
    origin = ForkOrigin(parent, seq, "00", "why") if parent else None
    return Kin(path=f"{directory}/{name}.json", id=name, run_id=run_id, origin=origin)


def drawn(tree: Tree) -> list[str]:
    return [f"{'  ' * row.depth}{row.kin.id} {row.state}" for row in tree.rows]


def test_a_family_from_any_of_its_members() -> None:
    runs = [
        kin("late", "root", 9),
        kin("root"),
        kin("early", "root", 2),
        kin("deep", "early"),
        kin("stranger"),
        kin("strange-child", "stranger"),
    ]
    expected = ["root none", "  early unchecked", "    deep unchecked", "  late unchecked"]
    for focus in ("root", "early", "late", "deep"):
        tree = family(runs, f"/runs/{focus}.json")
        assert drawn(tree) == expected
        assert tree.rows[tree.focus].kin.id == focus
    assert drawn(family(runs, "/runs/strange-child.json")) == ["stranger none", "  strange-child unchecked"]
    assert [row.rails for row in tree.rows] == [(), (True,), (True, False), (False,)]


def test_parents_that_are_not_there() -> None:
    runs = [kin("one", "gone"), kin("two", "gone", 1), kin("three", "one"), kin("other", "also-gone")]
    tree = family(runs, "/runs/three.json")
    assert drawn(tree) == ["gone none", "  two missing", "  one missing", "    three unchecked"]
    assert (tree.rows[0].kin.path, tree.rows[0].kin.status) == ("", "missing")
    row = tree_json(tree.rows[0], focus=False)
    assert (row["path"], row["parent"], row["own"]) == (None, None, None)
    assert drawn(family(runs, "/runs/other.json")) == ["also-gone none", "  other missing"]


def test_circles() -> None:
    assert drawn(family([kin("me", "me")], "/runs/me.json")) == ["me circle"]
    two = [kin("a", "b"), kin("b", "a"), kin("c", "b")]
    for focus in ("a", "b", "c"):
        tree = family(two, f"/runs/{focus}.json")
        assert drawn(tree) == ["a circle", "  b unchecked", "    c unchecked"]
        assert tree.rows[tree.focus].kin.id == focus
    ring = [kin(f"r{number}", f"r{(number + 1) % 50}") for number in range(50)]
    assert len(family(ring, "/runs/r17.json").rows) == 50


def test_a_thousand_levels() -> None:
    runs = [kin("r0"), *(kin(f"r{number}", f"r{number - 1}") for number in range(1, 1001))]
    begun = time.process_time()
    for focus in ("r0", "r500", "r1000"):
        tree = family(runs, f"/runs/{focus}.json")
        assert [row.depth for row in tree.rows] == list(range(1001))
        assert tree.rows[tree.focus].kin.id == focus
    assert (time.process_time() - begun) / 3 < 0.2


def test_the_bytes_decide_between_runs_of_one_id() -> None:
    child = kin("child", "parent")
    here, there = kin("parent"), kin("parent", directory="/archive")
    renamed = kin("old-parent", run_id="parent")
    runs = [child, here, there, renamed]

    def found(checks: Mapping[str, bool]) -> tuple[str, str]:
        tree = family(runs, child.path, {(child.path, path): same for path, same in checks.items()})
        row = tree.rows[tree.focus]
        return row.parent, row.state

    assert found({}) == (here.path, "unchecked")
    assert found({here.path: True}) == (here.path, "same")
    assert found({here.path: False}) == (there.path, "unchecked")
    assert found({here.path: False, there.path: True}) == (there.path, "moved")
    assert found({here.path: False, there.path: False, renamed.path: True}) == (renamed.path, "same")
    assert found({here.path: False, there.path: False, renamed.path: False})[1] == "rewritten"


@given(st.data())
def test_any_claims_end_in_a_tree(data: st.DataObject) -> None:
    names = [f"r{number}" for number in range(data.draw(st.integers(1, 12)))]
    claims = data.draw(
        st.lists(st.sampled_from(["", "gone", *names]), min_size=len(names), max_size=len(names))
    )
    runs = [kin(name, claim) for name, claim in zip(names, claims, strict=True)]
    focus = data.draw(st.sampled_from(runs))
    tree = family(runs, focus.path)
    paths = [row.kin.path for row in tree.rows]
    assert len(set(paths)) == len(paths)
    assert tree.rows[tree.focus].kin == focus
    assert [len(row.rails) for row in tree.rows] == [row.depth for row in tree.rows]
    for row, after in zip(tree.rows, tree.rows[1:], strict=False):
        assert after.depth <= row.depth + 1


def summaries(*directories: Path) -> list[RunSummary]:
    catalog = Catalog([Root(path, "refold", "test") for path in directories], cache=None)
    found = [row for row in catalog.scan() if isinstance(row, RunSummary)]
    catalog.close()
    return found


def read(runs: Sequence[RunSummary], focus: Path, notes: NotesStore | None = None) -> Tree:
    trees = [tree for tree in read_family(runs, str(focus), notes=notes) if tree is not None]
    assert len(trees) >= 2
    return trees[-1]


def fork(path: Path, item: int, child: str, notes: NotesStore | None = None, *, prompt: str = "") -> Path:
    with RunReader.open(path, hint="fisk-ai") as reader:
        reader.index_all()
        return carry_out(
            plan_at(reader, item, child=child, prompt=prompt, reason=f"{child}!"), notes=notes
        ).path


def parent_in(directory: Path, style: generate.Style = "native") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "parent.json"
    generate.write(path, generate.journal(records=20, style=style, run_id="parent", ending="suspended"))
    return path


def by_id(tree: Tree) -> dict[str, Branch]:
    return {row.kin.id: row for row in tree.rows}


@pytest.mark.parametrize("style", generate.STYLES)
def test_forks_of_forks_on_disk(tmp_path: Path, style: generate.Style) -> None:
    notes = NotesStore(tmp_path / "notes")
    parent = parent_in(tmp_path / "runs", style)
    first = fork(parent, 11, "first", notes)
    second = fork(first, 7, "second", notes)
    fork(parent, 4, "early", notes)
    tree = read(summaries(parent.parent), second, notes)
    assert drawn(tree) == ["parent none", "  early same", "  first same", "    second same"]
    rows = by_id(tree)
    assert rows["second"].parent == str(first)
    assert rows["second"].kin.origin is not None
    assert rows["second"].kin.origin.reason == "second!"
    with RunReader.open(parent) as reader:
        timeline = reader.index_all()
    for name, item in (("early", 4), ("first", 11), ("second", 7)):
        row = rows[name].kin
        assert row.own == Sums()
        assert row.inherited == row.total
        assert row.inherited.turns == timeline.turn(item)
        assert row.inherited.tokens == timeline.counters(item).tokens
    assert rows["parent"].kin.own == rows["parent"].kin.total
    assert tree.focus == 3


def test_own_and_inherited(tmp_path: Path) -> None:
    parent = parent_in(tmp_path)
    with RunReader.open(parent) as reader:
        timeline = reader.index_all()
        item = next(item for item in range(6, 20) if not timeline.open_calls(item))
    child = fork(parent, item, "child", prompt="and then?")
    with JournalStore(tmp_path).open("child") as journal:
        journal.append(UserRecord(Message("user", ())))
    generated = parent.read_bytes().split(b"\n")
    with child.open("ab") as file:
        for line in generated[item + 1 : -1]:
            number = int(line.split(b",")[0].split(b":")[1])
            file.write(line.replace(b'"seq":%d' % number, b'"seq":%d' % (number + 2), 1) + b"\n")
    row = by_id(read(summaries(tmp_path), parent))["child"].kin
    assert row.total is not None
    assert row.own is not None
    assert row.own.turns == timeline.turn(timeline.items - 1) - timeline.turn(item) > 0
    assert row.inherited.turns == timeline.turn(item)
    assert row.own.tokens + row.inherited.tokens == row.total.tokens


def test_a_parent_that_was_moved_renamed_rewritten_cut_or_removed(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    there.mkdir()
    parent = parent_in(here)
    child = fork(parent, 11, "child")
    data = parent.read_bytes()

    def state(*directories: Path) -> tuple[str, str]:
        tree = read(summaries(*directories), child)
        row = tree.rows[tree.focus]
        return row.state, row.parent

    assert state(here) == ("same", str(parent))
    parent.write_bytes(data + b"damage\n" * 3)
    assert state(here) == ("same", str(parent))
    moved = there / parent.name
    parent.rename(moved)
    assert state(here) == ("missing", "")
    assert state(here, there) == ("moved", str(moved))
    parent.write_bytes(data.replace(b'"seq":3', b'"seq":3 ', 1))
    assert state(here) == ("rewritten", str(parent))
    assert state(here, there) == ("moved", str(moved))
    parent.write_bytes(b"".join(data.splitlines(keepends=True)[:9]))
    assert state(here) == ("rewritten", str(parent))
    parent.unlink()
    renamed = here / "another-name.json"
    moved.rename(renamed)
    assert state(here) == ("same", str(renamed))


def test_a_foreign_fork_that_was_moved_is_known_by_its_first_line(tmp_path: Path) -> None:
    notes = NotesStore(tmp_path / "notes")
    parent = parent_in(tmp_path / "runs", "fisk-ai-v3")
    child = fork(parent, 11, "child", notes)
    moved = tmp_path / "other" / "child.json"
    moved.parent.mkdir()
    child.rename(moved)
    tree = read(summaries(parent.parent, moved.parent), moved, notes)
    assert drawn(tree) == ["parent none", "  child moved"]
    # Another run under the old name is not taken for the fork.
    child.write_bytes(parent.read_bytes().replace(b'"run_id":"parent"', b'"run_id":"child"', 1))
    tree = read(summaries(parent.parent, moved.parent), child, notes)
    assert drawn(tree) == ["child none"]


def test_a_salvaged_run_and_its_damaged_parent(tmp_path: Path) -> None:
    path = parent_in(tmp_path)
    path.write_bytes(damage("swapped", 4, path.read_bytes()))
    with RunReader.open(path) as reader:
        made = carry_out_salvage(salvage_of(reader, child="good"))
    tree = read(summaries(tmp_path), made.path)
    assert drawn(tree) == ["parent none", "  good same"]
    good = by_id(tree)["good"].kin
    assert good.own == Sums()


def test_what_cannot_be_read_still_has_its_place(tmp_path: Path) -> None:
    parent = parent_in(tmp_path)
    child = fork(parent, 11, "child")
    known = summaries(tmp_path)
    parent.unlink()
    parent.mkdir()
    tree = read(known, child)
    assert drawn(tree) == ["parent none", "  child unchecked"]
    assert tree.rows[0].kin.total is None
    assert tree_json(tree.rows[0], focus=False)["own"] is None
    child.unlink()
    assert drawn(read(known, child)) == ["parent none", "  child unchecked"]
