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
    make = ["clone", "--quiet", "--no-hardlinks", "--no-checkout", "--", str(repository), str(workspace)]
    own = [f"--git-dir={workspace / '.git'}", f"--work-tree={workspace}"]
    _git(make, seconds)
    _git([*own, "checkout", "--quiet", "--detach", commit, "--"], seconds)


def apply_patch(workspace: Path, patch: bytes, *, seconds: float = SECONDS) -> None:
    """Apply recorded changes to a workspace: whole or not at all, and nowhere outside of it.

    Raises:
        Refused: they do not apply, or it took too long.
    """
    apply = ["-C", str(workspace), "apply", "--whitespace=nowarn", "-"]
    _git(apply, seconds, given=patch, remedy="the recorded patch does not fit; move changes.patch away")


_LENT = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE", "GIT_TEMPLATE_DIR",
    "GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_EXTERNAL_DIFF", "GIT_QUARANTINE_PATH",
)  # fmt: skip
_SURROUNDINGS = (
    "env", *(word for name in _LENT for word in ("-u", name)), "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
)  # fmt: skip
"""Whoever starts an agent from a hook of git must not lend it that repository; a question would wait."""


def _git(
    arguments: list[str],
    seconds: float,
    *,
    given: bytes = b"",
    remedy: str = "check the repository and the commit",
) -> None:
    # A hook would run in the name of the run; only a local repository is ever cloned.
    quiet = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"]
    local = ["-c", "protocol.allow=never", "-c", "protocol.file.allow=always"]
    command = [*_SURROUNDINGS, "git", *quiet, *local, *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - a list of arguments, no shell
            command, input=given, capture_output=True, timeout=seconds, check=False
        )
    except (OSError, ValueError) as error:
        raise Refused(f"git cannot be run: {error}", remedy="install git") from error
    except subprocess.TimeoutExpired as error:
        raise Refused(f"git took more than {seconds:.0f} s", remedy="try again, with more time") from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "backslashreplace").strip()
        raise Refused(f"git: {said or f'ended with {done.returncode}'}", remedy=remedy)
