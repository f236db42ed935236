"""The commands: what each takes, and the words of its help. Nothing here reads an argument."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from refold.app.cli_parser import Parser

RUN_HELP = "id, given name, unique prefix of an id, or path"


class Command(NamedTuple):
    """One word after `refold`."""

    usage: str
    summary: str
    build: Callable[[Parser], None]


def _open(parser: Parser) -> None:
    parser.description = "Open a run in the full screen; for a RUN that is also the name of a command."
    parser.add_argument("run", metavar="RUN[@SEQ]", help=f"{RUN_HELP}; or the file of a bundle")


def _ls(parser: Parser) -> None:
    parser.description = (
        "List the runs, newest first.\n\n"
        "Words match id, name and prompt; status: agent: model: tool: text: error: problem: fork: after:\n"
        "before: star: tag: name: note: narrow; a comma is 'any of', a leading - negates, quotes keep\n"
        "phrases. The full screen filters with the same words."
    )
    parser.epilog = """\
examples:
  refold ls status:crashed -agent:refold
  refold ls --json after:2026-01-01 'text:no space left'"""
    parser.add_argument("filter", metavar="FILTER", nargs="*", help="which runs; all of them when left out")
    _json(parser, "one object a run and line")
    _redact(parser)


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
    _json(parser, "one object a hit and line")
    _redact(parser)


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
    _json(parser, "one object a record and line")
    _redact(parser)


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
    _json(parser, "one object a run and line")
    _redact(parser)


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
    _json(parser, "one object: the replay, and what we read beyond it")
    _redact(parser)


def _verify(parser: Parser) -> None:
    parser.description = (
        "Decode every record strictly and print what is wrong, one finding a line:\n"
        "file:line:byte: severity code: sentence. Exit code 1 where there is an error or a warning."
    )
    parser.add_argument("runs", metavar="RUN", nargs="+", help=RUN_HELP)
    _json(parser, "one object a finding and line")


def _doctor(parser: Parser) -> None:
    parser.description = (
        "Look over all runs and directories, locks, file watches, cache, notes and configuration, and say\n"
        "what could be better and how. Nothing is changed. Exit code 1 where there is a warning."
    )
    _json(parser, "one object")


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
    _new_run(parser, "the fork")


def _salvage(parser: Parser) -> None:
    parser.description = (
        "Make a new run of all good records of a damaged one, and say what was left out and why.\n"
        "The damaged run stays as it is."
    )
    parser.epilog = (
        "examples:\n  refold salvage nightly-0712 --plan\n  refold salvage nightly-0712 --name nightly"
    )
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    _new_run(parser, "the new run")


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
    _json(parser, "one object")


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
    _json(parser, "one object: what is kept about the run")


def _tag(parser: Parser) -> None:
    parser.description = "Add tags to a run and take others away; without a tag print them."
    parser.epilog = "examples:\n  refold tag billing-sweep +bug +july -draft\n  refold ls tag:bug"
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("tags", metavar="TAG", nargs="*", help="+tag or tag adds one, -tag takes one away")
    parser.add_argument("--clear", action="store_true", help="begin with no tags")
    _json(parser, "one object: what is kept about the run")


def _star(parser: Parser) -> None:
    parser.description = "Put a star on runs: lists mark them, star:yes finds them, a prune spares them."
    parser.add_argument("runs", metavar="RUN", nargs="+", help=RUN_HELP)
    parser.add_argument("--off", action="store_true", help="take the star away")
    _json(parser, "one object a run and line: what is kept about it")


def _name(parser: Parser) -> None:
    parser.description = (
        "Give a run a name: lists show it in place of the id, and it names the run on the command line.\n"
        "The id stays what it is, and names the run first. Without NAME print what it is."
    )
    parser.epilog = "examples:\n  refold name 2JfK 'july sweep'\n  refold 'july sweep@14'"
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("name", metavar="NAME", nargs="*", help="the name; words are joined")
    parser.add_argument("--clear", action="store_true", help="take the name away")
    _json(parser, "one object: what is kept about the run")


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
    _json(parser, "one object a run and line; with --list one an entry")
    _redact(parser)


def _restore(parser: Parser) -> None:
    parser.description = (
        "Put runs back from the trash where they lay, with the modes and times they had; without ID list\n"
        "what lies there. Nothing is overwritten."
    )
    parser.add_argument("ids", metavar="ID", nargs="*", help="id of a run, or name of an entry")
    _json(parser, "one object a run and line")
    _redact(parser)


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
    _json(parser, "one object")
    _redact(parser)


def _lineage(parser: Parser) -> None:
    parser.description = (
        "Print the tree that a run belongs to: where it was forked from, and what was forked from it.\n"
        "Each parent is checked by the bytes that were taken from it."
    )
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    _json(parser, "one object a run and line, parents before their forks")
    _redact(parser)


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
    _json(parser, "one object")
    _redact(parser)


def _export(parser: Parser) -> None:
    parser.description = (
        "Write a run out to be shared, up to SEQ if given: Markdown, one HTML page, JSON, JSON lines, a\n"
        "recording of a terminal (asciicast), a picture (SVG), or a bundle for another Refold. What looks\n"
        "like a secret is replaced and counted on standard error; what damage left is marked."
    )
    parser.epilog = (
        "examples:\n  refold export billing-sweep --format html -o sweep.html\n"
        "  refold export billing-sweep@14 --format jsonl | jq .\n"
        "  refold export nightly-0712 --format bundle -o nightly.zip"
    )
    parser.add_argument("run", metavar="RUN[@SEQ]", help=RUN_HELP)
    parser.add_argument(
        "--format",
        choices=("md", "html", "json", "jsonl", "cast", "svg", "bundle"),
        default="md",
        help="what to write; md if left out",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="where to; a bundle needs it")
    parser.add_argument(
        "--no-redact", action="store_true", help="leave secrets in; the configuration names what is none"
    )


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
        help="what becomes of an open call, named by its id, or by its number in the plan as '#2': "
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
    _print_choice(parser, "the id of the run; nothing is resumed")
    _json(parser, "one object: the plan, or how the run ended")
    _redact(parser)


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
    _print_choice(parser, "the id of the conversation")
    _json(parser, "one object a conversation and line; with ID its turns too")
    _redact(parser)


def _print_choice(parser: Parser, what: str) -> None:
    parser.add_argument(
        "--print",
        action="store_true",
        dest="print_id",
        help=f"let one be chosen on the screen, which is on standard error, and print {what}",
    )


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
    _json(parser, "one object: how the run ended")
    _redact(parser)


def _serve(parser: Parser) -> None:
    parser.description = (
        "Show the full screen in a browser of this machine; the address that is printed holds a key, and\n"
        "who lacks it sees nothing. Nothing can be written unless --writable says so. Needs its extra, serve."
    )
    parser.epilog = "examples:\n  refold serve\n  refold serve billing-sweep@14 --port 8000"
    parser.add_argument("run", metavar="RUN[@SEQ]", nargs="?", default="", help=RUN_HELP)
    parser.add_argument("--host", default="127.0.0.1", help="where to listen; 127.0.0.1 if left out")
    parser.add_argument("--port", type=int, default=0, help="0, or left out: any free one")
    parser.add_argument("--writable", action="store_true", help="let runs be resumed, forked and changed")


def _demo(parser: Parser) -> None:
    parser.description = (
        "Make a scratch directory with runs in every state, one of them growing, and open the screen on it.\n"
        "The directory is removed at the end, unless --dir names it."
    )
    parser.add_argument("--dir", metavar="DIR", type=Path, help="make the runs here and keep them")
    parser.add_argument(
        "--no-screen", action="store_true", help="make the runs, print the directory, keep it, and end"
    )


def _config(parser: Parser) -> None:
    parser.description = (
        "Print the settings in effect: directories, theme, keys, and where the files of refold lie."
    )
    _json(parser, "one object")


def _shell(text: str) -> str:
    """Take a shell that has a script; `ids` is what the scripts ask for."""
    if text not in ("bash", "zsh", "fish", "ids"):
        raise argparse.ArgumentTypeError(f"there is no script for {text!r}: bash, zsh or fish")
    return text


def _completion(parser: Parser) -> None:
    parser.description = "Print the completion script of a shell."
    parser.epilog = (
        'examples:\n  eval "$(refold completion bash)"       in ~/.bashrc\n'
        '  eval "$(refold completion zsh)"        in ~/.zshrc, after compinit\n'
        "  refold completion fish | source        in ~/.config/fish/config.fish"
    )
    parser.add_argument("shell", type=_shell, metavar="bash|zsh|fish")


COMMANDS: dict[str, Command] = {
    "open": Command("RUN[@SEQ]", "open a run in the full screen", _open),
    "ls": Command("[FILTER ...]", "list the runs", _ls),
    "search": Command("WORD ...", "search the records of all runs", _search),
    "show": Command("RUN[@SEQ] ...", "print a run, or one of its records", _show),
    "state": Command("RUN ...", "print what a run folds to", _state),
    "replay": Command("RUN", "print the event log of a run that is a directory", _replay),
    "verify": Command("RUN ...", "check every record of a run", _verify),
    "doctor": Command("", "look over runs, directories and the system", _doctor),
    "fork": Command("RUN [--at SEQ]", "begin a new run like another one, up to a record", _fork),
    "salvage": Command("RUN", "make a new run of what is good in a damaged one", _salvage),
    "repair": Command("RUN", "put the torn end of a run right, or back", _repair),
    "lineage": Command("RUN", "print which runs were forked from which", _lineage),
    "export": Command("RUN[@SEQ]", "write a run out to be shared, without its secrets", _export),
    "diff": Command("RUN [RUN]", "compare two runs, or one at two points", _diff),
    "resume": Command("[RUN]", "go on with a run, or say why not", _resume),
    "history": Command("[ID]", "show conversations, or fork one before a prompt", _history),
    "note": Command("RUN[@SEQ] [TEXT]", "note something about a run or a record", _note),
    "tag": Command("RUN [+TAG] [-TAG]", "tag a run", _tag),
    "star": Command("RUN ...", "star runs", _star),
    "name": Command("RUN [NAME]", "give a run a name", _name),
    "trash": Command("RUN ...", "move runs to the trash", _trash),
    "restore": Command("[ID ...]", "put runs back from the trash", _restore),
    "prune": Command("[FILTER ...]", "move the runs that a rule names to the trash", _prune),
    "run": Command("MODULE:FACTORY PROMPT", "run an agent written in Python", _run),
    "serve": Command("[RUN[@SEQ]]", "the full screen in a browser of this machine, to look only", _serve),
    "demo": Command("", "make runs in every state and look at them", _demo),
    "config": Command("", "print the settings in effect", _config),
    "completion": Command("bash|zsh|fish", "print the completion script of a shell", _completion),
}
"""Every command, in the order in which help shows them."""

WRITING: frozenset[str] = frozenset(
    {
        *("fork", "salvage", "repair", "resume", "run", "trash", "restore", "prune"),
        *("star", "tag", "name", "note"),
    }
)
"""Those that write, unless they are told to plan only."""


def _new_run(parser: Parser, what: str) -> None:
    parser.add_argument("--name", metavar="ID", help="the id of the new run; else one that sorts by time")
    parser.add_argument("--plan", action="store_true", help=f"only say what {what} would be")
    _json(parser, "one object")


def _redact(parser: Parser) -> None:
    parser.add_argument(
        "--redact",
        action=argparse.BooleanOptionalAction,
        help="replace what looks like a secret; text does it in a pipe or a file, JSON and a terminal do not",
    )


def _json(parser: Parser, what: str) -> None:
    parser.add_argument("--json", action="store_true", help=f"print JSON: {what}")
