"""`refold salvage`: a new run of all good records of a damaged one, and a report of what was left out."""

from __future__ import annotations

import argparse

from refold.app.cli_exit import FINE
from refold.app.cli_new_run import is_promised, new_id, refuse, until_free, warn
from refold.app.cli_print import Printer
from refold.app.cli_redact import redacted
from refold.app.cli_run import open_run
from refold.app.forking import make_salvaged
from refold.app.lines import Cell
from refold.app.present import units
from refold.app.safe import Safe, line
from refold.app.settings import Settings
from refold.core.errors import RunExists
from refold.core.salvage import NothingToSalvage, SalvagePlan, plan_json, report
from refold.core.store.new_run import require_free
from refold.core.store.salvage import salvage_of

_UNKNOWN = ("seq", "records", "recovered", "moved", "left_out", "remarks")
"""What a plan says, and a refusal does not know."""


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Salvage a run, or print what would come of it; 1 where it is refused.

    Raises:
        NothingToSalvage: no new run can be made of it, or there is no need to.
        StoreError: the run is not there, or the new one cannot be made.
    """
    redacted(arguments, settings, printer)
    return until_free(arguments.name, lambda: _salvage(arguments, settings, printer))


def _salvage(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    with open_run(arguments.run, settings) as reader:
        child = new_id(arguments.name, reader)
        try:
            plan = salvage_of(reader, child=child)
            require_free(reader.path.parent, child)
        except (NothingToSalvage, RunExists) as error:
            if not arguments.plan or (isinstance(error, RunExists) and arguments.name is None):
                raise
            code = error.code if isinstance(error, NothingToSalvage) else error.error_class
            return refuse(error, code, reader, child, _UNKNOWN, printer, as_json=arguments.json)
    if arguments.plan and arguments.json:
        printer.json({"outcome": "accept", "reasons": [], **plan_json(plan)})
    elif arguments.plan:
        promised = is_promised(child, arguments.name, reader)
        _print(plan, "would be made of", printer, plan.child if promised else "a new run")
    else:
        made = make_salvaged(plan, settings)
        if arguments.json:
            answer = plan_json(plan)
            answer["damaged"] = answer["path"]
            answer["path"] = str(made.path)
            printer.json(answer)
        else:
            _print(plan, "made of", printer, plan.child)
            printer.line((Cell(line(str(made.path)), "dim"),))
        warn(made, printer)
    return FINE


def _print(plan: SalvagePlan, made_of: str, printer: Printer, child: str) -> None:
    printer.line(
        (
            Cell(line(child), "strong"),
            Cell(Safe(f"  {made_of} "), "dim"),
            Cell(Safe(units.plural(plan.records, "record")), "good"),
            Cell(line(f" of {plan.parent}, up to seq {plan.last_seq}"), "dim"),
        )
    )
    if plan.recovered:
        printer.text(Safe(f"  {units.plural(plan.recovered, 'record')} read out of damaged lines"))
    if plan.moved:
        printer.text(Safe("  put in the order of their sequence numbers"))
    for remark in plan.remarks:
        printer.text(line(f"  {remark}"), "warn")
    left_out = report(plan)
    printer.text(Safe(f"left out: {len(left_out)}" if left_out else "nothing was left out"), "dim")
    for row in left_out:
        printer.text(line(f"  {row}"))
