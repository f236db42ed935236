"""The directories that are watched, as lines: where each comes from, how big it is, who may read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from refold.app.lines import Cell, Line, Role
from refold.app.present.layout import BLANK, cell, flow
from refold.app.present.units import plural, size
from refold.app.safe import Safe
from refold.core.store.roots import RootReport
from refold.core.store.sizes import Measured

_LOOKED_INTO: Final = frozenset({"runs", "empty"})
_NOT_THERE: Final = frozenset({"unseen", "missing"})


class Directory(NamedTuple):
    """One directory, and what was measured of it."""

    report: RootReport
    measured: Measured | None = None
    """None where nothing can be measured."""


def directory_lines(directories: tuple[Directory, ...], mode: str, why: str, width: int) -> Iterator[Line]:
    """Give the lines.

    Args:
        directories: In the order they are looked at.
        mode: `watching` or `polling`; empty while that is not known.
        why: Why changes are polled for.
        width: Cells of a line.
    """
    for number, directory in enumerate(directories):
        if number:
            yield BLANK
        report, root = directory.report, directory.report.root
        there = report.state in _LOOKED_INTO
        role: Role = "strong" if there else "dim"
        yield from flow((cell(str(root.path), role, 1000), cell(f"  {_origin(root.origin)}", "dim")), width)
        for said, kind in _facts(directory, mode):
            yield from flow((Cell(Safe("   ")), cell(said, kind, 1000)), width, 3)
    if mode == "polling":
        yield BLANK
        yield from flow(
            (cell(f"⚠ changes are noticed by looking every second: {why}", "warn", 1000),), width, 2
        )


def _facts(directory: Directory, mode: str) -> Iterator[tuple[str, Role]]:
    report, measured = directory.report, directory.measured
    if report.state not in _LOOKED_INTO:
        role: Role = "dim" if report.state in _NOT_THERE | {"same"} else "problem"
        yield report.detail or report.state, role
        return
    if measured is None:
        yield "being measured", "dim"
        return
    far = "" if measured.done else " so far"
    files = plural(measured.files, "file")
    yield f"{plural(report.runs, 'run')} · {size(measured.bytes)} in {files}{far}", "text"
    parts = [{"watching": "watched by the system", "polling": "looked at every second"}.get(mode, "")]
    if measured.free is not None:
        parts.append(f"{size(measured.free)} free on its disk")
    parts.append(f"mode {measured.mode:04o}")
    yield " · ".join(filter(None, parts)), "dim"
    if measured.mode & 0o055:
        yield "⚠ others on this machine can look into it: chmod 700 keeps runs private", "warn"
    if measured.hidden:
        yield f"{plural(measured.hidden, 'directory', 'directories')} below may not be looked into", "warn"


def _origin(origin: str) -> str:
    return {"default": "always looked at", "config": "from the configuration", "--root": "from --root"}.get(
        origin, origin
    )
