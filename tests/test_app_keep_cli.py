"""`refold note`, `tag`, `star` and `name` as people and scripts use them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.test_app_fork_cli import made
from tests.test_app_fork_cli import refold as refold
from tests.test_app_fork_cli import runs as runs
from tests.test_readonly import picture

from refold.core.store.keep import naming
from refold.core.store.notes import NotesStore

KEYS = ["id", "path", "star", "tags", "name", "note", "records"]


@pytest.fixture
def at(refold: Any, runs: Path) -> Any:
    made(runs, "alpha")
    made(runs, "beta")
    return lambda *words: refold("--only", "--root", runs, *words)


def test_everything_that_can_be_kept(at: Any, runs: Path) -> None:
    before = picture(runs)
    assert at("note", "alpha").out == "alpha  nothing is noted\n"
    assert at("star", "alpha", "beta", "--json").rows[1]["star"] is True
    assert at("star", "beta", "--off").out == "beta  nothing is noted\n"
    assert at("name", "alpha", "july", "sweep").code == 0
    assert at("tag", "july sweep", "+bug", "two", "-nothing").code == 0
    assert at("tag", "alpha", "-TWO", "--json").row["tags"] == ["bug"]
    assert at("note", "july sweep@3", "went wrong", "here").code == 0
    answer = at("note", "alpha", "waits", "--json").row
    assert list(answer) == KEYS
    assert answer["records"] == [{"seq": 3, "note": "went wrong here", "state": "same"}]
    assert at("note", "alpha@3").out == "  ▪ 3  went wrong here\n"
    assert picture(runs) == before
    (row,) = at("ls", "--json", "star:yes", "tag:bug", "note:waits", "name:july").rows
    assert (row["id"], row["star"], row["tags"], row["name"], row["note"], row["noted_records"]) == (
        "alpha", True, ["bug"], "july sweep", "waits", 1,
    )  # fmt: skip
    assert [row["id"] for row in at("ls", "--json", "-star:yes").rows] == ["beta"]
    assert [row["id"] for row in at("ls", "--json", "tag:no").rows] == ["beta"]
    assert [row["id"] for row in at("ls", "--json", "sweep").rows] == ["alpha"]
    assert "* july sweep ▪" in at("ls").out
    for words in (("note", "alpha"), ("note", "alpha@3"), ("tag", "alpha"), ("name", "alpha")):
        assert at(*words, "--clear").code == 0
    assert at("name", "alpha").out == "alpha  * starred\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tag", "alpha", "a\x1b[31m"), "no escape"),
        (("name", "alpha", "x" * 10_000), "at most 100"),
        (("name", "alpha", "a/b"), "no / in it"),
        (("note", "alpha", "a\x9bb"), "no U+009B"),
        (("note", "alpha", "a", "--clear"), "leave out"),
        (("note", "alpha@99", "a"), "no record has seq 99"),
        (("star", "gamma"), "no run 'gamma'"),
    ],
)
def test_what_cannot_be_kept_is_said_and_changes_nothing(words: tuple[str, ...], said: str, at: Any) -> None:
    answer = at(*words)
    assert answer.code in {2, 3}
    assert said in answer.err
    assert "\x1b" not in answer.err
    assert at("note", "alpha").out == "alpha  nothing is noted\n"


def test_a_record_that_changed_is_said(at: Any, runs: Path) -> None:
    at("note", "alpha@3", "here")
    at("note", "alpha@14", "gone")
    lines = (runs / "alpha.json").read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b",", b", ", 1)
    (runs / "alpha.json").write_bytes(b"".join(lines[:13]))
    answer = at("note", "alpha", "--json").row
    assert [record["state"] for record in answer["records"]] == ["changed", "missing"]
    assert "the record has changed: here" in at("note", "alpha").out


def test_an_id_goes_before_a_name_and_two_of_a_name_are_listed(at: Any, runs: Path, tmp_path: Path) -> None:
    at("name", "alpha", "beta")
    assert at("note", "beta", "--json").row["id"] == "beta"
    at("name", "alpha", "same")
    # As older notes may hold it: today a second one is refused.
    NotesStore(tmp_path / "state" / "refold" / "notes").update(runs / "beta.json", naming("Same"))
    answer = at("show", "same")
    assert answer.code == 3
    assert "names 2 runs: alpha, beta" in answer.err
    at("name", "beta", "al")
    assert at("note", "al", "--json").row["id"] == "beta"


def test_a_run_that_was_moved_and_renamed_is_found_by_its_name_or_said_to_be_gone(
    at: Any, runs: Path, tmp_path: Path
) -> None:
    at("name", "alpha", "july sweep")
    (tmp_path / "away").mkdir()
    moved = (runs / "alpha.json").rename(tmp_path / "away" / "omega.json")
    lost = at("show", "july sweep")
    assert lost.code == 3
    assert f"the run named 'july sweep' lies no longer at {runs / 'alpha.json'}" in lost.err
    assert "--root" in lost.err
    there = ("--root", str(moved.parent))
    assert at(*there, "note", "july sweep", "--json").row["id"] == "omega"
    assert [row["name"] for row in at(*there, "ls", "--json").rows if row["id"] == "omega"] == ["july sweep"]
    at(*there, "tag", "july sweep", "+bug")
    assert at("note", "july sweep", "--json").row["id"] == "omega"
    (tmp_path / "away" / "omega.json").rename(runs / "omega.json")
    assert at("note", "july sweep", "--json").row["tags"] == ["bug"]


def test_the_id_that_a_renamed_run_had_says_where_it_is(at: Any, runs: Path) -> None:
    (runs / "alpha.json").rename(runs / "omega.json")
    lost = at("show", "alpha")
    assert lost.code == 3
    assert f"no run is called 'alpha' now; {runs / 'omega.json'} says that it was" in lost.err


def test_a_name_is_said_wherever_its_run_is_a_row(at: Any, runs: Path) -> None:
    (named, *_) = sorted(path.stem for path in runs.glob("*.json"))
    assert at("name", named, "billing sweep").code == 0
    (row,) = [row for row in at("lineage", named, "--json").rows if row["id"] == named]
    assert row["name"] == "billing sweep"
    assert f"{named}  billing sweep" in at("lineage", named).out
    hits = [row for row in at("search", "ledger", "--json").rows if row["id"] == named]
    assert hits
    assert {hit["name"] for hit in hits} == {"billing sweep"}
    assert "  billing sweep  " in at("search", "ledger").out
    assert at("trash", named).code == 0
    # Another run at its place has another name, and takes none from it.
    made(runs, named, prompt="another one")
    at("name", named, "another")
    (entry,) = at("trash", "--list", "--json").rows
    assert (entry["id"], entry["called"]) == (named, "billing sweep")
    assert "billing sweep" in at("trash", "--list").out
    (runs / f"{named}.json").unlink()
    assert at("restore", "Billing SWEEP").code == 0
    assert at("ls", "name:billing", "--json").row["id"] == named


def test_newer_notes_are_left_alone(at: Any, runs: Path, tmp_path: Path) -> None:
    at("star", "alpha")
    file = NotesStore(tmp_path / "state" / "refold" / "notes").path_of(runs / "alpha.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "version": 99}))
    before = file.read_bytes()
    answer = at("tag", "alpha", "x")
    assert answer.code == 1
    assert "a newer Refold wrote these notes" in answer.err
    assert "notes of a newer Refold" in at("note", "alpha").err
    assert file.read_bytes() == before
    assert at("ls").code == 0


def test_notes_that_cannot_be_read_are_said_by_commands_and_the_doctor(
    at: Any, runs: Path, tmp_path: Path
) -> None:
    at("star", "alpha")
    file = NotesStore(tmp_path / "state" / "refold" / "notes").path_of(runs / "alpha.json")
    file.write_bytes(b"\xff")
    assert "nothing in them can be read" in at("note", "alpha").err
    assert f"{file}: the notes are damaged" in at("doctor").out
    assert "put aside" in at("star", "alpha").err
    assert at("note", "alpha").err == ""


def test_a_name_that_finds_another_run_or_several_is_said(at: Any) -> None:
    refused = at("name", "alpha", "beta")
    assert refused.code == 2
    assert "beta is the id of another run, and an id goes before a name" in refused.err
    assert at("name", "alpha", " beta ").code == 2
    assert "nothing is noted" in at("name", "alpha").out
    assert "bet also begins the id beta: a name goes first" in at("name", "alpha", "bet").err
    assert at("note", "bet", "--json").row["id"] == "alpha"
    assert at("name", "alpha", "alpha").err == ""
    assert at("name", "alpha", "same").err == ""
    assert "beta" not in at("name", "alpha", "same").err


def test_no_two_runs_have_one_name(at: Any) -> None:
    assert at("name", "alpha", "same").code == 0
    taken = at("name", "beta", "Same")
    assert taken.code == 2
    assert "Same is the name of alpha, and a name finds one run" in taken.err
    assert at("note", "same", "--json").row["id"] == "alpha"
    assert at("name", "alpha", "--clear").code == 0
    assert at("name", "beta", "Same").code == 0
    assert at("note", "same", "--json").row["id"] == "beta"


@pytest.mark.parametrize("command", ["name", "note"])
def test_an_empty_text_is_refused_with_the_way_to_take_one_away(command: str, at: Any) -> None:
    answer = at(command, "alpha", "")
    assert answer.code == 2
    assert "--clear" in answer.err
