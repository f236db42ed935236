"""What the commands take that are about Refold itself, and the words of their help."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from refold.app.cli_takes import RUN_HELP, json_option

if TYPE_CHECKING:
    from refold.app.cli_parser import Parser


def _doctor(parser: Parser) -> None:
    parser.description = (
        "Look over all runs and directories, locks, file watches, cache, notes and configuration, and say\n"
        "what could be better and how. Nothing is changed. Exit code 1 where there is a warning."
    )
    json_option(parser, "one object")


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
    json_option(parser, "one object")


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


TAKES: Final[Mapping[str, Callable[[Parser], None]]] = {
    "doctor": _doctor,
    "serve": _serve,
    "demo": _demo,
    "config": _config,
    "completion": _completion,
}
"""By the name of a command what gives its arguments to a parser."""
