"""Shell completion: scripts written from the parser, and the ids that they ask for."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from refold.app.cli_parser import COMMANDS, parser_of
from refold.app.cli_print import Printer
from refold.app.settings import Settings
from refold.core.errors import InvalidRunId
from refold.core.store.files import check_run_id
from refold.core.store.roots import SUFFIX, Root
from refold.core.store.session_names import is_run_directory

_TAKES_RUN = (
    "open",
    "show",
    "state",
    "verify",
    "why",
    "fork",
    "salvage",
    "repair",
    "lineage",
    "diff",
    "export",
    "note",
    "tag",
    "star",
    "name",
    "trash",
)
_TAKES_DIRECTORY = ("--root", "--dir")

_BASH = """\
# bash completion of refold: eval "$(refold completion bash)"
_refold() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command="" i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${{COMP_WORDS[i]}} in {alternatives}) command=${{COMP_WORDS[i]}}; break ;; esac
    done
    COMPREPLY=()
    case $before in {directories}) COMPREPLY=($(compgen -d -- "$word")); return ;; esac
    local words options ids=""
    case $command in
{cases}
        *) words="{commands}" options="{outer}" ids=yes ;;
    esac
    if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$word")); return; fi
    if [[ -n $ids ]]; then words="$words $(refold completion ids 2>/dev/null)"; fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    if [[ -n $ids && ${{#COMPREPLY[@]}} -eq 0 ]]; then COMPREPLY=($(compgen -f -- "$word")); fi
}}
complete -o filenames -F _refold refold
"""

_ZSH = """\
# zsh completion of refold: eval "$(refold completion zsh)"
_refold() {{
    local command="" word ids=""
    local -a here options
    for word in "${{(@)words[2,CURRENT-1]}}"; do
        case $word in {alternatives}) command=$word; break ;; esac
    done
    case ${{words[CURRENT-1]}} in {directories}) _files -/; return ;; esac
    case $command in
{cases}
        *) here=({commands}); options=({outer}); ids=yes ;;
    esac
    if [[ ${{words[CURRENT]}} == -* ]]; then compadd -- $options; return; fi
    if [[ -n $ids ]]; then here+=(${{(f)"$(refold completion ids 2>/dev/null)"}}); fi
    compadd -- $here || {{ [[ -n $ids ]] && _files }}
}}
compdef _refold refold
"""

_FISH = """\
# fish completion of refold: refold completion fish | source
complete -c refold -f
complete -c refold -n "not __fish_seen_subcommand_from {commands}" -a "{commands}"
complete -c refold -n "not __fish_seen_subcommand_from {others}" -a "(refold completion ids 2>/dev/null)"
{lines}
"""


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Print the script of a shell; for `ids`, which the scripts ask, the ids of all runs, one a line."""
    if arguments.shell == "ids":
        for run_id in run_ids(settings.roots):
            printer.raw(run_id + "\n")
        return 0
    printer.raw({"bash": bash, "zsh": zsh, "fish": fish}[arguments.shell]())
    return 0


def run_ids(roots: Sequence[Root]) -> Iterator[str]:
    """The valid ids in all directories, by what lies there alone: no run is opened."""
    for root in roots:
        try:
            names = sorted(map(_run_id, root.path.iterdir()))
        except OSError:
            continue
        for run_id in names:
            try:
                check_run_id(run_id)
            except InvalidRunId:
                continue
            yield run_id


def _run_id(path: Path) -> str:
    """Give the id of the run at a path, a journal or a directory of its own; empty where it is none."""
    if path.name.endswith(SUFFIX):
        return path.name.removesuffix(SUFFIX)
    return path.name if is_run_directory(path) else ""


def bash() -> str:
    """The script for bash."""
    cases = [
        f'        {name}) words="{_words(name)}" options="{_options(name)}"{_ids(name)} ;;'
        for name in COMMANDS
    ]
    return _BASH.format(cases="\n".join(cases), **_names())


def zsh() -> str:
    """The script for zsh."""
    cases = [
        f"        {name}) here=({_words(name)}); options=({_options(name)}){_ids(name)} ;;"
        for name in COMMANDS
    ]
    return _ZSH.format(cases="\n".join(cases), **_names())


def fish() -> str:
    """The script for fish."""
    common = {option for action in _actions("") for option in action.option_strings}
    lines: list[str] = []
    for name in ("", *COMMANDS):
        seen = f'-n "__fish_seen_subcommand_from {name}" ' if name else ""
        for action in _actions(name):
            for option in action.option_strings:
                if name and option in common:
                    continue
                flag = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
                value = " -r -a '(__fish_complete_directories)'" if option in _TAKES_DIRECTORY else ""
                text = (action.help or "").replace("'", "")
                lines.append(f"complete -c refold {seen}{flag}{value} -d '{text}'")
    lines.append('complete -c refold -n "__fish_seen_subcommand_from completion" -a "bash zsh fish"')
    others = " ".join(name for name in COMMANDS if not _takes_run(name))
    return _FISH.format(commands=" ".join(COMMANDS), others=others, lines="\n".join(lines))


def _names() -> dict[str, str]:
    return {
        "alternatives": "|".join(COMMANDS),
        "commands": " ".join(COMMANDS),
        "directories": "|".join(_TAKES_DIRECTORY),
        "outer": _options(""),
    }


def _words(name: str) -> str:
    return "bash zsh fish" if name == "completion" else ""


def _options(name: str) -> str:
    options = (option for action in _actions(name) for option in action.option_strings)
    return " ".join(option for option in options if option.startswith("--"))


def _ids(name: str) -> str:
    return "; ids=yes" if _takes_run(name) else ""


def _takes_run(name: str) -> bool:
    return any(
        not action.option_strings and str(action.metavar).startswith("RUN") for action in _actions(name)
    )


def _actions(name: str) -> Sequence[argparse.Action]:
    return parser_of(name).actions()
