"""What the commands on runs share: finding a run, opening it, and finding a place in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from refold.app.settings import Settings
from refold.core.errors import InvalidRunId, RefoldError, RunNotFound
from refold.core.store.reader import RunReader
from refold.core.store.resolve import resolve
from refold.core.timeline import Timeline

if TYPE_CHECKING:
    from refold.core.store.kept import KeptIndex

_PLACE: Final = re.compile(r"#?\d{1,20}")


class WrongPlace(RefoldError):
    """What was given as a place in a run is neither a sequence number nor a line."""


class WholeRun(RefoldError):
    """A place in a run was named where only a whole run can be meant."""


class NoSuchPlace(RunNotFound):
    """The run has no record there; the text names the nearest ones."""


class Target(NamedTuple):
    """A run, and perhaps a place in it, as named on the command line."""

    run: str
    place: str = ""
    """A sequence number, or `#` and a line; empty for the whole run."""


def target(text: str) -> Target:
    """Part `RUN@SEQ`; a file whose name is the whole text comes first."""
    run, at, place = text.rpartition("@")
    if not at or not run or not _PLACE.fullmatch(place) or _exists(text):
        return Target(text)
    return Target(run, place)


def find_run(text: str, settings: Settings) -> Path:
    """Give the path of the run that a text names: by path, id, name that it was given, or the start of an id.

    Raises:
        StoreError: there is none, or there are several.
        WholeRun: it names a place in a run.
    """
    from refold.app.bundles import is_bundle, unpacked

    if is_bundle(text):
        return unpacked(text).run

    def names() -> KeptIndex:
        from refold.core.store.kept import index_of

        return index_of(settings.notes_dir, settings.cache_dir)

    try:
        return resolve(text, settings.roots, names)
    except InvalidRunId:
        wanted = target(text)
        if not wanted.place:
            raise
        raise WholeRun(
            f"{text}: a place in a run, where a whole run is asked for", remedy=f"say {wanted.run}"
        ) from None


def open_run(text: str, settings: Settings) -> RunReader:
    """Open the run that a text names.

    Raises:
        StoreError: there is none, there are several, or it cannot be opened.
    """
    from refold.app.bundles import is_bundle

    path = find_run(text, settings)
    cache = None if is_bundle(text) else settings.cache_dir
    return RunReader.open(path, hint=hint_of(path, settings), cache=cache)


def hint_of(path: Path, settings: Settings) -> str:
    """The format to assume for a run whose bytes do not tell: that of its directory."""
    return next((root.hint for root in settings.roots if root.path == path.parent), "refold")


def item_at(timeline: Timeline, place: str, run: str) -> int:
    """The item at a place of a fully indexed run; of a number that stands twice the first.

    Raises:
        WrongPlace: the place is neither a number nor `#` and a number.
        NoSuchPlace: nothing stands there.
    """
    if not _PLACE.fullmatch(place):
        raise WrongPlace(f"{place!r} is no place in a run", remedy="a sequence number, or '#LINE' for a line")
    number = int(place.removeprefix("#"))
    if place.startswith("#"):
        item = timeline.item_at_line(number)
        if item is None:
            raise NoSuchPlace(f"{run}: no record stands on line {number}")
        return item
    item = timeline.item_at(number)
    if item is None:
        raise NoSuchPlace(f"{run}: no record has seq {number}{_between(timeline, number)}")
    return item


def _between(timeline: Timeline, number: int) -> str:
    below, above = timeline.neighbours(number)
    if below is None and above is None:
        return "; no record of it has one"
    if below is None:
        return f"; the first one is {above}"
    return f"; the last one is {below}" if above is None else f"; its neighbours are {below} and {above}"


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        return False
