"""What edits come to when they follow each other, without inventing what nobody recorded.

A journal holds what edits said, seldom what files held. A text that was written whole is known from there
on, and an edit of it gives the next text. Of any other file only the pieces are known that edits put in: an
edit inside one such piece makes it one piece with it; any other edit stands beside it, in its order. The
pieces of a file, put into the file as it was one after the other, give the file as it is: what could break
that is not joined (`tests/test_core_edits.py` applies both to real texts).
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from typing import Final, Self

import msgspec

from refold.core.edits import Change, Delete, Insert, Move, Patch, Replace, Unclear, Write
from refold.core.patch_text import Hunk
from refold.core.patching import apply_hunks

LONGEST: Final = 262_144
"""Characters of a text; what is longer is not kept to be edited further."""
MOST_PIECES: Final = 500
"""Pieces of one file that are kept."""
MOST_FILES: Final = 2_000
_LOOKED_AT: Final = 64
"""Places at which two texts may hang together that are looked at; with more of them they are taken to do."""

_LEAD: Final = 8
_GLANCE: Final = 256
_STEP: Final = 65_536
"""Characters that are compared in one step."""

_TWICE: Final = "it stood in the file several times: which one was changed is not recorded"
_ASTRAY: Final = "it does not stand in what was written before: something else changed the file"


class Piece(msgspec.Struct, frozen=True):
    """A text that stands where another stood."""

    old: str | None
    """None: what stood there is not recorded. Empty: nothing did."""
    new: str | None
    """None: the file is gone."""
    moments: tuple[int, ...]
    """What made it, in order: whatever the caller counts edits by."""
    line: int = 0
    """Where it begins in the file as it was before, as far as that was said; 0 where it was not."""
    whole: bool = False
    """It is all of the file."""
    every: bool = False
    """It was put in wherever the other stood."""
    note: str = ""
    """What is not known about it."""
    more: tuple[Piece, ...] = ()
    """The other stretches of the same patch, where each stands alone."""


class Holding:
    """One file: its text where that is known, else the pieces of it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.came_from = ""
        """The name that it had before."""
        self.text: str | None = None
        """What it holds; None where that is not known."""
        self.is_gone = False
        self.pieces: list[Piece] = []
        self.left_out = 0
        """Pieces that were too many to keep."""
        self.overwritten = 0
        """Earlier edits of which nothing is left: the whole file was written, or it was deleted."""
        self.moments: list[int] = []
        """Of all its changes, the last ones."""
        self._open: list[bool] = []
        """Of each piece: nothing that came later may have touched it."""

    def copy(self) -> Self:
        """Give one that goes on by itself from here."""
        other = type(self)(self.path)
        other.become(self)
        return other

    def become(self, other: Self) -> None:
        """Know what another one knows."""
        self.came_from, self.text, self.is_gone = other.came_from, other.text, other.is_gone
        self.left_out, self.overwritten = other.left_out, other.overwritten
        self.pieces, self.moments = other.pieces.copy(), other.moments.copy()
        self._open = other._open.copy()

    def apply(self, change: Change, moment: int) -> Generator[None, None, Piece]:
        """Take a change in, in small steps; give what it alone comes to.

        Nothing of it is taken in before the last step.
        """
        after = self.copy()
        alone = yield from after.take(change, moment)
        self.become(after)
        return alone

    def take(self, change: Change, moment: int) -> Generator[None, None, Piece]:
        """Do the same where nobody looks before the last step."""
        self.moments.append(moment)
        del self.moments[:-MOST_PIECES]
        gone, self.is_gone = self.is_gone, False
        match change:
            case Write():
                return self._write(change, moment, gone=gone)
            case Delete():
                return self._delete(moment)
            case Replace():
                return (yield from self._replace(change, moment))
            case Patch():
                return (yield from self._patch(change, moment))
            case Insert():
                return self._insert(change, moment)
            case Unclear():
                self._lose(close=True)
                return self._add(Piece(None, change.text, (moment,), note=change.what))
            case Move():
                return Piece(None, "", (moment,), note=f"renamed to {change.to}")

    def _write(self, change: Write, moment: int, *, gone: bool) -> Piece:
        before = self.text
        nothing = (change.new and before is None and not self.pieces) or gone
        made_here = before is not None and len(self.pieces) == 1 and self.pieces[0].old == ""
        alone = Piece("" if nothing else before, change.text, (moment,), whole=True)
        kept = "" if nothing or made_here else None
        self._forget()
        moments = (*self.moments[-1:],)
        self.pieces, self._open = [Piece(kept, change.text, moments, whole=True)], [True]
        self.text = change.text if len(change.text) <= LONGEST else None
        return alone

    def _delete(self, moment: int) -> Piece:
        alone = Piece(self.text, None, (moment,), whole=True)
        made_here = self.text is not None and len(self.pieces) == 1 and self.pieces[0].old == ""
        self._forget()
        self.pieces, self._open = [Piece("" if made_here else None, None, (moment,), whole=True)], [False]
        self.is_gone, self.text = True, None
        return alone

    def _forget(self) -> None:
        self.overwritten += sum(len(piece.moments) for piece in self.pieces)
        self.pieces, self._open, self.left_out = [], [], 0

    def _lose(self, *, close: bool) -> None:
        """Know the whole text no longer."""
        self.text = None
        if close:
            self._open = [False] * len(self._open)

    def _became(self, text: str, moment: int) -> Piece:
        """Take the next text of a file whose text is known."""
        before, piece = self.text, self.pieces[0]
        self.pieces[0] = msgspec.structs.replace(piece, new=text, moments=_joined(piece.moments, moment))
        self.text = text if len(text) <= LONGEST else None
        return Piece(before, text, (moment,), whole=True)

    def _add(self, piece: Piece) -> Piece:
        self.pieces.append(piece)
        self._open.append(True)
        if len(self.pieces) > MOST_PIECES:
            del self.pieces[0], self._open[0]
            self.left_out += 1
        return piece

    def _replace(self, change: Replace, moment: int) -> Generator[None, None, Piece]:
        old, new = change.old, change.new
        alone = Piece(old, new, (moment,), every=change.every)
        if self.text is not None:
            times = self.text.count(old)
            if times == 1 or (times and change.every):
                return self._became(self.text.replace(old, new), moment)
            self._lose(close=True)
            why = _TWICE if times else _ASTRAY
            return self._add(msgspec.structs.replace(alone, note=why))
        if change.every:
            self._lose(close=True)
            return self._add(alone)
        at = yield from self._home(old, new)
        if at is None:
            yield from self._touch(old)
            return self._add(alone)
        piece = self.pieces[at]
        assert piece.new is not None  # noqa: S101 - an open piece holds a text
        self.pieces[at] = msgspec.structs.replace(
            piece, new=piece.new.replace(old, new), moments=_joined(piece.moments, moment)
        )
        return alone

    def _home(self, old: str, new: str) -> Generator[None, None, int | None]:
        """Give the piece that a text stands in, where an edit of it harms no later piece; else None."""
        at = None
        work = 0
        for number, piece in enumerate(self.pieces):
            if not self._open[number] or piece.new is None:
                continue
            if piece.new.count(old) == 1:
                if at is not None:
                    return None
                at = number
            work += len(piece.new)
            if work > _STEP:
                work = 0
                yield
        if at is None:
            return None
        piece = self.pieces[at]
        made = (piece.new or "").replace(old, new)
        if len(made) > LONGEST or piece.every or _may_begin_before(old, piece.new or ""):
            return None
        for other in self.pieces[at + 1 :]:
            if other.old is None or other.every or may_touch(other.old, made):
                return None
            work += len(other.old) + len(made)
            if work > _STEP:
                work = 0
                yield
        return at

    def _touch(self, old: str) -> Generator[None, None, None]:
        """Close the pieces that an edit of this text may have run into."""
        work = 0
        for at, piece in enumerate(self.pieces):
            if not self._open[at]:
                continue
            self._open[at] = piece.new is not None and not may_touch(old, piece.new)
            work += len(old) + len(piece.new or "")
            if work > _STEP:
                work = 0
                yield

    def _patch(self, change: Patch, moment: int) -> Generator[None, None, Piece]:
        if self.text is not None:
            patched = yield from apply_hunks(self.text, change.hunks)
            if patched is not None:
                return self._became(patched, moment)
            self._lose(close=True)
        made: list[Piece] = []
        for hunk in change.hunks:
            yield from self._touch(hunk.old)
            made.append(self._add(Piece(hunk.old, hunk.new, (moment,), line=_first_line(hunk))))
            yield
        if not made:
            return Piece(None, "", (moment,), note="the patch changes no line")
        return msgspec.structs.replace(made[0], more=tuple(made[1:]))

    def _insert(self, change: Insert, moment: int) -> Piece:
        if self.text is not None and change.after is None:
            return self._became(self.text + change.text, moment)
        self._lose(close=True)
        line = 0 if change.after is None else change.after + 1
        where = "at the end" if change.after is None else f"after line {change.after}"
        return self._add(Piece("", change.text, (moment,), line=line, note=f"put in {where}"))


class Files:
    """All files that were changed, each with what its changes come to."""

    def __init__(self) -> None:
        self._held: dict[str, Holding] = {}
        self.left_out = 0
        """Files that were too many to keep."""

    def __len__(self) -> int:
        return len(self._held)

    def apply(self, change: Change, moment: int) -> Generator[None, None, Piece]:
        """Take the next change in, in small steps; give what it alone comes to.

        Nothing of it is taken in before the last step.
        """
        held = self._held.get(change.path) or Holding(change.path)
        alone = yield from held.apply(change, moment)
        if self._held.pop(change.path, None) is None and len(self._held) >= MOST_FILES:
            del self._held[next(iter(self._held))]
            self.left_out += 1
        if isinstance(change, Move):
            held.came_from, held.path = held.came_from or held.path, change.to
        self._held[held.path] = held
        return alone

    def part(self, paths: Collection[str]) -> Self:
        """Give some of the files as they stand; they go on by themselves."""
        other = type(self)()
        other._held = {  # noqa: SLF001 - its own class
            path: held.copy() for path, held in self._held.items() if path in paths
        }
        return other

    def holding(self, path: str) -> Holding | None:
        """Give what is known of a file; None where nothing changed it."""
        return self._held.get(path)

    def latest_first(self) -> tuple[Holding, ...]:
        """Give the files, the one that was changed last before the others."""
        return tuple(reversed(self._held.values()))


def _first_line(hunk: Hunk) -> int:
    return 0 if hunk.line is None else hunk.line + (not hunk.old)


def _joined(moments: tuple[int, ...], moment: int) -> tuple[int, ...]:
    return (*moments, moment)[-MOST_PIECES:]


def _may_begin_before(old: str, piece: str) -> bool:
    """Say whether a text that stands in a piece may stand a little before it too, the two overlapping.

    Tools that count a text find one then, and take the first: "aaa" stands once in "aaaa", at its beginning.
    """
    at = piece.find(old)
    begin = len(old)
    for _ in range(_LOOKED_AT):
        # Where its end is its beginning, two of them can overlap by so much; the shortest such end matters.
        begin = old.rfind(old[0], 1, begin)
        if begin <= at:
            return False
        if old.startswith(old[begin:]):
            return True
    return True


def may_touch(one: str, other: str) -> bool:
    """Say whether two texts may share a place in a file: one in the other, or one's end the other's begin."""
    return one in other or other in one or _hangs(one, other) or _hangs(other, one)


def _hangs(first: str, second: str) -> bool:
    """Say whether the first ends with what the second begins with."""
    if not second:
        return True
    lead = second[:_LEAD]
    if first[-1:] in lead and any(first.endswith(lead[:size]) for size in range(1, len(lead))):
        return True
    at = max(0, len(first) - len(second)) - 1
    for _ in range(_LOOKED_AT):
        at = first.find(lead, at + 1)
        if at < 0:
            return False
        # Most places are none by their first characters: the rest of a long text is seldom copied.
        if second.startswith(first[at : at + _GLANCE]) and second.startswith(first[at:]):
            return True
    return True
