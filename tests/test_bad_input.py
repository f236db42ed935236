"""Whatever lies where a run should be is a row with its reason; `verify` says why, and the screen lives."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from tests import generate
from tests.terminal import wire
from tests.terminal.program import environment, refold, run, without_privileges
from tests.terminal.terminal import Terminal

HUGE = 50 << 20

STATUS: dict[str, str] = {
    "mode-000": "unreadable",
    "pipe": "unreadable",
    "link": "unreadable",
    "link-nowhere": "unreadable",
    "link-loop": "unreadable",
    "directory": "unreadable",
    "socket": "unreadable",
    "device": "unreadable",
    "empty": "empty",
    "blank": "empty",
    "newer": "newer",
    "half-written": "unreadable",
    "prose": "unreadable",
    "nul": "unreadable",
    "binary": "unreadable",
    "utf16": "unreadable",
    "brackets": "unreadable",
    "no-meta": "unreadable",
    "not-utf-8": "completed",
    "one-brackets-line": "completed",
    "huge-record": "completed",
    "torn": "completed",
    "wrong-shapes": "completed",
    "id that is none": "completed",
    "-rf": "completed",
    "a%2fb": "completed",
    "Ünïcödé-核对": "completed",
}
"""The status that the list gives each name; `completed` where the run inside is well enough to tell."""

NOT_FILES = {"pipe", "link", "link-nowhere", "link-loop", "directory", "socket", "device"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which hardly anything is as it should be, and one good run."""
    where = tmp_path_factory.mktemp("bad") / "runs"
    where.mkdir()
    lines = list(generate.journal(records=9))
    good = b"".join(lines)
    files = {
        "good": good,
        "mode-000": good,
        "empty": b"",
        "blank": b"\n \t\r\n\n",
        "newer": good.replace(b'"version":2', b'"version":99', 1),
        "half-written": lines[0][: len(lines[0]) // 2],
        "prose": b"Dear reader,\nthis is no run.\n",
        "nul": bytes(1 << 20),
        "binary": bytes(range(256)) * 64,
        "utf16": good.decode().encode("utf-16"),
        "brackets": b"[" * 1_000_000,
        "no-meta": b"".join(lines[1:4]),
        "not-utf-8": good.replace(b'"text":"', b'"text":"\xff\xfe\xc0\xaf', 3),
        "one-brackets-line": b"".join([*lines[:4], b'{"seq":4,"x":' + b"[" * 1_000_000 + b"\n", *lines[4:]]),
        "torn": good + lines[2][:80],
        "wrong-shapes": b"".join([*lines[:4], *_wrong_shapes(), *lines[4:]]),
        "id that is none": good,
        "-rf": good,
        "a%2fb": good,
        "Ünïcödé-核对": good,
    }
    for name, data in files.items():
        (where / f"{name}.json").write_bytes(data)
    generate.write(where / "huge-record.json", generate.huge_record(HUGE))
    (where / "mode-000.json").chmod(0)
    os.mkfifo(where / "pipe.json")
    (where / "link.json").symlink_to("good.json")
    (where / "link-nowhere.json").symlink_to("missing")
    (where / "link-loop.json").symlink_to("link-loop.json")
    (where / "device.json").symlink_to("/dev/zero")
    (where / "directory.json").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(where / "socket.json"))
    return where


def _wrong_shapes() -> list[bytes]:
    """Lines that are JSON, and no record."""
    shapes = ["null", "{}", "[]", "7", '"text"', '{"seq":"1"}', '{"seq":true,"protocol":null}', '{"seq":NaN}']
    prefix = '{"seq":4,"protocol":"refold.v1.session.'
    shapes += [
        prefix + 'assistant","assistant":null}',
        prefix + 'assistant","assistant":{"message":null}}',
        prefix + 'assistant","assistant":{"message":{"role":"assistant","content":"words"}}}',
        prefix + 'assistant","assistant":{"message":{"role":"assistant","content":[null,"a",7,[]]}}}',
        prefix + 'tool_result","tool_result":{"tool_use_id":7,"result":[[]]}}',
        prefix + 'tool_result","tool_result":{"tool_use_id":"x","result":null}}',
        prefix + 'terminal","terminal":{"reason":null}}',
        prefix + 'user","user":[]}',
        '{"seq":' + "9" * 4301 + "}",
    ]
    return [shape.encode() + b"\n" for shape in shapes]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    directory = tmp_path / "home"
    directory.mkdir()
    return directory


def _rows(store: Path, home: Path, *more: str) -> dict[str, dict[str, Any]]:
    done = run("ls", "--json", "--only", "--root", store, *more, home=home, rights=without_privileges)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    rows = [json.loads(line) for line in done.stdout.split(b"\n") if line]
    return {row["id"]: row for row in rows}


def test_every_name_is_a_row_with_its_reason(store: Path, home: Path) -> None:
    started = time.perf_counter()
    rows = _rows(store, home)

    assert time.perf_counter() - started < 20
    assert set(rows) == {*STATUS, "good"}
    assert {name: rows[name]["status"] for name in STATUS} == STATUS
    assert [name for name, row in rows.items() if not row["rule"]] == []
    assert rows["mode-000"]["problems"] == ["E_PERM"]
    assert {name for name, row in rows.items() if "E_NOT_REGULAR" in row["problems"]} == NOT_FILES


def test_the_cache_gives_the_same_rows(store: Path, home: Path) -> None:
    cold, warm = _rows(store, home), _rows(store, home)

    assert cold == warm == _rows(store, home, "--no-cache")


def test_the_printed_list_names_them_all(store: Path, home: Path) -> None:
    done = run("ls", "--only", "--root", store, home=home, rights=without_privileges)

    assert done.returncode == 0
    assert len(done.stdout.rstrip(b"\n").split(b"\n")) >= len(STATUS) + 1
    assert wire.offences(done.stdout) == []


@pytest.mark.parametrize("name", STATUS)
def test_verify_says_why_and_nothing_escapes(store: Path, home: Path, name: str) -> None:
    started = time.perf_counter()
    done = run("verify", "--json", "--", store / f"{name}.json", home=home, rights=without_privileges)
    findings = [json.loads(line) for line in done.stdout.split(b"\n") if line]

    assert time.perf_counter() - started < 10
    assert b"Traceback" not in done.stderr
    assert done.returncode in ({3} if name in NOT_FILES | {"mode-000"} else {0, 1})
    assert findings or done.stderr or STATUS[name] == "completed"
    assert all(finding["message"] and finding["code"].startswith("E_") for finding in findings)


@pytest.mark.parametrize("name", STATUS)
def test_state_refuses_with_a_class(store: Path, home: Path, name: str) -> None:
    done = run("state", "--json", "--", store / f"{name}.json", home=home, rights=without_privileges)
    told = json.loads(done.stdout)

    assert b"Traceback" not in done.stderr
    assert told["ok"] is (done.returncode == 0)
    if not told["ok"]:
        assert told["error"]
        expected = {"permission"} if name == "mode-000" else {"not_regular", "not_found"}
        if name in NOT_FILES | {"mode-000"}:
            assert told["error_class"] in expected
            assert done.returncode == 3
        else:
            assert told["error_class"] in {"empty", "no_meta", "version", "corrupt", "too_large"}
            assert done.returncode == 1


def test_the_screen_lists_them_and_opens_each(store: Path, home: Path) -> None:
    with Terminal(
        refold("--only", "--root", store), env=environment(home), rows=50, rights=without_privileges
    ) as terminal:
        terminal.wait("huge-record", limit=30)
        terminal.settle(0.3)
        terminal.press("home")
        for _ in range(len(STATUS) + 1):
            terminal.press("enter", settle=0.1)
            terminal.press("end", "5", "4", "2", "1", settle=0.02)
            terminal.press("escape", "escape", settle=0.08)
            terminal.press("down", settle=0.05)
        terminal.wait("good", limit=5)

        assert terminal.quit() == 0
        assert wire.offences(bytes(terminal.sent)) == []
        assert wire.not_restored(bytes(terminal.sent)) == []


@pytest.mark.parametrize("name", ["huge-record", "brackets", "nul", "one-brackets-line", "not-utf-8"])
def test_a_hard_run_opens_scrolls_and_quits_quickly(store: Path, home: Path, name: str) -> None:
    with Terminal(refold("open", store / f"{name}.json"), env=environment(home)) as terminal:
        terminal.wait(name, limit=10)
        for keys in (["end"], ["home"], ["pagedown"], ["5"], ["4"], ["end"], ["2"], ["3"], ["1"]):
            started = time.perf_counter()
            length = len(terminal.sent)
            terminal.press(*keys, settle=0.05, limit=10)
            assert time.perf_counter() - started < 8, f"{keys} kept the screen busy"
            assert len(terminal.sent) >= length

        assert terminal.quit() == 0


@pytest.mark.parametrize(
    "wanted",
    ["../x", "/etc/no-such", ".", "..", "-rf", "a\nb", "x" * 300, "a%2fb", "CON", "\u202eevil", "no-such"],
)
def test_a_wrong_id_is_refused_before_anything_is_opened(
    store: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    # What lies beside the directory that the tests are started in is not theirs.
    (tmp_path / "in" / "here").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "in" / "here")
    done = run("state", "--json", "--only", "--root", store, "--", wanted, home=home)

    assert b"Traceback" not in done.stderr
    assert done.returncode == 3 or wanted in {"-rf", "a%2fb"}
    assert wire.offences(done.stderr) == []


def test_a_run_that_is_not_there_is_said_without_a_screen(home: Path) -> None:
    with Terminal(refold("no-such-run"), env=environment(home)) as terminal:
        assert terminal.ended() == 3
        assert "no-such-run" in terminal.text
