"""Moving runs to the trash, for the screens and the command line: plans for rows, and what came of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from refold.core.errors import RefoldError
from refold.core.prune import forks_of
from refold.core.store.notes import NotesStore
from refold.core.store.trash import Around, carry_out, plan_for
from refold.core.store.trash_list import Entry, entries, with_names
from refold.core.trash import TrashPlan

if TYPE_CHECKING:
    from refold.app.settings import Settings
    from refold.core.summary import RunSummary

_DAY = 86_400
_HOUR = 3600


class Moving(NamedTuple):
    """A run, and what moving it would be."""

    run: RunSummary
    plan: TrashPlan


class Moved(NamedTuple):
    """What came of a plan."""

    moving: Moving
    error: RefoldError | None = None
    """Why the run stays; None where it is in the trash."""
    durable: bool = True
    """The move is known to be on disk."""


def plans_for(runs: Iterable[RunSummary], forks: Mapping[str, Sequence[str]]) -> Iterator[Moving]:
    """Plan for one run after the other; each is looked at, and nothing is changed.

    Args:
        runs: The runs.
        forks: The ids of their forks, by the id of the parent.
    """
    around = Around()
    for run in runs:
        plan = plan_for(
            Path(run.path),
            kept=run.kept,
            forks=forks.get(run.id, ()),
            uncertain=run.uncertain,
            around=around,
        )
        yield Moving(run, plan)


def fork_ids(every: Iterable[RunSummary], going: Iterable[RunSummary]) -> dict[str, list[str]]:
    """Give the ids of the forks that stay, by the id of their parent."""
    gone = {run.path for run in going}
    return {
        parent: [fork.id for fork in forks if fork.path not in gone]
        for parent, forks in forks_of(every).items()
    }


def move(movings: Iterable[Moving]) -> Iterator[Moved]:
    """Move one run after the other; one that cannot be moved stays, and keeps none of the others back."""
    for moving in movings:
        try:
            done = carry_out(moving.plan, status=moving.run.status, prompt=moving.run.prompt)
        except RefoldError as error:
            yield Moved(moving, error)
        else:
            yield Moved(moving, durable=done.durable)


def trashed(settings: Settings) -> list[Entry]:
    """Give what lies in the trash of all directories and can be put back or deleted, the newest first."""
    found = [entry for entry in entries(root.path for root in settings.roots) if entry.state != "left"]
    found.sort(key=lambda entry: (entry.time, entry.name), reverse=True)
    return list(with_names(found, NotesStore(settings.notes_dir)))


def leftovers(settings: Settings, now: float) -> list[Entry]:
    """Give the entries in which nothing lies: what a kill before the move, or after a restore, left behind.

    One that was made just now may be that of a move that goes on.
    """
    return [
        entry
        for entry in entries(root.path for root in settings.roots)
        if entry.state == "left" and _changed(entry) < now - _HOUR
    ]


def _changed(entry: Entry) -> float:
    try:
        return Path(entry.path).stat().st_mtime
    except OSError:
        return float("inf")


def kept_until(entry: Entry, settings: Settings) -> datetime | None:
    """Give the moment from which an entry may be deleted; None where nobody knows when it was moved."""
    try:
        moved = datetime.fromisoformat(entry.time[:40]).astimezone(UTC)
        return datetime.fromtimestamp(moved.timestamp() + settings.trash_days * _DAY, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def is_due(entry: Entry, settings: Settings, now: float) -> bool:
    """Say whether the time to restore an entry is over; one whose time nobody knows is never due."""
    until = kept_until(entry, settings)
    return entry.state == "deleting" or (until is not None and until.timestamp() <= now)
