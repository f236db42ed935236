"""Which runs were forked from which: a tree put together from what each run says of its parent. Pure.

A fork names its parent by id, by the last sequence taken, and by the hash of the parent's bytes up to there:
so a parent that was moved is still found, and one that was rewritten is noticed (design/contracts.md
"Forks"). What the runs say may be wrong in any way: parents that are gone, circles, a run that is its own
parent; the tree ends all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from refold.core.prices import SEVERAL, Bill, Price, Spent, bill
from refold.core.records import ForkOrigin, Json

ParentState: TypeAlias = Literal["none", "same", "moved", "rewritten", "unchecked", "missing", "circle"]
"""What is known of the parent that a run names.

none: it names none; same: found, and its bytes are those that were taken; moved: the same, but it lies in
another directory than the fork; rewritten: found by its id, but with other bytes; unchecked: found by its id,
its bytes were not looked at or cannot be; missing: not found; circle: it descends from its own fork.
"""


class Sums(msgspec.Struct, frozen=True):
    """What a stretch of a run adds up to."""

    turns: int = 0
    calls: int = 0
    errors: int = 0
    tokens: int = 0
    spent: Spent = Spent()
    """The same tokens by kind."""

    def without(self, part: Sums) -> Sums:
        """Give what is left when a part is taken away."""
        return Sums(
            self.turns - part.turns,
            self.calls - part.calls,
            self.errors - part.errors,
            self.tokens - part.tokens,
            self.spent.less(part.spent),
        )


class Kin(msgspec.Struct, frozen=True):
    """One run, as its lineage sees it."""

    path: str
    """Empty for a parent that is not there."""
    id: str
    """The name of its file, or what its fork calls it."""
    run_id: str = ""
    """The id that its meta record has, where that is known."""
    format: str = ""
    status: str = ""
    prompt: str = ""
    created: str = ""
    model: str = ""
    models: int = 1
    """How many models took tokens."""
    origin: ForkOrigin | None = None
    total: Sums | None = None
    """None while it was not read."""
    inherited: Sums = Sums()
    """What came from its parent, out of `total`."""

    @property
    def own(self) -> Sums | None:
        """What the run itself added; None while it was not read."""
        return None if self.total is None else self.total.without(self.inherited)

    @property
    def directory(self) -> str:
        """Where it lies."""
        return self.path.rpartition("/")[0]


class Branch(NamedTuple):
    """One row of the tree."""

    kin: Kin
    depth: int
    rails: tuple[bool, ...]
    """For each level above, the run's own last: whether further runs follow on that level."""
    parent: str
    """The path of its parent; empty where it has none here."""
    state: ParentState


class Tree(NamedTuple):
    """A family: one root and everything that was forked from it, in the order of a walk."""

    rows: tuple[Branch, ...]
    focus: int
    """The row of the run that was asked for."""


Checks: TypeAlias = Mapping[tuple[str, str], bool]
"""Whether the bytes that a fork took are those of a parent, by the paths of both; else it is unknown."""


class Parent(NamedTuple):
    """The parent of a run."""

    path: str
    state: ParentState


def candidates(runs: Iterable[Kin]) -> dict[str, list[Kin]]:
    """Give the runs that may be meant by an id: by the name of their file, or by their meta record."""
    found: dict[str, list[Kin]] = {}
    for run in runs:
        for name in {run.id, run.run_id} - {""}:
            found.setdefault(name, []).append(run)
    return found


def parent_of(run: Kin, named: Mapping[str, Sequence[Kin]], checks: Checks) -> Parent:
    """Find the parent of a run among those that have its id: the one with the right bytes comes first."""
    if run.origin is None:
        return Parent("", "none")
    those = [other for other in named.get(run.origin.run_id, ()) if other.path != run.path]
    if not those:
        own = run.origin.run_id in {run.id, run.run_id}
        return Parent("", "circle" if own else "missing")
    name, place = run.origin.run_id, run.directory
    nearest = sorted(those, key=lambda other: (other.id != name, other.directory != place, other.path))
    for other in nearest:
        if checks.get((run.path, other.path)):
            return Parent(other.path, "same" if other.directory == run.directory else "moved")
    for other in nearest:
        if (run.path, other.path) not in checks:
            return Parent(other.path, "unchecked")
    return Parent(nearest[0].path, "rewritten")


def family(runs: Sequence[Kin], focus: str, checks: Checks | None = None) -> Tree:
    """Put the family of a run together.

    Args:
        runs: all runs, the one that is asked for among them.
        focus: its path.
        checks: what is known of the bytes of parents.
    """
    checks = checks or {}
    named = candidates(runs)
    by_path = {run.path: run for run in runs}
    parents = {run.path: parent_of(run, named, checks) for run in runs}
    children: dict[str, list[Kin]] = {}
    for run in runs:
        parent = parents[run.path]
        if parent.path:
            children.setdefault(parent.path, []).append(run)
        elif parent.state == "missing" and run.origin is not None:
            children.setdefault(_ghost(run.origin.run_id), []).append(run)
    root = _root(focus, by_path, parents)
    start = by_path[root]
    parent = parents[root]
    if parent.path:
        parents[root] = Parent("", "circle")
    elif parent.state == "missing" and start.origin is not None:
        ghost = Kin(path="", id=start.origin.run_id, status="missing")
        return _walk(ghost, _ghost(ghost.id), children, parents, focus)
    return _walk(start, root, children, parents, focus)


def _ghost(run_id: str) -> str:
    """Give the key under which the children of a missing run stand; no path looks like it."""
    return f"\0{run_id}"


def _root(focus: str, by_path: Mapping[str, Kin], parents: Mapping[str, Parent]) -> str:
    """Go up to the run that has no parent; in a circle the one that was made first stands for it."""
    seen: dict[str, None] = {}
    path = focus
    while path not in seen:
        seen[path] = None
        above = parents[path].path
        if not above:
            return path
        path = above
    way = list(seen)
    return min(way[way.index(path) :], key=lambda each: (by_path[each].created, each))


def _walk(
    root: Kin,
    key: str,
    children: Mapping[str, Sequence[Kin]],
    parents: Mapping[str, Parent],
    focus: str,
) -> Tree:
    rows: list[Branch] = []
    at = 0
    stack: list[tuple[Kin, str, tuple[bool, ...]]] = [(root, key, ())]
    while stack:
        kin, key, rails = stack.pop()
        if kin.path == focus:
            at = len(rows)
        found = parents.get(kin.path, Parent("", "none"))
        rows.append(Branch(kin, len(rails), rails, found.path, found.state))
        below = [child for child in children.get(key, ()) if child.path != root.path]
        below.sort(key=lambda child: (child.origin.seq if child.origin else 0, child.created, child.path))
        stack += [(child, child.path, (*rails, place < len(below) - 1)) for place, child in enumerate(below)][
            ::-1
        ]
    return Tree(tuple(rows), at)


def bill_of_kin(kin: Kin, sums: Sums, prices: Mapping[str, Price]) -> Bill:
    """Give what a stretch of a run cost."""
    if kin.models > 1:
        return Bill(None, reason=SEVERAL)
    return bill(prices, ((kin.model, sums.spent),))


def bill_of_family(tree: Tree, prices: Mapping[str, Price]) -> Bill:
    """Give what all runs of a family cost together: what a fork took over is its parent's, and counts once.

    The parts of runs that are gone, or cannot be read, are not in it.
    """
    own = [(branch.kin, branch.kin.own) for branch in tree.rows if branch.kin.path]
    if any(kin.models > 1 for kin, _ in own):
        return Bill(None, reason=SEVERAL)
    return bill(prices, ((kin.model, sums.spent) for kin, sums in own if sums is not None))


def tree_json(branch: Branch, *, focus: bool) -> dict[str, Json]:
    """Give one row as `refold lineage --json` prints it."""
    kin, origin = branch.kin, branch.kin.origin
    return {
        "id": kin.id,
        "path": kin.path or None,
        "format": kin.format or None,
        "status": kin.status,
        "depth": branch.depth,
        "focus": focus,
        "parent": None
        if origin is None
        else {
            "id": origin.run_id,
            "seq": origin.seq,
            "prefix_sha256": origin.prefix_sha256,
            "reason": origin.reason,
            "path": branch.parent or None,
            "state": branch.state,
        },
        "own": _sums_json(kin.own),
        "inherited": None if kin.total is None else _sums_json(kin.inherited),
    }


def _sums_json(sums: Sums | None) -> dict[str, Json] | None:
    if sums is None:
        return None
    return {"turns": sums.turns, "calls": sums.calls, "errors": sums.errors, "tokens": sums.tokens}
