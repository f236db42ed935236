"""`refold fork`, `salvage`, `repair` and `lineage` as scripts use them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import generate
from tests.damage import damage
from tests.terminal.program import environment
from tests.terminal.program import refold as program

from refold.app.cli import main
from refold.app.settings import load
from refold.core.journal_text import fold_bytes
from refold.core.store.lock import RunLock
from refold.core.store.notes import NotesStore

REFOLD = (sys.executable, "-c", "import sys; from refold.app.cli import main; sys.exit(main())")
FORK_KEYS = ["id", "path", "parent", "seq"]


class Answer:
    """What a command left behind."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def row(self) -> dict[str, Any]:
        (line,) = self.out.splitlines()
        found: dict[str, Any] = json.loads(line)
        return found

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def refold(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(*arguments: str | Path) -> Answer:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    directory = tmp_path / "runs"
    directory.mkdir()
    return directory


def made(directory: Path, name: str = "parent", style: generate.Style = "native", **more: Any) -> Path:
    path = directory / f"{name}.json"
    generate.write(path, generate.journal(records=14, style=style, run_id=name, ending="suspended", **more))
    return path


def keys_in_readme(project: Path, marker: str) -> set[str]:
    readme = (project / "README.md").read_text()
    after = readme.partition(f"<!-- {marker} -->")[2].partition("<!--")[0].partition("\n#")[0]
    return set(re.findall(r"^\| `(\w+)` \|", after, re.MULTILINE))


# fork


def test_a_fork_as_json(refold: Any, runs: Path, project: Path) -> None:
    path = made(runs)
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    answer = refold("fork", path, "--at", "5", "--name", "second-try", "--reason", "why not", "--json")
    assert answer.code == 0
    assert list(answer.row) == FORK_KEYS
    assert set(answer.row) == keys_in_readme(project, "json fork")
    child = Path(answer.row["path"])
    assert answer.row == {"id": "second-try", "path": str(child), "parent": "parent", "seq": 5}
    assert child == runs / "second-try.json"
    assert child.read_bytes().split(b"\n")[1:] == [*before[0].split(b"\n")[1:5], b""]
    origin = json.loads(child.read_bytes().split(b"\n")[0])["meta"]["forked_from"]
    assert (origin["run_id"], origin["seq"], origin["reason"]) == ("parent", 5, "why not")
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert answer.err == ""


def test_a_fork_in_words(refold: Any, runs: Path) -> None:
    path = made(runs)
    answer = refold("fork", path)
    assert answer.code == 0
    assert "parent after seq 14, the last legal point" in answer.out
    (child,) = [file for file in runs.iterdir() if file != path]
    assert child.stem == "parent-2"
    assert str(child) in answer.out
    lines = path.read_bytes().split(b"\n")
    calls = next(at for at, line in enumerate(lines) if b'"tool_use"' in line and b".assistant" in line)
    answer = refold("fork", f"{path}@{calls + 1}", "--name", "inside")
    assert answer.code == 0
    assert "pending: " in answer.out
    assert fold_bytes((runs / "inside.json").read_bytes()).pending is not None


def test_a_prompt_becomes_a_user_record(refold: Any, runs: Path) -> None:
    for style in generate.STYLES:
        path = made(runs, f"parent-{style}", style)
        answer = refold("fork", path, "--name", style, "--prompt", "try the other queue \N{SNOWMAN} <b>")
        assert answer.code == 0, answer.err
        state = fold_bytes((runs / f"{style}.json").read_bytes())
        assert "try the other queue ☃ <b>" in json.dumps(
            list(state.messages[-1].content or ()), ensure_ascii=False
        )
        assert state.last_seq == fold_bytes(path.read_bytes()).last_seq + 1


def test_the_plan_of_a_fork(refold: Any, runs: Path, project: Path) -> None:
    path = made(runs)
    answer = refold("fork", path, "--at", "5", "--name", "child", "--plan", "--json")
    assert answer.code == 0
    assert set(answer.row) == keys_in_readme(project, "json fork --plan")
    assert (answer.row["outcome"], answer.row["reasons"], answer.row["seq"]) == ("accept", [], 5)
    assert answer.row["comes"] + answer.row["stays"] == 14
    words = refold("fork", path, "--at", "14", "--plan", "--prompt", "a\x1b[31mb", "--reason", "\x07")
    assert "comes along   14 records" in words.out
    assert "prompt        a" in words.out
    assert "not restored" in words.out
    assert "\x1b" not in words.out
    assert [file.name for file in runs.iterdir()] == ["parent.json"]


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["--at", "14", "--name", "parent"], "same_id", "an id of its own"),
        (["--at", "14", "--name", "taken"], "exists", "already there"),
        (["--at", "3", "--prompt", "x"], "prompt_pending", "calls are open"),
        (["--at", "#20"], "damaged", "damaged"),
        (["--at", "15"], "completed", "completed here"),
        (["--at", "16"], "corrupt", "do not fold"),
    ],
)
def test_forks_that_are_refused(
    refold: Any, runs: Path, project: Path, arguments: list[str], code: str, why: str
) -> None:
    path = made(runs)
    data = path.read_bytes()
    lines = data.split(b"\n")
    assert b"tool_use" in lines[2]
    end = b'{"seq":15,"protocol":"refold.v1.session.terminal","terminal":{"reason":"completed"}}\n'
    more = lines[13].replace(b'"seq":14', b'"seq":16')
    path.write_bytes(data + end + b"\n\nnonsense\n\n" + b"nonsense\n" + more + b"\n")
    (runs / "taken.json").touch()
    if code == "damaged":
        arguments = ["--at", "#18"]
    before = {file: file.read_bytes() for file in runs.iterdir()}
    answer = refold("fork", path, *arguments, "--plan", "--json")
    assert answer.code == 1
    assert set(answer.row) == keys_in_readme(project, "json fork --plan")
    assert answer.row["outcome"] == "refuse"
    (reason,) = answer.row["reasons"]
    assert reason["code"] == code
    assert why in reason["message"]
    assert f"`{code}`" in (project / "README.md").read_text()
    for given in (["--plan"], []):
        words = refold("fork", path, *arguments, *given)
        assert words.code == 1
        assert why in words.err
        assert words.out == ""
    assert {file: file.read_bytes() for file in runs.iterdir()} == before


def test_a_plan_names_only_what_is_made_so_and_a_name_goes_on_in_a_fork(refold: Any, runs: Path) -> None:
    path = made(runs)
    path.write_bytes(damage("garbage-line", 1, path.read_bytes()))
    for command in (("fork", path, "--at", "1"), ("salvage", path)):
        assert "parent-2" in refold(*command, "--plan").out
    made(runs)
    assert refold("fork", path, "--at", "5", "--json").row["id"] == "parent-2"
    sorted_by_time = runs / "3MqGT45w9QhVAxv4SGKRdE66WHD.json"
    sorted_by_time.write_bytes(path.read_bytes().replace(b"parent", b"3MqGT45w9QhVAxv4SGKRdE66WHD"))
    first, second = (refold("fork", sorted_by_time, "--at", "5", "--plan") for _ in range(2))
    assert first.code == 0, first.err
    assert first.out == second.out
    assert "an id of its own" in first.out
    sorted_by_time.write_bytes(damage("garbage-line", 1, sorted_by_time.read_bytes()))
    assert "a new run  would be made of" in refold("salvage", sorted_by_time, "--plan").out


def test_forks_that_are_made_at_the_same_time_all_get_an_id(runs: Path, tmp_path: Path) -> None:
    path = made(runs)
    command = program("fork", path, "--at", "5", "--json")
    started = [
        subprocess.Popen(command, env=environment(tmp_path), stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    said = [each.communicate(timeout=100)[0] for each in started]
    assert [each.returncode for each in started] == [0] * 6
    assert len({json.loads(out)["id"] for out in said}) == 6
    assert len(list(runs.glob("parent-*.json"))) == 6


def test_a_refused_prompt_names_the_points_between_turns(refold: Any, runs: Path) -> None:
    path = made(runs)
    words = refold("fork", path, "--at", "3", "--prompt", "x", "--plan")
    named = re.findall("seq ([0-9]+)", words.err)
    assert len(named) == 2, words.err
    after, before = map(int, named)
    assert before < 3 < after
    for at in range(before, after + 1):
        code = refold("fork", path, "--at", str(at), "--prompt", "x", "--plan").code
        assert code == (0 if at in (before, after) else 1), at


def test_places_and_names_that_are_none(refold: Any, runs: Path) -> None:
    path = made(runs)
    path.write_bytes(path.read_bytes().replace(b'"seq":7,', b'"seq":70,').replace(b'"seq":6,', b'"seq":6,'))
    absent = refold("fork", path, "--at", "7")
    assert absent.code == 3
    assert "its neighbours are 6 and 8" in absent.err
    assert refold("fork", path, "--at", "99", "--plan", "--json").code == 3
    assert refold("fork", path, "--at", "seven").code == 2
    for name in ("../x", "", "-x", "a b", "x" * 129, "é"):
        answer = refold("fork", path, f"--name={name}")
        assert (answer.code, answer.out) == (2, "")
        assert "--name: invalid run id" in answer.err
    assert refold("fork", runs / "missing.json").code == 3
    (runs / "empty.json").touch()
    empty = refold("fork", runs / "empty.json")
    assert empty.code == 1
    assert "no fork" in empty.err
    assert sorted(file.name for file in runs.iterdir()) == ["empty.json", "parent.json"]


def test_a_number_that_stands_twice(refold: Any, runs: Path) -> None:
    path = made(runs)
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:6], lines[5], *lines[6:]]))
    assert refold("fork", path, "--at", "6", "--name", "by-number").code == 0
    assert (runs / "by-number.json").read_bytes().count(b"\n") == 6
    assert refold("fork", path, "--at", "#6", "--name", "by-line").code == 0
    assert refold("fork", path, "--at", "#7", "--name", "second").code == 1


def test_a_foreign_fork_goes_on_in_its_directory(refold: Any, runs: Path) -> None:
    path = made(runs, style="fisk-ai-v3")
    answer = refold("fork", path, "--at", "5", "--name", "child", "--reason", "because", "--json")
    assert answer.code == 0
    child = Path(answer.row["path"])
    assert child.parent == runs
    noted = NotesStore(load().notes_dir).read(child)
    assert noted.forked_from is not None
    assert (noted.forked_from.run_id, noted.forked_from.reason) == ("parent", "because")
    assert b"forked_from" not in child.read_bytes()
    assert b"io.choria.fisk-ai.v1.session.meta" in child.read_bytes().split(b"\n")[0]


UNPRIVILEGED = """
import contextlib, os, sys
from refold.app.cli import main
# Everything is imported before the rights are given up: the interpreter itself may lie out of reach then.
with contextlib.redirect_stdout(open(os.devnull, "w")), contextlib.redirect_stderr(open(os.devnull, "w")):
    main(["fork", sys.argv[1], "--name", "first"])
    main(["repair", sys.argv[1], "--undo"])
    main(["fork", sys.argv[1], "--plan"])
os.unlink(os.path.join(os.path.dirname(sys.argv[1]), "first.json"))
os.chmod(os.path.dirname(sys.argv[1]), 0o555)
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
os.environ.update(HOME="/nonexistent", XDG_STATE_HOME="/nonexistent", XDG_CACHE_HOME="/nonexistent")
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize(
    ("words", "code"), [("fork RUN", 3), ("repair RUN --undo", 3), ("fork RUN --plan", 0)]
)
def test_where_nothing_can_be_written(runs: Path, tmp_path: Path, words: str, code: int) -> None:
    path = made(runs)
    path.chmod(0o644)
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_uid == os.getuid() and str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED, path, *words.replace("RUN", str(path)).split()],
        capture_output=True,
        text=True,
        check=False,
    )
    runs.chmod(0o755)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert ("ermission denied" in done.stderr) == (code == 3)
    assert [file.name for file in runs.iterdir() if file.suffix == ".json"] == ["parent.json"]


# salvage


def test_a_salvage(refold: Any, runs: Path, project: Path) -> None:
    path = runs / "parent.json"
    path.write_bytes(damage("garbage-line", 1, made(runs).read_bytes()))
    before = path.read_bytes()
    plan = refold("salvage", path, "--name", "good", "--plan", "--json")
    assert plan.code == 0
    shown = keys_in_readme(project, "json salvage")
    assert set(plan.row) == shown - {"damaged"} | {"outcome", "reasons"}
    words = refold("salvage", path, "--name", "good", "--plan")
    assert "would be made of 14 records of parent, up to seq 14" in words.out
    assert [file.name for file in runs.iterdir()] == ["parent.json"]

    answer = refold("salvage", path, "--name", "good", "--json")
    assert answer.code == 0
    assert set(answer.row) == shown
    assert (answer.row["path"], answer.row["damaged"]) == (str(runs / "good.json"), str(path))
    (left,) = answer.row["left_out"]
    assert before[left["start"] : left["end"]] in before.split(b"\n")
    assert not fold_bytes((runs / "good.json").read_bytes()).completed
    assert path.read_bytes() == before
    assert NotesStore(load().notes_dir).read(runs / "good.json").left_out

    words = refold("salvage", path, "--name", "again")
    assert re.search(r"^left out: 1\n  line \d+, bytes \d+ to \d+: E_BAD", words.out, re.MULTILINE)
    taken = refold("salvage", path, "--name", "again", "--plan", "--json")
    assert (taken.code, taken.row["reasons"][0]["code"]) == (1, "exists")
    assert refold("salvage", path, "--name", "again").code == 1


def test_salvages_that_are_refused(refold: Any, runs: Path, project: Path) -> None:
    path = made(runs)
    lines = path.read_bytes()
    cases = {
        "sound": lines,
        "no_meta": lines.partition(b"\n")[2],
        "newer": damage("newer", 1, lines) + b"x\n\n",
    }
    for code, data in cases.items():
        path.write_bytes(data)
        answer = refold("salvage", path, "--plan", "--json")
        assert answer.code == 1
        assert (answer.row["outcome"], answer.row["reasons"][0]["code"]) == ("refuse", code)
        assert set(answer.row) == keys_in_readme(project, "json salvage") - {"damaged"} | {
            "outcome",
            "reasons",
        }
        words = refold("salvage", path)
        assert (words.code, words.out) == (1, "")
        assert words.err.startswith("refold: ")
    assert refold("salvage", path, "--name", "../x").code == 2
    assert refold("salvage", runs / "missing.json").code == 3


# repair


def test_a_repair_and_back(refold: Any, runs: Path, project: Path) -> None:
    path = made(runs)
    whole = path.read_bytes()
    torn = whole + b'{"seq":15,"prot'
    path.write_bytes(torn)
    plan = refold("repair", path, "--plan", "--json")
    assert plan.code == 0
    assert set(plan.row) == keys_in_readme(project, "json repair") | {"outcome", "reasons"}
    side_file = f"parent.{len(whole)}.torn"
    expected = {
        "run": str(path),
        "path": str(path),
        "action": "cut",
        "code": "E_TORN_TAIL",
        "keep": len(whole),
        "torn_bytes": 15,
        "last_seq": 14,
        "side_file": side_file,
    }
    assert plan.row == {"outcome": "accept", "reasons": [], **expected}
    assert "15 bytes after seq 14 will be kept" in refold("repair", path, "--plan").out
    assert [file.name for file in runs.iterdir()] == ["parent.json"]
    assert path.read_bytes() == torn

    long_ago = 1_700_000_000_123_456_789
    os.utime(path, ns=(long_ago, long_ago))
    done = refold("repair", path, "--json")
    assert (done.code, done.row) == (0, expected)
    assert path.stat().st_mtime_ns != long_ago, "a repair is a change"
    assert path.read_bytes() == whole
    assert (runs / side_file).read_bytes() == b'{"seq":15,"prot'
    again = refold("repair", path)
    assert (again.code, again.out) == (0, "parent.json: the end is clean, nothing to repair\n")
    assert f"refold verify {path} looks at every record" in again.err

    back = refold("repair", path, "--undo", "--json")
    assert back.code == 0
    assert (back.row["action"], back.row["torn_bytes"], back.row["side_file"]) == ("undo", 15, side_file)
    assert path.read_bytes() == torn
    assert path.stat().st_mtime_ns == long_ago, "as if nothing had been"
    assert sorted(file.name for file in runs.iterdir()) == ["parent.json", "parent.lock"]
    assert NotesStore(load().notes_dir).read(path).repair is None
    nothing = refold("repair", path, "--undo")
    assert nothing.code == 1
    assert "no repair cut anything" in nothing.err


def test_what_is_put_back_only_where_it_was_cut(refold: Any, runs: Path) -> None:
    path = made(runs)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"seq":15')
    assert refold("repair", path).code == 0
    repaired = path.read_bytes()
    for changed, why in (
        (repaired + repaired.split(b"\n")[-2].replace(b'"seq":14', b'"seq":15') + b"\n", "added or cut"),
        (repaired[:-1], "added or cut"),
        (repaired[:-10] + b"?" + repaired[-9:], "rewritten"),
    ):
        with path.open("r+b") as file:
            file.truncate(0)
            file.write(changed)
        answer = refold("repair", path, "--undo")
        assert answer.code == 1, changed[-100:]
        assert why in answer.err
        assert path.read_bytes() == changed
    with path.open("r+b") as file:
        file.truncate(0)
        file.write(repaired)
    lock = RunLock.take(path.with_suffix(".lock"))
    try:
        held = refold("repair", path, "--undo")
        assert (held.code, path.read_bytes()) == (1, repaired)
    finally:
        lock.release()
    # Also a repair that nobody noted, as one by the program that writes the run.
    shutil.rmtree(load().notes_dir)
    assert refold("repair", path, "--undo").code == 0
    assert path.read_bytes() == whole + b'{"seq":15'


def test_the_other_repair_and_those_that_are_refused(refold: Any, runs: Path) -> None:
    path = made(runs, style="fisk-ai-v2")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    answer = refold("repair", path, "--json")
    assert (answer.code, answer.row["action"], answer.row["side_file"]) == (0, "complete", None)
    assert path.read_bytes() == whole

    path.write_bytes(whole + b"nonsense\nmore\n")
    before = path.read_bytes()
    plan = refold("repair", path, "--plan", "--json")
    assert (plan.code, plan.row["outcome"]) == (1, "refuse")
    assert plan.row["reasons"][0]["code"] == "corrupt"
    for given in ([], ["--plan"]):
        assert refold("repair", path, *given).code == 1
    path.write_bytes(whole + b'{"seq"')
    lock = RunLock.take(path.with_suffix(".lock"))
    try:
        held = refold("repair", path)
        assert held.code == 1
        assert "held" in held.err or "locked" in held.err
        assert refold("repair", path, "--plan").code == 0
    finally:
        lock.release()
    assert path.read_bytes() == whole + b'{"seq"' != before
    odd = runs / "journal.txt"
    odd.write_bytes(whole + b'{"seq"')
    assert refold("repair", odd).code in {1, 3}
    assert odd.read_bytes() == whole + b'{"seq"'
    assert refold("repair", path, "--plan", "--undo").code == 2
    assert refold("repair", runs / "missing.json").code == 3


def test_nothing_that_reads_repairs(refold: Any, runs: Path) -> None:
    path = made(runs)
    path.write_bytes(path.read_bytes() + b'{"seq":15')
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    for command in ("show", "state", "verify", "lineage"):
        refold(command, path)
    refold("fork", path, "--plan")
    refold("salvage", path, "--plan")
    refold("repair", path, "--plan")
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [file.name for file in runs.iterdir()] == ["parent.json"]


# lineage


def test_the_lineage(refold: Any, runs: Path, project: Path) -> None:
    path = made(runs)
    refold("fork", path, "--at", "9", "--name", "child", "--reason", "to\x1b[2Jsee")
    refold("fork", runs / "child.json", "--at", "5", "--name", "grandchild")
    answer = refold("lineage", "grandchild", "--json", "--root", runs, "--only")
    assert answer.code == 0
    assert answer.out.isascii()
    assert set(answer.rows[0]) == keys_in_readme(project, "json lineage")
    assert [(row["id"], row["depth"], row["focus"]) for row in answer.rows] == [
        ("parent", 0, False),
        ("child", 1, False),
        ("grandchild", 2, True),
    ]
    assert [row["parent"] and row["parent"]["state"] for row in answer.rows] == [None, "same", "same"]
    assert answer.rows[1]["own"] == {"turns": 0, "calls": 0, "errors": 0, "tokens": 0}
    words = refold("lineage", runs / "child.json")
    assert words.code == 0
    assert words.out.splitlines()[1].startswith("▸ ╰ child  ready  ψ after seq 9  0 turns")
    assert "\x1b" not in words.out
    path.unlink()
    gone = refold("lineage", runs / "child.json")
    assert "parent  missing" in gone.out
    assert "parent missing" in gone.out
    assert refold("lineage", "nobody", "--root", runs).code == 3


def test_the_lineage_of_what_is_no_run(refold: Any, runs: Path) -> None:
    (runs / "empty.json").touch()
    (runs / "notes.txt").write_text("words")
    for name in ("empty.json", "notes.txt"):
        answer = refold("lineage", runs / name)
        assert answer.code == 0
        assert len(answer.out.splitlines()) == 1
