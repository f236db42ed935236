"""Which run a text means: a path, an id, the beginning of one; and what is said where it means none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.terminal.program import without_privileges

from refold.core.errors import AmbiguousRun, InvalidRunId, RefoldError, RunNotFound
from refold.core.store.kept import index_of
from refold.core.store.resolve import resolve
from refold.core.store.roots import Root


@pytest.fixture
def roots(tmp_path: Path) -> list[Root]:
    names = {"one": ["alpha", "alphabet", "beta", "-rf", "gamma.notes"], "two": ["beta", "delta", "alphorn"]}
    for directory, ids in names.items():
        (tmp_path / directory).mkdir()
        for run_id in ids:
            (tmp_path / directory / f"{run_id}.json").write_bytes(b"")
    (tmp_path / "one" / "epsilon.lock").write_bytes(b"")
    return [Root(tmp_path / name, "refold", "--root") for name in ("one", "two", "missing")]


def test_an_exact_id_wins_over_a_longer_one(roots: list[Root]) -> None:
    assert resolve("alpha", roots) == roots[0].path / "alpha.json"


@pytest.mark.parametrize(
    ("prefix", "name"), [("alphab", "alphabet"), ("d", "delta"), ("alpho", "alphorn"), ("delta", "delta")]
)
def test_the_beginning_of_one_id_is_enough(roots: list[Root], prefix: str, name: str) -> None:
    assert resolve(prefix, roots).name == f"{name}.json"


def test_the_beginning_of_several_lists_them(roots: list[Root]) -> None:
    with pytest.raises(AmbiguousRun, match=r"'alp' names 3 runs: alpha, alphabet, alphorn") as caught:
        resolve("alp", roots)
    assert caught.value.candidates == ("alpha", "alphabet", "alphorn")
    assert caught.value.remedy


def test_an_id_in_two_directories_lists_their_paths(roots: list[Root]) -> None:
    paths = tuple(str(root.path / "beta.json") for root in roots[:2])
    for text in ("beta", "b"):
        with pytest.raises(AmbiguousRun) as caught:
            resolve(text, roots)
        assert caught.value.candidates == paths


def test_many_candidates_are_all_there_and_not_all_printed(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"run-{number}.json").write_bytes(b"")
    with pytest.raises(AmbiguousRun, match="and 92 more") as caught:
        resolve("run", [Root(tmp_path, "refold", "--root")])
    assert len(caught.value.candidates) == 100
    assert len(str(caught.value)) < 300


def test_what_is_not_there_says_where_it_looked(roots: list[Root]) -> None:
    with pytest.raises(RunNotFound) as caught:
        resolve("omega", roots)
    assert str(caught.value).startswith("no run 'omega'; looked in ")
    assert f"{roots[2].path} (missing)" in str(caught.value)
    assert caught.value.remedy
    with pytest.raises(RunNotFound, match="no directory at all"):
        resolve("omega", [])


def test_a_lock_file_and_a_side_file_are_no_runs(roots: list[Root]) -> None:
    for text in ("epsilon", "gamma"):
        with pytest.raises(RunNotFound):
            resolve(text, roots)


def test_one_directory_under_two_names_is_one(roots: list[Root], tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(roots[0].path)
    twice = [roots[0], Root(tmp_path / "link", "refold", "--root"), Root(roots[0].path, "fisk-ai", "config")]
    assert resolve("beta", twice) == roots[0].path / "beta.json"


def test_a_path_is_a_path(roots: list[Root], monkeypatch: pytest.MonkeyPatch) -> None:
    path = roots[0].path / "alpha.json"
    assert resolve(str(path), []) == path
    assert resolve(str(roots[0].path / "gamma.notes.json"), []).name == "gamma.notes.json"
    monkeypatch.chdir(roots[0].path)
    assert resolve("./alpha.json", []) == Path("alpha.json")
    assert resolve("alpha.json", []) == Path("alpha.json")
    assert resolve("-rf.json", []) == Path("-rf.json")


def test_a_link_is_named_as_it_is_spelled(roots: list[Root], tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "nowhere")
    assert resolve(str(tmp_path / "link.json"), roots) == tmp_path / "link.json"


def test_a_path_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound, match="no such file"):
        resolve(str(tmp_path / "nothing.json"), [])
    with pytest.raises(RunNotFound):
        resolve(str(tmp_path / ("x" * 5000)), [])
    with pytest.raises(RunNotFound):
        resolve("a/\0b", [])


@pytest.mark.parametrize(
    "text", ["", ".", "..", "-rf", "a%2fb", "a b", "x" * 129, "é", "a\n", "a\0", "\ud800", "*"]
)
def test_what_is_no_id_never_becomes_part_of_a_path(
    roots: list[Root], monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(os, "scandir", lambda _path: pytest.fail("a directory was read"))
    monkeypatch.setattr(os, "lstat", lambda _path: pytest.fail("a path was made"))
    with pytest.raises(InvalidRunId):
        resolve(text, roots)


@pytest.mark.parametrize("text", ["missing.zip", "alpha.json", "a b.refold-bundle", "~", "x.jsonl"])
def test_what_is_called_like_a_file_is_said_to_be_none(roots: list[Root], text: str) -> None:
    with pytest.raises(RunNotFound, match=f"no such file: '{text}', and no run is called so") as caught:
        resolve(text, roots)
    assert ("did you mean the run 'alpha'?" in str(caught.value)) == (text == "alpha.json")


def test_what_can_only_be_a_name_is_said_to_be_none(roots: list[Root], tmp_path: Path) -> None:
    index = index_of(tmp_path / "notes", None)
    with pytest.raises(RunNotFound, match="no run has the name 'july sweep'"):
        resolve("july sweep", roots, lambda: index)
    for text in ("a\x1b[2J.zip", "-rf", ""):
        with pytest.raises(InvalidRunId):
            resolve(text, roots, lambda: index)


@given(st.text(max_size=20))
@example("/")
def test_any_text_gives_a_run_or_a_reason(text: str) -> None:
    root = Root(Path(__file__).parent / "data" / "fisk-ai" / "v3", "fisk-ai", "--root")
    said = ""
    try:
        found = resolve(text, [root])
    except RefoldError as error:
        said = str(error)
    else:
        said = str(found)
    assert said
    assert said.isprintable()


def test_a_directory_that_may_not_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    script = (
        "import sys; from pathlib import Path; from refold.core.store.resolve import resolve\n"
        "from refold.core.store.roots import Root\n"
        "try: resolve('run', [Root(Path(sys.argv[1]), 'refold', '--root')])\n"
        "except Exception as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "closed")],
        preexec_fn=without_privileges,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "(not permitted)" in done.stdout


@pytest.fixture
def directories(tmp_path: Path) -> list[Root]:
    """Runs that are directories, one of them with a journal of its name beside it, one with nested runs."""
    store = tmp_path / "rivumi"
    for name in ("0af3", "0af4", "fork-9", "named.run", "0af3/subagents/scout1", "fork-9/subagents/scout1"):
        (store / name).mkdir(parents=True)
        (store / name / "session.json").write_bytes(b"{}")
    (store / "0af3" / "events.jsonl").write_bytes(b"")
    (store / "nothing").mkdir()
    (store / "fork-9.json").write_bytes(b"")
    (store / "link").symlink_to("0af4")
    return [Root(store, "rivumi", "default")]


@pytest.mark.parametrize(
    ("text", "name"),
    [("0af3", "0af3"), ("0af4", "0af4"), ("named.run", "named.run"), ("li", "link")],
)
def test_a_run_directory_is_found_by_its_name(directories: list[Root], text: str, name: str) -> None:
    assert resolve(text, directories) == directories[0].path / name


def test_a_directory_and_a_journal_of_one_name_are_two_runs(directories: list[Root]) -> None:
    store = directories[0].path
    with pytest.raises(AmbiguousRun) as caught:
        resolve("fork-9", directories)
    assert set(caught.value.candidates) == {str(store / "fork-9"), str(store / "fork-9.json")}
    with pytest.raises(AmbiguousRun) as caught:
        resolve("0a", directories)
    assert caught.value.candidates == ("0af3", "0af4")


@pytest.mark.parametrize("name", ["session.json", "events.jsonl", ""])
def test_a_file_in_a_run_directory_names_the_run(
    directories: list[Root], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = directories[0].path / "0af3"
    assert resolve(f"{run}/{name}", []) == run
    monkeypatch.chdir(run)
    assert resolve(name or ".", []) == run
    assert resolve(f"./{name}", []) == run


def test_nested_runs_are_found_last(directories: list[Root]) -> None:
    store = directories[0].path
    with pytest.raises(AmbiguousRun) as caught:
        resolve("scout1", directories)
    assert set(caught.value.candidates) == {
        str(store / parent / "subagents" / "scout1") for parent in ("0af3", "fork-9")
    }
    (store / "fork-9" / "subagents" / "scout1" / "session.json").unlink()
    assert resolve("scout1", directories) == store / "0af3" / "subagents" / "scout1"


def test_runs_nested_in_nested_runs_are_found(directories: list[Root]) -> None:
    store = directories[0].path
    deep = store / "0af3" / "subagents" / "scout1" / "subagents" / "scout2" / "subagents" / "scout3"
    deep.mkdir(parents=True)
    (deep / "session.json").write_text("{}")
    assert resolve("scout3", directories) == deep


@pytest.mark.parametrize("text", ["nothing", "..", "0af5", "named.", "a\0b"])
def test_what_is_no_run_directory_is_not_found(directories: list[Root], text: str) -> None:
    with pytest.raises(RefoldError):
        resolve(text, directories)
