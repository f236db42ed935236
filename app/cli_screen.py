"""`refold` and `refold open`: the full screen, or the same words printed where there is no terminal."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from refold.app.cli_exit import FINE, REFUSED
from refold.app.cli_print import Printer
from refold.app.cli_run import find_run, hint_of, target
from refold.app.lean_import import import_without
from refold.app.safe import line
from refold.app.settings import Settings, bound_size
from refold.core.errors import StoreError
from refold.core.store.reader import RunReader

if TYPE_CHECKING:
    import argparse

    from textual.screen import Screen

    from refold.app.first_rows import FirstRows


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
    from refold.app.bundles import is_bundle, looking_at, unpacked

    if is_bundle(wanted.run):
        settings = looking_at(settings, unpacked(wanted.run))
    return show(settings, find_run(wanted.run, settings), wanted.place)


def can_show(settings: Settings, *, printing: bool = False) -> bool:
    """Say whether there is a terminal to draw on; the screen is drawn on standard error.

    Args:
        settings: What is known of the terminal.
        printing: Standard output is for what is chosen, and need not be a terminal.
    """
    if settings.served:
        return True
    needed = (sys.stdin, sys.stderr) if printing else (sys.stdin, sys.stdout, sys.stderr)
    return not settings.dumb and all(stream.isatty() for stream in needed)


def show(settings: Settings, path: Path | None = None, place: str = "", *, filter_text: str = "") -> int:
    """Show the full screen, on the runs or on one of them, until it is left; give the exit code."""

    def first() -> Screen[None]:
        if path is None:
            from refold.app.screens.runs import RunsScreen

            return RunsScreen(settings, filter_text)
        from refold.app.screens.run import RunScreen

        number = int(place.removeprefix("#")) if place else None
        at, line = (None, number) if place.startswith("#") else (number, None)
        return RunScreen(path, at, line=line, settings=settings, hint=hint_of(path, settings))

    if path is not None and not place:
        return _show_run(settings, path)
    return show_first(settings, first)


def _show_run(settings: Settings, path: Path) -> int:
    """Show a run from where one begins to read it: its rows stand before the screen is there."""
    from refold.app.first_rows import painted

    hint = hint_of(path, settings)
    try:
        reader = RunReader.open(path, hint=hint, cache=settings.cache_dir)
    except StoreError:
        # The screen meets the same, and says it.
        reader = None

    def first() -> Screen[None]:
        from refold.app.screens.run import RunScreen

        return RunScreen(path, settings=settings, hint=hint, reader=reader)

    if reader is None:
        return show_first(settings, first)
    with painted(reader, settings) as rows:
        return show_first(settings, first, rows)


def show_first(settings: Settings, first: Callable[[], Screen[None]], rows: FirstRows | None = None) -> int:
    """Show the full screen until it is left; give the exit code.

    Args:
        settings: Where things lie and how the program looks.
        first: Makes the screen to begin with.
        rows: What is painted already.
    """
    # Nothing that is imported here is garbage: looking for some would be a tenth of the start.
    gc.disable()
    bound_size()
    # A fiftieth of the start: the screen opens no connection.
    import_without("asyncio", "ssl")
    from refold.app.main import RefoldApp

    app = RefoldApp(settings, first, rows)
    collect_seldom()
    app.run()
    return app.return_code or 0


def collect_seldom() -> None:
    """Look for garbage from here on, seldom.

    A full collection walks every row that is kept, on the event loop: with 10,000 runs 20 to 95 ms each.
    What was imported lives as long as the program, and rows refer to nothing that could form a cycle.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 1000)
    gc.enable()


def show_for_caller(settings: Settings, first: Callable[[], Screen[None]]) -> int:
    """Show the full screen while standard output is kept for what will be chosen; give the exit code.

    Textual (8.2.8) asks standard output for the size of the terminal, and takes 80 by 24 where it is none.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        return show_first(settings, first)
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def choose_run(settings: Settings, base: str, printer: Printer | None = None) -> int:
    """Let a run be chosen that passes a filter; what is typed narrows further.

    Args:
        settings: Where to look.
        base: The filter that holds in any case.
        printer: Prints the id of the chosen run; None to resume it from the screen.
    """
    chosen: list[str] = []

    def first() -> Screen[None]:
        from refold.app.screens.choose_run import ChooseRunScreen

        return ChooseRunScreen(settings, base, chosen.append if printer is not None else None)

    if printer is None:
        return show_first(settings, first)
    return print_chosen(chosen, show_for_caller(settings, first), printer)


def print_chosen(chosen: Sequence[str], code: int, printer: Printer) -> int:
    """Print what was chosen on a screen that has ended; it is a refusal to choose nothing."""
    for name in chosen:
        printer.raw(f"{line(name)}\n")
    return code or (FINE if chosen else REFUSED)


def _print(name: str, settings: Settings, printer: Printer) -> int:
    import argparse

    if name:
        from refold.app.bundles import is_bundle
        from refold.app.cli_show import run as show_run

        wanted = target(name).run
        if not is_bundle(wanted):
            find_run(wanted, settings)
        return show_run(argparse.Namespace(runs=[name], json=False), settings, printer)
    from refold.app.cli_ls import run as list_runs

    return list_runs(argparse.Namespace(filter=[], json=False), settings, printer)
