"""What people call the runs that they named, for lists that know no more of a run than where it lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refold.core.store.kept import KeptIndex, index_of
from refold.core.summary import RunSummary

if TYPE_CHECKING:
    from refold.app.settings import Settings


class GivenNames:
    """Tells names by path; of a run about which nothing is noted no file is opened."""

    def __init__(self, index: KeptIndex | None = None) -> None:
        """Know the names of an index; without one there are none."""
        self._index = index
        self._known: dict[str, str] = {}

    @classmethod
    def of(cls, settings: Settings) -> GivenNames:
        """Read what is noted; blocks, and is for a thread."""
        return cls(index_of(settings.notes_dir, settings.cache_dir))

    def __call__(self, path: str) -> str:
        """Give the name of the run at a path; empty where it has none."""
        if self._index is None or not path:
            return ""
        name = self._known.get(path)
        if name is None:
            name = self._known[path] = self._index.kept(RunSummary("", path)).name
        return name
