"""What an import costs, and who imports whom: looked at in a fresh interpreter."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"textual", "rich", "watchfiles", "pydantic", "asyncio"}

CORE = """
import importlib, json, pkgutil, sys
import refold.core
for module in pkgutil.walk_packages(refold.core.__path__, "refold.core."):
    if module.name not in sys.argv[1:]:
        importlib.import_module(module.name)
print(json.dumps(sorted(sys.modules)))
"""

COMMAND = """
import json, sys
before = set(sys.modules)
from refold.app.cli import main
code = main(sys.argv[1:])
sys.stdout.flush()
print("\\n" + json.dumps(sorted(set(sys.modules) - before)), file=sys.stderr)
sys.exit(code)
"""


def loaded_by(arguments: list[str], code: str, directory: Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    out = done.stderr if code is COMMAND else done.stdout
    modules: list[str] = json.loads(out.rstrip().rpartition("\n")[2])
    return set(modules)


BUNDLES = """
import json, sys
before = set(sys.modules)
from refold.app.bundles import is_bundle
is_bundle(sys.argv[1])
print(json.dumps(sorted(set(sys.modules) - before)))
"""

START = """
import json, sys
from pathlib import Path
import refold.app.cli_main, refold.app.cli_plain, refold.app.cli_screen, refold.app.main
from refold.app.screens.run import RunScreen
from refold.app.settings import load
from refold.core.store.reader import RunReader
load()
RunReader.open(Path(sys.argv[1])).step(1.0)
print(json.dumps(sorted(sys.modules)))
"""

LATER = {"argparse", "hashlib", "pydantic", "secrets", "watchfiles"} | {
    f"refold.{name}"
    for name in (
        "app.agents", "app.completion", "app.forking", "app.present.conversation",
        "app.present.playing", "app.present.record",
        "app.present.state", "app.resuming", "app.screens.fork",
        "app.screens.resume", "app.screens.runs", "core.fingerprint", "core.fork", "core.formats.gojson",
        "core.formats.meta_line", "core.formats.neutral_decoder", "core.formats.writing", "core.resume",
        "core.breakpoints", "core.fields", "core.playback", "core.seek",
        "core.rivumi.timeline", "core.store.catalog", "core.store.journal", "core.store.notes",
        "core.store.session_reader",
    )
}  # fmt: skip
"""What a run on the screen does without until a key asks for it: each costs what its reader waits for."""

LOOP = ["refold.core.calls", "refold.core.control", "refold.core.runner"]
"""What drives an agent is asynchronous; nothing that reads runs imports it."""


def test_core_loads_nothing_heavy(tmp_path: Path) -> None:
    loaded = loaded_by(LOOP, CORE, tmp_path)
    assert loaded & HEAVY == set()
    assert loaded & set(LOOP) == set()
    assert loaded_by([], CORE, tmp_path) & HEAVY == {"asyncio"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["--help"],
        ["ls"],
        ["ls", "--json"],
        ["ls", "status:crashed"],
        ["show", "RUN"],
        ["show", "RUN@2", "--json"],
        ["state", "RUN", "--json"],
        ["state", "RUN"],
        ["verify", "RUN"],
        ["why", "RUN"],
        ["fork", "RUN", "--at", "2", "--plan"],
        ["repair", "RUN", "--plan"],
        ["note", "RUN"],
        ["tag", "RUN", "+x"],
        ["trash", "RUN", "--plan"],
        ["trash", "--list"],
        ["prune", "--older-than", "1d"],
        ["lineage", "RUN"],
        ["diff", "RUN", "RUN"],
        ["config", "--json"],
        ["completion", "bash"],
        ["completion", "ids"],
        ["--root", "DIR", "--only"],
    ],
    ids=" ".join,
)
def test_commands_load_no_screen(arguments: list[str], journals: Path, tmp_path: Path) -> None:
    run = tmp_path / "completed-simple.json"
    shutil.copy(journals / "v3" / run.name, run)
    run.chmod(0o600)
    there = {"RUN": str(run), "RUN@2": f"{run}@2", "DIR": str(journals / "v3")}
    assert loaded_by([there.get(word, word) for word in arguments], COMMAND, tmp_path) & HEAVY == set()


def test_a_list_that_the_cache_knows_loads_nothing_that_reads_a_run(journals: Path, tmp_path: Path) -> None:
    ls = ["ls", "--json", "--only", "--root", str(journals / "v3")]
    readers = {f"refold.core.store.{name}" for name in ("growing", "journal_reads", "reader", "summarise")}
    assert loaded_by([*ls, "--no-cache"], COMMAND, tmp_path) >= readers
    loaded_by(ls, COMMAND, tmp_path)
    more = {"refold.core.timeline", "refold.core.formats.journal", "refold.app.present.runs", "traceback"}
    assert loaded_by(ls, COMMAND, tmp_path) & (readers | more) == set()


def test_the_first_rows_of_a_run_wait_for_nothing_that_is_needed_later(
    journals: Path, tmp_path: Path
) -> None:
    run = tmp_path / "completed-simple.json"
    shutil.copy(journals / "v2" / run.name, run)
    assert loaded_by([str(run)], START, tmp_path) & LATER == set()


def test_what_a_bundle_is_unpacked_with_waits_for_one(journals: Path, tmp_path: Path) -> None:
    loaded = loaded_by([str(journals / "v2" / "completed-simple.json")], BUNDLES, tmp_path)
    assert loaded & {"bz2", "lzma", "shutil", "tempfile", "zipfile", "refold.core.store.bundle"} == set()


def test_version_needs_neither_parser_nor_core(tmp_path: Path) -> None:
    loaded = loaded_by(["--version"], COMMAND, tmp_path)
    assert {name for name in loaded if name.startswith("refold")} == {
        "refold",
        "refold.app",
        "refold.app.cli",
        "refold.core",
        "refold.core.version",
    }
    assert loaded & {"argparse", "msgspec", "pathlib", "dataclasses"} == set()


def test_core_is_never_imported_twice(tmp_path: Path) -> None:
    loaded = loaded_by([], CORE, tmp_path)
    assert not {name for name in loaded if name.split(".")[0] in ("core", "app")}


@pytest.mark.parametrize("text", ["os.environ", "os.getenv", "environb", "import environ", "import getenv"])
def test_only_the_settings_read_the_environment(text: str, project: Path) -> None:
    readers = {
        str(path.relative_to(project))
        for top in ("app", "core")
        for path in (project / top).rglob("*.py")
        if text in path.read_text()
    }
    assert readers <= {"app/settings.py"}


def test_names_of_formats_are_compared_where_formats_are_known(project: Path) -> None:
    """Architecture.md, rule 4: a new format is one file and a line in a registry."""
    compared = re.compile(r"""[!=]= ?"(refold|fisk-ai|rivumi)"|\bin [({]"(refold|fisk-ai|rivumi)\"""")
    found = [
        f"{path.relative_to(project)}: {line.strip()}"
        for top in ("app", "core")
        for path in (project / top).rglob("*.py")
        if (project / "core" / "formats") not in path.parents
        for line in path.read_text().splitlines()
        if compared.search(line)
    ]
    assert found == []


def test_no_file_of_the_program_is_long(project: Path) -> None:
    """Architecture.md, rule 5: a file that grows beyond this has more than one job."""
    long = {
        str(path.relative_to(project)): lines
        for top in ("app", "core", "styles")
        for path in (project / top).rglob("*.*")
        if path.suffix in {".py", ".tcss"} and (lines := path.read_bytes().count(b"\n")) > 500
    }
    assert long == {}
