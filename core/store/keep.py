"""Changes of what a person keeps about a run, each a function from notes to notes, and how records are known.

`NotesStore.update` carries them out, alone: what somebody else changed meanwhile stays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias

import msgspec

from refold.core.keeping import RecordNote, changed_records, changed_tags, checked_name, checked_note
from refold.core.store.notes import Notes
from refold.core.store.reader import RunReader

Change: TypeAlias = Callable[[Notes], Notes]
State: TypeAlias = Literal["same", "changed", "missing"]
"""What became of a record since it was noted."""

_PIECE: Final = 1 << 20


def starring(*, on: bool) -> Change:
    """Put a star on a run, or take it away."""
    return lambda notes: msgspec.structs.replace(notes, star=on)


def tagging(add: Iterable[str] = (), remove: Iterable[str] = (), *, anew: bool = False) -> Change:
    """Add tags and take others away; `anew` begins with none.

    Raises:
        BadNote: by the change, where one of them is no tag or they are too many.
    """
    more, less = tuple(add), tuple(remove)
    return lambda notes: msgspec.structs.replace(
        notes, tags=changed_tags(() if anew else notes.tags, add=more, remove=less)
    )


def naming(name: str) -> Change:
    """Give a name; the empty one takes it away.

    Raises:
        BadNote: it cannot be a name.
    """
    checked = checked_name(name) if name else ""
    return lambda notes: msgspec.structs.replace(notes, name=checked)


def noting(text: str) -> Change:
    """Write the note on the run; the empty text takes it away.

    Raises:
        BadNote: it cannot be a note.
    """
    checked = checked_note(text) if text else ""
    return lambda notes: msgspec.structs.replace(notes, note=checked)


def noting_record(seq: int, sha256: str, text: str) -> Change:
    """Write the note on a record; the empty text takes it away.

    Raises:
        BadNote: by the change, where it cannot be a note or there are too many.
    """
    return lambda notes: msgspec.structs.replace(
        notes, records=changed_records(notes.records, seq, sha256, text)
    )


def record_sha256(reader: RunReader, item: int) -> str:
    """Hash the bytes of a record as they stand in the file, its line end left out.

    Raises:
        StoreError: they cannot be read.
    """
    where = reader.timeline.span(item)
    summed = hashlib.sha256()
    for start in range(where.start, where.end, _PIECE):
        piece = reader.bytes_at(start, min(_PIECE, where.end - start))
        summed.update(piece.rstrip(b"\n") if start + _PIECE >= where.end else piece)
    return summed.hexdigest()


def state_of(reader: RunReader, note: RecordNote) -> State:
    """Say whether a note still speaks of the record that stands there; the run must be read to its end.

    Raises:
        StoreError: the record cannot be read.
    """
    item = reader.timeline.item_at(note.seq)
    if item is None:
        return "missing"
    return "same" if record_sha256(reader, item) == note.sha256 else "changed"
