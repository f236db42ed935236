"""What is kept about an open run: read beside its records, shown on them, and written by keys."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from textual import work

from refold.app.lines import Line, Role
from refold.app.loading import aside
from refold.app.present.kept import NOTED
from refold.app.present.layout import cell, flow
from refold.app.screens.keeping import KeepingScreen, RecordHere
from refold.core.keeping import LONGEST_NOTE, NOTHING, BadNote, Kept, RecordNote

if TYPE_CHECKING:
    from refold.app.present.reading import Reading
    from refold.core.store.keep import State
    from refold.core.store.notes import Notes

_EVERY: Final = 1.0
_SAID: Final = {"changed": "The record has changed since: ", "missing": "The record is not there any more: "}


class RunKeepingScreen(KeepingScreen):
    """A screen of one run that shows what is kept about it."""

    path: Path
    _reading: Reading | None
    kept: Kept = NOTHING
    """What is kept about the run."""
    _records: Mapping[int, RecordNote] = {}
    _states: Mapping[int, State] = {}
    _noted_file: Path | None = None
    _noted_stamp: tuple[int, int] = (0, 0)

    def on_mount(self) -> None:
        """Read the notes, now and whenever they change."""
        self.call_after_refresh(self._read_notes)
        self.set_interval(_EVERY, self._look_at_notes)

    def note_items(self) -> int | None:
        """Give the record under the cursor."""
        raise NotImplementedError

    def notes_shown(self) -> None:
        """Draw again what says something of the notes."""
        raise NotImplementedError

    @property
    def noted(self) -> Mapping[int, Role]:
        """The sequences of noted records, and how the mark of each is drawn."""
        return {seq: "warn" if self._states.get(seq) in _SAID else "accent" for seq in self._records}

    def note_lines(self, seq: int | None, width: int) -> Iterator[Line]:
        """Give the note on a record as lines above what the record says."""
        note = self._records.get(seq) if seq is not None else None
        if note is None:
            return
        said = _SAID.get(self._states.get(note.seq, "same"), "")
        lead = (cell(f"{NOTED} Note  ", "accent"), cell(said, "warn"))
        yield from flow((*lead, cell(note.text, "text", LONGEST_NOTE)), width, 2)
        yield ()

    def record_here(self) -> RecordHere | None:
        """Give the record under the cursor."""
        reading, item = self._reading, self.note_items()
        if reading is None or item is None:
            raise BadNote("there is no record here to be noted")
        if reading.is_window or not reading.reader.complete:
            raise BadNote("the run is still being read")
        seq = reading.timeline.seq(item)
        if seq is None or reading.timeline.item_at(seq) != item:
            raise BadNote("only a record with a number of its own carries a note")
        return RecordHere(reading.reader, item, seq)

    def kept_changed(self, path: Path, notes: Notes) -> None:
        """Show what is kept now."""
        del path
        self._take(notes)
        self._check_records()

    def check_records(self) -> None:
        """Look whether the noted records are still those that were noted: the run was read anew."""
        if self._records:
            self._check_records()

    def _look_at_notes(self) -> None:
        if self._noted_file is not None and self._stamp() != self._noted_stamp:
            self._read_notes()

    @work(group="notes", exclusive=True)
    async def _read_notes(self) -> None:
        chosen = self.chosen()
        if chosen is None:
            return
        from refold.app.forking import notes_of

        def read() -> tuple[Path, Notes]:
            store = notes_of(chosen.settings)
            return store.path_of(chosen.path), store.read(chosen.path)

        self._noted_file, notes = await aside(read)
        self._noted_stamp = self._stamp()
        self._take(notes)
        self._check_records()

    def _take(self, notes: Notes) -> None:
        records = {note.seq: note for note in notes.records}
        if (self.kept, self._records) != (notes.kept, records):
            self.kept, self._records = notes.kept, records
            self.notes_shown()

    @work(group="noted-records", exclusive=True)
    async def _check_records(self) -> None:
        reading, records = self._reading, self._records
        if reading is None or not records or reading.is_window or not reading.reader.complete:
            return
        from refold.core.errors import StoreError
        from refold.core.store.keep import state_of

        def states() -> dict[int, State]:
            try:
                return {seq: state_of(reading.reader, note) for seq, note in records.items()}
            except StoreError:
                return {}

        found = await aside(states)
        if found != self._states:
            self._states = found
            self.notes_shown()

    def _stamp(self) -> tuple[int, int]:
        try:
            status = os.stat(self._noted_file or "")  # noqa: PTH116 - the file may be none
        except OSError:
            return (0, 0)
        return status.st_mtime_ns, status.st_ino
