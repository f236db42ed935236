"""The example of the README for runs in the shape of Rivumi: it runs as it stands."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="no git here")


def _git(directory: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", str(directory), *identity, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@needs_git
def test_it_is_killed_claimed_decided_and_finished(project: Path, tmp_path: Path) -> None:
    found = re.search(
        r"<!-- session-example -->\n```python\n(.*?)```\n", (project / "README.md").read_text(), re.DOTALL
    )
    assert found is not None
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    _git(repository, "init", "-q")
    _git(repository, "add", "calc.py")
    _git(repository, "commit", "-q", "-m", "Begin.")
    root = tmp_path / "runs"
    known = {"root": root, "repository": str(repository), "commit": _git(repository, "rev-parse", "HEAD")}
    exec(compile(found[1], "README.md", "exec"), known)
    manifest = json.loads((root / "first" / "session.json").read_bytes())
    assert (manifest["phase"], manifest["run_id"]) == ("completed", "first")
    log = (root / "first" / "events.jsonl").read_text().splitlines()
    decided = [event for event in map(json.loads, log) if "decision" in event["data"]]
    assert [event["event_type"] for event in decided] == ["tool.completed"]
