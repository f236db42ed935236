"""Which call touched which file, and which kept a list of steps: columns, so that any moment is a cut.

Fed once in the order of the records (`core.store.touching` does it in slices); a cursor that moves asks for
what is on the screen and reads nothing again. A call counts from its result on: one that failed did nothing.
One whose result never came, or was recorded by a decision, has an outcome that nobody knows.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Generator, Iterator, Set
from typing import Final, NamedTuple

from refold.core.edits import Delete, Look, Move, editing
from refold.core.plans import Step, plan_of
from refold.core.records import Json

MOST_PATHS: Final = 100_000
"""Files that are told apart; what further ones there are is only counted."""
_MOST_ORDINAL: Final = 65_535
_NEVER: Final = 2**32 - 1
_LOOKED_AT: Final = 1024
"""Touches that are looked at in one step."""
_FOLDED: Final = 1 << 16
"""Characters of paths that are folded in one step."""
_EACH: Final = 64
"""So many more are counted for each path, however short."""

READ, WRITTEN, DELETED, MOVED = range(4)
UNKNOWN: Final = 8
"""Added to a kind: whether the call did it nobody knows."""


class Place(NamedTuple):
    """A call, and where it came to its end."""

    call: int
    """The item that asks for it."""
    ordinal: int
    """Which of its calls."""
    end: int
    """The item from which on it counts: its result, or what proves that there is none."""
    unknown: bool = False
    """Whether it did what it was to do nobody knows."""


class Touch(NamedTuple):
    """The last time up to some moment that a file was changed, or that it was read."""

    path: str
    kind: int
    """READ, WRITTEN, DELETED or MOVED."""
    unknown: bool
    place: Place


class Plan(NamedTuple):
    """A list of steps as a call left it."""

    place: Place
    since: tuple[int, ...]
    """For each step the item from which on it stands as it does."""


class _Asked(NamedTuple):
    call: int
    ordinal: int
    touches: tuple[tuple[int, int], ...]
    changes: bool
    plan: tuple[Step, ...] | None


class Touches:
    """All calls up to an item that touched files or kept a list of steps."""

    def __init__(self) -> None:
        self.items = 0
        """So many items were fed."""
        self.paths: list[str] = []
        self.unread = 0
        """Calls so long that it was not looked at what they do."""
        self.nameless = 0
        """Touches of files beyond `MOST_PATHS`."""
        self._known: dict[str, int] = {}
        self._waiting: dict[int, _Asked] = {}
        self._end, self._call, self._path, self._next = array("I"), array("I"), array("I"), array("I")
        self._ordinal, self._kind = array("H"), array("B")
        self._changed, self._seen = array("I"), array("I")
        """Different files that were changed, and that were read, up to and including a touch."""
        self._last: dict[int, int] = {}
        self._edit_end, self._edit_call = array("I"), array("I")
        self._edit_ordinal, self._edit_unknown = array("H"), array("B")
        self._plans: list[Plan] = []
        self._steps: dict[str, tuple[str, int]] = {}

    def ask(
        self, key: int, item: int, ordinal: int, name: str, arguments: Json
    ) -> Generator[None, None, None]:
        """Take in that an item asks for a call, in small steps; it counts once it has come to its end.

        Args:
            key: What its end names it by, until it has come.
            item: Where it is asked for.
            ordinal: Which of the calls of that item it is.
            name: The tool.
            arguments: What it is called with.
        """
        touched: dict[tuple[int, bool], int] = {}
        changes = False
        edits = yield from editing(name, arguments)
        for edit in edits:
            reads = isinstance(edit, Look)
            changes = changes or not reads
            kind = READ if reads else DELETED if isinstance(edit, Delete) else WRITTEN
            kind = MOVED if isinstance(edit, Move) else kind
            self._note(touched, edit.path, kind)
            if isinstance(edit, Move):
                self._note(touched, edit.to, WRITTEN)
        plan = plan_of(name, arguments)
        if touched or plan is not None:
            found = tuple((path, kind) for (path, _), kind in touched.items())
            self._waiting[key] = _Asked(item, min(ordinal, _MOST_ORDINAL), found, changes, plan)

    def _note(self, touched: dict[tuple[int, bool], int], path: str, kind: int) -> None:
        number = self._known.get(path)
        if number is None:
            if len(self.paths) >= MOST_PATHS:
                self.nameless += 1
                return
            number = self._known[path] = len(self.paths)
            self.paths.append(path)
        touched[(number, kind == READ)] = kind

    def end(self, key: int, item: int, *, ok: bool) -> None:
        """Take in how a call came to its end; one that failed did nothing."""
        asked = self._waiting.pop(key, None)
        if asked is not None and ok:
            self._count(asked, item, 0)

    def waits(self, key: int) -> bool:
        """Say whether the end of a call that touches something is waited for."""
        return key in self._waiting

    def open_keys(self) -> tuple[int, ...]:
        """Give the calls that have not come to their end."""
        return tuple(self._waiting)

    def give_up(self, key: int, item: int, *, may_have_run: bool = True, again: bool = False) -> None:
        """Take in that no end of a call will come any more, except where it runs again."""
        asked = self._waiting.get(key) if again else self._waiting.pop(key, None)
        if asked is not None and may_have_run:
            self._count(asked, item, UNKNOWN)

    def _count(self, asked: _Asked, item: int, flag: int) -> None:
        for path, kind in asked.touches:
            self._touch(asked, item, path, kind, flag)
        if asked.changes:
            self._edit_end.append(item)
            self._edit_call.append(asked.call)
            self._edit_ordinal.append(asked.ordinal)
            self._edit_unknown.append(1 if flag else 0)
        if asked.plan is not None and not flag:
            before, self._steps = self._steps, {}
            for step in asked.plan:
                old = before.get(step.text)
                same = old is not None and old[0] == step.status
                self._steps[step.text] = old if old is not None and same else (step.status, item)
            since = tuple(self._steps[step.text][1] for step in asked.plan)
            self._plans.append(Plan(Place(asked.call, asked.ordinal, item), since))

    def _touch(self, asked: _Asked, item: int, path: int, kind: int, flag: int) -> None:
        number = len(self._end)
        slot = path * 2 + (kind == READ)
        before = self._last.get(slot)
        self._last[slot] = number
        if before is not None:
            self._next[before] = number
        changed, seen = (self._changed[-1], self._seen[-1]) if number else (0, 0)
        self._changed.append(changed + (before is None and kind != READ))
        self._seen.append(seen + (before is None and kind == READ))
        self._end.append(item)
        self._call.append(asked.call)
        self._ordinal.append(asked.ordinal)
        self._path.append(path)
        self._kind.append(kind | flag)
        self._next.append(_NEVER)

    def counts(self, item: int) -> tuple[int, int]:
        """Give how many different files were changed, and how many were read, up to and including an item."""
        upto = bisect_right(self._end, item)
        return (self._changed[upto - 1], self._seen[upto - 1]) if upto else (0, 0)

    def latest(self, item: int, most: int) -> Iterator[Touch]:
        """Give the last touches of each file up to and including an item, the latest first.

        A file that was changed and read is given twice. So many touches are looked at at most, whatever the
        run: what lies further back is not given.
        """
        upto = bisect_right(self._end, item)
        for at in range(upto - 1, max(-1, upto - 1 - most), -1):
            if self._next[at] >= upto:
                kind = self._kind[at]
                unknown = bool(kind & UNKNOWN)
                place = Place(self._call[at], self._ordinal[at], self._end[at], unknown)
                yield Touch(self.paths[self._path[at]], kind & ~UNKNOWN, unknown, place)

    def changes_of(self, paths: Collection[str], item: int, most: int) -> tuple[Place, ...] | None:
        """Give the calls that changed some files before an item, in order; None where they are too many.

        Args:
            paths: The files.
            item: Calls that came to their end before this one count.
            most: Calls that are given at most; so many times a hundred touches are looked at.
        """
        wanted = {self._known[path] for path in paths if path in self._known}
        upto = bisect_left(self._end, item)
        found: dict[tuple[int, int], Place] = {}
        if wanted:
            if upto > 100 * most:
                return None
            for at in range(upto):
                if self._path[at] in wanted and self._kind[at] in {WRITTEN, DELETED, MOVED}:
                    call, ordinal = self._call[at], self._ordinal[at]
                    found[(call, ordinal)] = Place(call, ordinal, self._end[at])
        return tuple(found.values()) if len(found) <= most else None

    def changed_at(self, item: int, wanted: Set[int]) -> Generator[None, None, bool | None]:
        """Say in small steps whether calls that came to their end at an item changed a file.

        Args:
            item: The item.
            wanted: The files, as `Named` gives them.

        Returns:
            True where one is known to have, False where one may have and nobody knows, None for neither.
        """
        found = None
        first = bisect_left(self._end, item)
        for at in range(first, bisect_right(self._end, item)):
            kind = self._kind[at]
            if kind & ~UNKNOWN != READ and self._path[at] in wanted:
                found = found or not kind & UNKNOWN
            if (at - first) % _LOOKED_AT == _LOOKED_AT - 1:
                yield
        return found

    def would_change(self, call: int, wanted: Set[int]) -> Generator[None, None, list[int]]:
        """Give in small steps the calls without an end that an item asks for to change a file."""
        keys = [key for key, asked in self._waiting.items() if asked.call == call]
        found: list[int] = []
        for key in keys:
            asked = self._waiting.get(key)
            if asked is not None and (yield from _is_to_change(asked, wanted)):
                found.append(key)
            yield
        return found

    def still_waits(self, key: int, call: int) -> bool:
        """Say whether the end of a call that an item asks for is waited for: others are named by the same."""
        asked = self._waiting.get(key)
        return asked is not None and asked.call == call

    def reveal_change_of(self, wanted: Set[int]) -> Generator[None, None, bool]:
        """Say in small steps whether any call changed, may have changed or was to change a file."""
        for number, path in enumerate(wanted, 1):
            if path * 2 in self._last:
                return True
            if number % _LOOKED_AT == 0:
                yield
        for asked in tuple(self._waiting.values()):
            if (yield from _is_to_change(asked, wanted)):
                return True
            yield
        return False

    def edits(self, item: int) -> int:
        """Give how many calls changed files up to and including an item."""
        return bisect_right(self._edit_end, item)

    def edit(self, number: int) -> Place:
        """Give one of the calls that changed files, from 0 on."""
        return Place(
            self._edit_call[number],
            self._edit_ordinal[number],
            self._edit_end[number],
            bool(self._edit_unknown[number]),
        )

    def plan(self, item: int) -> Plan | None:
        """Give the last list of steps up to and including an item, or None."""
        found = bisect_right(self._plans, item, key=lambda plan: plan.place.end)
        return self._plans[found - 1] if found else None


class Named:
    """The files that have a name in their path: worked out once for a look, as paths become known."""

    def __init__(self, touches: Touches, name: str) -> None:
        """Look for a name, case-folded, in all paths of some touches."""
        self._paths = touches.paths
        self._name = name
        self._looked = 0
        self._numbers: set[int] = set()

    def look(self) -> Generator[None, None, Set[int]]:
        """Look in small steps at the paths that came since the last look; give the numbers of all files."""
        left = _FOLDED
        while self._looked < len(self._paths):
            path = self._paths[self._looked]
            if self._name in path.casefold():
                self._numbers.add(self._looked)
            self._looked += 1
            left -= len(path) + _EACH
            if left < 0:
                left = _FOLDED
                yield
        return self._numbers


def _is_to_change(asked: _Asked, wanted: Set[int]) -> Generator[None, None, bool]:
    for number, (path, kind) in enumerate(asked.touches, 1):
        if kind != READ and path in wanted:
            return True
        if number % _LOOKED_AT == 0:
            yield
    return False
