"""What the doctor says: nothing where all is well, and of each trouble what it is and how it ends."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import msgspec
import pytest
from tests.on_screen import settings

from refold.app.cli import main
from refold.app.doctor import Check, Level, look_over
from refold.app.settings import Settings
from refold.core.store.roots import Root
from refold.core.store.search_database import NAME
from refold.core.store.search_index import open_to_build

FIXTURES = Path(__file__).parent / "data" / "fisk-ai" / "v3"


@pytest.fixture
def given(tmp_path: Path) -> Settings:
    """Settings with one directory of one sound run."""
    directory = tmp_path / "runs"
    directory.mkdir(mode=0o700)
    add(directory, "completed-simple")
    roots = (Root(directory, "fisk-ai", "config"),)
    return msgspec.structs.replace(settings(tmp_path), roots=roots, cache_dir=tmp_path / "cache")


def add(directory: Path, name: str, mode: int = 0o600) -> Path:
    path = directory / f"{name}.json"
    shutil.copyfile(FIXTURES / path.name, path)
    path.chmod(mode)
    return path


def proc(directory: Path, *, watches: int = 65_536, instances: int = 128, kind: str = "ext4") -> Path:
    """Make a place where a system tells about itself."""
    limits = directory / "proc" / "sys" / "fs" / "inotify"
    limits.mkdir(parents=True)
    (limits / "max_user_watches").write_text(f"{watches}\n")
    (limits / "max_user_instances").write_text(f"{instances}\n")
    own = directory / "proc" / "self"
    own.mkdir()
    (own / "mountinfo").write_text(
        f"22 1 8:1 / / rw - ext4 /dev/a rw\n23 22 0:9 / {directory} rw - {kind} host:/x rw\n"
    )
    return directory / "proc"


def found(given: Settings, level: Level = "warning", **system: object) -> list[Check]:
    directory = given.config_file.parent
    report = look_over(given, proc=proc(directory, **system))  # type: ignore[arg-type]
    return [check for check in report.checks if check.level == level]


def test_all_is_well(given: Settings) -> None:
    assert found(given) == []


def test_a_run_that_others_can_read(given: Settings) -> None:
    directory = given.roots[0].path
    add(directory, "completed-two-tools", 0o644)
    assert found(given) == []
    directory.chmod(0o755)
    shutil.rmtree(given.config_file.parent / "proc")
    (check,) = found(given)
    assert check.sentence == "1 run may be read by others, as the modes are: completed-two-tools"
    assert check.remedy.startswith("chmod 600")


def test_damage_and_what_a_crash_leaves(given: Settings) -> None:
    directory = given.roots[0].path
    for name in ("corrupt-interior-line", "corrupt-first-line", "torn-tail-partial", "version-99"):
        add(directory, name)
    report = look_over(given, proc=proc(given.config_file.parent))
    said = {check.sentence: check.level for check in report.checks if check.area == "runs"}
    assert said == {
        "1 run cannot be read: corrupt-first-line": "warning",
        "1 run is damaged: corrupt-interior-line": "warning",
        "1 run of a newer version: version-99": "remark",
        "1 run ended in the middle of a record: torn-tail-partial": "remark",
        "2 runs stopped with calls in flight: nobody can say whether they ran": "remark",
    }
    assert report.statuses["crashed"] == 2
    assert report.problems["E_TORN_TAIL"] == 1


def test_directories_that_are_open_to_others_or_not_there(given: Settings, tmp_path: Path) -> None:
    given.roots[0].path.chmod(0o777)
    missing = Root(tmp_path / "missing", "refold", "config")
    usual = Root(tmp_path / "usual", "refold", "default")
    file = tmp_path / "file"
    file.write_text("")
    roots = (*given.roots, missing, usual, Root(file, "refold", "--root"))
    said = [check.sentence for check in found(msgspec.structs.replace(given, roots=roots))]
    assert said[0] == f"{given.roots[0].path}: others may put files there or take them away (mode 0777)"
    assert said[1] == f"{tmp_path / 'missing'}: not there"
    assert said[2].startswith(f"{file}: ")
    assert len(said) == 3


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a;touch PWNED", "chmod go-w '{}'"),
        ("a\x15touch PWNED\r", "take the right to write from others: chmod go-w"),
    ],
)
def test_the_command_against_a_directory_that_others_write_to_can_be_pasted(
    name: str, said: str, given: Settings, tmp_path: Path
) -> None:
    open_to_all = tmp_path / name
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    (check,) = found(msgspec.structs.replace(given, roots=(Root(open_to_all, "refold", "config"),)))
    assert check.remedy == said.format(open_to_all)


def test_few_watches_and_a_far_disk(given: Settings) -> None:
    watching, locks = "watching", "locks"
    checks = found(given, watches=100, instances=4, kind="nfs4")
    assert [check.area for check in checks] == [locks, watching]
    assert "nfs4" in checks[0].sentence
    assert "100 file watches" in checks[1].sentence


def test_a_configuration_that_others_may_change(given: Settings) -> None:
    given.config_file.write_text("")
    given.config_file.chmod(0o666)
    (check,) = found(given)
    assert "others may change it (mode 0666)" in check.sentence


def test_nothing_at_all(given: Settings) -> None:
    bare = msgspec.structs.replace(given, roots=(), cache_dir=None)
    report = look_over(bare, proc=Path("/nonexistent"))
    assert report.warnings == 0
    assert any("no runs yet" in check.sentence for check in report.checks)


def test_the_command(
    given: Settings, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = given.roots[0].path
    monkeypatch.setenv("HOME", str(directory.parent))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(directory.parent / name))
    before = {path: path.stat().st_mtime_ns for path in directory.iterdir()}

    code = main(["--root", str(directory), "--only", "doctor", "--json"])
    value = json.loads(capfd.readouterr().out)
    assert code == (1 if value["warnings"] else 0)
    assert value["runs"] == {"total": 1, "statuses": {"completed": 1}, "problems": {}}
    assert {check["area"] for check in value["checks"]} == {
        "runs",
        "directory",
        "locks",
        "watching",
        "cache",
        "notes",
        "trash",
        "config",
    }

    add(directory, "corrupt-interior-line")
    before |= {path: path.stat().st_mtime_ns for path in directory.iterdir()}
    assert main(["--root", str(directory), "--only", "doctor"]) == 1
    out = capfd.readouterr().out
    assert "1 run is damaged: corrupt-interior-line" in out
    assert {path: path.stat().st_mtime_ns for path in directory.iterdir()} == before


def test_what_is_indexed_is_named_with_its_size(given: Settings) -> None:
    assert given.cache_dir is not None
    assert not [check for check in look_over(given).checks if "the index " in check.sentence]
    open_to_build(given.cache_dir).close()
    (said,) = [check for check in look_over(given).checks if "the index " in check.sentence]
    assert said.level == "fine"
    assert "the index of the search, " in said.sentence
    (given.cache_dir / NAME).write_bytes(b"damaged" * 1000)
    (said,) = [check for check in look_over(given).checks if "the index " in check.sentence]
    assert (said.level, said.sentence) == ("remark", f"the index {NAME} is damaged")


def test_names_from_the_disk_are_text(given: Settings, capfd: pytest.CaptureFixture[str]) -> None:
    directory = given.roots[0].path
    (directory / "a\x1b]0;x\x07\udcff.json").write_bytes(b"x")
    code = main(["--root", os.fspath(directory), "--only", "--no-cache", "doctor"])
    out = capfd.readouterr().out
    assert code == 1
    assert not set(out) & set("\x1b\x07")


def test_of_what_cannot_be_read_no_resume_is_promised(given: Settings) -> None:
    path = given.roots[0].path / "heap.json"
    path.write_bytes(b"\0" * 12 + b"\n" + b"\0" * 9)
    path.chmod(0o600)
    report = look_over(given, proc=proc(given.config_file.parent))
    said = [f"{check.sentence} {check.remedy}" for check in report.checks if check.area == "runs"]
    assert any("cannot be read: heap" in each for each in said)
    assert not any("a resume mends" in each for each in said)
