"""The command line as scripts and people use it: answers, exit codes, and what never leaves it."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.terminal.terminal import Terminal

from refold.app import cli_main
from refold.app.cli import main
from refold.app.cli_parser import COMMANDS, parse
from refold.app.cli_plain import only_run
from refold.app.cli_print import Printer
from refold.app.cli_show import json_of
from refold.core.findings import CODES
from refold.core.formats.journal import NATIVE
from refold.core.records import AssistantRecord, Json, Message, MetaRecord, TerminalRecord
from refold.core.version import __version__

LS_KEYS = [
    "id",
    "link",
    "path",
    "format",
    "status",
    "rule",
    "model",
    "created",
    "updated",
    "turns",
    "calls",
    "errors",
    "tokens",
    "prompt",
    "problems",
    "star",
    "tags",
    "name",
    "note",
    "noted_records",
]
VERIFY_KEYS = [
    "run",
    "link",
    "file",
    "code",
    "severity",
    "seq",
    "line",
    "start",
    "end",
    "message",
    "remedy",
    "allowed",
]
SHOW_KEYS = [
    "run",
    "link",
    "seq",
    "line",
    "start",
    "end",
    "kind",
    "turn",
    "time",
    "tokens",
    "calls",
    "answers",
    "is_error",
    "recovered",
    "problems",
]

REFOLD = (sys.executable, "-c", "import sys; from refold.app.cli import main; sys.exit(main())")
"""The program as the console script runs it."""

HOSTILE = "a\x1b]52;c;aGk=\x07b\x9b2Jc\u202ed\u2066e\u200bf\x00g\x7fh\ud800i\ufeffj\rk"


class Answer:
    """What a command left behind."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def refold(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: str | Path) -> Answer:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


def process(*arguments: str | Path, **more: Any) -> subprocess.CompletedProcess[bytes]:
    command = [*REFOLD, *map(str, arguments)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, **more)


def journal(path: Path, *records: Any) -> Path:
    path.write_bytes(b"".join(NATIVE.encode(record) for record in records))
    path.chmod(0o600)
    return path


@pytest.fixture
def run(tmp_path: Path, journals: Path) -> Path:
    path = tmp_path / "completed-two-tools.json"
    shutil.copy(journals / "v3" / path.name, path)
    path.chmod(0o600)
    return path


# state


def expected_state(entry: dict[str, Any], defaults: dict[str, Any], run_id: str) -> dict[str, Any]:
    state = {**defaults["state"], "run_id": run_id, **entry["state"]}
    state["counters"] = {**defaults["state"]["counters"], **entry["state"].get("counters", {})}
    return state


READ_BY_US = {"v3/version-0", "v3/version-1", "v3/version-2", "v3/version-missing", "v2/version-3"}
"""Read by us and refused by one of the originals, or the other way round (contracts.md)."""


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_state_answers_as_the_original_does(version: str, journals: Path, refold: Any) -> None:
    expected = json.loads((journals / version / "expected.json").read_text())
    defaults = expected.pop("_defaults")
    names = sorted(expected)
    answer = refold("state", "--json", *(journals / version / f"{name}.json" for name in names))
    assert answer.code == 1
    assert answer.out.isascii()
    assert len(answer.rows) == len(names)
    for name, row in zip(names, answer.rows, strict=True):
        entry = {**{k: v for k, v in defaults.items() if k != "state"}, **expected[name]}
        assert row["run"] == str(journals / version / f"{name}.json")
        if f"{version}/{name}" in READ_BY_US:
            continue
        assert row["ok"] is entry["ok"], name
        if not entry["ok"]:
            assert row["error_class"] == entry["error_class"], name
            found = re.match("corrupt record sequence: line [0-9]+: ", entry["error"])
            if found is not None:
                # Only the line is ours to repeat; the rest is the text of another JSON reader.
                assert row["error"].startswith(found[0]), name
            elif name != "version-4" or version != "v2":
                assert row["error"] == entry["error"], name
            continue
        wanted = expected_state(entry, defaults, name)
        if "quirk" in entry:
            wanted["messages"] = entry["lossless_messages"]
        assert row["state"] == wanted, name


@pytest.mark.parametrize("name", sorted(READ_BY_US - {"v2/version-3"}))
def test_older_versions_fold(name: str, journals: Path, refold: Any) -> None:
    (row,) = refold("state", "--json", journals / f"{name}.json").rows
    assert row["ok"] is True


def test_state_at_a_record(run: Path, refold: Any) -> None:
    whole = refold("state", "--json", run).rows[0]["state"]
    (row,) = refold("state", "--json", run, "--at", "2").rows
    assert row["state"]["counters"]["llm_calls"] == 1
    assert row["state"]["pending"]["answered"] == []
    assert whole["completed"] is True
    assert row["state"]["terminal"] is None


def test_state_at_an_absent_record_names_its_neighbours(journals: Path, refold: Any) -> None:
    answer = refold("state", "--json", "--at", "3", journals / "v3" / "seq-gap.json")
    assert answer.code == 3
    (row,) = answer.rows
    assert row["ok"] is False
    assert row["error_class"] == "not_found"
    assert re.search(r"no record has seq 3; its neighbours are 2 and 4$", row["error"])
    assert refold("state", "--at", "3", journals / "v3" / "seq-gap.json").code == 3


def test_damage_after_the_place_does_not_matter_and_the_version_always_does(
    journals: Path, refold: Any
) -> None:
    corrupt = journals / "v3" / "corrupt-interior-line.json"
    assert refold("state", "--json", corrupt).rows[0]["error_class"] == "corrupt"
    assert refold("state", "--json", corrupt, "--at", "1").rows[0]["ok"] is True
    newer = refold("state", "--json", journals / "v3" / "version-4.json", "--at", "1")
    assert newer.rows[0]["error_class"] == "version"
    assert newer.code == 1


def test_a_number_that_stands_twice_is_the_first_and_a_line_names_the_other(
    tmp_path: Path, refold: Any
) -> None:
    def said(text: str) -> AssistantRecord:
        return AssistantRecord(Message("assistant", ({"type": "text", "text": text},)), seq=2)

    path = journal(
        tmp_path / "twice.json", MetaRecord(version=2, run_id="twice", seq=1), said("one"), said("two")
    )
    first = refold("show", "--json", f"{path}@2").rows[0]
    second = refold("show", "--json", f"{path}@#3").rows[0]
    assert first["line"] == 2
    assert first["record"]["assistant"]["message"]["content"][0]["text"] == "one"
    assert second["line"] == 3
    assert second["record"]["assistant"]["message"]["content"][0]["text"] == "two"
    assert refold("state", "--json", path, "--at", "2").rows[0]["ok"] is True
    assert refold("state", "--json", path, "--at", "#3").rows[0]["error_class"] == "corrupt"
    assert refold("state", "--json", path, "--at", "#9").code == 3


@pytest.mark.parametrize("place", ["x", "2.0", "", "#", "1e3"])
def test_a_place_that_is_none_is_a_wrong_command_line(place: str, run: Path, refold: Any) -> None:
    answer = refold("state", run, "--at", place)
    assert answer.code == 2
    assert answer.out == ""


def test_salvage_skips_what_cannot_be_read_and_says_what_the_fold_refused(
    journals: Path, refold: Any
) -> None:
    path = journals / "v3" / "corrupt-interior-line.json"
    answer = refold("state", "--json", "--salvage", path)
    assert answer.code == 0
    (row,) = answer.rows
    assert row["state"]["counters"]["llm_calls"] == 1
    assert row["refused"]["error_class"] == "corrupt"
    assert (
        refold("state", "--json", "--salvage", journals / "v3" / "completed-simple.json").rows[0]["refused"]
        is None
    )


def test_several_runs_give_the_largest_exit_code(run: Path, journals: Path, refold: Any) -> None:
    corrupt = journals / "v3" / "corrupt-interior-line.json"
    assert refold("state", "--json", run).code == 0
    assert refold("state", "--json", run, corrupt).code == 1
    answer = refold("state", "--json", "absent", corrupt, run)
    assert answer.code == 3
    assert [row["ok"] for row in answer.rows] == [False, False, True]
    assert [row.get("error_class") for row in answer.rows] == ["not_found", "corrupt", None]


def test_what_is_no_file_has_its_own_class(tmp_path: Path, refold: Any) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "link.json").symlink_to("/etc/passwd")
    (tmp_path / "dir.json").mkdir()
    names = [tmp_path / name for name in ("pipe.json", "link.json", "dir.json")]
    answer = refold("state", "--json", *names)
    assert answer.code == 3
    assert {row["error_class"] for row in answer.rows} == {"not_regular"}
    verified = refold("verify", "--json", *names)
    assert verified.code == 3
    assert {row["code"] for row in verified.rows} == {"E_NOT_REGULAR"}


def test_a_file_one_may_not_read(tmp_path: Path, run: Path) -> None:
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if parent.stat().st_uid == os.getuid() and str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    # Everything is imported before the rights are given up: the interpreter itself may lie out of reach then.
    code = """
import contextlib, os, sys
from refold.app.cli import main
with contextlib.redirect_stdout(open(os.devnull, "w")):
    main([sys.argv[1], "--json", "--only", "--root", "/nonexistent", sys.argv[4]])
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
os.environ["HOME"] = "/nonexistent"
sys.exit(main(sys.argv[1:4]))
"""
    other = tmp_path / "other.json"
    shutil.copy(run, other)
    other.chmod(0o600)
    run.chmod(0o000)
    for command in ("state", "verify"):
        done = subprocess.run(
            [sys.executable, "-c", code, command, "--json", run, other], capture_output=True, check=False
        )
        assert done.returncode == 3, done.stderr
        row = json.loads(done.stdout)
        assert row.get("error_class", row.get("code")) in ("permission", "E_PERM")


# ls


def test_ls_gives_one_object_a_run(journals: Path, refold: Any) -> None:
    answer = refold("ls", "--json", "--only", "--root", journals / "v3")
    assert answer.code == 0
    assert answer.out.isascii()
    rows = answer.rows
    assert {row["id"] for row in rows} == {path.stem for path in (journals / "v3").glob("*.json")}
    for row in rows:
        assert list(row) == LS_KEYS
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", row["updated"])
        assert set(row["problems"]) <= set(CODES)
    assert [row["updated"] for row in rows] == sorted((row["updated"] for row in rows), reverse=True)


def test_ls_filters_with_words_keys_and_dashes(tmp_path: Path, refold: Any) -> None:
    for name, prompt in (("one", "rename the notes"), ("two", "pay the bills")):
        journal(
            tmp_path / f"{name}.json",
            MetaRecord(version=2, run_id=name, prompt=prompt, seq=1),
            TerminalRecord(reason="completed" if name == "one" else "suspended", seq=2),
        )

    def found(*words: str) -> list[str]:
        return [row["id"] for row in refold("ls", "--json", "--only", "--root", tmp_path, *words).rows]

    assert sorted(found()) == ["one", "two"]
    assert found("rename") == ["one"]
    assert found("-rename") == ["two"]
    assert found("status:suspended") == ["two"]
    assert found("-status:suspended") == ["one"]
    assert found("the notes") == ["one"]
    assert found("-the notes") == ["two"]
    assert found("--", "-the bills") == ["one"]
    assert found("nothing like it") == []
    text = refold("ls", "--only", "--root", tmp_path, "rename")
    assert "1 run hidden by the filter" in text.err
    assert "two" not in text.out


def test_ls_searches_the_bytes_of_runs(tmp_path: Path, refold: Any) -> None:
    for name, said in (("one", "no space left — Übung"), ("two", "all is well")):
        blocks: tuple[Json, ...] = ({"type": "text", "text": said},)
        journal(
            tmp_path / f"{name}.json",
            MetaRecord(version=2, run_id=name, seq=1),
            AssistantRecord(Message("assistant", blocks), seq=2),
        )
    command = ("ls", "--json", "--only", "--root", tmp_path)
    assert [row["id"] for row in refold(*command, "text:übung").rows] == ["one"]
    assert [row["id"] for row in refold(*command, "-text:no space left").rows] == ["two"]


def test_a_wrong_filter_is_a_wrong_command_line(refold: Any) -> None:
    answer = refold("ls", "colour:red")
    assert answer.code == 2
    assert "colour" in answer.err
    assert answer.err.count("\n") == 1


def test_an_empty_list_says_where_it_looked(tmp_path: Path, refold: Any) -> None:
    answer = refold("ls", "--only", "--root", tmp_path / "absent")
    assert answer.code == 0
    assert answer.out == ""
    assert str(tmp_path / "absent") in answer.err
    assert "refold demo" in answer.err


def test_ls_leaves_no_cache_when_told(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch, refold: Any
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    refold("ls", "--no-cache", "--root", run.parent)
    assert not (tmp_path / "cache").exists()
    refold("ls", "--root", run.parent)
    assert (tmp_path / "cache" / "refold").is_dir()


# finding a run


def test_a_run_is_found_by_id_prefix_and_path(tmp_path: Path, run: Path, refold: Any) -> None:
    shutil.copy(run, tmp_path / "other.json")
    places = ("--only", "--root", tmp_path)
    for name in ("completed-two-tools", "compl", run):
        assert refold("state", "--json", *places, name).rows[0]["run"] == str(name)
        assert refold("state", "--json", *places, name).code == 0
    shutil.copy(run, tmp_path / "completed-too.json")
    answer = refold("state", "--json", *places, "completed-t")
    assert answer.code == 3
    assert answer.rows[0]["error_class"] == "ambiguous"
    assert "completed-too" in answer.rows[0]["error"]
    assert "completed-two-tools" in answer.rows[0]["error"]


@pytest.mark.parametrize("name", ["../../etc/absent", "a b", "a\nb", ".", "", "x" * 129, "é"])
def test_what_is_no_id_opens_nothing(name: str, tmp_path: Path, refold: Any) -> None:
    answer = refold("state", "--json", "--only", "--root", tmp_path, name)
    assert answer.code == 3
    assert answer.rows[0]["ok"] is False


def test_a_path_that_contains_an_at_sign(tmp_path: Path, run: Path, refold: Any) -> None:
    odd = tmp_path / "a@2"
    shutil.copy(run, odd)
    assert len(refold("show", "--json", odd).rows) > 1
    assert len(refold("show", "--json", f"{odd}@2").rows) == 1


# show


def test_show_gives_one_object_a_record(run: Path, refold: Any) -> None:
    rows = refold("show", "--json", run).rows
    assert len(rows) == len(run.read_bytes().splitlines())
    for row in rows:
        assert list(row) == SHOW_KEYS
    assert [row["kind"] for row in rows][:2] == ["meta", "assistant"]
    assert rows[1]["calls"][0]["id"] == rows[2]["answers"]
    assert b"".join(run.read_bytes()[row["start"] : row["end"]] + b"\n" for row in rows) == run.read_bytes()


def test_a_shown_record_is_spelled_as_in_the_file(tmp_path: Path, refold: Any) -> None:
    line = (
        '{"seq":1,"protocol":"refold.v1.session.meta","meta":'
        '{"version":2,"run_id":"x","n":1.50,"big":12345678901234567890123,"far":1e999,'
        '"e":1E5,"p":"é\U0001f600\x7f","k":1,"k":2}}'
    )
    path = tmp_path / "x.json"
    path.write_text(line + "\t\r\n", newline="")
    out = refold("show", "--json", f"{path}@1").out
    assert out.isascii()
    assert out.isprintable() or out.count("\n") == 1
    kept = line.replace("é\U0001f600\x7f", r"\u00e9\ud83d\ude00\u007f")
    assert f'"record":{kept},"raw":null' in out
    assert json.loads(out)["record"]["meta"]["p"] == "é\U0001f600\x7f"


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":"\x01"}',
        b"[" * 100_000,
        b'{"a":"\xff"}',
        b"{} {}",
        b"",
        b"\0",
    ],
    ids=range(8),
)
def test_what_is_no_json_is_never_passed_on_as_json(raw: bytes) -> None:
    assert json_of(raw) is None


def test_damage_is_shown_with_its_bytes(journals: Path, refold: Any) -> None:
    (row,) = refold("show", "--json", f"{journals / 'v3' / 'corrupt-interior-line.json'}@#2").rows
    assert row["kind"] == "damage"
    assert row["problems"]
    assert row["record"] is None
    assert row["raw"].startswith('{"seq":2')


def test_show_prints_a_row_a_line(run: Path, refold: Any) -> None:
    out = refold("show", run).out.splitlines()
    assert "completed-two-tools" in out[0]
    assert str(run) in out[1]
    assert sum(" call " in line for line in out) == 2
    record = refold("show", f"{run}@2").out
    assert record.startswith("Assistant  seq 2  line 2")


# verify


def test_verify_prints_like_a_linter(journals: Path, tmp_path: Path, refold: Any) -> None:
    path = tmp_path / "corrupt-interior-line.json"
    shutil.copy(journals / "v3" / path.name, path)
    path.chmod(0o600)
    answer = refold("verify", path)
    assert answer.code == 1
    first = answer.out.splitlines()[0]
    assert re.match(re.escape(str(path)) + r":2:\d+: error E_BAD_JSON: ", first)
    assert "1 run: " in answer.out.splitlines()[-1]
    rows = refold("verify", "--json", path).rows
    assert [list(row) for row in rows] == [VERIFY_KEYS] * len(rows)
    assert list(rows[0]["allowed"]) == ["view", "fork_to", "resume"]
    assert rows[0]["line"] == 2


def test_verify_of_a_sound_run_is_fine(run: Path, refold: Any) -> None:
    answer = refold("verify", run)
    assert (answer.code, answer.out) == (0, "1 run: nothing to report\n")
    assert refold("verify", "--json", run).out == ""


def test_a_remark_is_no_finding_to_fail_on(tmp_path: Path, refold: Any) -> None:
    path = journal(
        tmp_path / "gap.json",
        MetaRecord(version=2, run_id="gap", seq=1),
        TerminalRecord(reason="completed", seq=7),
    )
    answer = refold("verify", "--json", path)
    assert [(row["severity"], row["code"]) for row in answer.rows] == [("info", "E_SEQ_GAP")]
    assert answer.code == 0


def test_verify_of_an_absent_run(run: Path, refold: Any) -> None:
    answer = refold("verify", "--json", "absent", run)
    assert answer.code == 3
    assert answer.out == ""
    assert "absent" in answer.err
    assert refold("verify", "absent").out == "1 run: 1 could not be read\n"
    assert refold("verify", "absent", run, run.parent).out == "3 runs: 2 could not be read\n"


# without the full screen


def test_without_a_terminal_the_list_or_the_run_is_printed(run: Path, refold: Any) -> None:
    listed = refold("--only", "--root", run.parent)
    assert listed.out == refold("ls", "--only", "--root", run.parent).out
    assert "completed-two-tools" in listed.out
    assert refold(run).out == refold("show", run).out
    assert refold("open", f"{run}@2").out == refold("show", f"{run}@2").out
    assert refold(f"{run}@99").code == 3


def test_a_run_with_the_name_of_a_command_is_opened_with_open(tmp_path: Path, run: Path, refold: Any) -> None:
    shutil.copy(run, tmp_path / "ls.json")
    assert "ls" in refold("open", "ls", "--only", "--root", tmp_path).out.splitlines()[0]


def test_options_stand_before_and_after_the_command() -> None:
    read = parse(["--root", "/a", "--only", "ls", "one", "--json", "two", "--root", "/b", "--theme", "t"])
    assert read.command == "ls"
    assert read.options.roots == (Path("/a"), Path("/b"))
    assert read.options.only
    assert read.options.theme == "t"
    assert read.own.filter == ["one", "two"]
    assert read.own.json


@pytest.mark.parametrize(
    "arguments",
    [
        ["ls", "--nope"],
        ["state"],
        ["verify", "--json"],
        ["--root"],
        ["completion", "ksh"],
        ["--nope"],
        ["open"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_two_lines_and_code_2(arguments: list[str], refold: Any) -> None:
    answer = refold(*arguments)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.count("\n") == 2
    assert "--help" in answer.err


def test_help_names_every_command_and_every_exit_code(refold: Any) -> None:
    answer = refold("--help")
    assert answer.code == 0
    for name in COMMANDS:
        assert f"\n  {name} " in answer.out
        assert refold(name, "--help").out.startswith(f"usage: refold {name}")
    assert max(map(len, answer.out.splitlines())) <= 100
    for code in (0, 1, 2, 3, 70, 74, 130):
        assert re.search(rf"\n  {code} +\w", answer.out)


def test_version() -> None:
    done = process("--version")
    assert (done.returncode, done.stdout) == (0, f"refold {__version__}\n".encode())


def test_config_prints_what_is_in_effect(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refold: Any
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "refold").mkdir()
    (tmp_path / "refold" / "config.toml").write_text('roots = ["/x"]\n[keys]\n"run.search" = "ctrl+f"\n')
    values = refold("config", "--json").rows[0]
    assert values["config_found"] is True
    assert values["roots"][-1] == {"path": "/x", "format": "refold", "origin": "config"}
    assert values["keys"] == {"run.search": "ctrl+f"}
    text = refold("config").out
    assert 'theme = "refold-dark"' in text
    assert '"run.search" = "ctrl+f"' in text
    (tmp_path / "refold" / "config.toml").write_text("theme = 1\n")
    answer = refold("config")
    assert answer.code == 2
    assert f"{tmp_path}/refold/config.toml:1: theme: " in answer.err


# what leaves the program


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A run that is hostile in every field; the surrogate and the bad bytes are put in by hand."""
    text = HOSTILE.replace("\ud800", "@HALF@")
    blocks: tuple[Json, ...] = (
        {"type": "text", "text": text},
        {"type": "tool_use", "id": text, "name": text, "input": {text: text}},
    )
    path = journal(
        tmp_path / "hostile.json",
        MetaRecord(version=2, run_id=text, created="2026-01-01T00:00:00Z", prompt=text, seq=1),
        AssistantRecord(Message("assistant", blocks), stop_reason=text, seq=2),
        TerminalRecord(reason=text, message=text, seq=3),
    )
    data = path.read_bytes().replace(b"@HALF@", b"\\ud800")
    path.write_bytes(
        data
        + b'{"seq":4,"protocol":"'
        + HOSTILE.encode(errors="ignore")
        + b'\xff\xfe","x":{}}\n{"torn\x1b]0;x\x07'
    )
    return path


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("command", ["ls", "show", "show@2", "show@#4", "show@#5", "state", "verify", "why"])
def test_no_control_character_leaves(command: str, form: list[str], hostile: Path, tmp_path: Path) -> None:
    name, at, place = command.partition("@")
    odd = tmp_path / "odd\x1b]0;t\x07\u202e"
    odd.mkdir()
    hostile = hostile.rename(odd / "hostile.json")
    where = ["--only", "--root", odd] if name == "ls" else [f"{hostile}{at}{place}"]
    done = process(name, *where, *form)
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout + done.stderr
    for stream in (done.stdout.decode(), done.stderr.decode()):
        kept = [character for character in stream if character != "\n"]
        assert all(character.isprintable() for character in kept), stream
        assert not any("\ud800" <= character < "\ue000" for character in kept)
    if form:
        assert done.stdout.isascii()
        assert [json.loads(line) for line in done.stdout.splitlines()]


def test_errors_are_safe_too(tmp_path: Path) -> None:
    for arguments in (
        [f"{tmp_path}/\x1b[2J"],
        ["state", "a\x1b[2J"],
        ["ls", "colour:\x1b"],
        ["--bad\x1b[2J"],
        ["ls", '"\x1b'],
    ):
        done = process(*arguments)
        assert done.returncode in (2, 3)
        assert b"\x1b" not in done.stderr + done.stdout


def on_terminal(arguments: list[str | Path], **variables: str) -> bytes:
    """Run in a pseudo-terminal for standard output alone."""
    parent, child = pty.openpty()
    with subprocess.Popen(
        [*REFOLD, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=child,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **variables},
    ):
        os.close(child)
        data = b""
        while True:
            try:
                piece = os.read(parent, 65536)
            except OSError:
                break
            if not piece:
                break
            data += piece
    os.close(parent)
    return data


def test_colour_only_on_a_terminal_that_wants_it(run: Path) -> None:
    command: list[str | Path] = ["ls", "--only", "--root", run.parent]
    assert b"\x1b[32m" in on_terminal(command)
    assert b"\x1b" not in on_terminal(command, NO_COLOR="1")
    assert b"\x1b" not in on_terminal(command, TERM="dumb")
    assert b"\x1b" not in process(*command).stdout
    assert b"\x1b" not in on_terminal([*command, "--json"])


def test_a_locale_without_utf8_gets_ascii(run: Path) -> None:
    done = process("ls", "--only", "--root", run.parent, env={**os.environ, "LC_ALL": "C"})
    assert done.stdout.isascii()
    assert b"+ completed" in done.stdout


def test_output_that_cannot_be_written_is_said(run: Path) -> None:
    for arguments in (["--version"], ["--help"], ["ls", "--only", "--root", str(run.parent)], ["config"]):
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run([*REFOLD, *arguments], stdout=full, stderr=subprocess.PIPE, check=False)
        assert done.returncode == 74
        assert done.stderr == b"refold: the output could not be written: No space left on device\n"


def test_a_reader_that_leaves_is_no_error(run: Path) -> None:
    arguments = ["show", "--json", *[str(run)] * 400]
    with subprocess.Popen([*REFOLD, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.readline()
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(20) == 141


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_fault(closed: str, run: Path) -> None:
    script = f'"$0" -c "$1" ls --only --root "$2" {closed}'
    done = subprocess.run(
        ["sh", "-c", script, REFOLD[0], REFOLD[2], run.parent], capture_output=True, check=False
    )
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr


def test_an_interrupt_is_silent(monkeypatch: pytest.MonkeyPatch, refold: Any) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_main, "_command", interrupted)
    answer = refold("ls")
    assert (answer.code, answer.out, answer.err) == (130, "", "")


def test_a_real_interrupt_of_a_slow_command(tmp_path: Path) -> None:
    """The command is stopped while it reads a long run."""
    line = NATIVE.encode(MetaRecord(version=2, run_id="big", seq=1))
    with (tmp_path / "big.json").open("wb") as file:
        file.write(line)
        for seq in range(2, 400_000):
            file.write(
                b'{"seq":%d,"protocol":"refold.v1.session.terminal","terminal":{"reason":"x"}}\n' % seq
            )
    code = "import sys; from refold.app.cli import main; sys.stderr.write('up\\n'); sys.exit(main())"
    with subprocess.Popen(
        [sys.executable, "-c", code, "show", "--json", str(tmp_path / "big.json")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        # A shell that starts the tests in the background makes them deaf to interrupts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as child:
        assert child.stderr is not None
        child.stderr.readline()
        time.sleep(0.5)
        os.kill(child.pid, signal.SIGINT)
        assert child.stderr.read() == b""
        assert child.wait(20) == 130


def test_a_fault_is_one_line_and_a_log_without_the_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refold: Any
) -> None:
    def broken(*_: object) -> int:
        raise RuntimeError("the text of a record")

    monkeypatch.setattr(cli_main, "_command", broken)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    answer = refold("ls")
    log = tmp_path / "refold" / "refold.log"
    assert answer.code == 70
    assert answer.err == f"refold: a fault in refold (RuntimeError); {log} says where\n"
    assert "the text of a record" not in log.read_text()
    assert "RuntimeError" in log.read_text()


def test_a_printer_cuts_to_the_terminal_only(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printer()
    printer.json({"é": "\x7f\ud800"})
    assert capsys.readouterr().out == '{"\\u00e9":"\\u007f\\ud800"}\n'


# completion


def complete(words: list[str], home: Path) -> list[str]:
    script = process("completion", "bash").stdout.decode()
    quoted = " ".join(f"'{word}'" for word in words)
    driver = f"""
refold() {{ "{sys.executable}" -c 'import sys; from refold.app.cli import main; sys.exit(main())' "$@"; }}
{script}
COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _refold; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "-c", driver],
        capture_output=True,
        check=True,
        cwd=home,
        env={**os.environ, "XDG_STATE_HOME": str(home)},
    )
    assert done.stderr == b""
    return done.stdout.decode().split()


def test_bash_completes_commands_options_and_ids(tmp_path: Path, run: Path) -> None:
    runs = tmp_path / "refold" / "runs"
    runs.mkdir(parents=True)
    shutil.copy(run, runs / "billing-sweep.json")
    (runs / "not an id$(x).json").write_text("")
    for name, file in (("nightly", "session.json"), ("not a run$(y)", "events.jsonl"), ("other", "notes")):
        (tmp_path / "rivumi" / "runs" / name).mkdir(parents=True)
        (tmp_path / "rivumi" / "runs" / name / file).write_text("{}")
    (tmp_path / "folder").mkdir()
    assert complete(["refold", "ver"], tmp_path) == ["verify"]
    assert complete(["refold", "bill"], tmp_path) == ["billing-sweep"]
    assert complete(["refold", "state", "bill"], tmp_path) == ["billing-sweep"]
    assert complete(["refold", "why", "nigh"], tmp_path) == ["nightly"]
    assert complete(["refold", "why", "oth"], tmp_path) == []
    assert complete(["refold", "state", "--sal"], tmp_path) == ["--salvage"]
    assert complete(["refold", "completion", ""], tmp_path) == ["bash", "zsh", "fish"]
    assert complete(["refold", "--root", "fol"], tmp_path) == ["folder"]


def test_fish_completes_commands_options_and_ids(tmp_path: Path, run: Path) -> None:
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("fish is not installed: its script is not run here")
    runs = tmp_path / "refold" / "runs"
    runs.mkdir(parents=True)
    shutil.copy(run, runs / "billing-sweep.json")
    script = process("completion", "fish").stdout.decode()
    program = f"function refold; {REFOLD[0]} -c '{REFOLD[2]}' $argv; end\n{script}\n"
    environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}

    def complete_line(line: str) -> list[str]:
        done = subprocess.run(
            [fish, "--no-config", "-c", f"{program}complete -C '{line}'"],
            capture_output=True, text=True, check=True, env=environ, cwd=tmp_path,
        )  # fmt: skip
        return [found.partition("\t")[0] for found in done.stdout.splitlines()]

    assert complete_line("refold veri") == ["verify"]
    assert complete_line("refold state bill") == ["billing-sweep"]
    assert complete_line("refold state --sal") == ["--salvage"]
    assert complete_line("refold completion z") == ["zsh"]
    assert "billing-sweep" not in complete_line("refold config ")


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("refold veri", "refold verify"),
        ("refold bill", "refold billing-sweep"),
        ("refold state bill", "refold state billing-sweep"),
        ("refold state --sal", "refold state --salvage"),
        ("refold completion z", "refold completion zsh"),
        ("refold ls --root fol", "refold ls --root folder/"),
        ("refold why oth", "refold why other-file.txt"),
    ],
)
def test_zsh_completes_commands_options_and_ids(
    typed: str, completed: str, tmp_path: Path, run: Path
) -> None:
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("zsh is not installed: its script is not run here")
    runs = tmp_path / "refold" / "runs"
    runs.mkdir(parents=True)
    shutil.copy(run, runs / "billing-sweep.json")
    (tmp_path / "folder").mkdir()
    (tmp_path / "other-file.txt").touch()
    rc = tmp_path / "rc"
    rc.write_text(
        f"refold() {{ {REFOLD[0]} -c '{REFOLD[2]}' \"$@\" }}\n"
        f"autoload -U compinit; compinit -u -d {tmp_path}/dump\n"
        'eval "$(refold completion zsh)"\nPS1="ready> "\n'
    )
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TERM": "xterm-256color"}
    with Terminal(["env", "-C", str(tmp_path), zsh, "-f"], env=env, columns=100, rows=20) as terminal:
        terminal.send(f"PS1=; source {rc}; clear\r")
        terminal.wait(lambda screen: screen.strip() == "ready>")
        terminal.send(f"{typed}\t")
        terminal.wait(f"ready> {completed}")
        terminal.settle(0.2)
        assert terminal.text.split("\n")[0].rstrip() == f"ready> {completed}"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_know_every_command_and_option(shell: str, refold: Any) -> None:
    script = refold("completion", shell).out
    for name in COMMANDS:
        assert name in script
    for option in ("salvage", "json", "root", "no-screen"):
        assert option in script
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed: its script is not parsed here")
    subprocess.run([program, "-n"], input=script.encode(), check=True)


def test_a_line_that_needs_no_parser_says_what_the_parser_would_say() -> None:
    lines = [
        [],
        ["fix-add"],
        ["open", "ls"],
        ["a/b"],
        ["ls"],
        ["-V"],
        ["open", "-x"],
        ["R@3"],
        ["open"],
        ["a", "b"],
    ]
    assert [only_run(line) for line in lines] == [
        "",
        "fix-add",
        "ls",
        "a/b",
        None,
        None,
        None,
        "R@3",
        None,
        None,
    ]
    for line in lines[1:4]:
        assert parse(line).command == "open"
        assert parse(line).own.run == only_run(line)
    assert all(name.isalpha() and name.islower() for name in COMMANDS)


def test_a_theme_that_does_not_exist_is_refused_by_every_command(refold: Any) -> None:
    answer = refold("--theme", "nosuch", "ls")
    assert answer.code == 2
    assert "refold-dark" in answer.err
    assert refold("--theme", "refold-light", "ls").code == 0
