"""How the dialogs look that carry a run elsewhere, and a run through the lens."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import story
from tests.on_screen import settings, shown, until
from textual.pilot import Pilot

from refold.app.bundles import looking_at
from refold.app.main import RefoldApp
from refold.app.screens.run import RunScreen
from refold.core.records import Json
from refold.core.store.bundle import Opened

TOKEN = "ghp_aB3dE6gH9jK2mN5pQ8sTuV1wX4yZ7bC0dF3h"


Compare = Callable[..., bool]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run at a place that is called the same wherever it lies."""
    monkeypatch.chdir(tmp_path)
    path = Path("leaky.json")
    writing = story.Writing("leaky", "set the root password to hunter2").turn(f"use {TOKEN}", "bash:make")
    path.write_bytes(writing.results("all is well").end("completed").data)
    monkeypatch.setattr(os, "getcwd", lambda: "/home/bob/work")
    return path


@pytest.mark.parametrize("keys", [("v",), ("Y",), ("e",)], ids=["lens", "copy", "export"])
def test_how_it_looks(keys: tuple[str, ...], run: Path, snap_compare: Compare) -> None:
    chosen = settings(Path())

    async def ready(pilot: Pilot[None]) -> None:
        screen = pilot.app.screen
        assert isinstance(screen, RunScreen)
        await until(pilot, lambda: screen.reader is not None and screen.reader.complete)
        await pilot.press(*keys)
        wanted = {"v": "2 secrets hidden", "Y": "deep link", "e": "2 secrets will be hidden"}[keys[0]]
        await until(pilot, lambda: wanted in "\n".join(shown(pilot.app)))
        await until(pilot, lambda: "so far" not in "\n".join(shown(pilot.app)))
        await until(pilot, lambda: keys[0] != "e" or "leaky.md" in "\n".join(shown(pilot.app)))

    app = RefoldApp(chosen, lambda: RunScreen(run, settings=chosen, hint="fisk-ai"))
    assert snap_compare(app, terminal_size=(80, 24), run_before=ready)


def test_how_a_bundle_looks(run: Path, snap_compare: Compare) -> None:
    manifest: dict[str, Json] = {"bundle": 1, "redacted": {"password": 2}}
    manifest |= {"written_at": "2026-07-24T09:15:30Z", "written_by": "refold 0.1.0"}
    opened = Opened(run.parent, run, manifest)
    chosen = looking_at(settings(Path()), opened)

    async def ready(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "a bundle" in "\n".join(shown(pilot.app)))
        await until(pilot, lambda: "completed" in "\n".join(shown(pilot.app)))

    app = RefoldApp(chosen, lambda: RunScreen(run, settings=chosen, hint="fisk-ai"))
    assert snap_compare(app, terminal_size=(80, 24), run_before=ready)
