"""What a run is called by outside of the screen: id, path, deep link, the command that goes on with it."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from refold.app.present.landing import Landing
from refold.core.links import link

if TYPE_CHECKING:
    from refold.app.settings import Settings


class Copy(NamedTuple):
    """One thing to copy."""

    name: str
    """Part of the id of its key: `copymenu.<name>`."""
    label: str
    text: str


def copies(path: Path, at: Landing | None, settings: Settings) -> tuple[Copy, ...]:
    """Give what can be copied of a run.

    Args:
        path: Its journal or directory.
        at: The record under the cursor.
        settings: The directories in which an id is looked for.
    """
    run_id = path.name.removesuffix(".json")
    # A directory of --root is not looked at by the command that is pasted elsewhere.
    known = any(root.path == path.parent and root.origin != "--root" for root in settings.roots)
    named = run_id if known and not run_id.startswith("-") else os.path.abspath(path)  # noqa: PTH100
    place = link(run_id, at.seq if at is not None else None, at.line if at is not None else None)
    return (
        Copy("id", "id", run_id),
        Copy("path", "path", os.path.abspath(path)),  # noqa: PTH100 - a link stays the link it is
        Copy("link", "deep link", place),
        Copy("resume", "resume command", shlex.join(["refold", "resume", named])),
    )
