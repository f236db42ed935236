"""`refold trash`, `restore` and `prune` as people and scripts use them."""

from __future__ import annotations

import errno
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.test_app_fork_cli import keys_in_readme, made
from tests.test_app_fork_cli import refold as refold
from tests.test_app_fork_cli import runs as runs
from tests.test_core_trash import without_changes

from refold.app import demo
from refold.app.cli import main
from refold.core.keeping import TRASH
from refold.core.store.lock import RunLock
from refold.core.store.notes import NotesStore
from refold.core.trash import DELETING

DAY = 86_400


@pytest.fixture
def at(refold: Any, runs: Path) -> Any:
    for number, name in enumerate(("new", "old", "older")):
        moment = time.time() - number * 40 * DAY
        os.utime(made(runs, name), (moment, moment))
    return lambda *words: refold("--only", "--root", runs, *words)


def names(runs: Path) -> set[str]:
    return {path.name for path in runs.iterdir()}


def test_to_the_trash_and_back(at: Any, runs: Path, project: Path) -> None:
    before = without_changes(runs)
    plan = at("trash", "old", "--plan", "--json")
    assert plan.code == 0
    first, second = (at("trash", "old", "--plan").out for _ in range(2))
    assert first == second, "what each plan makes up anew is not promised"
    assert "/.refold-trash\n" in first
    assert without_changes(runs) == before
    answer = at("trash", "old", "--json").row
    assert set(answer) - {"moved", "error"} == set(plan.row)
    assert set(plan.row) <= keys_in_readme(project, "json trash") | {"id", "path"}
    assert (answer["moved"], answer["error"]) == (True, None)
    assert names(runs) == {"new.json", "older.json", TRASH}
    assert [row["id"] for row in at("ls", "--json").rows] == ["new", "older"]
    (entry,) = at("trash", "--list", "--json").rows
    assert (entry["id"], entry["state"], entry["home"]) == ("old", "whole", str(runs / "old.json"))
    assert entry["kept_until"] > entry["time"]
    assert "kept until" in at("trash", "--list").out
    assert f"{entry['time'][11:16]} UTC" in at("trash", "--list").out
    assert at("restore").out == at("trash", "--list").out
    assert at("restore", "ol").out == f"old is back: {runs / 'old.json'}\n"
    assert without_changes(runs) == before
    assert "empty" in at("trash", "--list").err
    assert at("restore", "old").code == 3


def test_a_held_run_stays_and_keeps_none_back(at: Any, runs: Path) -> None:
    lock = RunLock.take(runs / "old.lock")
    try:
        assert at("trash", "old", "--plan").code == 1
        answer = at("trash", "old", "new", "--json")
    finally:
        lock.release()
    assert answer.code == 1
    assert [row["moved"] for row in answer.rows] == [False, True]
    assert "holds it" in answer.rows[0]["error"]
    assert names(runs) == {"old.json", "old.lock", "older.json", TRASH}


def test_two_of_one_id_are_told_apart(at: Any, runs: Path) -> None:
    at("trash", "old")
    made(runs, "old")
    at("trash", "old")
    answer = at("restore", "old")
    assert answer.code == 3
    assert "names 2 in the trash: old." in answer.err
    first = at("trash", "--list", "--json").rows[0]["name"]
    assert at("restore", first).code == 0
    assert at("restore", "old").code == 1
    assert "something lies there now" in at("restore", "old").err


def test_a_prune_says_so_first(at: Any, runs: Path, project: Path) -> None:
    at("star", "older")
    before = without_changes(runs)
    answer = at("prune", "--older-than", "30d")
    assert "older  spared: it is starred" in answer.out
    assert answer.out.startswith("old  suspended")
    assert "nothing was moved" in answer.err
    assert without_changes(runs) == before
    row = at("prune", "--older-than", "30d", "--no-keep-starred", "--json").row
    assert set(row) == keys_in_readme(project, "json prune")
    assert [run["id"] for run in row["runs"]] == ["older", "old"]
    assert row["done"] is False
    assert row["bytes"] == sum((runs / f"{name}.json").stat().st_size for name in ("old", "older"))
    done = at("prune", "--older-than", "30d", "--yes", "--json").row
    assert [run["moved"] for run in done["runs"]] == [True]
    assert names(runs) == {"new.json", "older.json", TRASH}


def test_a_prune_spares_what_is_noted_and_takes_words_of_a_filter(at: Any, runs: Path) -> None:
    at("tag", "old", "x")
    assert [run["id"] for run in at("prune", "old", "--json").row["runs"]] == ["older"]
    assert [run["id"] for run in at("prune", "old", "--with-notes", "--json").row["runs"]] == ["older", "old"]
    assert [run["id"] for run in at("prune", "-old", "--json").row["runs"]] == ["new"]
    assert at("prune", "--status", "completed", "--json").row["runs"] == []
    assert at("prune", "--larger-than", "1GB", "--json").row["runs"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("prune",), "all of them is no rule"),
        (("prune", "--yes"), "all of them is no rule"),
        (("prune", "--older-than", "soon"), "'soon' is no length of time"),
        (("prune", "--larger-than", "much"), "'much' is no size"),
        (("prune", "--status", "dead"), "no status begins with"),
        (("trash",), "name the runs"),
        (("trash", "gone"), "no run 'gone'"),
    ],
)
def test_what_is_no_rule_moves_nothing(words: tuple[str, ...], said: str, at: Any, runs: Path) -> None:
    answer = at(*words)
    assert answer.code in {2, 3}
    assert said in answer.err
    assert names(runs) == {"new.json", "old.json", "older.json"}


def test_the_trash_is_emptied_when_it_is_said(at: Any, runs: Path, tmp_path: Path) -> None:
    at("note", "old", "why")
    at("trash", "old")
    assert at("prune", "--trash", "--json").row == {
        "done": False,
        "bytes": 0,
        "entries": [],
        "leftovers": [],
    }
    answer = at("prune", "--trash", "--older-than", "0s", "--json").row
    assert [entry["id"] for entry in answer["entries"]] == ["old"]
    assert names(runs) == {"new.json", "older.json", TRASH}
    notes = NotesStore(tmp_path / "state" / "refold" / "notes")
    assert len(list(notes.each())) == 1
    assert at("prune", "--trash", "--older-than", "0s", "--yes").code == 0
    assert names(runs) == {"new.json", "older.json"}
    assert not list(notes.each())


def test_what_a_kill_left_is_swept_with_the_trash(at: Any, runs: Path) -> None:
    left = runs / TRASH / "gone.0a0b0c0d"
    left.mkdir(parents=True)
    (left / "refold-trash.json").write_text("{}")
    assert at("trash", "--list", "--json").rows == []
    assert at("prune", "--trash", "--yes").code == 0
    assert left.exists()
    os.utime(left, (0, 0))
    plan = at("prune", "--trash", "--json").row
    assert plan["leftovers"] == [{"path": str(left), "deleted": False, "error": None}]
    assert f"{left}  left behind" in at("prune", "--trash").out
    assert left.exists()
    assert at("prune", "--trash", "--yes").code == 0
    assert not left.exists()


def test_a_deletion_that_failed_is_not_claimed(at: Any, runs: Path) -> None:
    at("trash", "old", "older")
    sizes = {entry["id"]: entry["bytes"] for entry in at("trash", "--list", "--json").rows}
    (held,) = (runs / TRASH).glob("old.*")
    # The name that its deletion would give it is taken: renaming onto a file is refused to everybody.
    (runs / TRASH / f"{DELETING}{held.name}").write_text("")
    answer = at("prune", "--trash", "--older-than", "0s", "--yes", "--json")
    assert answer.code == 1
    said = {entry["id"]: entry for entry in answer.row["entries"]}
    assert {name: entry["deleted"] for name, entry in said.items()} == {"old": False, "older": True}
    assert "could not be deleted" in said["old"]["error"]
    assert said["older"]["error"] is None
    assert answer.row["bytes"] == sizes["older"]
    assert held.exists()
    again = at("prune", "--trash", "--older-than", "0s", "--yes")
    assert again.code == 1
    assert "stays" in again.out
    assert "0 runs, 0 B, deleted for good" in again.err


def test_a_run_elsewhere_is_said_where_to_look_for(at: Any, runs: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    run = made(tmp_path / "elsewhere", "far")
    assert f"refold restore far --root {run.parent}" in at("trash", str(run)).out
    assert at("restore", "far", "--root", run.parent).code == 0
    at("trash", "old", "older")
    assert len(at("restore", "old.", "older", "--json").rows) == 2


def test_the_doctor_knows_the_trash(at: Any, runs: Path) -> None:
    at("note", "old", "why")
    at("trash", "old")
    said = {check["area"]: check["message"] for check in at("doctor", "--json").row["checks"]}
    assert "1 run in the trash" in said["trash"]
    assert "gone" not in said["notes"]
    (moved,) = (runs / TRASH).iterdir()
    (moved / "old.json").rename(moved / "other")
    checks = at("doctor", "--json").row["checks"]
    assert any(check["area"] == "trash" and check["level"] == "warning" for check in checks)


def test_what_lies_in_the_trash_is_never_listed(at: Any, runs: Path, tmp_path: Path) -> None:
    at("trash", "old", "older", "new")
    assert at("ls", "--json").rows == []
    assert "1 other file" not in at("ls").err
    assert names(runs) == {TRASH}


@pytest.mark.parametrize(
    ("number", "what", "remedy"),
    [
        (errno.EACCES, "Permission denied", "check the owner and mode"),
        (errno.EMFILE, "Too many open files", "how many files are open"),
    ],
    ids=["a mode", "no descriptor"],
)
def test_a_trash_that_cannot_be_looked_into_is_said(
    at: Any, runs: Path, monkeypatch: pytest.MonkeyPatch, number: int, what: str, remedy: str
) -> None:
    at("trash", "old")
    listdir = os.listdir

    def refusing(path: Any = ".") -> list[str]:
        if os.fspath(path).endswith(TRASH):
            raise OSError(number, os.strerror(number), path)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", refusing)
    listed = at("trash", "--list").out
    assert "cannot be looked into" in listed
    assert remedy in listed
    for words in (("restore", "old"), ("prune", "--trash"), ("prune", "--trash", "--yes")):
        answer = at(*words)
        assert answer.code != 0
        assert what in answer.err
        assert remedy in answer.err
    assert remedy in at("doctor").out


def test_what_stopped_with_a_call_that_may_have_run_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """However it stopped, the run alone says that the call may have run."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    demo.make(tmp_path, datetime(2026, 7, 24, 12, 0, tzinfo=UTC))
    warned = "in flight: only this run says that it may have run"
    for run, tool in (("index-photos", "tag"), ("fix-date-parser -fork:yes", "replace_text")):
        assert main(["prune", "--larger-than", "1", *run.split()]) == 0
        assert f"it stopped with {tool} {warned}" in capsys.readouterr().out, run
    for run in ("crawl-docs", "translate-strings"):
        assert main(["prune", "--larger-than", "1", *run.split()]) == 0
        assert warned not in capsys.readouterr().out, run
