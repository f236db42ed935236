"""Where Rivumi, and the programs it was called before and after, keep runs and conversations.

The rules are those of the original (formats/rivumi.md 1); every place that they could give is offered.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
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


def program_of_root(place: Path, roots: Sequence[Root]) -> str:
    """Give the program whose own directory of runs this is; empty where it is not that of exactly one.

    Args:
        place: the directory.
        roots: the directories that are looked into, as `run_roots` gives them and others.
    """
    real = os.path.realpath(place)
    found = {
        program
        for root in roots
        for program, variable in zip(_PROGRAMS, _RUNS, strict=False)
        if os.path.realpath(root.path) == real and _is_of(root, program, variable)
    }
    return found.pop() if len(found) == 1 else ""


def _is_of(root: Root, program: str, variable: str) -> bool:
    usual = root.origin == "default" and root.path.parts[-2:] == (program, "runs")
    return usual or root.origin == variable
