"""`refold history`: the conversations on the screen or printed, one of them, and a fork of one."""

from __future__ import annotations

import argparse
import time
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from refold.app.cli_exit import FINE
from refold.app.cli_print import Printer
from refold.app.cli_redact import redacted
from refold.app.lines import Cell
from refold.app.present import units
from refold.app.safe import Safe, fit, line
from refold.app.settings import Settings
from refold.core.errors import RefoldError, RunNotFound
from refold.core.rivumi.conversation import Conversation, conversation_json, find_turn, matches
from refold.core.store.conversations import (
    Listed,
    find_conversation,
    in_order,
    list_conversations,
    load_conversation,
)

if TYPE_CHECKING:
    from textual.screen import Screen

_COLUMNS: Final = 120
"""The width of the list where there is no terminal."""


class WrongHistory(RefoldError):
    """What was asked of a conversation makes no sense."""


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Show, print or fork conversations."""
    redacted(arguments, settings, printer)
    from refold.app.cli_screen import can_show

    if arguments.plan and not arguments.fork_before:
        raise WrongHistory("--plan goes with --fork-before", remedy="name the turn: --fork-before 3")
    if arguments.fork_before:
        return _fork(arguments, settings, printer)
    on_screen = can_show(settings, printing=arguments.print_id) and not arguments.json
    if arguments.id:
        path = find_conversation(arguments.id, settings.conversations)
        if on_screen and not arguments.print_id:
            return _show(path, settings)
        return _print_one(path, arguments, printer)
    if on_screen:
        return _choose(arguments, settings, printer)
    return _print_all(arguments, settings, printer)


def _choose(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Open the screen on the conversations; with --print, print the id of the one that is chosen."""
    from refold.app.cli_screen import print_chosen, show_first, show_for_caller

    chosen: list[str] = []

    def first() -> Screen[None]:
        from refold.app.screens.history import HistoryScreen

        return HistoryScreen(settings, arguments.find, chosen=chosen.append if arguments.print_id else None)

    if not arguments.print_id:
        return show_first(settings, first)
    return print_chosen(chosen, show_for_caller(settings, first), printer)


def _show(path: Path, settings: Settings) -> int:
    from refold.app.cli_screen import show_first

    def first() -> Screen[None]:
        from refold.app.screens.chat import ChatScreen

        return ChatScreen(path)

    return show_first(settings, first)


def _print_all(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    every = in_order([one for one in list_conversations(settings.conversations) if one is not None])
    shown = [one for one in every if matches(one.conversation, arguments.find, one.hay)]
    if arguments.json:
        for one in shown:
            printer.json(conversation_json(one.conversation, one.path))
    elif arguments.print_id:
        for one in shown:
            printer.raw(f"{line(one.conversation.name)}\n")
    else:
        _print_rows(shown, settings, printer)
        if len(shown) < len(every):
            printer.note(f"{units.plural(len(every) - len(shown), 'conversation')} hidden by --find")
        elif not every:
            printer.note("no conversations here. Looked in:")
            for root in settings.conversations:
                printer.note(f"  {root.path}")
    return FINE


def _print_rows(shown: list[Listed], settings: Settings, printer: Printer) -> None:
    from refold.app.present.history import HistoryRows, columns

    if not shown:
        return
    width = printer.columns or _COLUMNS
    now = time.time()
    rows = HistoryRows(shown, lambda: now, UTC if settings.utc else None)
    head = "".join(fit(each.label, each.width, each.align) + " " * each.gap for each in columns(width))
    printer.text(Safe(head), "dim")
    for index in range(len(rows)):
        printer.line(rows.line(index, width))


def _print_one(path: Path, arguments: argparse.Namespace, printer: Printer) -> int:
    conversation = load_conversation(path)
    if arguments.json:
        printer.json(conversation_json(conversation, str(path), turns=True))
    elif arguments.print_id:
        printer.raw(f"{line(conversation.name)}\n")
    else:
        _print_turns(_without_secrets(conversation, printer), path, printer)
    return FINE


def _without_secrets(conversation: Conversation, printer: Printer) -> Conversation:
    """Take secrets out before a text is parted into rows, which could part them too."""
    if printer.redactor is None:
        return conversation
    let_out = printer.redactor.text
    turns = tuple(
        msgspec.structs.replace(
            turn, prompt=let_out(turn.prompt), reply=let_out(turn.reply), why=let_out(turn.why)
        )
        for turn in conversation.turns
    )
    return msgspec.structs.replace(conversation, turns=turns)


def _print_turns(conversation: Conversation, path: Path, printer: Printer) -> None:
    from refold.app.present.history import turn_lines

    width = printer.columns or _COLUMNS
    printer.line((Cell(line(conversation.label), "strong"), Cell(line(f"  {path}"), "dim")))
    if conversation.refusal:
        printer.note(f"its own program would not load it: {conversation.refusal}")
    for turn in conversation.turns:
        printer.text(Safe(""))
        for row in turn_lines(turn, width):
            printer.line(row)


def _fork(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Fork a conversation before a prompt, or say what that would be."""
    from refold.app.present.history import fork_lines
    from refold.core.rivumi.conversation_fork import fork_json
    from refold.core.store.conversations import carry_out_fork, plan_fork_before

    if not arguments.id:
        raise WrongHistory("--fork-before needs the conversation", remedy="name its id, or 'last'")
    path = find_conversation(arguments.id, settings.conversations)
    conversation = load_conversation(path)
    turn = find_turn(conversation, arguments.fork_before)
    if turn is None:
        raise RunNotFound(
            f"{conversation.name}: no turn {arguments.fork_before!r}",
            remedy=f"it has {units.plural(len(conversation.turns), 'turn')}, counted from 1",
        )
    plan = plan_fork_before(path, turn)
    made = path.parent / plan.conversation_id
    if not arguments.plan:
        made = carry_out_fork(path, plan)
    if arguments.json:
        printer.json(fork_json(plan, str(made), made=not arguments.plan))
    elif arguments.print_id or not arguments.plan:
        printer.raw(f"{line(plan.conversation_id)}\n")
    else:
        for row in fork_lines(plan, printer.columns or _COLUMNS):
            printer.line(row)
    return FINE
