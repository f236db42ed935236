"""Reads two runs side by side: where they part by their bytes, then which records stand for each other.

The bytes up to the parting are compared in blocks and never decoded, so that two forks of 100 MB part in a
fraction of a second, and in the memory that two blocks take (design/contracts.md "diff").
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from refold.core.columns import OPEN, SEQUENCED
from refold.core.compare import Face, Pair, State, align, same_start
from refold.core.errors import BadRecord, CorruptJournal, FoldError, StoreError
from refold.core.records import ForkOrigin, MetaRecord
from refold.core.store.faces import Faces
from refold.core.store.moved import that_say
from refold.core.store.notes import NotesStore
from refold.core.store.reader import RunReader
from refold.core.store.resolve import resolve
from refold.core.store.roots import SUFFIX, Root
from refold.core.store.session_names import is_run_directory
from refold.core.store.session_origin import fork_origin

_BLOCK: Final = 1 << 20
_FIRST: Final = 1 << 16
_LONGEST_META: Final = 4 << 20
"""A first line above this many bytes is compared as bytes, not by what it says."""
_SLICE: Final = 0.003
_FORKED: Final = "run.forked"
_TOLD_EVERY: Final = 256
"""Records between two words of how far it is."""


class Parting(NamedTuple):
    """Where two runs part: of each the first byte of the first line that the other does not have."""

    a: int
    b: int
    seq: int | None
    """The last sequence that they have in common; None where there is none, or it cannot be read there."""


class Match(NamedTuple):
    """Two items that stand for each other, or one that stands alone."""

    a: int | None
    b: int | None
    same: bool = False
    """They say the same and make the same calls."""
    said: bool = False
    """They say the same, whatever they call."""
    calls: tuple[bool, ...] = ()
    """Of each call that both make whether it is the same."""


class Comparison(NamedTuple):
    """Two runs side by side."""

    common: int | None
    """The last common sequence."""
    common_a: int
    """So many items of the one are common; further ones may be alike, but stand behind a difference."""
    common_b: int
    stop_a: int
    """Items of the one up to which it was looked at."""
    stop_b: int
    pairs: tuple[Match, ...]
    """Everything behind the parting, aligned."""
    taken: int = 0
    """So many events a fork took from its parent, for which the first one of its own log stands."""

    @property
    def same(self) -> bool:
        """Whether they do not part at all."""
        return (self.common_a, self.common_b) == (self.stop_a, self.stop_b)


def parting(
    a: RunReader, b: RunReader, end_a: int | None = None, end_b: int | None = None
) -> Iterator[Parting | None]:
    """Find where two runs part, a block at a time.

    Args:
        a: the one run.
        b: the other.
        end_a: the byte before which the one is looked at; None for all of it.
        end_b: the byte before which the other is looked at; None for all of it.

    Yields:
        None for each block that is alike; last of all the parting.
    """
    stop_a = a.size if end_a is None else min(end_a, a.size)
    stop_b = b.size if end_b is None else min(end_b, b.size)
    at_a, at_b = _after_start(a, b, stop_a, stop_b)
    started = bool(at_a)
    if not started:
        at_a, at_b = _first_line(a, stop_a)[0], _first_line(b, stop_b)[0]
    begun, shift = at_a, at_b - at_a
    line_a = at_a
    while at_a < stop_a and at_b < stop_b:
        size = min(_BLOCK, stop_a - at_a, stop_b - at_b)
        mine, theirs = a.bytes_at(at_a, size), b.bytes_at(at_b, size)
        alike = _alike(mine, theirs)
        newline = mine.rfind(b"\n", 0, alike)
        if newline >= 0:
            line_a = at_a + newline + 1
        at_a, at_b = at_a + alike, at_b + alike
        if alike < size:
            break
        yield None
    if line_a < at_a and _ends(a, at_a, stop_a) and _ends(b, at_b, stop_b):
        # One of them lacks the newline behind its last record.
        line_a = at_a
    common = started or line_a > begun
    yield Parting(line_a, line_a + shift, _last_seq(a, line_a) if common else None)


def compare(
    a: RunReader, b: RunReader, stop_a: int | None = None, stop_b: int | None = None
) -> Iterator[Parting | Comparison | float | None]:
    """Put two runs side by side, in small steps.

    Args:
        a: the one run.
        b: the other; may read the same file.
        stop_a: so many items of the one count, and its index has them; None for all.
        stop_b: so many items of the other count; likewise.

    Yields:
        First where they part, as soon as that is known; last the comparison; in between None, or the share
        of the records behind the parting that were read.
    """
    found = Parting(0, 0, None)
    inherited = yield from _inherited(a, b, stop_a, stop_b)
    if inherited is not None:
        found = inherited
        yield found
    else:
        for step in parting(a, b, _end_of(a, stop_a), _end_of(b, stop_b)):
            if step is not None:
                found = step
                yield found
            else:
                yield None
    for reader, stop in ((a, stop_a), (b, stop_b)):
        while stop is None and not reader.step(_SLICE):
            yield None
    whole_a = a.timeline.items if stop_a is None else stop_a
    whole_b = b.timeline.items if stop_b is None else stop_b
    common_a = min(whole_a, bisect_left(a.timeline.columns.offset, found.a))
    common_b = min(whole_b, bisect_left(b.timeline.columns.offset, found.b))
    faces_a: list[Face] = []
    faces_b: list[Face] = []
    for seen, faces, places in (
        (Faces(a), faces_a, range(common_a, whole_a)),
        (Faces(b), faces_b, range(common_b, whole_b)),
    ):
        for item in places:
            faces.append(seen.face(item))
            done = len(faces_a) + len(faces_b)
            yield None if done % _TOLD_EVERY else done / (whole_a - common_a + whole_b - common_b)
    pairs: list[Match] = []
    for pair in align(faces_a, faces_b):
        pairs.append(_match(pair, common_a, common_b, faces_a, faces_b))
        yield None
    common, taken = _seq_before(a, common_a), 0
    if inherited is not None:
        common, taken = inherited.seq, max(common_a, common_b)
    yield Comparison(common, common_a, common_b, whole_a, whole_b, tuple(pairs), taken)


def _inherited(
    a: RunReader, b: RunReader, stop_a: int | None, stop_b: int | None
) -> Generator[None, None, Parting | None]:
    """Give where a run directory and its fork part; None where neither is the other's fork.

    The log of a fork begins anew: its first event stands for all that it took, and its messages, in the
    manifest, are those of its parent up to there (formats/rivumi.md 6). So no byte of the logs is alike.
    """
    for parent, child, parent_stop, child_stop in ((a, b, stop_a, stop_b), (b, a, stop_b, stop_a)):
        if parent.session is None or child.session is None:
            continue
        origin = fork_origin(child.path)
        if origin is None or origin.run_id != parent.run_id:
            continue
        for reader, stop in ((parent, parent_stop), (child, child_stop)):
            while stop is None and not reader.step(_SLICE):
                yield None
        last, first = parent.timeline.item_at(origin.seq), child.timeline.item_at(0)
        if last is None or first is None or child.session.timeline.type_of(first) != _FORKED:
            continue
        end = parent.timeline.span(last).end + 1
        behind = child.timeline.span(first).end + 1
        return Parting(*((end, behind) if parent is a else (behind, end)), origin.seq)
    return None


def parent_of(
    path: Path, meta: MetaRecord | None, roots: tuple[Root, ...], notes: NotesStore | None = None
) -> Path | None:
    """Find the run that a run was forked from, by its id: beside it first; None where there is none.

    One that was renamed since is known by what it says of itself, where only one says so.

    Args:
        path: the fork.
        meta: its meta record, where it has one.
        roots: where else its parent may lie.
        notes: where the lineage of runs is kept whose format has no place for it.
    """
    origin = origin_of(path, meta, notes)
    if origin is None or not origin.run_id or "/" in origin.run_id or "\0" in origin.run_id:
        return None
    for near in (path.with_name(origin.run_id + SUFFIX), path.with_name(origin.run_id)):
        with suppress(OSError, ValueError):
            if near != path and (near.is_file() or is_run_directory(near)):
                return near
    with suppress(StoreError):
        found = resolve(origin.run_id, roots)
        return None if found == path else found
    renamed = that_say(origin.run_id, [*roots, Root(path.parent, "refold", "beside")])
    return renamed[0] if len(renamed) == 1 and renamed[0] != path else None


def origin_of(path: Path, meta: MetaRecord | None, notes: NotesStore | None = None) -> ForkOrigin | None:
    """Give what is known about where a run was forked from: from itself, else from our notes."""
    if meta is not None and meta.forked_from is not None:
        return meta.forked_from
    if is_run_directory(path):
        return fork_origin(path)
    return notes.read(path).forked_from if notes is not None else None


def _match(
    pair: Pair, common_a: int, common_b: int, faces_a: Sequence[Face], faces_b: Sequence[Face]
) -> Match:
    if pair.a is None or pair.b is None:
        return Match(
            None if pair.a is None else common_a + pair.a, None if pair.b is None else common_b + pair.b
        )
    a, b = faces_a[pair.a], faces_b[pair.b]
    said = (a.kind, a.said) == (b.kind, b.said)
    calls = tuple(mine == theirs for mine, theirs in zip(a.calls, b.calls, strict=False))
    return Match(common_a + pair.a, common_b + pair.b, a == b, said, calls)


def _after_start(a: RunReader, b: RunReader, stop_a: int, stop_b: int) -> tuple[int, int]:
    """Give the byte after the meta record of each, where both were started with the same; else 0 and 0."""
    begun_a, end_a = _first_line(a, stop_a)
    begun_b, end_b = _first_line(b, stop_b)
    metas: list[MetaRecord] = []
    for reader, begun, end in ((a, begun_a, end_a), (b, begun_b, end_b)):
        try:
            record = reader.decoder.record(reader.bytes_at(begun, end - begun).removesuffix(b"\n"))
        except BadRecord:
            return 0, 0
        if isinstance(record, MetaRecord):
            metas.append(record)
    return (end_a, end_b) if len(metas) == 2 and same_start(*metas) else (0, 0)


def _first_line(reader: RunReader, stop: int) -> tuple[int, int]:
    """Give the bytes of the first line that is not blank, its newline included; none where it is too long."""
    start, size = 0, _FIRST
    while start < stop:
        head = reader.bytes_at(start, min(size, stop - start))
        text = head.lstrip(b" \t\r\n")
        begun = start + len(head) - len(text)
        if not head:
            break
        if not text:
            start = begun
            continue
        newline = text.find(b"\n")
        if newline >= 0:
            return begun, begun + newline + 1
        if start + len(head) >= stop:
            return begun, stop
        if len(text) > _LONGEST_META:
            return begun, begun
        start, size = begun, size * 4
    return start, start


def _alike(a: bytes, b: bytes) -> int:
    """Give with how many bytes both begin."""
    if a == b:
        return len(a)
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _ends(reader: RunReader, at: int, stop: int) -> bool:
    """Say whether a line ends here, with a newline or with the file."""
    return at >= stop or reader.bytes_at(at, 1) == b"\n"


def _last_seq(reader: RunReader, end: int) -> int | None:
    """Give the sequence of the last record before a byte; None where that cannot be told in a few reads."""
    size = _FIRST
    while size <= _LONGEST_META:
        start = max(0, end - size)
        text = reader.bytes_at(start, end - start).rstrip(b" \t\r\n")
        newline = text.rfind(b"\n")
        if newline >= 0 or start == 0:
            try:
                return reader.decoder.record(text[newline + 1 :]).seq
            except BadRecord:
                return None
        size *= 4
    return None


def _end_of(reader: RunReader, stop: int | None) -> int | None:
    """Give the byte behind the last item that counts, its newline included."""
    if stop is None:
        return None
    return reader.timeline.span(stop - 1).end + 1 if stop else 0


def _seq_before(reader: RunReader, items: int) -> int | None:
    columns = reader.timeline.columns
    return next(
        (columns.seq[item] for item in range(items - 1, -1, -1) if columns.flags[item] & SEQUENCED), None
    )


class Standing(NamedTuple):
    """How a run stands after one of its items."""

    seq: int | None
    line: int
    """The line of the item; 0 before the first one."""
    state: State | None
    """None where there is no state, not even a reconstructed one."""
    error: FoldError | None = None
    """Why the strict fold does not reach this far; a state is a best effort then."""


def standing_at(reader: RunReader, item: int) -> Standing:
    """Fold a run up to an item, as far as it can be: for looking, never for a resume."""
    timeline = reader.timeline
    if not 0 <= item < timeline.items:
        return Standing(None, 0, None)
    seq, line, error = timeline.seq(item), timeline.span(item).line, timeline.error_at(item)
    if reader.session is not None:
        return Standing(seq, line, reader.session.events_at(item))
    if error is not None and not isinstance(error, CorruptJournal):
        return Standing(seq, line, None, error)
    try:
        return Standing(seq, line, reader.salvaged_at(item), error)
    except BadRecord as refused:
        return Standing(seq, line, None, error or CorruptJournal(f"the open turn cannot be read: {refused}"))
    except FoldError as refused:
        return Standing(seq, line, None, refused)


def common_messages(reader: RunReader, found: Comparison) -> int:
    """Give with how many whole messages both conversations begin; `reader` is that of the one run."""
    columns = reader.timeline.columns
    if found.same:
        return columns.messages[found.stop_a - 1] if found.stop_a else 0
    if not found.common_a:
        return 0
    last = found.common_a - 1
    if columns.flags[last] & OPEN and columns.answered_left[last]:
        # The open turn may have been answered in two ways.
        return max(0, columns.messages[columns.last_assistant[last] - 1] - 1)
    return columns.messages[last]
