"""Which program goes on with a run directory: by what is recorded, by where it lies, a guess last of all.

Every generation of the original is closed: an older program refuses a file with a key that came later
(formats/rivumi.md 0), and the newest is the only one that writes the keys of G3.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from refold.app.agent_places import program_of_root
from refold.core.rivumi.manifest import Manifest, Request
from refold.core.store.roots import Root

OLDER: Final = "rivumi"
NEWEST: Final = "looplane"
_WORDS: Final = 3
"""Names at the end of a path that may be those of a program."""


class Programs(NamedTuple):
    """The programs that may go on with a run."""

    names: tuple[str, ...]
    """The best one first; the next ones only where that is not installed."""
    why: str = ""
    """What a person should know about the choice; empty where what is recorded decides it."""
    instead: str = ""
    """What a person should know where only another one than the first is installed."""


def programs_of(
    run: Path, manifest: Manifest | None, request: Request | None, roots: Sequence[Root]
) -> Programs:
    """Give the programs that may go on with a run directory.

    Args:
        run: the directory.
        manifest: what it claims.
        request: what it was asked to do.
        roots: the directories that are looked into, each with what named it.
    """
    if _newest_alone(manifest, request):
        instead = f"its files have keys of {NEWEST}, which is not installed: {OLDER} may refuse it"
        return Programs((NEWEST, OLDER), instead=instead)
    root = run.absolute().parent
    known = program_of_root(root, roots)
    if known:
        # The newer one reads what the older one wrote, not the other way round.
        return Programs((OLDER, NEWEST) if known == OLDER else (NEWEST,))
    words = Path(os.path.realpath(root)).parts[-_WORDS:]
    for name in (NEWEST, OLDER):
        if name in words:
            guess = f"no file says which program wrote the run: {name} is a guess by its path"
            return Programs((OLDER, NEWEST) if name == OLDER else (NEWEST,), guess)
    return Programs((OLDER, NEWEST), "neither its files nor its place say which program wrote the run")


def _newest_alone(manifest: Manifest | None, request: Request | None) -> bool:
    """Say whether only the newest program would read the files of a run."""
    of_manifest = manifest is not None and manifest.generation == "G3"
    return of_manifest or (request is not None and "attachments" in request.raw)
