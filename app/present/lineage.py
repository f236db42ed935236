"""The tree of parents and forks: a row for each run, and what is known of the one under the cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, get_args

from refold.app import safe
from refold.app.lines import Cell, Line, Role
from refold.app.present import units
from refold.app.present.layout import cell, fit, flow, spread
from refold.app.present.marks import MARK
from refold.app.present.money import Prices
from refold.app.present.status import status_cell
from refold.app.safe import Safe
from refold.core.formats.names import keeps_directories
from refold.core.lineage import Branch, Kin, ParentState, Sums, Tree, bill_of_family, bill_of_kin
from refold.core.prices import amount
from refold.core.status import StatusName

_LABEL: Final = 12
_ID: Final = 60
_TEXT: Final = 2000
_STATUS: Final = 16
_SHALLOW: Final = 4

STATES: Final[dict[ParentState, str]] = {
    "none": "",
    "same": "",
    "moved": "parent moved",
    "rewritten": "parent rewritten",
    "unchecked": "parent not checked",
    "missing": "parent missing",
    "circle": "circle",
}
"""What is said about the parent of a run beside it; nothing where all is well."""

_EXPLAINED: Final[dict[ParentState, str]] = {
    "none": "it was not forked",
    "same": "its parent still begins with the bytes that were taken",
    "moved": "its parent lies in another directory, and still begins with the bytes that were taken",
    "rewritten": "a run of its parent's id is there, but not the bytes that were taken",
    "unchecked": "a run of its parent's id is there; its bytes are not compared yet",
    "missing": "no run of its parent's id is there",
    "circle": "it descends from its own fork",
}


_NO_HASH: Final = (
    "a run of its parent's id is there; nothing recorded the hash of what was taken, to compare it with"
)


class LineageRows:
    """The rows of the tree."""

    def __init__(
        self,
        tree: Tree,
        marked: frozenset[str] = frozenset(),
        name_of: Callable[[str], str] = lambda _: "",
    ) -> None:
        self.tree = tree
        self._name_of = name_of
        self.marked = marked
        """Where the runs lie that are marked."""

    def __len__(self) -> int:
        return len(self.tree.rows)

    def line(self, index: int, width: int) -> Line:
        """Give the row of a run: where it hangs, which one it is, how it stands, what it added itself."""
        branch = self.tree.rows[index]
        kin = branch.kin
        left = [
            Cell(rails(branch, max(_SHALLOW, (width - 40) // 3)), "dim"),
            *((MARK,) if kin.path in self.marked else ()),
            cell(
                self._name_of(kin.path) or kin.id,
                "strong" if index == self.tree.focus else "text" if kin.path else "dim",
                _ID,
            ),
        ]
        if kin.origin is not None and kin.origin.seq:
            left.append(Cell(Safe(f"  ψ {kin.origin.seq}"), "fork"))
        if STATES[branch.state]:
            left.append(Cell(Safe(f"  {STATES[branch.state]}"), "warn"))
        if kin.origin is not None and kin.origin.reason:
            left.append(cell(f"  {kin.origin.reason}", "dim", 200))
        right = (*_status(kin.status), *(_numbers(kin.own) if width >= 70 else ()))
        return spread(left, right, width, least=24)


def heading(width: int) -> Line:
    """Give the names of the columns."""
    right = [cell(f"{'Status':{_STATUS}}", "dim")]
    if width >= 70:
        right.append(cell(f"{'Own turns':>9} {'calls':>5} {'tokens':>9} ", "dim"))
    return spread((cell("Run, ψ and the seq it was forked after", "dim"),), right, width, least=24)


def rails(branch: Branch, deepest: int) -> Safe:
    """Draw where a run hangs: so many of the levels above it, and their number where there are more."""
    above = branch.rails[:-1][-deepest:]
    drawn = "".join("│ " if more else "  " for more in above)
    if branch.depth > deepest + 1:
        drawn = f"⋯{branch.depth} {drawn}"
    if branch.rails:
        drawn += "├ " if branch.rails[-1] else "╰ "
    return Safe(drawn)


def details(branch: Branch, width: int, prices: Prices | None = None, name: str = "") -> list[Line]:
    """Say what is known of a run, the most needed first."""
    kin, origin = branch.kin, branch.kin.origin
    lines: list[Line] = []
    if name:
        lines += _labelled("Run", (cell(name, "strong", _ID), cell(f"  {kin.id}", "dim", _ID)), width)
    if origin is not None:
        seq = f" after seq {origin.seq}" if origin.seq else ""
        lines += _labelled("Forked", (cell(f"from {origin.run_id}{seq}", "fork", _TEXT),), width)
        if origin.reason:
            lines += _labelled("Because", (cell(origin.reason, "text", _TEXT),), width)
    role: Role = "dim" if not STATES[branch.state] else "warn"
    said = _EXPLAINED[branch.state]
    if branch.state == "unchecked" and kin.total is not None and origin is not None:
        # What could be compared was, and its parent was read.
        said = said if origin.prefix_sha256 else _NO_HASH
    lines += _labelled("Parent", (cell(said, role),), width)
    if kin.own is not None:
        lines += _labelled("Own", (cell(_said(kin.own) + _cost(kin, kin.own, prices)),), width)
        if origin is not None and not keeps_directories(kin.format):
            said = _said(kin.inherited) + _cost(kin, kin.inherited, prices)
            lines += _labelled("Inherited", (cell(said, "dim"),), width)
    if kin.prompt:
        first = safe.line(kin.prompt.strip(), _TEXT)
        lines += _labelled("Prompt", (Cell(first),), width)[:2]
    if kin.path:
        lines += _labelled("File", (cell(kin.path, "dim", _TEXT),), width)
    return lines


def _cost(kin: Kin, sums: Sums, prices: Prices | None) -> str:
    found = bill_of_kin(kin, sums, prices or {})
    return f" · {amount(found)}" if prices and found.amount is not None else ""


def summary(tree: Tree, *, finished: bool, prices: Prices | None = None) -> Line:
    """Say how large the family is."""
    runs = sum(bool(branch.kin.path) for branch in tree.rows)
    forks = sum(branch.kin.origin is not None for branch in tree.rows)
    said = f"{units.plural(runs, 'run')} · {units.plural(forks, 'fork')}"
    family = bill_of_family(tree, prices or {})
    if prices and finished and family.amount is not None:
        said += f" · {amount(family)} together"
    return (Cell(Safe(said), "dim"), *(() if finished else (Cell(Safe("   reading"), "accent"),)))


def _status(name: str) -> tuple[Cell, ...]:
    shown = next(
        (status_cell(known) for known in get_args(StatusName) if known == name), cell(name, "dim", 20)
    )
    return (Cell(Safe("  ")), Cell(safe.fit(shown.text, _STATUS), shown.role))


def _numbers(sums: Sums | None) -> tuple[Cell, ...]:
    if sums is None:
        return (cell(f"{'–':>7} {'–':>7} {'–':>9} ", "dim"),)
    return (cell(f"{sums.turns:>7,} {sums.calls:>7,} {units.short(sums.tokens):>9} ", "number"),)


def _said(sums: Sums) -> str:
    errors = f" · {units.plural(sums.errors, 'error')}" if sums.errors else ""
    return (
        f"{units.plural(sums.turns, 'turn')} · {units.plural(sums.calls, 'call')}{errors} · "
        f"{units.short(sums.tokens)} tokens"
    )


def _labelled(label: str, said: tuple[Cell, ...], width: int) -> list[Line]:
    lines: Iterator[Line] = flow((cell(f"{label:{_LABEL}}", "dim"), *said), width, _LABEL)
    return [fit(line, width) for line in lines]
