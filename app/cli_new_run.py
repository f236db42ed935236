"""What the commands that make a new run share: its id, a refusal as a plan, and what was not made sure of."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from refold.app.cli_exit import REFUSED
from refold.app.cli_print import Printer
from refold.app.forking import proposed_id
from refold.core.errors import InvalidRunId, RefoldError, RunExists
from refold.core.records import Json
from refold.core.store.fork import Forked
from refold.core.store.reader import RunReader
from refold.core.store.run_id import check_run_id


class WrongName(RefoldError):
    """What was given as the name of a new run can be none."""


def checked_id(name: str) -> str:
    """The id of a new run, as it is given.

    Raises:
        WrongName: the name can be no id.
    """
    try:
        return check_run_id(name)
    except InvalidRunId as error:
        raise WrongName(f"--name: {error}", remedy=error.remedy) from error


def new_id(name: str | None, reader: RunReader) -> str:
    """The id of a run that is made of another one: the name given, else the one that the screen proposes too.

    Raises:
        WrongName: the name can be no id.
    """
    return proposed_id(reader.path.absolute()) if name is None else checked_id(name)


def until_free(name: str | None, make: Callable[[], int]) -> int:
    """Make a run, again where somebody else took the proposed id meanwhile: the next one is free.

    Args:
        name: The name given; one that is taken stays taken.
        make: Proposes an id, makes the run, and gives the exit code.

    Raises:
        RunExists: the name is taken.
    """
    while True:
        try:
            return make()
        except RunExists:
            if name is not None:
                raise


def is_promised(child: str, name: str | None, reader: RunReader) -> bool:
    """Say whether a new run would get the id of a plan: one that is made up is another one each time."""
    return name is not None or child == proposed_id(reader.path.absolute())


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
