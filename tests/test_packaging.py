"""The wheel holds exactly the tree, and what is installed from it runs anywhere."""

from __future__ import annotations

import configparser
import subprocess
import sys
import sysconfig
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from refold.core.version import __version__

pytestmark = pytest.mark.xdist_group("packaging")


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", made, cwd=project)
    (path,) = made.glob("*.whl")
    return path


def tree(project: Path) -> set[str]:
    return {
        f"refold/{path.relative_to(project)}"
        for top in ("app", "core", "styles")
        for path in (project / top).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_exactly_the_tree(wheel: Path, project: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == tree(project)
    assert {"refold/app/py.typed", "refold/core/py.typed"} <= names


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    info = f"refold-{__version__}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        scripts = configparser.ConfigParser()
        scripts.read_string(archive.read(f"{info}/entry_points.txt").decode())
        assert f"{info}/licenses/LICENSE" in archive.namelist()
    assert metadata["Name"] == "refold"
    assert metadata["Version"] == __version__
    assert metadata["Requires-Python"] == ">=3.11"
    assert scripts["console_scripts"]["refold"] == "refold.app.cli:main"


def test_an_installed_wheel_runs_from_another_directory(
    wheel: Path, journals: Path, tmp_path: Path, project: Path
) -> None:
    home = tmp_path / "venv"
    venv.create(home, with_pip=True, symlinks=True)
    python = home / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    # The dependencies come from this environment: a path line, so that its own .pth files do not count.
    purelib = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip()
    )
    (purelib / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    where = run(python, "-c", "import refold.core as core; print(core.__file__)", cwd=tmp_path).strip()
    assert Path(where).is_relative_to(home), "the tree was run, not what is installed"
    assert run(home / "bin" / "refold", "--version", cwd=tmp_path) == f"refold {__version__}\n"
    listed = run(home / "bin" / "refold", "ls", "--json", "--only", "--root", journals / "v3", cwd=tmp_path)
    assert len(listed.splitlines()) == len([*(journals / "v3").glob("*.json")])
    screen = "import refold.app.main as main; print(main.RefoldApp.__name__)"
    assert run(python, "-c", screen, cwd=tmp_path) == "RefoldApp\n"
    styles = {path.name for path in (purelib / "refold" / "styles").iterdir()}
    assert styles == {path.name for path in (project / "styles").iterdir()}
