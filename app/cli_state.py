"""`refold state`: what runs fold to."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from refold.app.bundles import told_path
from refold.app.cli_exit import FINE, exit_code
from refold.app.cli_print import Printer
from refold.app.cli_redact import count, redacted
from refold.app.cli_run import WrongPlace, item_at, open_run, target
from refold.app.cli_session import print_state, session_of
from refold.app.settings import Settings
from refold.core.errors import EmptyJournal, FoldError, RefoldError, StoreError, TooLarge
from refold.core.prices import Price
from refold.core.records import Json
from refold.core.state_json import state_json
from refold.core.store.reader import RunReader

_COLUMNS = 100
Prices = Mapping[str, Price]


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Print the state of each run; the largest exit code counts."""
    worst = FINE
    redacted(arguments, settings, printer)
    for number, name in enumerate(arguments.runs):
        wanted = target(name)
        place = wanted.place or arguments.at
        try:
            directory = session_of(wanted.run, settings)
            if number and not arguments.json:
                printer.raw("\n")
            if directory is not None:
                here = argparse.Namespace(**{**vars(arguments), "at": place})
                worst = max(worst, print_state(here, directory, name, printer, settings))
                continue
            with open_run(wanted.run, settings) as reader:
                if arguments.json:
                    code = _as_json(reader, name, place, printer, settings.prices, salvage=arguments.salvage)
                else:
                    code = _as_text(reader, name, place, printer, settings, salvage=arguments.salvage)
        except MemoryError:
            error = TooLarge(f"{name}: its state does not fit into memory")
            code = _failed(error, name, printer, as_json=arguments.json)
        except WrongPlace:
            raise
        except RefoldError as error:
            code = _failed(error, name, printer, as_json=arguments.json)
        worst = max(worst, code)
    return worst


def _end_of_prefix(
    reader: RunReader, name: str, place: str | None, *, salvage: bool
) -> tuple[int, FoldError | None]:
    """The last item to fold, and why the strict fold refuses; raised unless the state is to be salvaged."""
    timeline = reader.index_all()
    if not timeline.items:
        raise EmptyJournal
    item = timeline.items - 1 if place is None else item_at(timeline, place, name)
    refused = timeline.strict_error if place is None else timeline.error_at(item)
    if refused is not None and not salvage:
        raise refused
    return item, refused


def _as_json(
    reader: RunReader, name: str, place: str | None, printer: Printer, prices: Prices, *, salvage: bool
) -> int:
    item, refused = _end_of_prefix(reader, name, place, salvage=salvage)
    state = reader.salvaged_at(item) if salvage else reader.state_at(item)
    answer: dict[str, Json] = {"run": name, "ok": True, "state": state_json(state)}
    if prices:
        from refold.app.present.money import money_json
        from refold.app.present.reading import Reading

        answer["cost"] = money_json(Reading(reader).money(item, prices))
    if salvage:
        answer["refused"] = None if refused is None else _why(refused)
    printer.json(answer)
    return FINE


def _as_text(
    reader: RunReader, name: str, place: str | None, printer: Printer, settings: Settings, *, salvage: bool
) -> int:
    from refold.app.forking import notes_of
    from refold.app.lines import Cell
    from refold.app.present.reading import Reading
    from refold.app.safe import line

    item, _ = _end_of_prefix(reader, name, place, salvage=salvage)
    printer.line((Cell(line(reader.run_id), "strong"), Cell(line(f"  {told_path(reader.path)}"), "dim")))
    reading = Reading(reader)
    reading.kept = notes_of(settings).read(reader.path).kept
    if printer.redactor is not None:
        from refold.app.present.lens import Lens

        reading.lens = Lens(reader, printer.redactor.allow)
    rows = reading.state(item, printer.columns or _COLUMNS, prices=settings.prices or None)
    for row in (row for row in rows if row is not None):
        count(row, printer)
        printer.line(row)
    return FINE


def _failed(error: RefoldError, name: str, printer: Printer, *, as_json: bool) -> int:
    if as_json:
        printer.json({"run": name, "ok": False, **_why(error)})
    else:
        printer.error(error, name if isinstance(error, FoldError) else "")
    return exit_code(error)


def _why(error: RefoldError) -> dict[str, Json]:
    kind = error.error_class if isinstance(error, FoldError | StoreError) else "unreadable"
    return {"error_class": kind, "error": str(error)}
