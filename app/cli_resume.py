"""`refold resume`: what a resume would do, and the resume itself."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from refold.app.agents import PROGRAM, NoAgent, RunAgent, agent_of, spelled
from refold.app.cli_exit import FINE, REFUSED
from refold.app.cli_print import Printer
from refold.app.cli_redact import redacted_progress
from refold.app.cli_run import WholeRun, hint_of, open_run, target
from refold.app.lines import Cell
from refold.app.resuming import facts_for, prepare
from refold.app.safe import line
from refold.app.settings import Settings
from refold.app.typed_resume import forced_resume, typed_resume
from refold.core.decisions import CHOICES, names_itself
from refold.core.errors import RefoldError
from refold.core.records import Decision
from refold.core.repair import TornTail
from refold.core.resume import (
    ResumePlan,
    ResumeRefused,
    ResumeRequest,
    plan_json,
    plan_resume,
)
from refold.core.store.notes import Notes, NotesStore

if TYPE_CHECKING:
    from refold.core.redact import Redactor

CAN_GO_ON = "resume:yes"
"""The filter for runs that a resume can be asked for."""
_COLUMNS = 100
_DECISION = re.compile(rf"(.+?)=({'|'.join(CHOICES)})(?::(.*))?", re.DOTALL)


class WrongDecision(RefoldError):
    """What was given with --decide is no decision."""


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Resume a run, print what that would do, or show the runs that can go on."""
    if arguments.run is None:
        return _choose(arguments, settings, printer)
    redactor = redacted_progress(arguments, settings, printer)
    request = ResumeRequest(
        arguments.force, arguments.reason, decisions(arguments.decide or ()), arguments.repair
    )
    try:
        opened = open_run(arguments.run, settings)
    except WholeRun as error:
        wanted = target(arguments.run)
        fork = spelled((PROGRAM, "fork", wanted.run, "--at", wanted.place))
        raise WholeRun(
            f"{arguments.run}: a resume goes on at the end of a run", remedy=f"{fork} begins a new run there"
        ) from error
    with opened as reader:
        path, format_name = reader.path.absolute(), reader.format.name
        of_directory = reader.session is not None
    if of_directory:
        return _session(path, request, arguments, settings, printer)
    notes = NotesStore(settings.notes_dir).read(path)
    agent = agent_of(
        path, format_name, settings, notes, factory=arguments.agent, config=_absolute(arguments.config)
    )
    if arguments.plan:
        return _show_plan(agent, notes, request, arguments, settings, printer)
    try:
        if agent.native:
            return _go_on(agent, request, arguments, settings, printer, redactor)
        return _hand_over(agent, notes, request, arguments, settings, printer)
    except NoAgent as missing:
        # A run that may not go on at all is not helped by an agent: that is said first.
        first = next(iter(plan_resume(facts_for(agent, notes, settings), request).reasons), None)
        if first is None or first.code == "no_agent":
            raise
        raise NoAgent(first.message) from missing
    except ResumeRefused as refused:
        _print(refused.plan, agent, printer, as_json=arguments.json, notes=notes)
        return REFUSED
    except TornTail as torn:
        printer.error(f"{torn.plan.file.path}: {torn.plan.sentence}; agree to it with --repair")
        return REFUSED


def _session(
    path: Path,
    request: ResumeRequest,
    arguments: argparse.Namespace,
    settings: Settings,
    printer: Printer,
) -> int:
    """Hand a run directory to its program, or say why not; what was decided is noted in any case."""
    from refold.app.launch import headless
    from refold.app.session_resuming import make_session_ready, note, prepared_session
    from refold.core.repair import PlanOutdated

    prepared = prepared_session(path, settings)
    # First by id: a number stands for the id of a call.
    request = prepared.plan(request).request
    merged = {**prepared.noted, **request.decisions}
    plan = prepared.plan(msgspec.structs.replace(request, decisions=merged))
    if arguments.plan:
        told = prepared.noted
        _print(plan, prepared.agent, printer, as_json=arguments.json, notes=prepared.notes, noted=told)
        return FINE if plan.outcome == "accept" else REFUSED
    if arguments.expect not in (None, plan.last_seq):
        raise PlanOutdated(f"{plan.run_id}: ends at {plan.last_seq} now", remedy="look at it again")
    noted = all(reason.code != "bad_decision" for reason in plan.reasons)
    if noted and note(plan, path, settings):
        _tell_noted(plan, printer)
    if plan.outcome != "accept":
        shown = plan.request.decisions if noted else prepared.noted
        _print(plan, prepared.agent, printer, as_json=arguments.json, notes=prepared.notes, noted=shown)
        return REFUSED
    command = make_session_ready(prepared, plan, settings)
    printer.note(f"refold: in {prepared.agent.directory}: {spelled(command)}")
    printer.flush()
    ended = headless(command, cwd=prepared.agent.directory)
    added = prepared_session(path, settings).plan().last_seq - plan.last_seq
    printer.note(f"refold: {command[0]} {ended.sentence}; the run went on by {added} seq")
    return ended.status


def _tell_noted(plan: ResumePlan, printer: Printer) -> None:
    """Say that a decision stands in our notes, whatever becomes of the resume itself."""
    for call_id, decision in plan.request.decisions.items():
        said = f"{decision.choice}: {decision.text}" if decision.text else decision.choice
        printer.note(f"refold: noted beside the run, which is as it was: {call_id}={said}")


def _absolute(path: str) -> str:
    """Give a path that means the same where the other tool is started."""
    return str(Path(path).expanduser().absolute()) if path else ""


def decisions(given: list[str] | tuple[str, ...]) -> dict[str, Decision]:
    """Read what was decided about calls: CALL=rerun, CALL=failed, CALL=done:TEXT; CALL is an id or `#NUMBER`.

    Raises:
        WrongDecision: one of them is none.
    """
    decided: dict[str, Decision] = {}
    for text in given:
        found = _DECISION.fullmatch(text)
        if found is None or (found[2] == "rerun" and found[3]):
            raise WrongDecision(
                f"{text!r} is no decision", remedy="CALL=rerun, CALL=failed or CALL=done:TEXT"
            )
        decision = Decision(found[2], found[3] or "")
        if decided.setdefault(found[1], decision) != decision:
            raise WrongDecision(f"{found[1]!r} is decided twice, and not alike", remedy="decide it once")
    return decided


def _choose(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    from refold.app.cli_screen import can_show, choose_run

    if can_show(settings, printing=arguments.print_id) and not arguments.json:
        return choose_run(settings, CAN_GO_ON, printer if arguments.print_id else None)
    from refold.app.cli_ls import list_runs, print_ids

    if arguments.print_id and not arguments.json:
        return print_ids(CAN_GO_ON, settings, printer)

    shown = argparse.Namespace(filter=[CAN_GO_ON], json=arguments.json, redact=arguments.redact)
    return list_runs(shown, settings, printer, others="left out: finished, or not to be resumed")


def _show_plan(
    agent: RunAgent,
    notes: Notes,
    request: ResumeRequest,
    arguments: argparse.Namespace,
    settings: Settings,
    printer: Printer,
) -> int:
    facts = facts_for(agent, notes, settings)
    plan = plan_resume(facts, request, agent.command(request) or None)
    _print(plan, agent, printer, as_json=arguments.json, notes=notes)
    return FINE if plan.outcome == "accept" else REFUSED


def _print(
    plan: ResumePlan,
    agent: RunAgent,
    printer: Printer,
    *,
    as_json: bool,
    notes: Notes,
    noted: Mapping[str, Decision] | None = None,
) -> None:
    if as_json:
        printer.json(plan_json(plan))
        return
    from refold.app.present.resume_plan import resume_lines, title, typed_words, undecided, verdict

    typed, forced = typed_resume(agent, notes, plan), forced_resume(agent, notes, plan)
    # Of our own agents one command does it: what is to be typed.
    shown = [] if plan.command is None or (plan.native and typed) else [spelled(plan.command)]
    drawn = resume_lines(
        plan,
        printer.columns or _COLUMNS,
        shown=shown,
        directory=agent.directory,
        workplace=agent.workplace,
        noted=noted or {},
    )
    for row in (title(plan), *drawn.lines, verdict(plan)):
        printer.line(row)
    if typed or forced:
        why = "" if typed else "write why behind --reason=, it is recorded; "
        # In one row, however long: it is there to be copied.
        printer.raw(f"To go on ({why}{typed_words(plan)}):\n")
        printer.line((Cell(line(f"  {spelled(typed or forced)}"), "strong"),))
    for number in undecided(plan):
        call = plan.calls[number]
        named = call.id if names_itself(call.id) else f"#{number + 1}"
        rerun, failed, done = (spelled((f"{named}={choice}",)) for choice in ("rerun", "failed", "done:TEXT"))
        printer.note(f"refold: {line(call.name, 80)} waits for --decide {rerun}, {failed} or {done}")


def _go_on(
    agent: RunAgent,
    request: ResumeRequest,
    arguments: argparse.Namespace,
    settings: Settings,
    printer: Printer,
    redactor: Redactor | None,
) -> int:
    """Resume a native run in this process."""
    from refold.app.cli_agent import loaded, resuming, stopped
    from refold.app.live import Live, tell
    from refold.core.errors import StoreError
    from refold.core.store.journal import JournalStore
    from refold.core.store.resume import open_to_resume

    problem = agent.problem()
    if problem:
        raise NoAgent(problem)
    with contextlib.suppress(OSError):
        os.chdir(agent.directory)
    made = loaded(agent.factory, Path(agent.directory))
    store = JournalStore(agent.run.parent)
    with open_to_resume(store, agent.run.stem, made, request=request, expected=arguments.expect) as opened:
        again = resuming(opened.journal, agent.factory, settings, printer)
        if opened.journal.repaired is not None:
            printer.note(f"refold: repaired: {opened.journal.repaired.sentence}")
        for note in opened.plan.notes:
            printer.note(f"refold: {note}")
        try:
            outcome = Live(printer, redactor).go_on(made, opened)
        except StoreError as error:
            return stopped(error, again, printer)
        return tell(outcome, opened.journal, again, printer, as_json=arguments.json)


def _hand_over(
    agent: RunAgent,
    notes: Notes,
    request: ResumeRequest,
    arguments: argparse.Namespace,
    settings: Settings,
    printer: Printer,
) -> int:
    """Give a run to the program that wrote it, and say what came of it."""
    from refold.app.launch import headless
    from refold.core.store.reader import RunReader

    command = agent.command(request)
    plan = prepare(agent, notes, request, settings, expected=arguments.expect)
    printer.note(f"refold: in {agent.directory}: {spelled(command)}")
    printer.flush()
    ended = headless(command, cwd=agent.directory)
    with RunReader.open(agent.run, hint=hint_of(agent.run, settings)) as reader:
        added = (reader.index_all().last_seq or 0) - plan.last_seq
    printer.note(f"refold: {command[0]} {ended.sentence}; the run went on by {added} seq")
    return ended.status
