"""What is compared with what: a fork with its parent, or two runs that were chosen."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from refold.core.errors import StoreError
from refold.core.store.compare import parent_of
from refold.core.store.notes import NotesStore
from refold.core.store.reader import RunReader

if TYPE_CHECKING:
    from refold.app.screens.compare import CompareScreen
    from refold.app.settings import Settings


class Compared(NamedTuple):
    """Two runs, and the formats to assume where their bytes do not tell."""

    a: Path
    b: Path
    hints: tuple[str, str] = ("refold", "refold")

    def screen(self, settings: Settings) -> CompareScreen:
        """Give the screen that shows them side by side."""
        from refold.app.screens.compare import CompareScreen

        return CompareScreen(self.a, self.b, settings=settings, hints=self.hints)


def beside_parent(path: Path, hint: str, settings: Settings) -> Compared | None:
    """Put a run beside its parent, the parent first; None where it has none, or none that is there."""
    meta = None
    # One that cannot be opened may have a parent all the same: its directory or our notes may know.
    with suppress(StoreError), RunReader.open(path, hint=hint, cache=settings.cache_dir) as reader:
        reader.step(0)
        meta = reader.meta
    parent = parent_of(path, meta, tuple(settings.roots), NotesStore(settings.notes_dir))
    if parent is None:
        return None
    return Compared(parent, path, (_hint(parent, hint, settings), hint))


def _hint(path: Path, near: str, settings: Settings) -> str:
    return next((root.hint for root in settings.roots if root.path == path.parent), near)
