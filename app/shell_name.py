"""What a command that is pasted elsewhere takes for a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from refold.core.store.resolve import called_exactly
from refold.core.store.run_id import is_run_id

if TYPE_CHECKING:
    from refold.app.settings import Settings

DEMO: Final = "demo"
"""Where the directories of the demo come from: no other command looks into them by itself."""
_ONLY_HERE: Final = frozenset({"--root", DEMO})


def shell_name(run: Path, settings: Settings) -> str:
    """Give the id of a run where every command finds exactly this run by it, else its path.

    Args:
        run: Its journal or directory, as an absolute path.
        settings: The directories in which an id is looked for.
    """
    run_id = run.name.removesuffix(".json")
    roots = [root for root in settings.roots if root.origin not in _ONLY_HERE]
    # A file may be called by what no command takes for an id, and two runs by the same.
    found = is_run_id(run_id) and called_exactly(run_id, roots) == [run]
    return run_id if found else os.path.abspath(run)  # noqa: PTH100 - a link stays one
