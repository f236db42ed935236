"""Forks are the program: they say, show and end as it does."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.home import forked, screen, store
from tests.terminal.forks import Forks
from tests.terminal.program import run


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks() as server:
        yield server


@pytest.mark.parametrize("words", [("ls", "--json"), ("show", "run-0"), ("verify", "none"), ("nonsense",)])
def test_a_fork_says_what_the_program_says(words: tuple[str, ...], forks: Forks, tmp_path: Path) -> None:
    runs = store(tmp_path / "place")
    where = () if words == ("nonsense",) else ("--only", "--root", runs)
    told = [ran(*words, *where, home=tmp_path / "place" / "home") for ran in (run, forks.run)]
    assert [(one.returncode, one.stdout, one.stderr) for one in told[:1]] == [
        (one.returncode, one.stdout, one.stderr) for one in told[1:]
    ]


def test_a_fork_shows_what_the_program_shows(forks: Forks, tmp_path: Path) -> None:
    store(tmp_path / "place")
    shown = []
    for start in (screen, lambda place: forked(forks, place)):
        with start(tmp_path / "place") as terminal:
            terminal.wait("watching")
            terminal.settle(0.3)
            shown.append(terminal.text)
            assert terminal.quit() == 0
    assert shown[0] == shown[1]


def test_a_fork_dies_at_the_call_that_was_named(forks: Forks, tmp_path: Path) -> None:
    runs = store(tmp_path / "place")
    fail = ("link", 1, "kill", str(tmp_path / "place"))
    with forked(forks, tmp_path / "place", fail) as terminal:
        terminal.wait("run-2")
        terminal.press("f")
        terminal.wait("legal")
        terminal.press("enter")
        assert terminal.ended() == -signal.SIGKILL
    assert not list(runs.glob("run-2-*.json"))
