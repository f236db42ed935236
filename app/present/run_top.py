"""The first row of an open run: which one it is, how it stands, where the cursor is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from refold.app.lines import Cell, Line, Role
from refold.app.present import units
from refold.app.present.kept import NOTED, STAR, has_note
from refold.app.present.layout import cell
from refold.app.present.status import status_cell
from refold.app.safe import Safe
from refold.core.keeping import NOTHING, Kept
from refold.core.status import StatusName
from refold.core.timeline import Timeline

_NAME: Final = 40


class Judged(NamedTuple):
    """Whether a run can go on, in a word, and why."""

    word: str
    role: Role
    why: str = ""


class RunTop(NamedTuple):
    """What the first row says about a run; what is not known yet is left out."""

    run_id: str
    status: StatusName | None = None
    format: str = ""
    model: str = ""
    fork_of: str = ""
    forks: int = 0
    damaged: int = 0
    torn: bool = False
    turns: int | None = None
    calls: int = 0
    tokens: int = 0
    judged: Judged | None = None
    kept: Kept = NOTHING


def top_left(top: RunTop) -> Line:
    """Give the name of a run and how it stands, what matters most first."""
    cells = [*_named(top), Cell(Safe("  "))]
    if top.status is not None:
        cells.append(status_cell(top.status))
    if top.judged is not None:
        cells.append(cell(f"  {top.judged.word}", top.judged.role, _NAME))
    if top.damaged:
        cells.append(Cell(Safe(f"  ⚠ {units.grouped(top.damaged)} damaged"), "problem"))
    if top.torn:
        cells.append(Cell(Safe("  torn tail"), "warn"))
    if has_note(top.kept):
        records = f"{units.plural(top.kept.records, 'record')} " if top.kept.records else ""
        cells.append(Cell(Safe(f"  {NOTED} {records}noted"), "warn" if top.kept.trouble else "accent"))
    if top.kept.tags:
        cells.append(cell(f"  {', '.join(top.kept.tags)}", "accent", _NAME))
    if parent := top.fork_of or top.kept.fork_of:
        cells.append(cell(f"  ψ fork of {parent}", "fork", _NAME))
    if top.forks:
        cells.append(Cell(Safe(f"  ψ forked {units.grouped(top.forks)}×"), "fork"))
    facts = [text for text in (top.format, top.model) if text]
    if top.turns is not None:
        facts += [
            units.plural(top.turns, "turn"),
            units.plural(top.calls, "call"),
            f"{units.short(top.tokens)} tokens",
        ]
    if facts:
        cells.append(cell("  " + " · ".join(facts), "dim", 200))
    return tuple(cells)


def _named(top: RunTop) -> list[Cell]:
    """Give the name that the run was given, with its id behind it; the id alone where it has none."""
    star = [cell(f"{STAR} ", "accent")] if top.kept.star else []
    if not top.kept.name:
        return [*star, cell(top.run_id, "strong", _NAME)]
    return [*star, cell(top.kept.name, "strong", _NAME), cell(f"  {top.run_id}", "dim", _NAME)]


def fork_point(timeline: Timeline, item: int | None, forked_at: Mapping[int, str]) -> Line:
    """Say of a record that a fork after it is legal, and which forks left there; nothing where none is."""
    if item is None or not timeline.is_legal(item):
        return ()
    left = forked_at.get(timeline.seq(item) or 0, "")
    if left:
        return (cell(f"ψ {left}", "fork", _NAME), Cell(Safe("  ")))
    if timeline.open_calls(item):
        return (Cell(Safe("ψ pending  "), "warn"),)
    return (Cell(Safe("ψ  "), "fork"),)


def top_right(
    *,
    seq: int | None,
    line: int,
    last: int | None,
    following: bool,
    progress: float,
    search: Line = (),
    point: Line = (),
) -> Line:
    """Give where the cursor stands, and what goes on."""
    cells: list[Cell] = list(search)
    if progress < 1:
        cells.append(Cell(Safe(f"reading {progress:.0%}  "), "accent"))
    elif following:
        cells.append(Cell(Safe("▾ following  "), "accent"))
    cells.extend(point)
    if seq is not None:
        cells += [Cell(Safe("seq "), "dim"), Cell(Safe(str(seq)), "strong")]
    elif line:
        cells += [Cell(Safe("line "), "dim"), Cell(Safe(units.grouped(line)), "strong")]
    if last is not None:
        # A line is counted otherwise than a sequence: "line 7 / 4" would be no place at all.
        cells.append(Cell(Safe(f" / {last}" if seq is not None else f"  last seq {last}"), "dim"))
    return tuple(cells)
