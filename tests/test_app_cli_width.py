"""How wide the rows of the command line are: as COLUMNS says, also where the output is no terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import run_story

from refold.app.cli import main
from refold.app.safe import line, width


@pytest.mark.parametrize("command", ["ls", "show", "diff", "history"])
@pytest.mark.parametrize("columns", [40, 60, 100])
def test_rows_in_a_pipe_are_as_wide_as_the_environment_says(
    command: str,
    columns: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    run_story.write(runs / "one.json", run_story.fix_add())
    run_story.write(runs / "two.json", [*run_story.fix_add()[:5], run_story.result(6, "c3", "x" * 300)])
    words = {"ls": [], "show": ["one"], "diff": ["one", "two"], "history": []}[command]
    given = ["--root", str(runs), "--only", command, *words]

    def widest() -> int:
        main(given)
        rows = [row for row in capsys.readouterr().out.splitlines() if str(tmp_path) not in row]
        return max((width(line(row)) for row in rows), default=0)

    free = widest()
    monkeypatch.setenv("COLUMNS", str(columns))
    assert widest() <= columns
    for odd in ("", "0", "-5", "wide", "9" * 5000, "1e3"):
        monkeypatch.setenv("COLUMNS", odd)
        assert widest() == free
    monkeypatch.setenv("COLUMNS", "999999999")
    assert widest() < 5000


def test_no_width_is_too_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    run_story.write(runs / "one.json", run_story.damaged())
    run_story.write(runs / "two.json", run_story.hostile())
    commands = [
        *(
            ["show", "one"],
            ["show", "one@2"],
            ["ls"],
            ["state", "one"],
            ["why", "one"],
            ["diff", "one", "two"],
        ),
        *(["resume", "one", "--plan"], ["lineage", "one"], ["search", "add"], ["history"]),
    ]
    for columns in (1, 2, 3, 7, 13):
        monkeypatch.setenv("COLUMNS", str(columns))
        for command in commands:
            assert main(["--root", str(runs), "--only", *command]) in (0, 1), (columns, command)
    assert "fault" not in capsys.readouterr().err
