"""What a command that is pasted elsewhere takes for a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from refold.core.store.run_id import is_run_id

if TYPE_CHECKING:
    from refold.app.settings import Settings

DEMO: Final = "demo"
"""Where the directories of the demo come from: no other command looks into them by itself."""
_ONLY_HERE: Final = frozenset({"--root", DEMO})


def shell_name(run: Path, settings: Settings) -> str:
    """Give the id of a run where every command finds it by that, else its path."""
    run_id = run.name.removesuffix(".json")
    found = any(root.path == run.parent and root.origin not in _ONLY_HERE for root in settings.roots)
    # A file may be called by what no command takes for an id.
    return run_id if found and is_run_id(run_id) else os.path.abspath(run)  # noqa: PTH100 - a link stays one
