"""Reads the command line: options before and behind a command, and what is wrong with them."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from refold.app.cli_commands import COMMANDS as COMMANDS
from refold.app.cli_commands import add_arguments
from refold.app.cli_exit import WRONG_USAGE
from refold.app.settings import Options, terminal_width
from refold.core.version import __version__

DESCRIPTION = """\
Browse, replay and examine the runs that agents leave on disk. Looking never changes a run.

Without a command the full screen opens: on the list of runs, or on RUN, or on RUN at record SEQ.
RUN is an id, a name given to it, a unique prefix of an id, or the path of a journal. Without a
terminal the list, or the run, is printed."""

EPILOG = """\
examples:
  refold                            the runs of this machine
  refold 2Jf                        the run whose id starts with 2Jf
  refold billing-sweep@14           that run, at its record 14
  refold ls status:crashed          the crashed runs, as text
  refold ls --json | jq -r .id      every id
  refold state RUN --at 14 --json   what the run folds to at its record 14
  refold verify RUN                 what is wrong with a run, like a linter
  refold why RUN                    what happened to it, and what is safe to do
  refold demo                       look around in runs made for it

exit codes (over several runs the largest counts):
  0    fine
  1    findings, or refused: the run does not fold
  2    the command line or the configuration is wrong
  3    not found, or cannot be read
  70   a fault in refold; its log says where
  74   the output could not be written
  130  interrupted"""

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

_TAKE_A_VALUE = ("--root", "--theme")
_NEGATED = ("ls", "tag", "prune")
"""Commands whose words a dash negates."""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Takes the width of the terminal from the system: what it would import for that reads archives too."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=terminal_width() - 2)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, free of control characters."""

    def __init__(self, prog: str, usage: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            epilog=epilog or None,
            formatter_class=_Formatter,
            allow_abbrev=False,
        )
        self.add_argument(
            "--root",
            metavar="DIR",
            action="append",
            type=Path,
            help="look for runs in DIR too; may be repeated",
        )
        self.add_argument(
            "--only", action="store_true", help="leave out the default and configured directories"
        )
        self.add_argument("--no-cache", action="store_true", help="neither read nor write the cache")
        self.add_argument(
            "--read-only",
            action="store_true",
            help="write nothing, the cache neither, and start no program of yours; keys that would say so",
        )
        self.add_argument("--theme", metavar="NAME", help="colours of the full screen")

    def actions(self) -> Sequence[argparse.Action]:
        """Every option and argument, in the order of the help."""
        return tuple(self._actions)

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print the help; unlike the method it replaces, a failed write is not passed over."""
        print(self.format_help(), end="", file=sys.stdout if file is None else file)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is; exit with 2."""
        from refold.app.safe import line

        print(f"{self.prog}: {line(message)}\nTry '{self.prog} --help'.", file=sys.stderr)
        raise SystemExit(WRONG_USAGE)


class Arguments(NamedTuple):
    """A command line, read."""

    command: str
    """The name of the command; empty where none was given."""
    options: Options
    own: argparse.Namespace
    """What the command itself takes."""


def parser_of(name: str) -> Parser:
    """The parser of one command; of the line before any command for the empty name."""
    if name:
        command = COMMANDS[name]
        parser = Parser(f"refold {name}", f"refold {name} [options] {command.usage}".rstrip(), "")
        add_arguments(name, parser)
        return parser
    width = max(len(f"{name} {command.usage}") for name, command in COMMANDS.items()) + 2
    listing = "".join(
        f"\n  {f'{name} {command.usage}':{width}}{command.summary}" for name, command in COMMANDS.items()
    )
    parser = Parser(
        "refold",
        "refold [options] [RUN[@SEQ]]\n       refold COMMAND [options] ...",
        DESCRIPTION,
        f"commands ('refold COMMAND --help' says more):{listing}\n\n{EPILOG}",
    )
    parser.add_argument("-V", "--version", action="version", version=f"refold {__version__}")
    return parser


def parse(arguments: Sequence[str]) -> Arguments:
    """Read the arguments; `refold RUN` becomes `refold open RUN`.

    Raises:
        SystemExit: with 2 where they are wrong, with 0 after help or version.
    """
    before, command, after = _split(arguments)
    outer = parser_of("").parse_args(before)
    if not command:
        return Arguments("", _options(outer), argparse.Namespace())
    if command == "help":
        parser_of(after[0] if after and after[0] in COMMANDS else "").print_help()
        raise SystemExit(0)
    own, left = parser_of(command).parse_known_intermixed_args(_masked(after, command))
    if left:
        _refuse_left(command, arguments, after, left)
    for name, value in vars(own).items():
        setattr(own, name, _unmasked(value))
    return Arguments(command, _options(outer, own), own)


def _split(arguments: Sequence[str]) -> tuple[list[str], str, list[str]]:
    """What stands before the command, the command, and what follows it."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] != "--":
        at += 2 if arguments[at] in _TAKE_A_VALUE else 1
    before, rest = list(arguments[:at]), list(arguments[at:])
    if not rest:
        return before, "", []
    if rest[0] in COMMANDS:
        return before, rest[0], rest[1:]
    return before, "help" if rest[0] == "help" else "open", rest[1:] if rest[0] == "help" else rest


def _refuse_left(
    command: str, arguments: Sequence[str], after: Sequence[str], left: Sequence[str]
) -> NoReturn:
    """Refuse what a command does not take; where none was typed, its first word was probably to be one."""
    unknown = " ".join(word.removeprefix("\0") for word in left)
    if command in arguments:
        parser_of(command).error(f"unrecognized arguments: {unknown}")
    from refold.app.cli_mistyped import meant

    word = after[0]
    said = meant(word)
    parser_of("").error(f"no command {word!r}, and a run alone takes no {unknown!r}{said}")


def _masked(arguments: Sequence[str], command: str) -> list[str]:
    """Hide from argparse that a word starts with a dash: what negates a term, and anything after `--`."""
    masked: list[str] = []
    for at, argument in enumerate(arguments):
        if argument == "--":
            return masked + ["\0" + word for word in arguments[at + 1 :]]
        value = at > 0 and arguments[at - 1] in _TAKE_A_VALUE
        negated = command in _NEGATED and not value and re.match("-[^-]", argument) and argument != "-h"
        masked.append("\0" + argument if negated else argument)
    return masked


def _unmasked(value: object) -> object:
    if isinstance(value, list):
        return [_unmasked(item) for item in value]
    return value.removeprefix("\0") if isinstance(value, str) else value


def _options(*levels: argparse.Namespace) -> Options:
    roots = tuple(root for level in levels for root in level.root or ())
    themes = [level.theme for level in levels if level.theme]
    return Options(
        roots=roots,
        only=any(level.only for level in levels),
        no_cache=any(level.no_cache for level in levels),
        theme=themes[-1] if themes else None,
        read_only=any(level.read_only for level in levels),
    )
