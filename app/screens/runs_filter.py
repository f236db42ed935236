"""The filter of the list of runs: typed at its foot, followed at every key, taken over or left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from datetime import tzinfo
from typing import ClassVar

from textual import on, work

from refold.app.narrowing import Narrowing
from refold.app.present.run_list import RunList
from refold.app.present.runs import counted
from refold.app.safe import Safe, line
from refold.app.screens.going_on import GoingOnScreen
from refold.app.widgets.prompt_bar import PromptBar
from refold.core.filter import KEYS, Filter, FilterError, parse_filter, settled


class FilteringScreen(GoingOnScreen):
    """A screen with a list of runs that a filter narrows."""

    PURPOSE: ClassVar[Safe] = Safe("filter")
    """What stands before the filter that is typed."""

    _runs: RunList
    _narrowing: Narrowing
    _now: Callable[[], float]
    _zone: tzinfo | None
    _base = ""
    """The filter that holds in any case, before what is typed."""
    _filter_before = ""

    def __init__(self) -> None:
        super().__init__()
        self._narrowed = asyncio.Event()
        self._narrowed.set()

    @property
    def prompt(self) -> PromptBar:
        """The line that a filter is typed into."""
        return self.query_one("#prompt", PromptBar)

    def _draw_soon(self, *, at_once: bool = False) -> None:
        """Draw what the filter has left."""
        raise NotImplementedError

    def action_filter(self) -> None:
        """Type a filter; the list follows every key."""
        if not self.prompt.is_open:
            self._filter_before = self._typed
            self.prompt.open_to_add(self.PURPOSE, self._filter_before)

    @property
    def _typed(self) -> str:
        """The filter without what holds in any case."""
        return self._runs.filter.source.removeprefix(self._base).lstrip()

    @on(PromptBar.Changed, "#prompt")
    def _filter_typed(self, event: PromptBar.Changed) -> None:
        if event.bar.purpose:
            return
        typed = settled(event.text)
        self._try_filter(typed)
        if typed != event.text:
            word = event.text[len(typed) :].lstrip("-").lower()
            self._remark("  ".join(example for key, example in KEYS.items() if key.startswith(word)))

    @on(PromptBar.Submitted, "#prompt")
    def _filter_taken(self, event: PromptBar.Submitted) -> None:
        if event.bar.purpose:
            return
        if self._try_filter(event.text):
            self._accepted()
        else:
            # What was typed is not to be typed again.
            self.prompt.open_to_add(self.PURPOSE, event.text)
            self._try_filter(event.text)

    @on(PromptBar.Cancelled, "#prompt")
    def _filter_left(self, event: PromptBar.Cancelled) -> None:
        if event.bar.purpose:
            return
        self._rejected(event.bar.text)

    def _accepted(self) -> None:
        """The filter was taken over."""

    def _rejected(self, typed: str) -> None:
        """The prompt was left, with this text in it."""
        del typed
        self._try_filter(self._filter_before)

    def _try_filter(self, text: str, *, told: bool = False) -> bool:
        """Apply a filter and give True; one that cannot be understood changes nothing, and says why."""
        try:
            wanted = parse_filter(f"{self._base} {text}".strip(), self._now(), zone=self._zone)
        except FilterError as fault:
            if told:
                self.notify(
                    f"{fault}. {fault.remedy}", title="The filter stays as it was", severity="warning"
                )
            else:
                self._remark(f"{fault}; {fault.remedy}", wrong=True)
            return False
        if wanted.source.strip() != self._runs.filter.source.strip():
            self._narrowed.clear()
            self._narrow(wanted)
        else:
            self._remark(counted(self._runs))
        return True

    @work(group="filter", exclusive=True)
    async def _narrow(self, wanted: Filter) -> None:
        first, searching = True, False
        async with aclosing(self._narrowing.apply(wanted)) as steps:
            async for _ in steps:
                self._draw_soon(at_once=first)
                self._remark(counted(self._runs))
                if first:
                    self._narrowed.set()
                if first or searching != self._narrowing.searching:
                    self.refresh_bindings()
                first, searching = False, self._narrowing.searching

    def _remark(self, text: str, *, wrong: bool = False) -> None:
        if self.prompt.is_open:
            self.prompt.remark(line(text), "problem" if wrong else "dim")
