"""The agents that go on with runs beside the screen, by run: they outlive the screens that show them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from refold.app.inner_run import InnerRun


class InnerRuns:
    """The children of one program."""

    def __init__(self) -> None:
        self._runs: dict[str, InnerRun] = {}

    def add(self, inner: InnerRun) -> None:
        """Keep a child."""
        self._runs[os.path.realpath(inner.path)] = inner

    def get(self, path: Path) -> InnerRun | None:
        """Give the child that goes on with a run, or did last."""
        return self._runs.get(os.path.realpath(path))


_OF_PROGRAMS: Final[WeakKeyDictionary[object, InnerRuns]] = WeakKeyDictionary()


def inner_runs(program: object) -> InnerRuns:
    """Give the children of a program."""
    return _OF_PROGRAMS.setdefault(program, InnerRuns())
