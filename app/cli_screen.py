"""`refold` and `refold open`: the full screen, or the same words printed where there is no terminal."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from refold.app.cli_print import Printer
from refold.app.cli_run import hint_of, target
from refold.app.settings import Settings
from refold.core.store.resolve import resolve

if TYPE_CHECKING:
    import argparse


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Open the screen on the list of runs, or on the run that is named."""
    return open_screen(getattr(arguments, "run", ""), settings, printer)


def open_screen(name: str, settings: Settings, printer: Printer) -> int:
    """Open the screen on a run, on the list of runs for the empty name; without a terminal print them."""
    if not can_show(settings):
        return _print(name, settings, printer)
    if not name:
        return show(settings)
    wanted = target(name)
    return show(settings, resolve(wanted.run, settings.roots), wanted.place)


def can_show(settings: Settings) -> bool:
    """Say whether there is a terminal to draw on; the screen is drawn on standard error."""
    return not settings.dumb and all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def show(settings: Settings, path: Path | None = None, place: str = "", *, filter_text: str = "") -> int:
    """Show the full screen, on the runs or on one of them, until it is left; give the exit code."""
    # Nothing that is imported here is garbage: looking for some would be a tenth of the start.
    gc.disable()
    from textual.screen import Screen

    from refold.app.main import RefoldApp

    def first() -> Screen[None]:
        if path is None:
            from refold.app.screens.runs import RunsScreen

            return RunsScreen(settings, filter_text)
        from refold.app.screens.run import RunScreen

        number = int(place.removeprefix("#")) if place else None
        at, line = (None, number) if place.startswith("#") else (number, None)
        return RunScreen(path, at, line=line, settings=settings, hint=hint_of(path, settings))

    app = RefoldApp(settings, first)
    # A full collection walks every row that is kept, on the event loop: with 10,000 runs 20 to 95 ms each.
    # What was imported lives as long as the program, and rows refer to nothing that could form a cycle.
    gc.freeze()
    gc.set_threshold(50_000, 20, 1000)
    gc.enable()
    app.run()
    return app.return_code or 0


def _print(name: str, settings: Settings, printer: Printer) -> int:
    import argparse

    if name:
        from refold.app.cli_show import run as show_run

        return show_run(argparse.Namespace(runs=[name], json=False), settings, printer)
    from refold.app.cli_ls import run as list_runs

    return list_runs(argparse.Namespace(filter=[], json=False), settings, printer)
