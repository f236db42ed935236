"""What ends a run directory for good: no answer, no force and no other agent goes past it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from refold.core.barred import Barred
from refold.core.rivumi.manifest import Manifest

FORK_PROTOCOL: Final = "replay-fork"
"""The protocol that the original's forks name (formats/rivumi.md 6)."""


def barred_by(manifest: Manifest | None, name: str, *, problem: str = "") -> Iterator[Barred]:
    """Give everything that bars a run for good, as far as its manifest tells.

    Args:
        manifest: what it claims; None where there is none, or none that can be read.
        name: what its directory is called.
        problem: why the manifest cannot be read; empty where it is missing.
    """
    if manifest is None:
        if problem:
            yield Barred("manifest_unreadable", f"session.json cannot be read: {problem}")
        else:
            yield Barred("manifest_missing", "there is no session.json: another tool ran here, or it is lost")
        return
    if manifest.terminal:
        yield Barred("terminal", f"the run has ended: {manifest.phase}")
    if manifest.run_id != name:
        text = f"session.json is of run {manifest.run_id}, the directory is called {name}"
        yield Barred("copied_directory", f"{text}: a resume would mix two run ids in one log")
    if manifest.protocol == FORK_PROTOCOL:
        yield Barred("fork", "a fork of its own program names no provider that could go on")
