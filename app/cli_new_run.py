"""What the commands that make a new run share: its id, a refusal as a plan, and what was not made sure of."""

from __future__ import annotations

from collections.abc import Iterable

from refold.app.cli_exit import REFUSED
from refold.app.cli_print import Printer
from refold.core.errors import InvalidRunId, RefoldError
from refold.core.records import Json
from refold.core.store.fork import Forked
from refold.core.store.reader import RunReader
from refold.core.store.run_id import check_run_id, new_run_id


class WrongName(RefoldError):
    """What was given as the name of a new run can be none."""


def new_id(name: str | None) -> str:
    """The id of a new run: the name given, or one that sorts by time.

    Raises:
        WrongName: the name can be no id.
    """
    if name is None:
        return new_run_id()
    try:
        return check_run_id(name)
    except InvalidRunId as error:
        raise WrongName(f"--name: {error}", remedy=error.remedy) from error


def refuse(
    error: RefoldError,
    code: str,
    reader: RunReader,
    child: str,
    unknown: Iterable[str],
    printer: Printer,
    *,
    as_json: bool,
) -> int:
    """Print why there is no plan, as JSON with all keys of one, and give the exit code."""
    if not as_json:
        printer.error(error)
        return REFUSED
    reason: Json = {"code": code, "message": str(error)}
    printer.json(
        {
            "outcome": "refuse",
            "reasons": [reason],
            "parent": reader.run_id,
            "path": str(reader.path),
            "id": child,
            **dict.fromkeys(unknown),
        }
    )
    return REFUSED


def warn(made: Forked, printer: Printer) -> None:
    """Say what could not be made sure of a new run."""
    if not made.durable:
        printer.note("refold: made, but its durability is not confirmed: the directory could not be synced")
    if not made.noted:
        printer.note("refold: made, but where it comes from could not be noted")
