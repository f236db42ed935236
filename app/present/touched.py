"""What State says of the agent's own list of steps, and of the files that were touched so far."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

from refold.app.lines import Cell, Line, Role
from refold.app.present import units
from refold.app.present.changing import Changing
from refold.app.present.layout import BLANK, cell, spread
from refold.app.present.state import changed_line
from refold.app.safe import Safe
from refold.core.edits import Look, editing
from refold.core.plans import Status, Step, plan_of
from refold.core.touches import DELETED, MOVED, READ, Place, Touch, Touches

_MOST_FILES: Final = 40
_LOOKED_AT: Final = 2_000
"""Touches looked at for these, latest first: a step of the cursor costs the same in a run of any length."""
_MOST_STEPS: Final = 60

_STATUSES: Final[dict[Status, tuple[str, Role]]] = {
    "done": ("✓", "good"),
    "doing": ("▶", "accent"),
    "open": ("·", "text"),
    "dropped": ("✗", "dim"),
}
_KINDS: Final[dict[int, tuple[str, Role]]] = {
    READ: ("read", "dim"),
    DELETED: ("deleted", "warn"),
    MOVED: ("moved", "warn"),
}
_WORD: Final = 9


def touched_lines(
    changing: Changing,
    waiting: Sequence[Place],
    seqs: Sequence[int],
    item: int,
    width: int,
    *,
    held: bool,
) -> Generator[Line | None, None, None]:
    """Give the lines, and None where work was done but no line is ready.

    Args:
        changing: What is known of the calls.
        waiting: The calls that have no end up to the item.
        seqs: The sequence of each item.
        item: The item that the cursor stands on.
        width: Cells of a line.
        held: A process is seen holding the lock: an end may still come.
    """
    yield from changing.know(item)
    yield from _plan(changing, seqs, item, width)
    yield from _files(changing, waiting, seqs, item, width, held=held)


def _plan(
    changing: Changing, seqs: Sequence[int], item: int, width: int
) -> Generator[Line | None, None, None]:
    plan = changing.touches.plan(item)
    if plan is None:
        return
    name, arguments, _ = yield from changing.asked(plan.place)
    steps = plan_of(name, arguments) or ()
    if not steps:
        return
    yield BLANK
    done = sum(step.status == "done" for step in steps)
    said = cell(f"  {done} of {units.plural(len(steps), 'step')} done", "dim")
    yield (cell("Plan", "strong"), said)
    for step, since in zip(steps[:_MOST_STEPS], plan.since, strict=False):
        yield _step(step, since, seqs, width, here=since == item)
    if len(steps) > _MOST_STEPS:
        yield (cell(f"  ⋯ {units.plural(len(steps) - _MOST_STEPS, 'more step')}", "dim"),)


def _step(step: Step, since: int, seqs: Sequence[int], width: int, *, here: bool) -> Line:
    mark, role = _STATUSES[step.status]
    text = cell(step.text, "dim" if step.status in {"done", "dropped"} else "text", 400)
    return changed_line((cell(f"{mark} ", role), text), width, "here" if here else "", seqs[since])


def _files(
    changing: Changing,
    waiting: Sequence[Place],
    seqs: Sequence[int],
    item: int,
    width: int,
    *,
    held: bool,
) -> Generator[Line | None, None, None]:
    touches = changing.touches
    open_: list[Line] = []
    for place in waiting:
        name, arguments, _ = yield from changing.asked(place)
        edits = yield from editing(name, arguments)
        changes = (edit for edit in edits if not isinstance(edit, Look))
        open_.extend(_open(edit.path, seqs[place.call], width, held=held) for edit in changes)
    changed, read = touches.counts(item)
    if not changed and not read and not open_ and not touches.unread:
        return
    yield BLANK
    yield (cell("Files", "strong"), cell(f"  {changed:,} changed · {read:,} read", "dim"))
    yield from open_[:_MOST_FILES]
    shown: dict[str, list[Touch]] = {}
    for touch in touches.latest(item, _LOOKED_AT):
        if touch.path in shown or len(shown) < _MOST_FILES:
            shown.setdefault(touch.path, []).append(touch)
    # What was changed says more than what was read.
    for path, found in sorted(shown.items(), key=lambda pair: all(touch.kind == READ for touch in pair[1])):
        yield _file(changing.shown(path), found, seqs, item, width)
    if len(shown) == _MOST_FILES:
        yield (cell("  ⋯ those that were touched last; Changes sums up all that were changed", "dim"),)
    yield from _unseen(touches)


def _unseen(touches: Touches) -> Generator[Line, None, None]:
    if touches.unread:
        many = units.plural(touches.unread, "call")
        yield (cell(f"  {many} so long that only names of files were looked at", "dim"),)
    if touches.nameless:
        yield (cell(f"  and {touches.nameless:,} touches of further files", "dim"),)


def _file(path: str, found: Sequence[Touch], seqs: Sequence[int], item: int, width: int) -> Line:
    """One file: what was done to it last, and where else it was read."""
    main = next((touch for touch in found if touch.kind != READ), found[0])
    word, role = _KINDS.get(main.kind, ("written", "added"))
    if main.unknown:
        word, role = f"{word}?", "warn"
    reads = [touch for touch in found if touch.kind == READ and touch is not main]
    right = f" read {seqs[reads[0].place.end]} ·" if reads else ""
    if main.unknown:
        # It matters more than where the file was read.
        right = " outcome unknown ·"
    right += f" seq {seqs[main.place.end]}"
    here = any(touch.place.end == item for touch in found)
    edge = Cell(Safe("▸ " if here else "  "), "accent")
    room = max(8, width - _WORD - 4 - len(right))
    name = path if len(path) <= room else f"…{path[-room + 1 :]}"
    cells = (edge, cell(f"{word:<{_WORD}}", role), cell(name))
    return spread(cells, (cell(right, "accent" if here else "dim"),), width, least=16)


def _open(path: str, seq: int, width: int, *, held: bool) -> Line:
    said = "no result yet" if held else "outcome unknown"
    role: Role = "text" if held else "warn"
    cells = (Cell(Safe("  "), "text"), cell(f"{'written?':<{_WORD}}", role), cell(path, "text", 400))
    return spread(cells, (cell(f" {said} · seq {seq}", role),), width, least=16)
