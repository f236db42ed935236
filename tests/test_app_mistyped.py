"""Words that are neither a command nor a run, on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import story

from refold.app.cli import main


@pytest.fixture
def only(tmp_path: Path) -> list[str]:
    for name in ("billing-sweep", "nightly-0712"):
        (tmp_path / f"{name}.json").write_bytes(story.Writing(name, "look at this").end("completed").data)
    return ["--root", str(tmp_path), "--only"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("sl",), 3, "no command and no run 'sl'; looked in {0}; did you mean 'ls'?"),
        (("list",), 3, "did you mean 'ls'?"),
        (("forkk", "x"), 2, "no command 'forkk', and a run alone takes no 'x'; did you mean 'fork'?"),
        (("forkk", "--plan"), 2, "did you mean 'fork'?"),
        (("show", "billing-swep"), 3, "did you mean the run 'billing-sweep'?"),
        (("billing-swep",), 3, "did you mean the run 'billing-sweep'?"),
        (("show", "sl"), 3, "refold: no run 'sl'; looked in {0} (see"),
        (("serve", "nowhere"), 3, "no run 'nowhere'"),
        (("open", "billing-sweep", "x"), 2, "refold open: unrecognized arguments: x"),
        (("ls", "crashed"), 0, "2 runs hidden by the filter; did you mean status:crashed?"),
        (("ls", "nothing"), 0, "2 runs hidden by the filter\n"),
    ],
)
def test_a_mistyped_word_is_said_to_be_one(
    only: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    assert main([*only, *words]) == code
    assert said.format(tmp_path) in capsys.readouterr().err


def test_help_is_a_word_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    assert "commands ('refold COMMAND --help' says more)" in capsys.readouterr().out
    assert main(["help", "fork"]) == 0
    assert "refold fork [options] RUN" in capsys.readouterr().out


def test_a_dry_prune_is_what_a_prune_is(only: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*only, "prune", "--dry-run", "billing"]) == 0
    said = capsys.readouterr().out
    assert main([*only, "prune", "billing"]) == 0
    assert capsys.readouterr().out == said
    assert main([*only, "prune", "--dry-run", "--yes", "billing"]) == 2
