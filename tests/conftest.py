"""Every test runs in a home of its own, in UTC, without the colours and caches of who started it."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from refold.app.settings import Settings

settings.register_profile("refold", deadline=None)
settings.load_profile("refold")

_HOME = pytest.StashKey[str]()
_FOREIGN = (
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "RIVUMI_RUN_ROOT",
    "LOOPLANE_RUN_ROOT",
    "PCA_RUN_ROOT",
    "RIVUMI_CONVERSATION_ROOT",
    "LOOPLANE_CONVERSATION_ROOT",
    "PCA_CONVERSATION_ROOT",
    "NO_COLOR",
    "COLORTERM",
    "COLUMNS",
    "LINES",
    "FORCE_COLOR",
)


def pytest_configure(config: pytest.Config) -> None:
    home = tempfile.mkdtemp(prefix="refold-home-")
    config.stash[_HOME] = home
    # What Textual's snapshots pass on to their workers is not of the user's.
    theirs = [name for name in os.environ if name.startswith("TEXTUAL") and "SNAPSHOT" not in name]
    for name in (*_FOREIGN, *theirs):
        os.environ.pop(name, None)
    os.environ.update(
        HOME=home,
        TZ="UTC",
        LC_ALL="C.UTF-8",
        LANG="C.UTF-8",
        TERM="xterm-256color",
        TEXTUAL_ANIMATIONS="none",
    )
    time.tzset()


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[_HOME], ignore_errors=True)


@pytest.fixture(scope="session")
def project() -> Path:
    """The root of the source tree."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def journals(project: Path) -> Path:
    """The directory that holds v2 and v3 journals with their expected outcomes; nobody writes here."""
    return project / "tests" / "data" / "fisk-ai"


@pytest.fixture(scope="module")
def demo_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of the demo, as they are seen from `tests.on_screen.DEMO_TIME`; to be looked at alone."""
    from tests.on_screen import DEMO_TIME

    from refold.app import demo

    directory = tmp_path_factory.mktemp("demo")
    demo.make(directory, DEMO_TIME)
    return directory


@pytest.fixture
def demo_settings(demo_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings with a copy of them; paths on the screen are relative: the same on every machine."""
    from tests.on_screen import settings as with_nothing

    from refold.app import demo
    from refold.core.store.roots import Root

    monkeypatch.chdir(tmp_path)
    shutil.copytree(demo_directory, "demo")
    roots = tuple(Root(root.path, root.hint, "--root") for root in demo.roots(Path("demo")))
    return msgspec.structs.replace(with_nothing(Path()), roots=roots)
