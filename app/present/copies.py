"""What a run is called by outside of the screen: id, path, deep link, the command that goes on with it."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from refold.app.bundles import lies_inside, source_of
from refold.app.present.landing import Landing
from refold.app.safe import line
from refold.app.shell_name import shell_name
from refold.core.links import link
from refold.core.pasted import pasted

if TYPE_CHECKING:
    from refold.app.settings import Settings


class Copy(NamedTuple):
    """One thing to copy."""

    name: str
    """Part of the id of its key: `copymenu.<name>`."""
    label: str
    text: str


def copies(path: Path, at: Landing | None, settings: Settings) -> tuple[Copy, ...]:
    """Give what can be copied of a run; a link and a command as a shell takes them, if one can.

    In an id and a path pictures stand for what would command the terminal that they are pasted into.

    Args:
        path: Its journal or directory.
        at: The record under the cursor.
        settings: The directories in which an id is looked for.
    """
    run_id = path.name.removesuffix(".json")
    bundle = source_of(path)
    whole = os.path.abspath(bundle or path)  # noqa: PTH100 - a link stays the link it is
    named = whole if bundle else shell_name(path, settings)
    place = link(named, at.seq if at is not None else None, at.line if at is not None else None)
    copied = (
        _as_it_is_or_pictured("id", run_id),
        _as_it_is_or_pictured("path", whole),
        # In the midst of a word a shell takes # as it is.
        Copy("link", "deep link", place if shlex.quote(named) == named else shlex.quote(place)),
    )
    command = pasted("refold", "resume", named)
    if lies_inside(path) or not command:
        # No link leads to a run within the run of a bundle.
        return copied[:2]
    if bundle:
        # Nothing goes on with a bundle.
        return copied
    return (*copied, Copy("resume", "resume command", command))


def _as_it_is_or_pictured(name: str, text: str) -> Copy:
    return Copy(name, name, text) if text.isprintable() else Copy(name, f"pictured {name}", line(text))
