"""What the commands take that make, change and keep runs, and the words of their help."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from refold.app.cli_takes import RUN_HELP, json_option, new_run, print_choice, redact_option

if TYPE_CHECKING:
    from refold.app.cli_parser import Parser


def _fork(parser: Parser) -> None:
    parser.description = (
        "Make a new run of the first records of another one, up to SEQ, its last legal record if left out.\n"
        "The parent stays as it is, byte for byte. Files and processes are not restored.\n"
        "A fork of a run directory gets a clone of its repository; the plan says what is in it."
    )
    parser.epilog = (
        "examples:\n  refold fork billing-sweep --at 14 --plan\n"
        "  refold fork billing-sweep --at 14 --prompt 'try the other queue' --name second-try"
    )
    parser.add_argument("run", metavar="RUN[@SEQ]", help=RUN_HELP)
    parser.add_argument("--at", metavar="SEQ", help="the last record taken; '#LINE' for a line of the file")
    parser.add_argument("--prompt", metavar="TEXT", default="", help="what the user says next")
    parser.add_argument("--reason", metavar="TEXT", default="", help="why; recorded with the new run")
    new_run(parser, "the fork")


def _salvage(parser: Parser) -> None:
    parser.description = (
        "Make a new run of all good records of a damaged one, and say what was left out and why.\n"
        "The damaged run stays as it is."
    )
    parser.epilog = (
        "examples:\n  refold salvage nightly-0712 --plan\n  refold salvage nightly-0712 --name nightly"
    )
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    new_run(parser, "the new run")


def _repair(parser: Parser) -> None:
    parser.description = (
        "Put right what a crash left behind the last record of a run: a torn line is cut off and kept in a\n"
        "file beside the run, a missing newline is added. Nothing further up is touched. A run that is held\n"
        "by a process is left alone."
    )
    parser.epilog = "examples:\n  refold repair nightly-0712 --plan\n  refold repair nightly-0712 --undo"
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--plan", action="store_true", help="only say what would be done")
    only.add_argument("--undo", action="store_true", help="put back what the last repair cut off")
    json_option(parser, "one object")
    redact_option(parser)


def _resume(parser: Parser) -> None:
    parser.description = (
        "Go on with a run, if that is coherent; without RUN, show the runs that can go on.\n\n"
        "Compared is what the run was started or last resumed with, and what its agent is now; what changed\n"
        "is named and refused. A call that may have run and has no result waits for a decision. A run of\n"
        "another tool is handed to that tool, which gets the terminal, where it would not refuse itself."
    )
    parser.epilog = """\
examples:
  refold resume billing-sweep --plan
  refold resume billing-sweep --decide call_7=failed --decide 'call_8=done:mail is sent'
  refold resume billing-sweep --force --reason 'the new prompt only fixes a typo'
  refold resume billing-sweep --agent billing.agents:make"""
    parser.add_argument("run", metavar="RUN", nargs="?", help=RUN_HELP)
    parser.add_argument("--plan", action="store_true", help="print what would happen; change nothing")
    parser.add_argument(
        "--force", action="store_true", help="go past a changed fingerprint; a changed provider never"
    )
    parser.add_argument("--reason", metavar="TEXT", default="", help="why it is forced; recorded")
    parser.add_argument(
        "--decide",
        metavar="CALL=CHOICE",
        action="append",
        help="what becomes of a pending call, named by its id, or by its number in the plan as '#2': "
        "rerun, failed, or done:TEXT; may be repeated",
    )
    parser.add_argument("--repair", action="store_true", help="put a torn end right first")
    parser.add_argument(
        "--agent", metavar="MODULE:FACTORY", default="", help="the Python agent that goes on with it"
    )
    parser.add_argument(
        "--config", metavar="FILE", default="", help="the configuration that the other tool needs"
    )
    parser.add_argument(
        "--expect", metavar="SEQ", type=int, help="refuse unless the run still ends at this sequence"
    )
    print_choice(parser, "the id of the run; nothing is resumed")
    json_option(parser, "one object: the plan, or how the run ended")
    redact_option(parser)


def _run(parser: Parser) -> None:
    parser.description = (
        "Run an agent written in Python. MODULE:FACTORY names a callable that gives a refold.core Agent;\n"
        "its module is looked for in the current directory first. What happens is said on standard error,\n"
        "the last words of the model on standard output. Ctrl-C suspends, a second one stops at once,\n"
        "a third one ends the program: what was recorded is on disk."
    )
    parser.epilog = """\
examples:
  refold run agents:make 'reconcile the invoices of July'
  refold run agents:make --checkpoint --name july 'reconcile the invoices of July'
  refold run agents:make --chat --checkpoint 'hello'"""
    parser.add_argument("agent", metavar="MODULE:FACTORY", help="what makes the agent")
    parser.add_argument("prompt", metavar="PROMPT", nargs="+", help="what it is to do; words are joined")
    parser.add_argument(
        "--checkpoint", action="store_true", help="keep the run on disk, so that it can go on after anything"
    )
    parser.add_argument("--name", metavar="ID", help="keep it under this id; an empty run is begun")
    parser.add_argument(
        "--chat", action="store_true", help="go on with what is typed, a line each, until that ends"
    )
    json_option(parser, "one object: how the run ended")
    redact_option(parser)


def _note(parser: Parser) -> None:
    parser.description = (
        "Write a note on a run, or on its record SEQ; without TEXT print what is noted. The run itself is\n"
        "not touched: notes are kept beside all runs, and found again where a run was moved."
    )
    parser.epilog = (
        "examples:\n  refold note billing-sweep 'waits for the new queue'\n"
        "  refold note billing-sweep@14 'here it went wrong'\n  refold note billing-sweep@14 --clear"
    )
    parser.add_argument("run", metavar="RUN[@SEQ]", help=RUN_HELP)
    parser.add_argument("text", metavar="TEXT", nargs="*", help="the note; words are joined")
    parser.add_argument("--clear", action="store_true", help="take the note away")
    json_option(parser, "one object: what is kept about the run")
    redact_option(parser)


def _tag(parser: Parser) -> None:
    parser.description = "Add tags to a run and take others away; without a tag print them."
    parser.epilog = "examples:\n  refold tag billing-sweep +bug +july -draft\n  refold ls tag:bug"
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("tags", metavar="TAG", nargs="*", help="+tag or tag adds one, -tag takes one away")
    parser.add_argument("--clear", action="store_true", help="begin with no tags")
    json_option(parser, "one object: what is kept about the run")
    redact_option(parser)


def _star(parser: Parser) -> None:
    parser.description = "Put a star on runs: lists mark them, star:yes finds them, a prune spares them."
    parser.add_argument("runs", metavar="RUN", nargs="+", help=RUN_HELP)
    parser.add_argument("--off", action="store_true", help="take the star away")
    json_option(parser, "one object a run and line: what is kept about it")
    redact_option(parser)


def _name(parser: Parser) -> None:
    parser.description = (
        "Give a run a name: lists show it in place of the id, and it names the run on the command line.\n"
        "The id stays what it is, and names the run first. Without NAME print what it is."
    )
    parser.epilog = "examples:\n  refold name 2JfK 'july sweep'\n  refold 'july sweep@14'"
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("name", metavar="NAME", nargs="*", help="the name; words are joined")
    parser.add_argument("--clear", action="store_true", help="take the name away")
    json_option(parser, "one object: what is kept about the run")
    redact_option(parser)


def _trash(parser: Parser) -> None:
    parser.description = (
        "Move runs to the trash beside them, with what is their own: lock, and what repairs cut off. A run\n"
        "that is held by a process stays. Nothing is deleted. Exit code 1 where a run stays."
    )
    parser.epilog = "examples:\n  refold trash nightly-0712 --plan\n  refold trash --list"
    parser.add_argument("runs", metavar="RUN", nargs="*", help=RUN_HELP)
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--plan", action="store_true", help="only say what would be moved")
    only.add_argument("--list", action="store_true", help="list what lies in the trash")
    json_option(parser, "one object a run and line; with --list one an entry")
    redact_option(parser)


def _restore(parser: Parser) -> None:
    parser.description = (
        "Put runs back from the trash where they lay, with the modes and times they had; without ID list\n"
        "what lies there. Nothing is overwritten."
    )
    parser.add_argument("ids", metavar="ID", nargs="*", help="id of a run, or name of an entry")
    json_option(parser, "one object a run and line")
    redact_option(parser)


def _prune(parser: Parser) -> None:
    parser.description = (
        "Say which runs a rule names and how much room they take; with --yes move them to the trash. Runs\n"
        "that a process holds, starred ones, and those with tags, a name or notes stay unless it is said\n"
        "otherwise. With --trash: delete for good what lies in the trash for longer than the configuration\n"
        "says, or --older-than."
    )
    parser.epilog = (
        "examples:\n  refold prune --older-than 30d --status completed\n"
        "  refold prune --larger-than 1GB -tag:keep --yes\n  refold prune --trash --yes"
    )
    parser.add_argument("filter", metavar="FILTER", nargs="*", help="which runs, as 'refold ls' takes it")
    parser.add_argument("--older-than", metavar="TIME", default="", help="unchanged for so long: 30d, 2w")
    parser.add_argument("--larger-than", metavar="SIZE", default="", help="files of this size: 20MB, 1GB")
    parser.add_argument("--status", metavar="STATUS", default="", help="of these statuses, with commas")
    parser.add_argument(
        "--keep-starred",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="leave starred runs alone; the default",
    )
    parser.add_argument("--with-notes", action="store_true", help="take runs with tags, name or notes too")
    parser.add_argument("--trash", action="store_true", help="empty the trash")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--yes", action="store_true", help="do it; else it is only said")
    only.add_argument("--dry-run", action="store_true", help="only say it, as without --yes")
    json_option(parser, "one object")
    redact_option(parser)


TAKES: Final[Mapping[str, Callable[[Parser], None]]] = {
    "fork": _fork,
    "salvage": _salvage,
    "repair": _repair,
    "resume": _resume,
    "run": _run,
    "note": _note,
    "tag": _tag,
    "star": _star,
    "name": _name,
    "trash": _trash,
    "restore": _restore,
    "prune": _prune,
}
"""By the name of a command what gives its arguments to a parser."""
