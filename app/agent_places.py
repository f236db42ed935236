"""Where Rivumi, and the programs it was called before and after, keep runs and conversations.

The rules are those of the original (formats/rivumi.md 1); every place that they could give is offered.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from refold.core.store.roots import Root

_HINT: Final = "rivumi"
_LEGACY: Final = "python-coding-agent"
_PROGRAMS: Final = ("rivumi", "looplane")
_RUNS: Final = ("RIVUMI_RUN_ROOT", "LOOPLANE_RUN_ROOT", "PCA_RUN_ROOT")
_CONVERSATIONS: Final = ("RIVUMI_CONVERSATION_ROOT", "LOOPLANE_CONVERSATION_ROOT", "PCA_CONVERSATION_ROOT")


def run_roots(env: Mapping[str, str], home: Path) -> tuple[Root, ...]:
    """Give the directories of runs."""
    return _roots(env, home, _RUNS, "runs")


def conversation_roots(env: Mapping[str, str], home: Path) -> tuple[Root, ...]:
    """Give the directories of conversations."""
    return _roots(env, home, _CONVERSATIONS, "conversations")


def _roots(env: Mapping[str, str], home: Path, variables: tuple[str, ...], below: str) -> tuple[Root, ...]:
    named = [Root(Path(env[name]).absolute(), _HINT, name) for name in variables if env.get(name)]
    # An empty value gives a relative path there; it is not taken for unset.
    state = Path(env.get("XDG_STATE_HOME", home / ".local" / "state")).absolute()
    usual = [Root(state / program / below, _HINT, "default") for program in _PROGRAMS]
    legacy = Root(state / _LEGACY / below, _HINT, "default")
    if os.path.isdir(legacy.path):  # noqa: PTH112 - it never raises
        usual.append(legacy)
    known = dict.fromkeys(root.path for root in named)
    return (*named, *(root for root in usual if root.path not in known))


def program_of_root(root: Path, env: Mapping[str, str], home: Path) -> str:
    """Give the program whose own directory of runs this is; empty where it is not that of exactly one."""
    place = os.path.realpath(root)
    owners = {_PROGRAMS[0]: "RIVUMI_RUN_ROOT", _PROGRAMS[1]: "LOOPLANE_RUN_ROOT"}
    state = Path(env.get("XDG_STATE_HOME", home / ".local" / "state")).absolute()
    found = [
        program
        for program, variable in owners.items()
        if place == os.path.realpath(state / program / "runs")
        or (env.get(variable) and place == os.path.realpath(env[variable]))
    ]
    return found[0] if len(found) == 1 else ""
