"""Options that several commands take, in the same words everywhere."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from refold.app.cli_parser import Parser

RUN_HELP = "id, given name, unique prefix of an id, or path"


def new_run(parser: Parser, what: str) -> None:
    """Add what every command takes that makes a run."""
    parser.add_argument("--name", metavar="ID", help="the id of the new run; else one that sorts by time")
    parser.add_argument("--plan", action="store_true", help=f"only say what {what} would be")
    json_option(parser, "one object")
    redact_option(parser)


def redact_option(parser: Parser) -> None:
    """Add the choice of hiding secrets."""
    parser.add_argument(
        "--redact",
        action=argparse.BooleanOptionalAction,
        help="replace what looks like a secret; text does it in a pipe or a file, JSON and a terminal do not",
    )


def json_option(parser: Parser, what: str) -> None:
    """Add --json; `what` says what is printed."""
    parser.add_argument("--json", action="store_true", help=f"print JSON: {what}")


def print_choice(parser: Parser, what: str) -> None:
    """Add --print; `what` says what is printed."""
    parser.add_argument(
        "--print",
        action="store_true",
        dest="print_id",
        help=f"let one be chosen on the screen, which is on standard error, and print {what}",
    )
