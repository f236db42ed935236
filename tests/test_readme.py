"""What the README says is what the program does."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import stat
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType

import pytest

from refold.app import cli_exit, themes
from refold.app.cli import main
from refold.app.cli_parser import COMMANDS
from refold.app.settings import load
from refold.core.filter import KEYS
from refold.core.findings import CODES
from refold.core.records import MetaRecord
from refold.core.status import STATUSES
from refold.core.store.journal import JournalStore


@pytest.fixture(scope="module")
def readme(project: Path) -> str:
    return (project / "README.md").read_text()


@pytest.fixture(scope="module")
def make(project: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_pictures", project / "screenshots" / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def block(readme: str, marker: str) -> str:
    """The fenced block behind a marker."""
    found = re.search(rf"<!-- {marker} -->\n```\w+\n(.*?)```\n", readme, re.DOTALL)
    assert found is not None, marker
    return found[1]


def table(readme: str, marker: str) -> list[str]:
    """The first column of the table behind a marker."""
    after = readme.partition(f"<!-- {marker} -->")[2].partition("<!--")[0].partition("\n#")[0]
    return re.findall(r"^\| `(\w+)` \|", after, re.MULTILINE)


def test_the_table_of_keys_is_that_of_the_program(readme: str, make: ModuleType) -> None:
    assert make.with_keys(readme) == readme, "run screenshots/make.py"


def test_every_link_within_the_page_leads_to_a_heading(readme: str) -> None:
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", readme, flags=re.DOTALL), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    linked = set(re.findall(r"\]\(#([^)]+)\)", readme))
    assert len(linked) > 10
    assert linked <= anchors


def test_the_schemas_are_what_is_printed(
    readme: str, journals: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def keys(*arguments: str) -> list[set[str]]:
        main([*arguments, "--json"])
        return [set(json.loads(line)) for line in capsys.readouterr().out.splitlines()]

    good, bad = (str(journals / "v3" / f"{name}.json") for name in ("completed-simple", "corrupt-first-line"))
    assert keys("ls", "--root", str(journals / "v3"))[0] == set(table(readme, "json ls"))
    assert keys("search", "healthy", "--root", str(journals / "v3"))[0] == set(table(readme, "json search"))
    assert keys("verify", bad)[0] == set(table(readme, "json verify"))
    assert keys("why", bad)[0] == set(table(readme, "json why"))
    assert keys("doctor", "--only", "--root", str(journals / "v3"))[0] == set(table(readme, "json doctor"))
    assert keys("diff", good, bad)[0] == set(table(readme, "json diff"))
    assert keys("config")[0] == set(table(readme, "json config"))
    rivumi = journals.parent / "rivumi" / "04-tail-tool-started"
    assert keys("replay", str(rivumi))[0] == set(table(readme, "json replay"))
    shown = set(table(readme, "json show"))
    assert keys("show", good)[0] == shown - {"record", "raw"}
    assert keys("show", f"{good}@2")[0] == shown
    said = keys("state", good, bad) + keys("state", "--salvage", bad)
    assert set().union(*said) == set(table(readme, "json state"))


def test_every_finding_stands_in_the_table_as_the_program_says_it(readme: str) -> None:
    after = readme.partition("<!-- codes -->\n")[2].partition("\n\n")[0]
    rows = [
        f"| `{code}` | {entry.severity} | {entry.meaning} | {entry.remedy} |" for code, entry in CODES.items()
    ]
    assert after.split("\n")[2:] == rows


def test_every_key_of_a_state_is_named(
    readme: str, journals: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["state", "--json", str(journals / "v3" / "crashed-mid-tool-batch.json")])
    state = json.loads(capsys.readouterr().out)["state"]
    (row,) = re.findall(r"^\| `state` \| .*$", readme, re.MULTILINE)
    for part in (state, state["fingerprint"], state["counters"], state["pending"]):
        for key in part:
            assert f"`{key}`" in row


def test_the_example_of_the_library_runs(readme: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", block(readme, "library-example")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True 1 ({'type': 'text', 'text': 'Hello.'},)\n"
    with JournalStore(tmp_path / "runs").create("again", MetaRecord()) as journal:
        assert journal.last_seq == 1
    assert stat.S_IMODE((tmp_path / "runs" / "hello.json").stat().st_mode) == 0o600


def test_the_example_of_the_configuration_is_understood(readme: str, tmp_path: Path) -> None:
    (tmp_path / "refold").mkdir()
    (tmp_path / "refold" / "config.toml").write_text(block(readme, "config-example"))
    settings = load(environ={"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)})
    assert settings.theme in {theme.name for theme in themes.THEMES}
    assert settings.utc
    assert settings.columns
    assert len(settings.roots) == 6
    assert settings.keymap


def test_the_tables_are_complete(readme: str) -> None:
    for status in STATUSES:
        assert f"`{status}`" in readme
    for command in COMMANDS:
        assert f"\nrefold {command} " in readme
    for key in KEYS:
        assert f"{key}:" in readme
    for theme in ("refold-dark", "refold-light", "refold-contrast"):
        assert theme in {known.name for known in themes.THEMES}
        assert f"`{theme}`" in readme
    codes = {int(code) for code in re.findall(r"^\| (\d+) \| ", readme, re.MULTILINE)}
    named = {value for name, value in vars(cli_exit).items() if name.isupper() and isinstance(value, int)}
    assert codes == named - {cli_exit.PIPE_CLOSED}


def test_pictures_are_there_and_fetch_nothing(readme: str, project: Path, make: ModuleType) -> None:
    names = re.findall(r"!\[[^]]+\]\(([^)]+)\)", readme)
    assert set(names) == {f"screenshots/{name}.svg" for name in (*make.PICTURES, make.FILM)}
    for name in names:
        text = (project / name).read_text()
        root = ET.fromstring(text)
        assert root.tag.endswith("svg")
        assert not re.findall(r"""(?:href|src|url)\s*[=(]\s*["']?https?:""", text)


def test_ci_runs_the_test_command_of_the_readme(readme: str, project: Path) -> None:
    ci = project / ".ci" / "run"
    assert os.access(ci, os.X_OK)
    script = re.search(r"^test_command=\$\((.*)\)$", ci.read_text(), re.MULTILINE)
    assert script is not None
    done = subprocess.run(["bash", "-c", script[1]], cwd=project, capture_output=True, text=True, check=True)
    assert done.stdout == block(readme, "test-command")
    assert done.stdout.endswith("&& .venv/bin/pytest\n")
    subprocess.run(["bash", "-n", ci], check=True)


def test_both_commands_are_one_line(readme: str) -> None:
    for marker in ("demo-command", "test-command"):
        command = block(readme, marker)
        assert command.count("\n") == 1
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -q ")
