"""What a person keeps about the run that a screen stands on, by keys: star, tags, name, note."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

from textual import on, work

from refold.app.failure import words
from refold.app.loading import aside
from refold.app.safe import Safe, line
from refold.app.screens.going_on import Chosen, GoingOnScreen
from refold.app.widgets.prompt_bar import PromptBar
from refold.core.errors import RefoldError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from refold.core.store.keep import Change
    from refold.core.store.notes import Notes
    from refold.core.store.reader import RunReader

What = Literal["tags", "name", "note"]
_PURPOSE: Final = "keep:"


class RecordHere(NamedTuple):
    """The record that a note would be written on."""

    reader: RunReader
    item: int
    seq: int
    sha256: str = ""
    """Of its bytes as they stood when the note was begun; the run may be closed by the time it is saved."""


class KeepingScreen(GoingOnScreen):
    """A screen on whose run something can be noted; the run itself is not touched."""

    _noting: tuple[Chosen, RecordHere | None] | None = None
    """What the open prompt asks about: the cursor may move on meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self._saves = asyncio.Lock()
        """One is saved after the other, and nothing is read before what was typed is saved."""
        self._unsaved: dict[tuple[str, Path, int | None], str] = {}
        """What was typed and could be neither saved nor asked for again."""

    def record_here(self) -> RecordHere | None:
        """Give the record that a note is written on; None where it is written on the run.

        Raises:
            BadNote: the record under the cursor cannot carry one.
        """
        return None

    def kept_changed(self, path: Path, notes: Notes) -> None:
        """Show what is kept now."""
        raise NotImplementedError

    def action_tags(self) -> None:
        """Write the tags of the run."""
        self._ask_for("tags")

    def action_name(self) -> None:
        """Give the run a name."""
        self._ask_for("name")

    def action_note(self) -> None:
        """Write a note."""
        self._ask_for("note")

    def _ask_for(self, what: What) -> None:
        chosen = self.chosen()
        if chosen is None or self.app.screen is not self or self.query_one(PromptBar).is_open:
            return
        try:
            record = self.record_here() if what == "note" else None
        except RefoldError as error:
            self._say_why(error)
        else:
            self._open_prompt(what, chosen, record)

    @work(group="keep", exclusive=True)
    async def _open_prompt(self, what: What, chosen: Chosen, record: RecordHere | None) -> None:
        from refold.app.forking import notes_of
        from refold.core.store.keep import record_sha256

        async with self._saves:
            notes = await aside(lambda: notes_of(chosen.settings).read(chosen.path))
        if record is not None:
            reader, item = record.reader, record.item
            try:
                record = record._replace(sha256=await aside(lambda: record_sha256(reader, item)))
            except RefoldError as error:
                self._say_why(error)
                return
        if notes.kept.trouble:
            self.notify(notes.kept.trouble, severity="warning")
            return
        trouble = await aside(lambda: notes_of(chosen.settings).trouble(chosen.path))
        if trouble:
            self.notify(f"{trouble}; a change puts the file aside as it is", severity="warning")
        text = {"tags": " ".join(notes.tags), "name": notes.name, "note": notes.note}[what]
        if record is not None:
            text = next((note.text for note in notes.records if note.seq == record.seq), "")
        if self.app.screen is self and not self.query_one(PromptBar).is_open:
            unsaved = self._unsaved.pop(_key(what, chosen, record), None)
            adds = what == "tags" or unsaved is not None
            self._show_prompt(what, text if unsaved is None else unsaved, chosen, record, adds=adds)
            self.query_one(PromptBar).remark(Safe("its tags" if what == "tags" else "empty takes it away"))

    def _show_prompt(
        self, what: str, text: str, chosen: Chosen, record: RecordHere | None, *, adds: bool
    ) -> None:
        self._noting = (chosen, record)
        label = Safe(what if record is None else f"note on seq {record.seq}")
        prompt = self.query_one(PromptBar)
        show = prompt.open_to_add if adds else prompt.open
        show(label, text, purpose=f"{_PURPOSE}{what}")

    @on(PromptBar.Submitted)
    def _keep_typed(self, event: PromptBar.Submitted) -> None:
        what = event.bar.purpose.removeprefix(_PURPOSE)
        if self._noting is None or what == event.bar.purpose or what not in get_args(What):
            return
        chosen, record = self._noting
        self._save(self._keep_text(what, event.text.strip(), chosen, record))

    def action_star(self) -> None:
        """Put a star on the run, or take it away."""
        chosen = self.chosen()
        if chosen is not None and self.app.screen is self:
            self._save(self._turn_star(chosen))

    def _save(self, saving: Coroutine[None, None, None]) -> None:
        """Save whatever comes: neither the next key nor leaving the screen ends it."""
        self.app.run_worker(saving, group="save")

    async def _keep_text(self, what: str, text: str, chosen: Chosen, record: RecordHere | None) -> None:
        from refold.app.naming import doubts, naming_here
        from refold.core.keeping import words_of
        from refold.core.store.keep import noting, noting_record, tagging

        def change() -> Change:
            if what == "tags":
                return tagging([word.removeprefix("+") for word in words_of(text)], anew=True)
            if what == "name":
                return naming_here(text, chosen.path, chosen.settings)
            if record is None:
                return noting(text)
            return noting_record(record.seq, record.sha256, text)

        try:
            await self._update(chosen, change)
        except RefoldError as error:
            # What was typed is not to be typed again.
            if self.app.screen is self and not self.query_one(PromptBar).is_open:
                self._show_prompt(what, text, chosen, record, adds=True)
            else:
                self._unsaved[_key(what, chosen, record)] = text
            self._say_why(error)
            return
        if what == "name" and text:
            for doubt in await aside(lambda: [*doubts(text, chosen.path, chosen.settings)]):
                self.notify(line(doubt), severity="warning")

    async def _turn_star(self, chosen: Chosen) -> None:
        from refold.core.store.keep import starring

        def turned(notes: Notes) -> Notes:
            return starring(on=not notes.star)(notes)

        try:
            await self._update(chosen, lambda: turned)
        except RefoldError as error:
            self._say_why(error)

    async def _update(self, chosen: Chosen, change: Callable[[], Change]) -> None:
        from refold.app.forking import notes_of

        async with self._saves:
            notes = await aside(lambda: notes_of(chosen.settings).update(chosen.path, change()))
        if self.is_attached:
            self.kept_changed(chosen.path, notes)

    def _say_why(self, error: RefoldError) -> None:
        said, remedy = words(error)
        self.notify(
            f"{said}. {remedy}" if remedy else str(said), title="Nothing was noted", severity="warning"
        )


def _key(what: str, chosen: Chosen, record: RecordHere | None) -> tuple[str, Path, int | None]:
    return what, chosen.path, None if record is None else record.seq
