"""`refold why`: the post-mortem on the command line says what the screen says, and lets no secret out."""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from tests import rivumi_cases
from tests import run_story as story
from tests.damage import KINDS, damage
from tests.generate import journal
from tests.on_screen import settings, until

from refold.app import cli_why, demo
from refold.app.cli import main
from refold.app.cli_commands import COMMANDS
from refold.app.demo_agent import FACTORY
from refold.app.main import RefoldApp
from refold.app.screens.postmortem import PostmortemScreen
from refold.app.widgets.line_list import GUTTER
from refold.core.store.lock import RunLock
from refold.core.store.roots import Root

NOW = datetime(2026, 7, 24, 12, 0, tzinfo=UTC)
COLUMNS = 100
SECRET = "sk-ant-api03-" + "Qz7Rk2Lm9Xw4Tv8Np3" * 3


def lines_of(out: str) -> list[str]:
    """What was printed, without the two rows that name the run and without the commands."""
    return [row for row in out.split("\n")[3:-1] if not row.startswith("       refold ")]


@pytest.mark.parametrize(
    "name", ["fix-date-parser", "rename-notes", "index-photos", "never-began", "crawl-docs", "nightly-audit"]
)
async def test_it_says_what_the_screen_says(
    demo_directory: Path,
    name: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = next(demo_directory.glob(f"*/runs/{name}.json"))
    hint = path.parent.parent.name
    here = msgspec.structs.replace(settings(tmp_path), roots=(Root(path.parent, hint, "--root"),))
    screen = PostmortemScreen(path, hint, here, clock=NOW.timestamp)
    async with RefoldApp(here, lambda: screen).run_test(size=(COLUMNS, 50)) as pilot:
        await until(pilot, lambda: screen.is_read)
        width = screen.listing.scrollable_content_region.width - GUTTER
        rows = screen.listing.rows
        shown = ["".join(cell.text for cell in rows.line(at, width)).rstrip() for at in range(len(rows))]
    monkeypatch.setattr(cli_why, "_COLUMNS", width)
    assert main(["why", str(path), "--no-redact"]) == 1
    assert lines_of(capsys.readouterr().out) == shown


def test_a_run_directory_is_explained_by_both_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = rivumi_cases.make("04-tail-tool-started", tmp_path)
    assert main(["why", str(run), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["happened"] == "It died in turn 2 while replace_text (calc.py) was in flight."
    assert [each["effect"] for each in told["in_flight"]] == ["write"]
    assert told["format"] == "rivumi"
    assert any("session.json and the log end at the same event" in each for each in told["position"])
    assert told["against"]


def test_each_command_that_is_named_can_be_typed(
    demo_directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torn = tmp_path / "it's torn.json"
    torn.write_bytes(next(demo_directory.glob("*/runs/index-photos.json")).read_bytes())
    named: set[str] = set()
    for path in (
        torn,
        next(demo_directory.glob("*/runs/rename-notes.json")),
        next(demo_directory.glob("rivumi/runs/7f3c*")),
    ):
        main(["why", str(path), "--json"])
        for action in json.loads(capsys.readouterr().out)["actions"]:
            assert (action["command"] is not None) == (action["possible"] and action["name"] != "nothing")
            if action["command"]:
                program, command, *rest = shlex.split(action["command"])
                assert (program, command in COMMANDS) == ("refold", True)
                rest = [f"{word}failed" if word.startswith("--decide=") else word for word in rest]
                assert main([command, *rest, "--plan"]) in (0, 1)
                assert "not found" not in capsys.readouterr().err
                named.add(command)
    assert named == {"resume", "fork", "salvage", "repair"}


def test_the_command_of_a_resume_asks_for_all_that_has_to_be_answered(
    demo_directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "work"
    demo.make(work, NOW)
    run = work / "refold" / "runs" / "fix-date-parser.json"
    given = ["--root", str(run.parent)]
    assert main(["why", str(run), "--json"]) == 1
    actions = json.loads(capsys.readouterr().out)["actions"]
    (command,) = (each["command"] for each in actions if each["name"] == "resume")
    asked = command.replace("package.module:factory", FACTORY).replace("toolu_04=", "toolu_04=failed")
    assert asked != command
    assert "--decide=toolu_04=" in command
    assert main([*shlex.split(asked)[1:], "--plan", *given]) == 0, capsys.readouterr()
    main(["why", str(run)])
    assert f"       {command}\n" in capsys.readouterr().out


def test_the_exit_code_says_whether_something_is_unsure(
    demo_directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, code in (("refactor-imports", 0), ("migrate-schema", 0), ("fix-date-parser", 1)):
        assert main(["why", str(next(demo_directory.glob(f"*/runs/{name}.json")))]) == code, name
    assert main(["why", str(tmp_path / "absent.json")]) == 3
    assert "absent" in capsys.readouterr().err
    held = tmp_path / "fix-date-parser.json"
    held.write_bytes(next(demo_directory.glob("*/runs/fix-date-parser.json")).read_bytes())
    lock = RunLock.take(held.with_suffix(".lock"))
    try:
        assert main(["why", str(held)]) == 0
    finally:
        lock.release()
    assert "An agent is at work on it now" in capsys.readouterr().out


def test_no_secret_leaves_in_an_argument_that_is_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call: dict[str, object] = {
        "type": "tool_use",
        "id": "t",
        "name": "bash",
        "input": {"command": f"curl -H 'x-api-key: {SECRET}' https://example.org", "password": "hunter2!x"},
    }
    path = story.write(
        tmp_path / "leaky.json",
        [story.meta(1, "leaky", "go", time="2026-07-24T09:00:00Z"), story.assistant(2, 1, call)],
    )
    with path.open("ab") as file:
        file.write(b'{"seq":3,"note":"' + SECRET.encode())
    for form in ([], ["--json", "--redact"]):
        assert main(["why", str(path), *form]) == 1
        answer = capsys.readouterr()
        assert "bash" in answer.out
        for start in range(len("sk-ant-api03-"), len(SECRET) - 8):
            assert SECRET[start : start + 8] not in answer.out
        assert "hunter2" not in answer.out
        assert "--no-redact keeps them" in answer.err
    main(["why", str(path), "--no-redact"])
    assert SECRET[:16] in capsys.readouterr().out


def test_a_bundle_is_explained_and_only_to_be_read(
    demo_directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, bundle = next(demo_directory.glob("*/runs/fix-date-parser.json")), tmp_path / "parser.zip"
    assert main(["export", str(path), "--format", "bundle", "-o", str(bundle)]) == 0
    capsys.readouterr()
    assert main(["why", str(bundle), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["path"] == str(bundle)
    assert told["happened"] == "It died in turn 3 while replace_text (dates/parser.py) was in flight."
    assert [action["name"] for action in told["actions"] if action["possible"]] == ["nothing"]
    assert not any(action["command"] for action in told["actions"])


@pytest.mark.parametrize("kind", KINDS)
def test_any_damage_is_explained(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = b"".join(journal(records=20, style="fisk-ai-v3", run_id="run", seed=5))
    path = tmp_path / "run.json"
    path.write_bytes(damage(kind, 1, good))
    assert main(["why", str(path), "--json"]) in (0, 1)
    told = json.loads(capsys.readouterr().out)
    assert main(["why", str(path), "--no-redact"]) in (0, 1)
    printed = " ".join(capsys.readouterr().out.split())
    assert " ".join(f"{told['happened']} {told['safe']}".split()) in re.sub(r"\s+", " ", printed)


def test_who_only_looks_starts_no_agent(
    demo_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started = tmp_path / "started"
    (tmp_path / "mine.py").write_text(f"open({str(started)!r}, 'w')\n\ndef make():\n    raise ValueError\n")
    (tmp_path / "refold").mkdir()
    (tmp_path / "refold" / "config.toml").write_text('[agents.refold]\nagent = "mine:make"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    path = next(demo_directory.glob("*/runs/fix-date-parser.json"))
    main(["--read-only", "why", str(path)])
    assert not started.exists()
    main(["why", str(path)])
    assert started.exists()
    assert "It died in turn 3" in capsys.readouterr().out


def test_of_a_tool_that_nobody_described_it_is_said_where_that_can_be_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    demo.make(tmp_path, NOW)
    main(["why", "nightly-audit"])
    said = " ".join(capsys.readouterr().out.split())
    assert "read_log effect unknown" in said
    assert '[agents.NAME] in config.toml can say it: effects = { read_log = "read" }' in said
    config = tmp_path / "config/refold/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[agents.fisk-ai]\neffects = { read_log = "read" }\n')
    main(["why", "nightly-audit"])
    said = " ".join(capsys.readouterr().out.split())
    assert "read_log reads only" in said
    assert "[agents.NAME]" not in said
