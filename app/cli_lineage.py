"""`refold lineage`: the tree of runs that a run belongs to."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from refold.app.cli_exit import FINE
from refold.app.cli_print import Printer
from refold.app.cli_run import hint_of
from refold.app.lines import Cell, Line
from refold.app.present import units
from refold.app.safe import Safe, line
from refold.app.settings import Settings
from refold.core.lineage import Branch, ParentState, Sums, Tree, tree_json
from refold.core.store.catalog import Catalog, Root
from refold.core.store.lineage import read_family
from refold.core.store.notes import NotesStore
from refold.core.store.resolve import resolve
from refold.core.summary import RunSummary

_STATES: Final[dict[ParentState, str]] = {
    "none": "",
    "same": "",
    "moved": "parent moved",
    "rewritten": "parent rewritten",
    "unchecked": "parent not checked",
    "missing": "parent missing",
    "circle": "circle",
}
_DEEPEST: Final = 24
"""Levels that are drawn as such; below them a row says how deep it is."""


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Print the family of a run.

    Raises:
        StoreError: the run is not there.
    """
    path = resolve(arguments.run, settings.roots)
    tree = _family(path, settings)
    for number, branch in enumerate(tree.rows):
        if arguments.json:
            printer.json(tree_json(branch, focus=number == tree.focus))
        else:
            printer.line(_row(branch, focus=number == tree.focus), cut=True)
    return FINE


def _family(path: Path, settings: Settings) -> Tree:
    roots = [*settings.roots, Root(path.parent.absolute(), hint_of(path, settings), "argument")]
    catalog = Catalog(roots, cache=settings.cache_dir)
    found = {item.path: item for item in catalog.scan() if isinstance(item, RunSummary) and item.complete}
    catalog.close()
    focus = next((each for each in found if Path(each).name == path.name and _same(each, path)), None)
    if focus is None:
        focus = str(path)
        found[focus] = RunSummary(path.name.removesuffix(".json"), focus)
    *_, tree = (
        each
        for each in read_family(
            found.values(), focus, notes=NotesStore(settings.notes_dir), cache=settings.cache_dir
        )
        if each is not None
    )
    return tree


def _same(known: str, path: Path) -> bool:
    try:
        return Path(known).samefile(path)
    except OSError:
        return False


def _row(branch: Branch, *, focus: bool) -> Line:
    kin = branch.kin
    rails = branch.rails[:-1][-_DEEPEST:]
    drawn = "".join("│ " if more else "  " for more in rails)
    if branch.depth > _DEEPEST + 1:
        drawn = f"⋯{branch.depth} {drawn}"
    if branch.rails:
        drawn += "├ " if branch.rails[-1] else "╰ "
    cells = [
        Cell(Safe("▸ " if focus else "  "), "accent"),
        Cell(Safe(drawn), "dim"),
        Cell(line(kin.id, 60), "strong" if kin.path else "dim"),
        Cell(Safe(f"  {kin.status}"), "dim"),
    ]
    if kin.origin is not None:
        cells.append(Cell(line(f"  ψ after seq {kin.origin.seq} of {kin.origin.run_id}", 120), "fork"))
    if _STATES[branch.state]:
        cells.append(Cell(Safe(f"  {_STATES[branch.state]}"), "warn"))
    if kin.total is not None:
        cells.append(Cell(Safe(f"  {_said(kin.own or Sums())}"), "number"))
        if kin.inherited.turns or kin.inherited.tokens:
            cells.append(Cell(Safe(f"  inherited {_said(kin.inherited)}"), "dim"))
    if kin.origin is not None and kin.origin.reason:
        cells.append(Cell(line(f"  {kin.origin.reason}", 200), "text"))
    return tuple(cells)


def _said(sums: Sums) -> str:
    turns, calls = units.plural(sums.turns, "turn"), units.plural(sums.calls, "call")
    return f"{turns}, {calls}, {units.short(sums.tokens)} tokens"
