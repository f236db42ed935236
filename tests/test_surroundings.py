"""Homes that nobody may look into, and names that no system takes: the program works all the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import generate
from tests.terminal.program import environment, refold, run, without_privileges
from tests.terminal.terminal import Terminal


@pytest.fixture
def store(tmp_path: Path) -> Path:
    where = tmp_path / "runs"
    where.mkdir()
    generate.write(where / "good.json", generate.journal(records=9, run_id="good"))
    return where


@pytest.fixture(params=["closed", "long", "file"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A home as another user's is, one with a name no file can have, and one that is no directory."""
    if request.param == "long":
        yield Path("/" + "h" * 5000)
        return
    if request.param == "file":
        (tmp_path / "file").write_text("no home")
        yield tmp_path / "file"
        return
    closed = tmp_path / "closed"
    (closed / "home").mkdir(parents=True)
    closed.chmod(0)
    yield closed / "home"
    closed.chmod(0o700)


def test_every_command_works_without_a_home(home: Path, store: Path) -> None:
    good = store / "good.json"
    for command in (
        ("ls", "--only", "--root", store),
        ("show", good),
        ("show", "good", "--only", "--root", store),
        ("config",),
    ):
        done = run(*command, home=home, rights=without_privileges)
        assert (done.returncode, done.stderr) == (0, b""), command
        assert done.stdout


def test_the_config_command_says_that_there_is_no_file(home: Path) -> None:
    done = run("config", "--json", home=home, rights=without_privileges)

    assert json.loads(done.stdout)["config_found"] is False


def test_a_run_is_found_where_no_default_directory_can_be_looked_at(home: Path, store: Path) -> None:
    done = run("state", "good", "--root", store, home=home, rights=without_privileges)
    assert done.returncode == 0

    done = run("ls", home=home, rights=without_privileges)
    assert done.returncode == 0
    assert b"fault" not in done.stderr


def test_the_screen_works_without_a_home(home: Path, store: Path) -> None:
    with Terminal(
        refold("--only", "--root", store), env=environment(home), rights=without_privileges
    ) as terminal:
        terminal.wait("good")
        terminal.press("enter")
        terminal.wait("seq 1 / ")
        assert terminal.quit() == 0
