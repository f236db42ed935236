"""What the commands take that look at runs, and the words of their help."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from refold.app.cli_takes import RUN_HELP, json_option, print_choice, redact_option

if TYPE_CHECKING:
    from refold.app.cli_parser import Parser


def _open(parser: Parser) -> None:
    parser.description = "Open a run in the full screen; for a RUN that is also the name of a command."
    parser.add_argument("run", metavar="RUN[@SEQ]", help=f"{RUN_HELP}; or the file of a bundle")


def _ls(parser: Parser) -> None:
    parser.description = (
        "List the runs, newest first.\n\n"
        "Words match id, name and prompt; status: resume: uncertain: agent: model: tool: text: error:\n"
        "problem: fork: after: before: star: tag: name: note: narrow; a comma is 'any of',\n"
        "a leading - negates, quotes keep phrases. resume:yes are the runs that can go on,\n"
        "uncertain:yes those that stopped with a call that may have run. The full screen filters so too."
    )
    parser.epilog = """\
examples:
  refold ls status:crashed -agent:refold
  refold ls --json after:2026-01-01 'text:no space left'"""
    parser.add_argument("filter", metavar="FILTER", nargs="*", help="which runs; all of them when left out")
    json_option(parser, "one object a run and line")
    redact_option(parser)


def _search(parser: Parser) -> None:
    parser.description = (
        "Search the records of all runs: what was asked, what the model said, what calls were given, what\n"
        'came of them. All words must stand in one record; "quotes" keep a phrase, word* is the beginning\n'
        "of a word, prompt: answer: argument: result: say where. The best hit comes first; of equals the\n"
        "newer one."
    )
    parser.epilog = """\
examples:
  refold search 'no such file' result:calc.py
  refold search econn* --json | jq -r .path
  refold search --index                     bring the index up to date, and nothing else

exit codes: 0 something was found, 1 nothing was, 2 there is no word in the query"""
    parser.add_argument("query", metavar="WORD", nargs="*", help="what to look for")
    parser.add_argument("--limit", metavar="N", type=_positive, default=50, help="print at most N hits (50)")
    parser.add_argument(
        "--index", action="store_true", help="first bring the index in the cache up to date, or make it"
    )
    json_option(parser, "one object a hit and line")
    redact_option(parser)


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) < 1_000_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of hits")
    return int(text)


def _show(parser: Parser) -> None:
    parser.description = (
        "Print the records of a run, one a line, or one record in full.\n\n"
        "SEQ is the number that a record carries in its file; '#LINE' names a line of the file instead."
    )
    parser.epilog = (
        "examples:\n  refold show billing-sweep\n  refold show billing-sweep@14\n"
        "  refold show 'billing-sweep@#15' --json"
    )
    parser.add_argument("runs", metavar="RUN[@SEQ]", nargs="+", help=RUN_HELP)
    json_option(parser, "one object a record and line")
    redact_option(parser)


def _state(parser: Parser) -> None:
    parser.description = "Print what a run folds to: counters, pending calls, stop reason, conversation."
    parser.epilog = "examples:\n  refold state billing-sweep --at 14\n  refold state --json runs/*.json"
    parser.add_argument("runs", metavar="RUN", nargs="+", help=RUN_HELP)
    parser.add_argument(
        "--at", metavar="SEQ", help="fold up to this record, inclusive; '#LINE' for a line of the file"
    )
    parser.add_argument(
        "--salvage", action="store_true", help="skip what cannot be read; no resume starts from it"
    )
    json_option(parser, "one object a run and line")
    redact_option(parser)


def _replay(parser: Parser) -> None:
    parser.description = (
        "Print the event log of a run that is a directory of its own, one event a line.\n"
        "With --canonical as the program that wrote it reduces it, byte for byte."
    )
    parser.epilog = (
        "examples:\n  refold replay ~/.local/state/rivumi/runs/ID\n  refold replay DIR --canonical"
    )
    parser.add_argument("run", metavar="RUN", help="directory of the run")
    parser.add_argument("--canonical", action="store_true", help="the canonical JSON, without a line end")
    json_option(parser, "one object: the replay, and what we read beyond it")
    redact_option(parser)


def _verify(parser: Parser) -> None:
    parser.description = (
        "Decode every record strictly and print what is wrong, one finding a line:\n"
        "file:line:byte: severity code: sentence. Exit code 1 where there is an error or a warning.\n"
        "What was looked at before is known by its hashes in the cache: where a run is no longer the same,\n"
        "that is an error until --accept."
    )
    parser.add_argument("runs", metavar="RUN", nargs="+", help=RUN_HELP)
    parser.add_argument(
        "--accept", action="store_true", help="take a run whose history was rewritten as it is now"
    )
    json_option(parser, "one object a finding and line")
    redact_option(parser)


def _why(parser: Parser) -> None:
    parser.description = (
        "Explain a run that stopped: the verdict, what was in flight, what happened last, what is damaged,\n"
        "who holds it, what keeps happening, and what can be done, each with what it would write. The same\n"
        "words stand in the full screen behind d. Looking changes nothing."
    )
    parser.epilog = """\
examples:
  refold why fix-date-parser
  refold why fix-date-parser --json | jq -r '.in_flight[].name'

exit codes: 0 nothing is unsure, 1 a call waits for a result, something is damaged or the run cannot be
resumed, 3 not found"""
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    json_option(parser, "one object")
    redact_option(parser)


def _lineage(parser: Parser) -> None:
    parser.description = (
        "Print the tree that a run belongs to: where it was forked from, and what was forked from it.\n"
        "Each parent is checked by the bytes that were taken from it."
    )
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    json_option(parser, "one object a run and line, parents before their forks")
    redact_option(parser)


def _diff(parser: Parser) -> None:
    parser.description = (
        "Put two runs side by side, or one run at two points: what they have in common, where they part,\n"
        "what each did then, and how their states differ. Without a second RUN a fork is compared with its\n"
        "parent. Exit code 0 where they are the same, 1 where they differ."
    )
    parser.epilog = (
        "examples:\n  refold diff billing-sweep second-try\n  refold diff billing-sweep@9 billing-sweep@14\n"
        "  refold diff second-try --json | jq .common"
    )
    parser.add_argument("run", metavar="RUN[@SEQ]", help=RUN_HELP)
    parser.add_argument("other", metavar="RUN[@SEQ]", nargs="?", help="the other one")
    json_option(parser, "one object")
    redact_option(parser)


def _export(parser: Parser) -> None:
    parser.description = (
        "Write a run out to be shared, up to SEQ if given: Markdown, one HTML page, JSON, JSON lines, a\n"
        "recording of a terminal (asciicast), a picture (SVG), or a bundle for another Refold. What looks\n"
        "like a secret is replaced and counted on standard error; what damage left is marked."
    )
    parser.epilog = (
        "examples:\n  refold export billing-sweep -o sweep.html\n"
        "  refold export billing-sweep@14 --format jsonl | jq .\n"
        "  refold export nightly-audit -o nightly.refold-bundle"
    )
    parser.add_argument("run", metavar="RUN[@SEQ]", help=RUN_HELP)
    parser.add_argument(
        "--format",
        choices=("md", "html", "json", "jsonl", "cast", "svg", "bundle"),
        help="what to write; if left out what the name of FILE ends with, without FILE md",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="where to; a bundle needs it")
    parser.add_argument("--force", action="store_true", help="replace FILE if it is there")
    parser.add_argument(
        "--no-redact", action="store_true", help="leave secrets in; the configuration names what is none"
    )


def _history(parser: Parser) -> None:
    parser.description = (
        "Show the conversations of Rivumi and Looplane: what their /history lists. The full screen filters\n"
        "by what is typed; without a terminal they are printed. ID opens or prints one: an id, the\n"
        "beginning of one, a directory, or 'last'."
    )
    parser.epilog = """\
examples:
  refold history --find parser --json
  id=$(refold history --print) && rivumi      then type /resume and the id
  refold history last --fork-before 3 --plan"""
    parser.add_argument("id", metavar="ID", nargs="?", help="one conversation")
    parser.add_argument("--find", metavar="TEXT", default="", help="words in title, id, runtime and prompts")
    parser.add_argument(
        "--fork-before",
        metavar="TURN",
        help="make a new conversation of what stands before this prompt of ID",
    )
    parser.add_argument("--plan", action="store_true", help="only say what the fork would be")
    print_choice(parser, "the id of the conversation")
    json_option(parser, "one object a conversation and line; with ID its turns too")
    redact_option(parser)


TAKES: Final[Mapping[str, Callable[[Parser], None]]] = {
    "open": _open,
    "ls": _ls,
    "search": _search,
    "show": _show,
    "state": _state,
    "replay": _replay,
    "verify": _verify,
    "why": _why,
    "lineage": _lineage,
    "diff": _diff,
    "export": _export,
    "history": _history,
}
"""By the name of a command what gives its arguments to a parser."""
