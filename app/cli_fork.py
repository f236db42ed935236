"""`refold fork`: a new run that begins as another one did, up to a record picked by hand."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from refold.app.cli_exit import FINE
from refold.app.cli_new_run import WrongName, is_promised, new_id, refuse, until_free, warn
from refold.app.cli_print import Printer
from refold.app.cli_redact import redacted
from refold.app.cli_run import item_at, open_run, target
from refold.app.forking import fork_json, make_fork, plan_fork, proposed_point
from refold.app.lines import Cell
from refold.app.present import units
from refold.app.present.fork_plan import POINTS
from refold.app.safe import Safe, line
from refold.app.settings import Settings
from refold.core.errors import InvalidRunId, RunExists
from refold.core.fork import NoForkHere
from refold.core.store.fork import Forked
from refold.core.timeline import Timeline

if TYPE_CHECKING:
    from refold.app.forking import AnyForkPlan
    from refold.core.store.reader import RunReader

_LABEL = 14
_OWN_ID = "gets an id of its own when it is made; --name gives it one"
_UNKNOWN = ("seq", "point", "comes", "stays", "turns", "messages", "pending", "prompt", "reason", "notes")
"""What a plan says, and a refusal does not know."""


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Fork a run, or print what a fork would be; 1 where it is refused.

    Raises:
        NoForkHere: the point is not legal.
        StoreError: the run or the place in it is not there, or the fork cannot be made.
    """
    redacted(arguments, settings, printer)
    return until_free(arguments.name, lambda: _fork(arguments, settings, printer))


def _fork(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    wanted = target(arguments.run)
    place = arguments.at if arguments.at is not None else wanted.place
    with open_run(wanted.run, settings) as reader:
        child = _child(reader, arguments.name)
        timeline = reader.index_all()
        try:
            item, chosen = _item(reader, timeline, place, wanted.run)
            plan = plan_fork(reader, item, child=child, prompt=arguments.prompt, reason=arguments.reason)
        except (NoForkHere, RunExists) as error:
            if not arguments.plan or (isinstance(error, RunExists) and arguments.name is None):
                raise
            code = error.code if isinstance(error, NoForkHere) else error.error_class
            return refuse(error, code, reader, child, _UNKNOWN, printer, as_json=arguments.json)
    if arguments.plan:
        if arguments.json:
            printer.json({"outcome": "accept", "reasons": [], **fork_json(plan)})
        else:
            promised = is_promised(child, arguments.name, reader)
            _print_plan(plan, chosen, printer, plan.child if promised else _OWN_ID)
        return FINE
    made = make_fork(plan, settings)
    if arguments.json:
        printer.json({"id": made.run_id, "path": str(made.path), "parent": plan.parent, "seq": plan.at})
    else:
        _print_made(plan, made, chosen, printer)
    warn(made, printer)
    return FINE


def _child(reader: RunReader, name: str | None) -> str:
    """The id of the new run: the name given, else the one that the screen proposes too."""
    if name is None or reader.session is None:
        return new_id(name, reader)
    from refold.core.store.session_fork import check_session_id

    try:
        return check_session_id(name)
    except InvalidRunId as error:
        raise WrongName(f"--name: {error}", remedy=error.remedy) from error


def _item(reader: RunReader, timeline: Timeline, place: str, name: str) -> tuple[int, str]:
    """The item to fork after, and why there: at the place given, else where one is proposed."""
    if place:
        item = item_at(timeline, place, name)
        point = proposed_point(reader) if reader.session is None else None
        # What is known of the point that is proposed holds for it where it is named too.
        known = point is not None and point.item == item and point.left
        return item, f", {point.phrase}" if point is not None and known else ""
    point = proposed_point(reader)
    if point is None:
        raise NoForkHere(f"no fork: {timeline.strict_error or 'no record of it can begin a run'}")
    return point.item, f", {point.phrase}"


def _print_plan(plan: AnyForkPlan, chosen: str, printer: Printer, child: str) -> None:
    printer.line(
        (Cell(Safe("fork "), "fork"), Cell(line(plan.parent), "strong"), Cell(line(f"  {plan.path}"), "dim"))
    )
    turns, messages = units.plural(plan.turns, "turn"), units.plural(plan.messages, "message")
    said = [
        ("after", f"seq {plan.at}{chosen}, {POINTS[plan.point]}"),
        ("comes along", f"{units.plural(plan.comes, 'record')}, {turns}, {messages}"),
        ("stays behind", units.plural(plan.stays, "record") if plan.stays else "nothing"),
        *(("pending", f"{call.name} ({call.id})") for call in plan.pending),
        ("new run", child),
        ("prompt", plan.prompt),
        ("reason", plan.reason),
        *(("mind", note) for note in plan.notes),
    ]
    for label, text in said:
        if text:
            printer.line((Cell(Safe(f"  {label:{_LABEL}}"), "dim"), Cell(line(text))))


def _print_made(plan: AnyForkPlan, made: Forked, chosen: str, printer: Printer) -> None:
    after = f"  ψ {plan.parent} after seq {plan.at}{chosen}"
    printer.line((Cell(line(made.run_id), "strong"), Cell(line(after), "fork")))
    printer.line((Cell(line(str(made.path)), "dim"),))
    if plan.pending:
        names = ", ".join(call.name for call in plan.pending)
        printer.line((Cell(line(f"pending: {names}"), "warn"),))
