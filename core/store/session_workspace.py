"""The clone in which a run works (formats/rivumi.md 1, "workspace/")."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from refold.core.errors import Refused
from refold.core.store.files import shown

SECONDS = 60.0
"""How long one command of git may take."""


def clone(repository: Path, commit: str, workspace: Path, *, seconds: float = SECONDS) -> None:
    """Make a clone of its own that stands at a commit, as the original does.

    Raises:
        Refused: there is no git, no such repository or commit, or it took too long.
    """
    if os.path.lexists(workspace):
        raise Refused(f"{shown(workspace)}: already there", remedy="move it away")
    _git(
        ["clone", "--quiet", "--no-hardlinks", "--no-checkout", "--", str(repository), str(workspace)],
        seconds,
    )
    _git(["-C", str(workspace), "checkout", "--quiet", "--detach", commit], seconds)


def _git(arguments: list[str], seconds: float) -> None:
    # A hook or a question for a password would run, or wait, in the name of the run.
    command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never", *arguments]
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(  # noqa: S603 - a list of arguments, no shell
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
            env={**surroundings, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
        )
    except (OSError, ValueError) as error:
        raise Refused(f"git cannot be run: {error}", remedy="install git") from error
    except subprocess.TimeoutExpired as error:
        raise Refused(f"git took more than {seconds:.0f} s", remedy="try again, with more time") from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "backslashreplace").strip()
        raise Refused(
            f"git: {said or f'ended with {done.returncode}'}", remedy="check the repository and the commit"
        )
