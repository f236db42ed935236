"""Reads the arguments, runs one command, and turns every end into an exit code."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from refold.app.cli_exit import FAULT, FINE, exit_code
from refold.app.lean_import import import_without

if TYPE_CHECKING:
    from refold.app.cli_parser import Arguments
    from refold.app.cli_print import Printer
    from refold.app.settings import Settings
    from refold.core.errors import RefoldError


def run(arguments: Sequence[str]) -> int:
    """Run the command line and give its exit code.

    Raises:
        OSError: the output could not be written.
    """
    _open_closed_streams()
    # What is imported is no garbage, and looking for some would take a tenth of the time.
    gc.disable()
    try:
        return _run(arguments)
    finally:
        gc.enable()


def _run(arguments: Sequence[str]) -> int:
    # A tenth of a command.
    import_without("msgspec", "typing_extensions")
    from refold.app.cli_plain import only_run
    from refold.app.cli_print import OutputFailed, Printer
    from refold.app.settings import Options, load
    from refold.core.errors import RefoldError

    name, parsed = only_run(arguments), None
    if name is None:
        from refold.app.cli_parser import parse

        try:
            parsed = parse(arguments)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else FINE
    printer = Printer()
    settings: Settings | None = None
    try:
        try:
            settings = load(parsed.options if parsed is not None else Options())
            printer = Printer(no_color=settings.no_color or settings.dumb, ascii_only=settings.ascii)
            if parsed is not None:
                _require_theme(parsed.options.theme)
                _refuse_to_write(parsed, settings)
                code = _command(parsed, settings, printer)
            else:
                from refold.app.cli_screen import open_screen

                code = open_screen(name or "", settings, printer)
            printer.flush()
            if printer.redactor is not None or printer.aside_redactor is not None:
                from refold.app.cli_redact import tell

                tell(printer)
        except OutputFailed:
            raise
        except RefoldError as error:
            printer.error(_explained(error, arguments))
            return exit_code(error)
        except Exception as error:
            return _fault(error, settings, printer)
    except OutputFailed as error:
        # Also where what went wrong could not be said.
        raise error.cause from error
    return code


def _explained(error: RefoldError, arguments: Sequence[str]) -> RefoldError:
    """Say of a word alone that it is no command either."""
    from refold.core.errors import RunNotFound

    if not isinstance(error, RunNotFound) or "open" in arguments:
        return error
    from refold.app.cli_commands import COMMANDS

    if any(word in COMMANDS for word in arguments):
        return error
    from refold.app.cli_mistyped import neither

    return neither(arguments[-1], error)


def _command(parsed: Arguments, settings: Settings, printer: Printer) -> int:
    """Run one command; only its own modules are imported."""
    match parsed.command:
        case "ls":
            from refold.app.cli_ls import run
        case "search":
            from refold.app.cli_search import run
        case "show":
            from refold.app.cli_show import run
        case "state":
            from refold.app.cli_state import run
        case "replay":
            from refold.app.cli_replay import run
        case "verify":
            from refold.app.cli_verify import run
        case "why":
            from refold.app.cli_why import run
        case "doctor":
            from refold.app.cli_doctor import run
        case "fork":
            from refold.app.cli_fork import run
        case "salvage":
            from refold.app.cli_salvage import run
        case "repair":
            from refold.app.cli_repair import run
        case "note":
            from refold.app.cli_keep import note as run
        case "tag":
            from refold.app.cli_keep import tag as run
        case "star":
            from refold.app.cli_keep import star as run
        case "name":
            from refold.app.cli_keep import name as run
        case "trash":
            from refold.app.cli_trash import trash as run
        case "restore":
            from refold.app.cli_trash import put_back as run
        case "prune":
            from refold.app.cli_prune import run
        case "lineage":
            from refold.app.cli_lineage import run
        case "export":
            from refold.app.cli_export import run
        case "diff":
            from refold.app.cli_diff import run
        case "run":
            from refold.app.cli_agent import run
        case "resume":
            from refold.app.cli_resume import run
        case "history":
            from refold.app.cli_history import run
        case "config":
            from refold.app.cli_config import run
        case "completion":
            from refold.app.completion import run
        case "serve":
            from refold.app.cli_serve import run
        case "demo":
            from refold.app.demo import run
        case _:
            from refold.app.cli_screen import run
    gc.enable()
    return run(parsed.own, settings, printer)


def _require_theme(name: str | None) -> None:
    if not name:
        return
    from refold.app.themes import every_name

    names = every_name()
    if name not in names:
        from refold.app.config import ConfigError

        raise ConfigError(f"--theme: there is no theme {name!r}", remedy=f"there are {', '.join(names)}")


def _refuse_to_write(parsed: Arguments, settings: Settings) -> None:
    from refold.app.cli_commands import WRITING

    own = parsed.own
    forks = bool(getattr(own, "fork_before", ""))
    if forks or parsed.command in WRITING:
        from refold.app.read_only import refuse

        runs = [getattr(own, "run", None), *(getattr(own, "runs", None) or ())]
        named = [run for run in runs if isinstance(run, str)]
        refuse(parsed.command, named, settings, plans=bool(getattr(own, "plan", False)))


def _fault(error: Exception, settings: Settings | None, printer: Printer) -> int:
    from refold.app.log import record_fault

    log = record_fault(settings.log_file if settings is not None else None, error)
    where = f"; {log} says where" if log is not None else ""
    printer.error(f"a fault in refold ({type(error).__name__}){where}")
    return FAULT


def _open_closed_streams() -> None:
    """Give the process its standard streams: none may be missing, and none may fail on a character."""
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        for number in (0, 1, 2):
            try:
                os.fstat(number)
            except OSError:
                os.open(os.devnull, os.O_RDWR)
        sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - lives as long as the process
        sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
