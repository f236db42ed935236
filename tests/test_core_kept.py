"""What is kept about all runs, joined to their rows: right at once, and read again only where it changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from refold.core.keeping import Kept
from refold.core.records import ForkOrigin
from refold.core.store.catalog import Catalog, Root
from refold.core.store.keep import naming, noting, starring, tagging
from refold.core.store.kept import KeptIndex
from refold.core.store.notes import VERSION, NotesStore
from refold.core.summary import RunSummary


class Place:
    """Some runs, and what is noted about them."""

    def __init__(self, directory: Path) -> None:
        self.runs = directory / "runs"
        self.runs.mkdir()
        self.cache = directory / "cache"
        self.store = NotesStore(directory / "state" / "notes")

    def run(self, name: str, first: str = "") -> Path:
        path = self.runs / f"{name}.json"
        path.write_text(json.dumps({"seq": 1, "meta": first or name}) + "\n{}\n")
        return path

    def settle(self) -> None:
        """Let everything be old enough for its times to tell the next change."""
        for path in (*self.store.directory.iterdir(), self.store.directory):
            moment = path.stat().st_mtime_ns - 10**10
            os.utime(path, ns=(moment, moment))

    def index(self, *, cached: bool = True) -> KeptIndex:
        index = KeptIndex(self.store.directory, self.cache if cached else None)
        index.look_at_all()
        return index

    def kept(self, index: KeptIndex | None = None) -> dict[str, Kept]:
        found = index or self.index(cached=False)
        catalog = Catalog([Root(self.runs, "refold", "test")], cache=None)
        rows = [found.joined(row) for row in catalog.scan() if isinstance(row, RunSummary)]
        catalog.close()
        return {row.id: row.kept for row in rows if row.kept}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_rows_say_what_is_noted(place: Place) -> None:
    place.run("other")
    assert place.kept() == {}
    run = place.run("a")
    place.store.update(run, starring(on=True))
    place.store.update(run, tagging(["x"]))
    place.store.update(run, naming("july"))
    place.store.update(run, noting("why"))
    assert place.kept() == {"a": Kept(star=True, tags=("x",), name="july", note="why")}
    assert place.index().named("JULY") == [run]
    run.unlink()
    assert place.index().named("july") == []


def test_a_head_is_read_once_for_a_name(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c", "d"):
        place.store.update(place.run(name), naming("july"))
    for name in ("c", "d"):
        (place.runs / f"{name}.json").rename(place.runs / f"moved-{name}.json")
    for path in place.runs.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    index = place.index()
    opened: list[str] = []
    open_ = os.open

    def counting(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        opened.append(os.path.basename(path))  # noqa: PTH119
        return open_(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", counting)
    roots = [Root(place.runs, "refold", "test")]
    found = ["a.json", "b.json", "moved-c.json", "moved-d.json"]
    assert [path.name for path in index.named("july", roots)] == found
    # Once each for whether it is there, and once each for those that moved, however many did.
    assert sorted(opened) == sorted([*found, "a.json", "b.json"])
    opened.clear()
    assert [path.name for path in index.lain("july")] == ["c.json", "d.json"]
    assert [path.name for path in index.named("july")] == ["a.json", "b.json"]
    assert opened == []
    place.run("a", "another run")
    assert [path.name for path in index.named("july")] == ["b.json"]


def test_a_parent_that_is_noted_is_joined_and_is_nothing_that_a_person_keeps(place: Place) -> None:
    fork = place.run("fork")
    origin = ForkOrigin(run_id="x" * 300, seq=4)
    place.store.update(fork, lambda notes: msgspec.structs.replace(notes, forked_from=origin))
    place.settle()
    for index in (place.index(), place.index()):
        row = index.joined(RunSummary("fork", str(fork)))
        assert (row.parent, row.kept.fork_at, bool(row.kept)) == ("x" * 255, 4, False)
    assert KeptIndex(place.store.directory, place.cache).joined(row).parent == ""


def test_a_directory_that_is_a_link_is_the_same(place: Place, tmp_path: Path) -> None:
    place.store.update(place.run("a"), starring(on=True))
    (tmp_path / "link").symlink_to(place.runs)
    index = place.index()
    assert index.kept(RunSummary("a", str(tmp_path / "link" / "a.json"))).star


def test_a_run_that_was_moved_keeps_its_star_and_another_at_its_place_has_none(
    place: Place, tmp_path: Path
) -> None:
    run = place.run("a")
    place.store.update(run, starring(on=True))
    (tmp_path / "moved").mkdir()
    moved = run.rename(tmp_path / "moved" / "a.json")
    index = place.index()
    assert index.kept(RunSummary("a", str(moved))).star
    again = place.run("a", "another")
    assert not index.kept(RunSummary("a", str(again), size=1)).star
    place.store.update(again, naming("second"))
    index.look_at_all()
    assert index.kept(RunSummary("a", str(again), size=1)) == Kept(name="second")
    assert index.kept(RunSummary("a", str(moved))).star


def test_a_change_is_seen_and_nothing_else_is_read_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [place.run(str(number)) for number in range(300)]
    for run in runs:
        place.store.update(run, starring(on=True))
    place.settle()
    first = place.index()
    assert len(place.kept(first)) == 300
    first.save()
    opened: list[str] = []
    open_ = os.open

    def counting(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        opened.append(os.fspath(path))
        return open_(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", counting)
    warm = place.index()
    rows = [RunSummary(run.stem, str(run), size=status.st_size, updated=status.st_mtime_ns / 1e9)
            for run in runs for status in [run.stat()]]  # fmt: skip
    assert all(warm.kept(row).star for row in rows)
    assert opened == [str(place.cache / "notes.cache")]
    place.store.update(runs[7], starring(on=False))
    opened.clear()
    warm.look_at_all()
    assert [row.id for row in rows if not warm.kept(row)] == ["7"]
    assert len(opened) == 1


def test_a_cache_of_any_content_changes_no_answer(place: Place) -> None:
    place.store.update(place.run("a"), starring(on=True))
    place.settle()
    index = place.index()
    index.save()
    good = (place.cache / "notes.cache").read_bytes()
    for text in (b"", b"x", good[:-3], good[:40], good.replace(b"notes", b"other")):
        (place.cache / "notes.cache").write_bytes(text)
        assert place.kept(place.index()) == {"a": Kept(star=True)}
    for path in place.store.directory.iterdir():
        path.unlink()
    place.store.directory.rmdir()
    (place.cache / "notes.cache").write_bytes(good)
    assert place.kept(place.index()) == {}


def test_newer_notes_are_said_and_odd_files_are_passed_over(place: Place) -> None:
    run = place.run("a")
    place.store.update(run, starring(on=True))
    file = place.store.path_of(run)
    values = json.loads(file.read_text())
    file.write_text(json.dumps({**values, "version": VERSION + 1, "star": {"since": "2030"}}))
    os.mkfifo(place.store.directory / "pipe.json")
    (place.store.directory / "link.json").symlink_to(file)
    (place.store.directory / "deep.json").write_bytes(b"[" * 100_000)
    (place.store.directory / "directory.json").mkdir()
    (kept,) = place.kept().values()
    assert "newer Refold" in kept.trouble
    assert not kept.star


def test_a_name_does_not_outlive_its_run(place: Place, tmp_path: Path) -> None:
    run = place.run("a")
    place.store.update(run, naming("july"))
    run.unlink()
    place.run("a", "another")
    assert place.index().named("july") == []
    place.store.update(run, naming("may"))
    # The notes of the first one were moved aside, and tell of no run that is there.
    assert place.index().named("july") == []
    assert place.index().named("may") == [run]
    assert place.index().named("") == []


def test_a_name_in_two_files_of_notes_is_one_run(place: Place, tmp_path: Path) -> None:
    run = place.run("a")
    place.store.update(run, naming("july"))
    run.rename(tmp_path / "first")
    place.run("a", "another")
    place.store.update(run, naming("July"))
    assert place.index().named("july") == [run]
    (tmp_path / "first").replace(run)
    assert place.index().named("july") == [run]


def test_a_name_given_before_the_first_line_stays(place: Place) -> None:
    run = place.runs / "a.json"
    run.touch()
    place.store.update(run, naming("july"))
    place.run("a")
    assert place.index().named("july") == [run]


def test_what_is_known_of_runs_that_are_gone_is_cut_from_the_cache(place: Place) -> None:
    place.store.update(place.run("a"), starring(on=True))
    sizes: list[int] = []
    for number in range(9):
        other = place.runs.parent / f"other{number}"
        other.mkdir()
        path = other / "a.json"
        path.write_text("{}\n")
        index = place.index()
        assert not index.kept(RunSummary("a", str(path), size=3))
        index.save()
        sizes.append((place.cache / "notes.cache").stat().st_size)
        path.unlink()
    assert sizes[1:] == [sizes[1]] * 8


def test_a_renamed_run_has_its_notes_by_its_first_line_and_without_one_those_of_nobody(place: Place) -> None:
    empty = place.runs / "empty.json"
    empty.write_bytes(b"")
    place.store.update(empty, naming("nothing yet"))
    run = place.run("a")
    place.store.update(run, starring(on=True))
    moved = run.rename(place.runs / "b.json")
    index = place.index(cached=False)
    assert index.kept(RunSummary("b", str(moved), problems=("E_FOREIGN_RUN",))).star
    gone = RunSummary("gone", str(place.runs / "gone.json"), problems=("E_FOREIGN_RUN",))
    assert not index.kept(gone)
