"""What a person keeps about the run that a screen stands on, by keys: star, tags, name, note."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

from textual import on, work

from refold.app.failure import words
from refold.app.loading import aside
from refold.app.safe import Safe
from refold.app.screens.going_on import Chosen, GoingOnScreen
from refold.app.widgets.prompt_bar import PromptBar
from refold.core.errors import RefoldError

if TYPE_CHECKING:
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


class KeepingScreen(GoingOnScreen):
    """A screen on whose run something can be noted; the run itself is not touched."""

    _noting: tuple[Chosen, RecordHere | None] | None = None
    """What the open prompt asks about: the cursor may move on meanwhile."""

    def record_here(self) -> RecordHere | None:
        """Give the record that a note is written on; None where it is written on the run.

        Raises:
            BadNote: the record under the cursor cannot carry one.
        """
        return None

    def kept_changed(self, path: Path, notes: Notes) -> None:
        """Show what is kept now."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey out what needs a run where there is none."""
        if action in ("star", "tags", "name", "note"):
            return True if self.chosen() is not None else None
        return super().check_action(action, parameters)

    def action_star(self) -> None:
        """Put a star on the run, or take it away."""
        chosen = self.chosen()
        if chosen is not None and self.app.screen is self:
            self._turn_star(chosen)

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

        notes = await aside(lambda: notes_of(chosen.settings).read(chosen.path))
        if notes.kept.trouble:
            self.notify(notes.kept.trouble, severity="warning")
            return
        text = {"tags": " ".join(notes.tags), "name": notes.name, "note": notes.note}[what]
        label: str = what
        if record is not None:
            text = next((note.text for note in notes.records if note.seq == record.seq), "")
            label = f"note on seq {record.seq}"
        if self.app.screen is self:
            self._noting = (chosen, record)
            bar = self.query_one(PromptBar)
            bar.open(Safe(label), text, purpose=f"{_PURPOSE}{what}")
            bar.remark(Safe("words" if what == "tags" else "empty takes it away"))

    @on(PromptBar.Submitted)
    def _keep_typed(self, event: PromptBar.Submitted) -> None:
        what = event.bar.purpose.removeprefix(_PURPOSE)
        if self._noting is None or what == event.bar.purpose or what not in get_args(What):
            return
        chosen, record = self._noting
        self._keep_text(what, event.text.strip(), chosen, record)

    @work(group="keep", exclusive=True)
    async def _keep_text(self, what: str, text: str, chosen: Chosen, record: RecordHere | None) -> None:
        from refold.core.keeping import BadNote, words_of
        from refold.core.store.keep import naming, noting, noting_record, record_sha256, tagging

        def change() -> Change:
            if what == "tags":
                return tagging(words_of(text), anew=True)
            if what == "name":
                return naming(text)
            if record is None:
                return noting(text)
            return noting_record(record.seq, record_sha256(record.reader, record.item), text)

        try:
            await self._update(chosen, await aside(change))
        except BadNote as error:
            self._say_why(error)
            # What was typed is not to be typed again.
            bar = self.query_one(PromptBar)
            if self.app.screen is self and not bar.is_open:
                bar.open(Safe(what), text, purpose=f"{_PURPOSE}{what}")
        except RefoldError as error:
            self._say_why(error)

    @work(group="keep", exclusive=True)
    async def _turn_star(self, chosen: Chosen) -> None:
        from refold.core.store.keep import starring

        def turned(notes: Notes) -> Notes:
            return starring(on=not notes.star)(notes)

        try:
            await self._update(chosen, turned)
        except RefoldError as error:
            self._say_why(error)

    async def _update(self, chosen: Chosen, change: Change) -> None:
        from refold.app.forking import notes_of

        notes = await aside(lambda: notes_of(chosen.settings).update(chosen.path, change))
        self.kept_changed(chosen.path, notes)

    def _say_why(self, error: RefoldError) -> None:
        said, remedy = words(error)
        self.notify(
            f"{said}. {remedy}" if remedy else str(said), title="Nothing was noted", severity="warning"
        )
