"""`refold lineage`: the tree of runs that a run belongs to."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final

from refold.app.cli_exit import FINE
from refold.app.cli_print import Printer
from refold.app.cli_redact import redacted
from refold.app.cli_run import find_run, hint_of
from refold.app.family import family_of
from refold.app.given_names import GivenNames
from refold.app.lines import Cell, Line
from refold.app.present import units
from refold.app.present.lineage import STATES, rails
from refold.app.safe import Safe, line
from refold.app.settings import Settings
from refold.core.lineage import Branch, Kin, Sums, bill_of_family, bill_of_kin, tree_json
from refold.core.prices import Price, bill_json
from refold.core.records import Json

_DEEPEST: Final = 24
"""Levels that are drawn as such; below them a row says how deep it is."""


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Print the family of a run.

    Raises:
        StoreError: the run is not there.
    """
    redacted(arguments, settings, printer)
    path = find_run(arguments.run, settings)
    *_, tree = (each for each in family_of(path, hint_of(path, settings), settings) if each is not None)
    names = GivenNames.of(settings)
    for number, branch in enumerate(tree.rows):
        name = names(branch.kin.path)
        if arguments.json:
            row = {"name": name or None, **tree_json(branch, focus=number == tree.focus)}
            if settings.prices:
                row["cost"] = _cost_json(branch.kin, settings.prices)
            printer.json(row)
        else:
            printer.line(_row(branch, name, focus=number == tree.focus), cut=True)
    family = bill_of_family(tree, settings.prices)
    if settings.prices and not arguments.json:
        from refold.core.prices import amount

        printer.note(f"the family cost {amount(family)} together, what forks took over counted once")
    return FINE


def _cost_json(kin: Kin, prices: Mapping[str, Price]) -> Json:
    own = bill_of_kin(kin, kin.own or Sums(), prices)
    return {**bill_json(own), "inherited": bill_of_kin(kin, kin.inherited, prices).amount}


def _row(branch: Branch, name: str, *, focus: bool) -> Line:
    kin = branch.kin
    cells = [
        Cell(Safe("▸ " if focus else "  "), "accent"),
        Cell(rails(branch, _DEEPEST), "dim"),
        Cell(line(kin.id, 60), "strong" if kin.path else "dim"),
        *((Cell(line(f"  {name}", 60), "strong"),) if name else ()),
        Cell(Safe(f"  {kin.status}"), "dim"),
    ]
    if kin.origin is not None:
        # The row above says of which run, except at the top of a circle.
        whose = "" if branch.depth else f" of {kin.origin.run_id}"
        cells.append(Cell(line(f"  ψ after seq {kin.origin.seq}{whose}", 120), "fork"))
    if STATES[branch.state]:
        cells.append(Cell(Safe(f"  {STATES[branch.state]}"), "warn"))
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
