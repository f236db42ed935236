"""The commands in the order of the help. Nothing here reads an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from refold.app.cli_parser import Parser


class Command(NamedTuple):
    """One word after `refold`; what it takes stands in `cli_takes_…`."""

    usage: str
    summary: str


COMMANDS: dict[str, Command] = {
    "open": Command("RUN[@SEQ]", "open a run in the full screen"),
    "ls": Command("[FILTER ...]", "list the runs"),
    "search": Command("WORD ...", "search the records of all runs"),
    "show": Command("RUN[@SEQ] ...", "print a run, or one of its records"),
    "state": Command("RUN ...", "print what a run folds to"),
    "replay": Command("RUN", "print the event log of a run directory, as its program does"),
    "verify": Command("RUN ...", "check every record of a run"),
    "why": Command("RUN", "explain a run that stopped, and what can be done"),
    "doctor": Command("", "look over runs, directories and the system"),
    "fork": Command("RUN [--at SEQ]", "begin a new run like another one, up to a record"),
    "salvage": Command("RUN", "make a new run of what is good in a damaged one"),
    "repair": Command("RUN", "put the torn end of a run right, or back"),
    "lineage": Command("RUN", "print which runs were forked from which"),
    "export": Command("RUN[@SEQ]", "write a run out to be shared, without its secrets"),
    "diff": Command("RUN [RUN]", "compare two runs, or one at two points"),
    "resume": Command("[RUN]", "go on with a run, or say why not"),
    "history": Command("[ID]", "show conversations, or fork one before a prompt"),
    "note": Command("RUN[@SEQ] [TEXT]", "note something about a run or a record"),
    "tag": Command("RUN [+TAG] [-TAG]", "tag a run"),
    "star": Command("RUN ...", "star runs"),
    "name": Command("RUN [NAME]", "give a run a name"),
    "trash": Command("RUN ...", "move runs to the trash"),
    "restore": Command("[ID ...]", "put runs back from the trash"),
    "prune": Command("[FILTER ...]", "move the runs that a rule names to the trash"),
    "run": Command("MODULE:FACTORY PROMPT", "run an agent written in Python"),
    "serve": Command("[RUN[@SEQ]]", "the full screen in a browser of this machine, to look only"),
    "demo": Command("", "make runs in every state and look at them"),
    "config": Command("", "print the settings in effect"),
    "completion": Command("bash|zsh|fish", "print the completion script of a shell"),
}
"""Every command, in the order in which help shows them."""

WRITING: frozenset[str] = frozenset(
    {
        *("fork", "salvage", "repair", "resume", "run", "trash", "restore", "prune"),
        *("star", "tag", "name", "note"),
    }
)
"""Those that write, unless they are told to plan only."""


def add_arguments(name: str, parser: Parser) -> None:
    """Give the parser of a command what the command takes, and the words of its help."""
    from refold.app import cli_takes_looking, cli_takes_program, cli_takes_writing

    takes = {**cli_takes_looking.TAKES, **cli_takes_writing.TAKES, **cli_takes_program.TAKES}
    takes[name](parser)
