"""Two runs side by side: their rows behind the point where they part, and state against state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final, Literal, NamedTuple

from refold.app import safe
from refold.app.lines import Cell, Line, Role
from refold.app.present import units
from refold.app.present.layout import cell, fit, flow, span
from refold.app.present.limits import LIMIT_NAMES
from refold.app.present.rows import TimelineRows
from refold.app.present.runs import middle
from refold.app.safe import Safe
from refold.core.compare import Field, fingerprint_fields, state_fields
from refold.core.records import Json, MetaRecord
from refold.core.state import RunState
from refold.core.store.compare import Comparison, Match, Standing
from refold.core.timeline import Timeline

Side = Literal["a", "b"]

WIDE: Final = 100
"""Columns from which two rows have room beside each other."""
_MIDDLE: Final = 3
_HEADS: Final = frozenset({"assistant", "user", "terminal"})
_LABEL: Final = 16
_VALUE: Final = 400
_SIDES: Final[dict[Side, tuple[str, Role]]] = {"a": ("A ", "user"), "b": ("B ", "fork")}
_ALIKE: Final[tuple[str, Role]] = ("= ", "dim")
_NAMES: Final[dict[str, str]] = {
    "next_iteration": "next turn, from 0",
    "last_stop_reason": "stop reason",
    "llm_calls": "turns",
    "tool_calls": "tool results",
    "remote_tool_calls": "remote results",
    "in_tokens": "tokens in",
    "out_tokens": "tokens out",
    "cache_read_tokens": "cache read",
    "cache_create_tokens": "cache write",
    "base_sha": "commit",
    "open_calls": "pending calls",
    "system_hash": "system prompt",
    "tools_hash": "tool set",
    "thinking_mode": "thinking",
    **LIMIT_NAMES,
    "step": "turn",
}


class Leaf(NamedTuple):
    """One row of each run, or of one of them alone."""

    a: int | None
    """The row in the timeline of the one run."""
    b: int | None
    same: bool
    item_a: int
    """The last item of the one run that stands here or above; -1 where there is none."""
    item_b: int


def leaves(found: Comparison, a: Timeline, b: Timeline) -> list[Leaf]:
    """Give the rows of everything behind the parting, each call beside the one it stands for."""
    made: list[Leaf] = []
    item_a, item_b = found.common_a - 1, found.common_b - 1
    for match in found.pairs:
        item_a = item_a if match.a is None else match.a
        item_b = item_b if match.b is None else match.b
        rows_a, rows_b = _rows(a, match.a), _rows(b, match.b)
        for call, (row_a, row_b) in enumerate(zip_longest(rows_a, rows_b), -1):
            same = row_a is not None and row_b is not None and _same(match, call)
            made.append(Leaf(row_a, row_b, same, item_a, item_b))
    return made


def _rows(timeline: Timeline, item: int | None) -> range:
    if item is None:
        return range(0)
    first = timeline.first_row(item)
    after = timeline.first_row(item + 1) if item + 1 < timeline.items else timeline.rows
    return range(first, after)


def _same(match: Match, call: int) -> bool:
    if match.same:
        return True
    return match.said if call < 0 else call < len(match.calls) and match.calls[call]


class CompareRows:
    """The rows of the list: what is common as one row, then every difference; beside or above each other."""

    def __init__(
        self,
        leaves: Sequence[Leaf],
        a: TimelineRows,
        b: TimelineRows,
        common: Line,
        *,
        stacked: bool,
    ) -> None:
        """Show two runs.

        Args:
            leaves: What stands for what.
            a: The rows of the one run.
            b: The rows of the other.
            common: What is said of their common beginning.
            stacked: There is no room for two rows beside each other.
        """
        self.leaves = leaves
        self.stacked = stacked
        self._a = a
        self._b = b
        self._common = common
        self._places: list[tuple[int, Side]] = []
        for index, leaf in enumerate(leaves):
            if leaf.a is not None:
                self._places.append((index, "a"))
            if leaf.b is not None and (leaf.a is None or (stacked and not leaf.same)):
                self._places.append((index, "b"))

    def __len__(self) -> int:
        return 1 + len(self._places)

    def place(self, index: int) -> tuple[int, Side] | None:
        """Give the leaf of a row and the side that the row is of; None for what is common."""
        return self._places[index - 1] if 0 < index <= len(self._places) else None

    def index(self, leaf: int, side: Side) -> int:
        """Give the row of a leaf, that of one side where each has its own."""
        low, high = 0, len(self._places)
        while low < high:
            middle = (low + high) // 2
            if self._places[middle][0] < leaf:
                low = middle + 1
            else:
                high = middle
        if low + 1 < len(self._places) and self._places[low + 1] == (leaf, side):
            low += 1
        return low + 1

    def difference(self, leaf: int, step: int) -> int | None:
        """Give the next or the previous leaf with which a difference begins, or a turn in one."""
        at = leaf + step
        while 0 <= at < len(self.leaves):
            if self._begins(at):
                return at
            at += step
        return None

    def _begins(self, at: int) -> bool:
        leaf = self.leaves[at]
        if leaf.same:
            return False
        if at == 0 or self.leaves[at - 1].same:
            return True
        rows, row = (self._a, leaf.a) if leaf.a is not None else (self._b, leaf.b)
        return row is not None and rows.timeline.row(row).kind in _HEADS

    def line(self, index: int, width: int) -> Line:
        """Give a row."""
        place = self.place(index)
        if place is None:
            return fit(self._common, width)
        leaf, side = self.leaves[place[0]], place[1]
        if self.stacked:
            return self._alone(leaf, side, width)
        room = (width - _MIDDLE) // 2
        return (
            *self._half(self._a, leaf.a, room, dim=leaf.same),
            _between(leaf),
            *self._half(self._b, leaf.b, width - _MIDDLE - room, dim=leaf.same),
        )

    def _alone(self, leaf: Leaf, side: Side, width: int) -> Line:
        mark, role = _ALIKE if leaf.same else _SIDES[side]
        rows, row = (self._a, leaf.a) if side == "a" else (self._b, leaf.b)
        return (Cell(Safe(mark), role), *self._half(rows, row, width - 2, dim=leaf.same))

    def _half(self, rows: TimelineRows, row: int | None, width: int, *, dim: bool) -> Line:
        if row is None:
            return fit((), width)
        line = fit(rows.line(row, width), width)
        return tuple(Cell(text, "dim") for text, _ in line) if dim else line


def _between(leaf: Leaf) -> Cell:
    if leaf.same:
        return Cell(Safe(" = "), "dim")
    if leaf.b is None:
        return Cell(Safe(" ‹ "), _SIDES["a"][1])
    return Cell(Safe(" › "), _SIDES["b"][1]) if leaf.a is None else Cell(Safe(" ~ "), "warn")


def common_line(
    found: Comparison, started_a: MetaRecord, started_b: MetaRecord, *, named: bool = False
) -> Line:
    """Say what two runs have in common, or why nothing.

    Args:
        found: The comparison.
        started_a: What the one was started with.
        started_b: What the other was started with.
        named: Every record of them names its run, so that no two are the same byte for byte.
    """
    if found.taken:
        said = f"= {units.plural(found.taken, 'event')} taken over by the fork, through seq {found.common}"
        return (cell(said, "good"), *((cell("   and nothing else", "dim"),) if found.same else ()))
    if found.common_a:
        through = "" if found.common is None else f", through seq {found.common}"
        said = f"= {units.plural(found.common_a, 'record')} in common{through}"
        return (cell(said, "good"), *((cell("   and nothing else", "dim"),) if found.same else ()))
    if not found.stop_a and not found.stop_b:
        return (cell("neither of them holds a record", "warn"),)
    if not found.stop_a or not found.stop_b:
        return (cell(f"{'B' if found.stop_a else 'A'} holds no record", "warn"),)
    if named:
        return (cell("each event names its run: aligned by what they say", "dim"),)
    other = [
        name for name in ("prompt", "fingerprint") if getattr(started_a, name) != getattr(started_b, name)
    ]
    return (cell("nothing in common" + (f": another {' and '.join(other)}" if other else ""), "warn"),)


def parting_words(found: Comparison) -> str:
    """Say in a few words where two runs part."""
    if found.same:
        return "the same"
    if found.common_a == found.stop_a and found.common_a:
        return "A ends, B goes on"
    if found.common_b == found.stop_b and found.common_b:
        return "B ends, A goes on"
    return "they part at the start" if found.common is None else f"they part after seq {found.common}"


def heading(
    names: tuple[str, str], ats: tuple[int | None, int | None], active: Side, width: int, *, stacked: bool
) -> Line:
    """Name both runs, and the points in them, above their halves; the one that the keys act on stands out."""
    named: list[tuple[Cell, ...]] = []
    most = max(8, (width - _MIDDLE) // 2 - 4)
    for (side, (mark, role)), name, at in zip(_SIDES.items(), names, ats, strict=True):
        here = side == active
        arrow = Cell(Safe("▸" if here else " "), "accent")
        point = "" if at is None else f"@{at}"
        shown = Safe(f"{middle(safe.line(name, 80), most - len(point))}{point}")
        named.append((arrow, Cell(Safe(mark), role), Cell(shown, "strong" if here else "dim")))
    a, b = named
    if stacked:
        return fit((*a, cell("   "), *b), width)
    room = (width - _MIDDLE) // 2
    return (*fit(a, room), cell(" " * _MIDDLE), *fit(b, width - _MIDDLE - room))


def state_lines(a: Standing, b: Standing, common_messages: int, width: int) -> Iterator[Line]:
    """Give state against state: what differs first."""
    yield _columns("State", _where("A", a), _where("B", b), width, "strong")
    for mark, standing in (("A", a), ("B", b)):
        if standing.error is not None:
            what = "reconstructed: " if standing.state is not None else ""
            yield from flow((cell(f"⚠ {mark}  {what}{standing.error}", "problem", 1000),), width, 2)
    if a.state is None or b.state is None:
        yield (cell("There is no state to compare on both sides.", "dim"),)
        return
    fields = state_fields(a.state, b.state, common_messages)
    start: tuple[Field, ...] = ()
    if isinstance(a.state, RunState) and isinstance(b.state, RunState):
        start = fingerprint_fields(a.state.fingerprint, b.state.fingerprint)
    yield from field_lines([one for one in (*fields, *start) if not one.same], width)
    yield from field_lines([one for one in fields if one.same], width)
    if start and all(one.same for one in start):
        yield fit((cell(f"  {'fingerprint':{_LABEL}}the same", "dim"),), width)


def field_lines(fields: Sequence[Field], width: int) -> Iterator[Line]:
    """Give a table of fields: those that differ are marked, those that do not are dim."""
    for one in fields:
        label = _NAMES.get(one.name, one.name)
        if one.same:
            yield fit((cell(f"  {label:{_LABEL}}", "dim"), cell(value(one, one.a), "dim", _VALUE)), width)
        else:
            other = f"{value(one, one.b)}{', not the same ones' if one.a == one.b else ''}"
            yield _columns(label, value(one, one.a), other, width, "text", mark="▸ ")


def value(field: Field, given: Json) -> str:
    """Give a value of a field as a word or two."""
    if isinstance(given, bool):
        return "yes" if given else "no"
    if isinstance(given, int):
        return units.grouped(given)
    if isinstance(given, list):
        return ", ".join(str(one) for one in given) or "none"
    text = "" if given is None else str(given)
    return f"{text[:12]}…" if field.name.endswith(("_hash", "_sha")) and len(text) > 13 else text or "–"


def _columns(label: str, a: str, b: str, width: int, role: Role, mark: str = "") -> Line:
    room = max(1, (width - _LABEL - 2) // 2)
    head = (cell(mark or "  ", "accent"), cell(f"{label:{_LABEL}}", "text" if mark else role))
    left = fit((cell(a, role, _VALUE),), max(0, room - 1))
    return fit((*head, *left, cell(" "), cell(b, role, _VALUE)), max(span(head), width))


def _where(mark: str, standing: Standing) -> str:
    if not standing.line:
        return f"{mark}  before the first record"
    return f"{mark}  after {f'line {standing.line}' if standing.seq is None else f'seq {standing.seq}'}"
