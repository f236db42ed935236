"""Joins an open run to what is shown of its changes: which calls there are, and what they came to."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from refold.app.present import units
from refold.app.present.diff import lay
from refold.core.composing import Files, Holding
from refold.core.edits import Change, Look, Move, Unclear, editing
from refold.core.errors import BadRecord
from refold.core.store.touching import TouchReader, line_of
from refold.core.touches import Place

if TYPE_CHECKING:
    from refold.app.present.lens import Lens
    from refold.core.records import Json
    from refold.core.store.reader import RunReader

_WHOLE: Final = 1 << 20
"""Records up to this many bytes are taken for what they say; of longer ones only which files they change."""
_NEAR: Final = 16 << 20
"""Bytes before a call up to which what came before it is looked at for its sake."""
_FEW: Final = 50
"""Calls that are read for the sake of another one."""
MOST_EDITS: Final = 5_000
"""Calls that are summed up; where there are more, the last ones."""


class Called(NamedTuple):
    """A call and what it was to change."""

    name: str
    changes: tuple[Change, ...]


class Summed(NamedTuple):
    """All changes up to a moment."""

    files: Files
    calls: int
    """How many calls were summed up."""
    left_out: int
    """Calls before them that were not."""
    unknown: tuple[Place, ...]
    """Calls that may have changed files, and nobody knows; they are not among the others."""


class Changing:
    """Answers what changed; what was read once for it is not read again."""

    def __init__(self, reader: RunReader, lens: Lens | None = None, index: TouchReader | None = None) -> None:
        """Answer for a run.

        Args:
            reader: The open run.
            lens: Takes the secrets out of what is answered.
            index: What is known of its calls already.
        """
        self._reader = reader
        self.lens = lens
        self.index = TouchReader(reader) if index is None else index
        self.touches = self.index.touches
        self._line: tuple[int, int, tuple[tuple[int, str, Json], ...], bool] | None = None
        """The item that was decoded last, its length, its calls, and whether all of them was read."""
        self._files, self._next, self._first = Files(), 0, 0
        self._within = 0
        """Changes of the next call that are summed up already: whoever asked may have left in the middle."""
        self._unknown: list[Place] = []
        self._counts: dict[str, tuple[tuple[int, int], int, int]] = {}

    def know(self, item: int) -> Iterator[None]:
        """Look at all calls up to and including an item, in small steps."""
        yield from self.index.extend(item + 1)

    def shown(self, path: str) -> str:
        """Give a path as it may be shown."""
        return path if self.lens is None else self.lens.text(path)

    def asked(self, place: Place) -> Generator[None, None, tuple[str, Json, bool]]:
        """Give tool and arguments of a call, and whether nothing of them was left out, in small steps."""
        calls, whole = yield from self._calls(place.call)
        if place.ordinal >= len(calls):
            return "", None, True
        _, name, arguments = calls[place.ordinal]
        if self.lens is not None:
            arguments = self.lens.value(arguments)
            yield
        return name, arguments, whole

    def called(self, place: Place) -> Generator[None, None, Called]:
        """Give a call and what it was to change, in small steps."""
        name, arguments, whole = yield from self.asked(place)
        edits = yield from editing(name, arguments)
        changes = tuple(edit for edit in edits if not isinstance(edit, Look))
        if not whole:
            where = self._reader.timeline.span(place.call)
            said = (
                f"a call of {units.size(where.end - where.start)} is too long to be shown here: Raw shows it"
            )
            changes = tuple(
                change if isinstance(change, Move) else Unclear(change.path, said) for change in changes
            )
        return Called(name, changes)

    def _calls(self, item: int) -> Generator[None, None, tuple[tuple[tuple[int, str, Json], ...], bool]]:
        length = self._reader.timeline.columns.length[item]
        if self._line is None or self._line[:2] != (item, length):
            line = yield from line_of(self._reader, item, _WHOLE)
            yield
            try:
                calls = self._reader.asked(item, line)
            except BadRecord:
                calls = ()
            self._line = (item, length, calls, length <= _WHOLE)
        return self._line[2], self._line[3]

    def summed(self, item: int) -> Generator[None, None, Summed]:
        """Sum up what all calls up to and including an item changed, in small steps.

        What was summed up for an earlier moment is gone on from; for a later one it is begun again.
        """
        yield from self.know(item)
        edits = self.touches.edits(item)
        if edits < self._next or edits - self._first > 2 * MOST_EDITS:
            self._first = self._next = max(0, edits - MOST_EDITS)
            self._files, self._unknown, self._counts = Files(), [], {}
            self._within = 0
        while self._next < edits:
            place = self.touches.edit(self._next)
            called = yield from self.called(place)
            if place.unknown:
                self._unknown.append(place)
            else:
                for change in called.changes[self._within :]:
                    yield from self._files.apply(change, place.call)
                    self._within += 1
                    yield
            self._next, self._within = self._next + 1, 0
            yield
        unknown = tuple(self._unknown)
        return Summed(self._files, edits - self._first - len(unknown), self._first, unknown)

    def before(self, place: Place, changes: tuple[Change, ...]) -> Generator[None, None, Files]:
        """Give what is known of some files before a call, for its own changes to be laid on, in small steps.

        Only the calls that changed these files are read, and only where they are few; of a call far from the
        beginning only where everything before it is known already.
        """
        files = Files()
        start = self._reader.timeline.span(place.call).start
        if self.touches.items <= place.call and start > _NEAR:
            return files
        yield from self.know(place.call)
        paths = {change.path for change in changes}
        for earlier in self.touches.changes_of(paths, place.call, _FEW) or ():
            called = yield from self.called(earlier)
            for change in called.changes:
                if change.path in paths:
                    yield from files.apply(change, earlier.call)
        return files

    def counted(self, held: Holding) -> Generator[None, None, tuple[int, int]]:
        """Give how many lines of a file were put in and taken out, in small steps."""
        found = self._counts.get(held.path)
        if found is None or found[0] != (held.moments[-1], len(held.moments)):
            added = removed = 0
            for piece in held.pieces:
                laid = yield from lay(piece, 1)
                added, removed = added + laid.added, removed + laid.removed
            found = self._counts[held.path] = ((held.moments[-1], len(held.moments)), added, removed)
        return found[1:]
