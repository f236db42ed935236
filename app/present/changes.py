"""The Changes pane: what the record under the cursor changes in files, or what all came to up to it."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from refold.app.lines import Cell, Line, Role
from refold.app.present import units
from refold.app.present.changing import Changing, Summed
from refold.app.present.diff import Laid, laid_lines, lay
from refold.app.present.layout import BLANK, cell, fit, flow
from refold.app.present.view import View
from refold.app.safe import Safe
from refold.core.composing import Files, Holding, Piece
from refold.core.touches import Place

Made: TypeAlias = Generator[Line | None, None, None]
"""Lines, and None in between where there was work without a line."""

_ALONE: Final = 400
"""Lines of one file that are shown of one record."""
_FOLDED: Final = 30
"""The same in a sum, before the reader asks for more."""
_UNFOLDED: Final = 5_000
_MOST_FILES: Final = 200
_MOST_SEQS: Final = 8
_MOST_UNKNOWN: Final = 20
_NEXT: Final = {"record": "sums up all to here", "sum": "shows it whole", "whole": "shows this record alone"}


class Fate(NamedTuple):
    """What became of a call, as far as the whole run tells."""

    mark: str
    words: str
    role: Role
    happened: bool = False
    """It came to its end, and did what it was to do."""


def recorded_as_failed(seq: int | None, *, again: bool = False) -> Fate:
    """Give what became of a call that a person decided about without knowing what it did."""
    said = "decided to run again" if again else "recorded as failed"
    return Fate("?", f"{said} at seq {seq}: outcome unknown", "warn")


class Here(NamedTuple):
    """What the pane stands on."""

    seq: int | None
    places: Sequence[tuple[Place, Fate]]
    """The calls that the row is about."""
    waiting: Sequence[Place]
    """The calls that have no end up to here."""
    item: int
    window: bool = False
    """The beginning of the run is not read yet."""


def changes_lines(here: Here, changing: Changing, seqs: Sequence[int], width: int, view: View) -> Made:
    """Give the lines of the pane for a width."""
    where = "before the first record" if here.seq is None else f"seq {here.seq}"
    title = f"Changes of {where}" if view.scope == "record" else f"All changes up to {where}"
    yield from flow((cell(title, "strong"), cell(f"   {view.unfold_key} {_NEXT[view.scope]}", "dim")), width)
    if view.scope == "record":
        yield from _alone(here, changing, seqs, width)
    elif here.window or here.item < 0:
        yield (cell("still reading: known when the whole run was read", "dim"),)
    else:
        yield from _sum(here, changing, seqs, width, _FOLDED if view.scope == "sum" else _UNFOLDED)


def _alone(here: Here, changing: Changing, seqs: Sequence[int], width: int) -> Made:
    found = 0
    files: Files | None = None
    for place, fate in here.places:
        called = yield from changing.called(place)
        if not called.changes:
            continue
        found += 1
        yield BLANK
        name = cell(f"{called.name or 'unnamed tool'}  ", "call", 120)
        yield from flow((name, cell(f"{fate.mark} {fate.words}", fate.role)), width, 2)
        if files is None:
            files = Files() if here.window else (yield from changing.before(place, called.changes))
        for change in called.changes:
            laid_on = files if fate.happened else files.part({change.path})
            piece = yield from laid_on.apply(change, place.call)
            yield from _piece(change.path, piece, width)
    if not found:
        yield BLANK
        said = "These calls change no file." if here.places else "This record changes no file."
        yield from flow((cell(said, "dim"),), width)
        yield from _nearest(here, changing, seqs, width)


def _piece(path: str, piece: Piece, width: int) -> Made:
    laid: list[Laid] = []
    for each in (piece, *piece.more):
        one = yield from lay(each, _ALONE)
        laid.append(one)
    added, removed = sum(each.added for each in laid), sum(each.removed for each in laid)
    yield file_title(path, added, removed, width, gone=piece.new is None)
    yield from _notes(piece, width)
    left = _ALONE
    for one in laid:
        for line in laid_lines(one, path, width, left):
            left -= line is not None
            yield line
        if left <= 0:
            break


def file_title(
    path: str, added: int, removed: int, width: int, *, gone: bool = False, said: str = ""
) -> Line:
    """Give the line of a file: its name, and how many lines were put in and taken out."""
    counts = (cell(f"  +{units.grouped(added)}", "added"), cell(f" −{units.grouped(removed)}", "removed"))
    if gone:
        counts = (cell("  deleted", "warn"), *(counts[1:] if removed else ()))
    room = max(8, width - 30)
    name = path if len(path) <= room else f"…{path[-room + 1 :]}"
    return fit((Cell(Safe("▾ "), "dim"), cell(name, "strong"), *counts, cell(said, "dim", 400)), width)


def _notes(piece: Piece, width: int) -> Iterator[Line]:
    if piece.note:
        yield from flow((cell(f"  {piece.note}", "dim", 400),), width, 2)
    elif piece.every:
        yield from flow((cell("  wherever it stood in the file", "dim"),), width, 2)
    if piece.whole and piece.old is None:
        what = "written whole" if piece.new is not None else "deleted"
        yield from flow((cell(f"  {what}: what stood there before is not recorded", "dim"),), width, 2)
    elif piece.whole and piece.old == "" and piece.new is not None:
        yield from flow((cell("  a new file", "dim"),), width, 2)
    elif piece.whole and piece.old == "" and piece.new is None:
        yield from flow((cell("  made by this run, and deleted again", "dim"),), width, 2)


def _nearest(here: Here, changing: Changing, seqs: Sequence[int], width: int) -> Made:
    """Say where the last change before this record stands, where that is known or quickly found."""
    if here.window or here.item < 0:
        return
    yield from changing.know(here.item)
    edits = changing.touches.edits(here.item)
    if edits:
        last = changing.touches.edit(edits - 1)
        yield from flow((cell(f"The last change before it is of seq {seqs[last.call]}.", "dim"),), width)


def _sum(here: Here, changing: Changing, seqs: Sequence[int], width: int, most: int) -> Made:
    summed = yield from changing.summed(here.item)
    waiting: list[tuple[Place, tuple[str, ...]]] = []
    places = {(place.call, place.ordinal): place for place in (*summed.unknown, *here.waiting)}
    for place in [*places.values()][-_MOST_UNKNOWN - len(here.waiting) :]:
        called = yield from changing.called(place)
        if called.changes:
            waiting.append((place, tuple(change.path for change in called.changes)))
    held = summed.files.latest_first()
    counts: list[tuple[int, int]] = []
    for file in held[:_MOST_FILES]:
        added, removed = yield from changing.counted(file)
        counts.append((added, removed))
    yield from _totals(summed, counts, width)
    for place, paths in waiting:
        named = ", ".join(dict.fromkeys(paths))
        said = f"? seq {seqs[place.call]} may have changed {named}: outcome unknown, it is not in the sum"
        yield from flow((cell(said, "warn", 1000),), width, 2)
    if changing.touches.unread:
        many = units.plural(changing.touches.unread, "call")
        said = f"{many} so long that only the names of files were looked at"
        yield from flow((cell(said, "dim"),), width, 2)
    for file, (added, removed) in zip(held, counts, strict=False):
        yield BLANK
        yield from _file(file, (added, removed), seqs, width, most)
    if len(held) > _MOST_FILES:
        yield BLANK
        yield (cell(f"⋯ {units.plural(len(held) - _MOST_FILES, 'more file')}", "dim"),)


def _totals(summed: Summed, counts: list[tuple[int, int]], width: int) -> Iterator[Line]:
    if not len(summed.files):
        yield from flow((cell("No call that came to its end changed a file.", "dim"),), width)
        return
    added, removed = sum(one for one, _ in counts), sum(one for _, one in counts)
    yield from flow(
        (
            cell(units.plural(len(summed.files), "file")),
            cell(f"  +{units.grouped(added)}", "added"),
            cell(f" −{units.grouped(removed)}", "removed"),
            cell(f"  by {units.plural(summed.calls, 'call')}", "dim"),
        ),
        width,
        2,
    )
    if summed.left_out:
        said = f"⚠ {units.plural(summed.left_out, 'earlier call')} not summed up: these are the last ones"
        yield from flow((cell(said, "warn"),), width, 2)


def _file(held: Holding, counts: tuple[int, int], seqs: Sequence[int], width: int, most: int) -> Made:
    moments = list(dict.fromkeys(held.moments))
    more = len(moments) > _MOST_SEQS
    said = f"   seq {'… ' if more else ''}{', '.join(str(seqs[at]) for at in moments[-_MOST_SEQS:])}"
    yield file_title(held.path, *counts, width, gone=held.is_gone, said=said)
    if held.came_from:
        yield from flow((cell(f"  renamed from {held.came_from}", "dim", 400),), width, 2)
    if held.overwritten:
        many = units.plural(held.overwritten, "earlier edit")
        yield from flow((cell(f"  nothing is left of {many}", "dim"),), width, 2)
    if held.left_out:
        many = units.plural(held.left_out, "earlier edit")
        yield from flow((cell(f"  {many} not kept", "warn"),), width, 2)
    left = most
    for number, piece in enumerate(held.pieces):
        if left <= 0:
            yield (cell(f"  ⋯ {units.plural(len(held.pieces) - number, 'more edit')}", "dim"),)
            return
        if number:
            yield (cell("  ╌╌ what lies between is not recorded ╌╌", "dim"),)
        laid = yield from lay(piece, left)
        yield from _notes(piece, width)
        for line in laid_lines(laid, held.path, width, left):
            left -= line is not None
            yield line
