"""The agent of the README: it runs, it is typed, and what is left of its run at any record goes on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.terminal.program import HANGS, environment

from refold.core.store.journal import JournalStore


@pytest.fixture
def notes(project: Path, tmp_path: Path) -> Path:
    found = re.search(
        r"<!-- agent-example -->\n```python\n(.*?)```\n", (project / "README.md").read_text(), re.DOTALL
    )
    assert found is not None
    path = tmp_path / "notes.py"
    path.write_text(found[1])
    (tmp_path / "in.txt").write_text("hello")
    return path


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=60)


def test_it_runs_and_goes_on_from_every_record(notes: Path) -> None:
    home = notes.parent
    done = run(sys.executable, notes, cwd=home)
    assert (done.stdout, done.stderr) == ("completed out.txt is written.\n", "")
    assert (home / "out.txt").read_text() == "HELLO"
    journal = home / "runs" / "notes.json"
    lines = journal.read_bytes().splitlines(keepends=True)
    assert len(lines) == 7
    for kept in range(1, 7):
        journal.write_bytes(b"".join(lines[:kept]))
        again = run(sys.executable, notes, cwd=home)
        if kept == 4:
            assert "write_file (call-1): outcome unknown" in again.stderr
            assert (again.returncode, again.stderr.count("\n")) == (1, 1)
        else:
            assert again.stdout == "completed out.txt is written.\n", again.stderr
            assert JournalStore(home / "runs").load("notes").counters.tool_calls == 2


def test_the_command_line_runs_it(notes: Path) -> None:
    refold = (sys.executable, "-m", "refold.app")
    done = run(*refold, "run", "notes:make", "Shout.", cwd=notes.parent)
    assert (done.returncode, done.stdout) == (0, "out.txt is written.\n")


def test_its_crash_is_gone_on_with_by_the_commands_that_are_printed(notes: Path, project: Path) -> None:
    recipe = re.search(
        r"<!-- crash-recipe -->\n```sh\n(.*?)```\n", (project / "README.md").read_text(), re.DOTALL
    )
    assert recipe is not None
    head = "async def write_file(path: str, text: str) -> str:\n"
    text = notes.read_text()
    assert head in text
    notes.write_text(text.replace(head, f"{head}    await asyncio.sleep(60)\n"))
    place = notes.parent
    home = environment(place / "home")
    path = f"{Path(sys.executable).parent}{os.pathsep}{home['PATH']}"
    done = subprocess.run(
        ["sh", "-c", recipe[1]],
        cwd=place,
        env={**home, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )
    assert done.returncode == 0, done.stderr
    assert "write_file (call-1): outcome unknown" in done.stderr
    pasted = f"refold resume {place / 'runs' / 'notes.json'} --agent notes:make --decide=call-1="
    assert f"  {pasted}\n" in done.stdout
    store = JournalStore(place / "runs")
    assert store.load("notes").terminal is not None
    assert not (place / "out.txt").exists()


def test_it_is_typed_and_short(notes: Path, project: Path) -> None:
    done = run(sys.executable, "-m", "mypy", "--config-file", project / "pyproject.toml", notes, cwd=project)
    assert done.returncode == 0, done.stdout
    lines = [line for line in notes.read_text().splitlines() if line.strip()]
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 120
