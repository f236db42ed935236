"""A filter at work on the list: first by what the rows tell, then by the bytes of the runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Final

from refold.app.loading import slices
from refold.app.present.run_list import RunList
from refold.app.text_search import TextSearch
from refold.core.filter import Filter

_PAUSE: Final = 0.2
"""Seconds without a key before the bytes of runs are searched: the text may not be typed to its end."""


class Narrowing:
    """Applies one filter after the other to a list; cancel the one before when there is another."""

    def __init__(self, runs: RunList) -> None:
        self._runs = runs
        self._search = TextSearch()
        self._changed: dict[str, None] = {}
        self._wake = asyncio.Event()
        self.searching = False
        """Whether the bytes of runs are being read for the first time for this filter."""

    @property
    def searched(self) -> str:
        """How far the search of bytes is; empty where none is asked for or all are searched."""
        search = self._search
        if not self._runs.filter.text or search.done >= search.total:
            return ""
        said = f"searched {search.done:,} of {search.total:,}"
        return said if self.searching else f"stopped: {said}"

    async def apply(self, wanted: Filter) -> AsyncGenerator[None, None]:
        """Bring the list in line with a filter, yielding whenever it or the progress is another.

        With text terms this goes on for ever: runs that come or grow are searched too.
        """
        runs, search = self._runs, self._search
        if wanted.text:
            await asyncio.sleep(_PAUSE)
        search.begin(wanted.text)
        self._changed.clear()
        async with aclosing(slices(runs.narrow(wanted, search.hits))) as steps:
            async for _ in steps:
                pass
        yield
        if not wanted.text:
            return
        self.searching = True
        try:
            async with aclosing(slices(search.steps(runs.candidates()))) as answers:
                async for batch in answers:
                    self._show(answer.path for answer in batch if answer is not None)
                    yield
        finally:
            self.searching = False
        yield
        while True:
            await self._wake.wait()
            self._wake.clear()
            changed, self._changed = self._changed, {}
            known = [run for run in map(runs.run, changed) if run is not None]
            async with aclosing(slices(search.again(known))) as answers:
                async for batch in answers:
                    if self._show(answer.path for answer in batch if answer is not None):
                        yield

    def changed(self, paths: Iterable[str]) -> None:
        """Search these runs again where the filter asks for texts."""
        if self._runs.filter.text:
            self._changed.update(dict.fromkeys(paths))
            self._wake.set()

    def _show(self, paths: Iterable[str]) -> bool:
        answered = list(paths)
        for path in answered:
            self._runs.found(path)
        return bool(answered)
