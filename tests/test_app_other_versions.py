"""Files of an older or newer Refold, or of none: a cache is passed over, a newer journal said to be one."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import story

from refold.app.cli import main
from refold.core.store import index_cache
from refold.core.version import __version__

COMMANDS = (["ls", "--json"], ["show", "long", "--json"], ["state", "long", "--json"], ["verify", "long"])


def runs(directory: Path) -> Path:
    directory.mkdir(parents=True)
    writing = story.Writing("long", "a long one")
    for number in range(200):
        writing = writing.turn(f"turn {number}", "bash:make").results("fine " * 40)
    (directory / "long.json").write_bytes(writing.data)
    for number in range(5):
        (directory / f"short-{number}.json").write_bytes(story.Writing(f"short-{number}", "hello").data)
    return directory


def answers(directory: Path, capsys: pytest.CaptureFixture[str]) -> list[tuple[int, str]]:
    given = []
    for words in COMMANDS:
        code = main(["--root", str(directory), "--only", *words])
        printed = capsys.readouterr()
        assert "fault" not in printed.err
        assert "Traceback" not in printed.err
        given.append((code, printed.out))
    return given


def flipped(data: bytes) -> bytes:
    """The same with every byte of its head another one: also the one that says the version."""
    return bytes(byte ^ 0x5A for byte in data[:64]) + data[64:]


def counted_up(data: bytes) -> bytes:
    """The same with each digit of its head one higher."""
    head = bytes(byte + 1 if byte in b"012345678" else byte for byte in data[:64])
    return head + data[64:]


ODD: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "garbage": lambda data: random.Random(7).randbytes(4096),
    "cut": lambda data: data[: len(data) // 2],
    "flipped": flipped,
    "counted up": counted_up,
    "longer": lambda data: data + b"\x00" * 100,
}


@pytest.mark.parametrize("how", ODD)
def test_a_cache_of_another_version_is_passed_over(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_cache, "SMALLEST", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    directory = runs(tmp_path / "runs")
    wanted = answers(directory, capsys)
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert files
    for path in files:
        path.write_bytes(ODD[how](path.read_bytes()))
    assert answers(directory, capsys) == wanted
    # What lay there was replaced, and serves again.
    assert answers(directory, capsys) == wanted


def test_what_is_no_file_in_the_place_of_a_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_cache, "SMALLEST", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    directory = runs(tmp_path / "runs")
    wanted = answers(directory, capsys)
    for path in [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]:
        path.unlink()
        path.mkdir()
    assert answers(directory, capsys) == wanted
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").write_text("a file")
    assert answers(directory, capsys) == wanted


def test_two_at_a_time_on_one_cache(tmp_path: Path) -> None:
    directory = runs(tmp_path / "runs")
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    words = [sys.executable, "-m", "refold.app", "--root", str(directory), "--only", "ls", "--json"]
    both = [
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        for _ in range(3)
    ]
    said = [child.communicate(timeout=60) for child in both]
    assert [child.returncode for child in both] == [0, 0, 0]
    assert len({out for out, _ in said}) == 1
    assert {err for _, err in said} == {b""}


def test_a_journal_of_a_newer_version_is_shown_and_said_to_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "newer.json"
    run.write_bytes(story.Writing("newer", "from the future", version=99).turn("done").data)
    assert main(["show", str(run)]) == 0
    assert "from the future" in capsys.readouterr().out
    assert main(["state", str(run), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error_class"] == "version"
    assert main(["verify", str(run)]) == 1
    assert "E_NEWER_VERSION" in capsys.readouterr().out
    assert main(["--root", str(tmp_path), "--only", "ls", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "newer"


def test_the_doctor_says_that_another_version_wrote_the_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    directory = runs(tmp_path / "runs")

    def doctor() -> list[dict[str, str]]:
        main(["--root", str(directory), "--only", "doctor", "--json"])
        checks = json.loads(capsys.readouterr().out)["checks"]
        return [check for check in checks if "another version" in check["message"]]

    def kept() -> list[Path]:
        """Fill the list cache and the index cache as the program does."""
        answers(directory, capsys)
        (rows,) = (tmp_path / "cache").rglob("list.cache")
        place = index_cache.Place(7, 8, 0, index_cache.SMALLEST, 1, b"", b"")
        assert index_cache.save(rows.parent, place, b"\x90")
        (index,) = rows.parent.rglob("*.index")
        return [rows, index]

    for path in kept():
        assert doctor() == []
        path.write_bytes(flipped(path.read_bytes()))
        assert doctor() == [], "what is damaged says nothing of a version"
        path.unlink()
    rows, index = kept()
    for path in (rows, index):
        head = path.read_bytes()
        assert head.count(__version__.encode()) == 1
        path.write_bytes(head.replace(__version__.encode(), b"9.9.9"))
    (said,) = doctor()
    assert said["level"] == "remark"
    assert said["message"].startswith("2 cache files were written by another version of Refold: ")
    assert rows.name in said["message"]
    assert index.name in said["message"]
    assert "nothing is lost" in said["remedy"]
    # Whoever shows the list makes its cache again, without a word.
    answers(directory, capsys)
    (said,) = doctor()
    assert said["message"].startswith("1 cache file was written by another version of Refold: 7-8.index")
    index.unlink()
    assert doctor() == []
