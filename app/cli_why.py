"""`refold why`: what happened to a run, what was in flight, what can be done, in the words of the screen."""

from __future__ import annotations

import argparse

import msgspec

from refold.app import keys
from refold.app.agents import agent_of
from refold.app.bundles import is_bundle, told_path
from refold.app.cli_exit import FINE, REFUSED
from refold.app.cli_print import Printer
from refold.app.cli_redact import redacted
from refold.app.cli_run import open_run
from refold.app.explaining import explain
from refold.app.forking import notes_of
from refold.app.lines import Cell
from refold.app.present import postmortem as present
from refold.app.present.reading import reading_of
from refold.app.present.status import status_cell
from refold.app.safe import Safe, line
from refold.app.settings import Settings
from refold.app.shell_name import shell_name
from refold.app.typed_resume import forced_resume, typed_resume
from refold.core.findings import finding_json
from refold.core.links import link
from refold.core.pasted import pasted
from refold.core.patterns import Patterns
from refold.core.postmortem import Action, ActionName, InFlight, Postmortem, as_it_is
from refold.core.records import Json
from refold.core.store.reader import RunReader

_COLUMNS = 100
_ENDED = frozenset({"completed", "running", "cancelled"})
"""Nobody waits for a resume of these."""


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Explain a run.

    Returns:
        0; 1 where a call waits for a result, something is damaged, or the run cannot be resumed.

    Raises:
        StoreError: the run is not there, or cannot be read.
    """
    redactor = redacted(arguments, settings, printer)
    let = as_it_is if redactor is None else redactor.value
    with open_run(arguments.run, settings) as reader:
        post, patterns = explain(reader, settings, let)
        post = _only_to_be_read(post) if is_bundle(arguments.run) else post
        commands = _commands(reader, settings, post)
        if arguments.json:
            printer.json(why_json(arguments.run, reader, post, patterns, commands))
        else:
            _print(reader, post, patterns, commands, settings, printer)
    return _code(post)


def _only_to_be_read(post: Postmortem) -> Postmortem:
    """Take away what cannot be done with a run that is unpacked from a bundle and gone at the end."""
    why = "this is a bundle: it can be read, exported and compared, not gone on with"
    actions = tuple(
        action if action.name == "nothing" else Action(action.name, possible=False, why_not=why)
        for action in post.actions
    )
    return msgspec.structs.replace(post, actions=actions)


def _code(post: Postmortem) -> int:
    name = post.status.name
    waits = bool(post.in_flight) and name != "running"
    stuck = name not in _ENDED and not _action(post, "resume").possible
    return REFUSED if waits or stuck or post.damage else FINE


def _action(post: Postmortem, name: ActionName) -> Action:
    return next(action for action in post.actions if action.name == name)


def _commands(reader: RunReader, settings: Settings, post: Postmortem) -> dict[ActionName, str]:
    """Give what does on the command line what a key does on the screen, as it can be typed anywhere.

    What a resume has to be told stands in its command, left open where it is not known.
    There is none where the path of the run cannot be pasted.
    """
    run = shell_name(reader.path.absolute(), settings)
    at = [] if (seq := _action(post, "fork").at) is None else ["--at", str(seq)]
    spelled: dict[ActionName, list[str]] = {
        "resume": [*_told_resume(reader, settings, post)[1:]] or ["resume", run],
        "fork": ["fork", run, *at],
        "salvage": ["salvage", run],
        "repair": ["repair", run],
    }
    possible = {action.name for action in post.actions if action.possible}
    commands = {name: pasted("refold", *words) for name, words in spelled.items() if name in possible}
    return {name: command for name, command in commands.items() if command}


def _told_resume(reader: RunReader, settings: Settings, post: Postmortem) -> tuple[str, ...]:
    """Give the command of a resume with all that is asked; empty where nothing is."""
    plan = post.plan
    if plan is None or plan.outcome == "accept":
        return ()
    path = reader.path.absolute()
    if reader.session is not None:
        from refold.app.session_resuming import prepared_session

        prepared = prepared_session(path, settings)
        agent, notes = prepared.agent, prepared.notes
    else:
        notes = notes_of(settings).read(path)
        agent = agent_of(path, reader.format.name, settings, notes)
    return typed_resume(agent, notes, plan) or forced_resume(agent, notes, plan)


def _print(
    reader: RunReader,
    post: Postmortem,
    patterns: Patterns,
    commands: dict[ActionName, str],
    settings: Settings,
    printer: Printer,
) -> None:
    reading = reading_of(reader)
    if printer.redactor is not None:
        from refold.app.present.lens import Lens

        reading.lens = Lens(reader, printer.redactor.allow)
        # Bytes and half a line cannot be looked through for secrets.
        bare = tuple(msgspec.structs.replace(each, peek=b"") for each in post.damage)
        post = msgspec.structs.replace(post, damage=bare)
    shown_keys = {each: keys.shown_of(each, settings.keymap) for each in present.KEY_IDS}
    printer.line((Cell(line(post.run_id), "strong"), Cell(Safe("  ")), status_cell(post.status.name)))
    printer.line((Cell(line(str(told_path(reader.path))), "dim"),))
    printer.raw("\n")
    width = printer.columns or _COLUMNS
    for row in present.postmortem_lines(post, reading.rows(), width, shown_keys, patterns, commands).lines:
        printer.line(row)
    if printer.redactor is not None and reading.lens is not None:
        printer.redactor.counts += reading.lens.counts


def why_json(
    run: str,
    reader: RunReader,
    post: Postmortem,
    patterns: Patterns,
    commands: dict[ActionName, str],
) -> dict[str, Json]:
    """Give everything that is said about a run, every key written out."""
    timeline = reader.timeline
    last = [timeline.row(row).item for row in post.last_rows]
    return {
        "run": run,
        "id": post.run_id,
        "path": str(told_path(reader.path)),
        "format": reader.format.name,
        "status": post.status.name,
        "rule": post.status.rule,
        "happened": post.verdict.happened,
        "safe": post.verdict.safe,
        "in_flight": [_flying_json(run, each) for each in post.in_flight],
        "last": [
            {
                "seq": timeline.seq(item),
                "line": timeline.span(item).line,
                "kind": timeline.kind(item),
                "link": link(run, timeline.seq(item), timeline.span(item).line),
            }
            for item in dict.fromkeys(last)
        ],
        "findings": [finding_json(run, each.finding) for each in post.damage],
        "more_findings": post.more_damage,
        "remarks": post.remarks,
        "left_out": list(post.left_out),
        "position": [post.position.sentence, *post.position.claims],
        "holder": post.position.holder or None,
        "patterns": [
            {"name": each.name, "sentence": each.sentence, "seqs": list(each.seqs)} for each in patterns.found
        ],
        "looked": patterns.looked,
        "against": list(post.against),
        "notes": list(post.notes),
        "actions": [
            {
                "name": action.name,
                "possible": action.possible,
                "why_not": action.why_not or None,
                "first": action.first or None,
                "writes": action.writes or None,
                "at": action.at,
                "command": commands.get(action.name),
            }
            for action in post.actions
        ],
    }


def _flying_json(run: str, each: InFlight) -> dict[str, Json]:
    return {
        "id": each.call.id,
        "name": each.call.name,
        "input": each.call.input,
        "effect": each.effect,
        "outcome": each.outcome,
        "seq": each.seq,
        "link": link(run, each.seq),
    }
