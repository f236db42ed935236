"""The last row: the keys that act here and now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

from textual import events
from textual.screen import Screen

from refold.app import keys
from refold.app.lines import Cell, Line
from refold.app.safe import Safe, width
from refold.app.widgets.bars import LineBar

_HELP: Final = "help"
_OUT: Final = frozenset({"clear_filter", "back", "cancel", "close", "quit"})
"""What leads out of where one is, as its row in the table is called: out of a filter before all else."""


class _Hint(NamedTuple):
    """A word of the footer and the keys that it stands for."""

    word: Safe
    shown: tuple[Safe, ...]
    pressed: tuple[str, ...]
    enabled: bool
    leads_out: bool = False

    @property
    def key_text(self) -> Safe:
        """The keys as they are written: a run of digits by its ends."""
        if len(self.shown) > 2 and all(key.isdigit() for key in self.shown):
            return Safe(f"{self.shown[0]}-{self.shown[-1]}")
        return Safe(" ".join(self.shown))

    @property
    def cells(self) -> int:
        """Cells of keys, word and the space between."""
        return width(self.key_text) + 1 + width(self.word)


@runtime_checkable
class NamesKeys(Protocol):
    """A screen some of whose keys do now one thing, now another."""

    def key_words(self) -> Mapping[str, str]:
        """Give the words of the footer that are others now, by the id of the key in the table.

        A key whose word is empty is left out.
        """
        ...


class KeyBar(LineBar):
    """Reads the active bindings of its screen, the most important first.

    What does not fit is dropped from the end. The way out and help stand behind what is left; of the two the
    way out stays longer.
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._fixed: tuple[_Hint, ...] | None = None
        self._hints: tuple[_Hint, ...] = ()

    def show(self, shown: Sequence[tuple[Safe, Safe]]) -> None:
        """Show these keys and words, whatever is bound."""
        self._fixed = tuple(
            _Hint(word, (key,), (), enabled=True, leads_out=word in _OUT) for key, word in shown
        )
        self._read()

    def on_mount(self) -> None:
        """Follow the bindings."""
        self.screen.bindings_updated_signal.subscribe(self, self._bindings_updated)
        self._read()

    def line(self, width: int) -> Line:
        """As many keys with their words as fit."""
        drawn: list[Cell] = []
        badge = getattr(self.app, "badge", "")
        if badge:
            drawn.append(Cell(Safe(f" {badge} "), "brand"))
        for hint in self._fitting(width):
            drawn.append(Cell(Safe("  " if drawn else " ")))
            drawn.append(Cell(hint.key_text, "key" if hint.enabled else "dim"))
            drawn.append(Cell(Safe(f" {hint.word}"), "dim"))
        return tuple(drawn)

    def on_click(self, event: events.Click) -> None:
        """Press the key under the mouse; of several keys the one that is under it, on the word the last."""
        start = 1 + self._badge
        for hint in self._fitting(self.size.width):
            if start <= event.x < start + hint.cells and hint.pressed:
                self.app.simulate_key(hint.pressed[_struck(hint, event.x - start)])
                return
            start += hint.cells + 2

    @property
    def _badge(self) -> int:
        """Cells of what stands before the keys."""
        badge = getattr(self.app, "badge", "")
        return len(badge) + 3 if badge else 0

    def _bindings_updated(self, screen: Screen[object]) -> None:
        if screen is self.screen:
            self._read()

    def _read(self) -> None:
        hints = self._active() if self._fixed is None else self._fixed
        if hints != self._hints:
            self._hints = hints
            self.refresh()

    def _active(self) -> tuple[_Hint, ...]:
        """The hints of the table that are bound, in its order; of an open prompt only its own."""
        bound: dict[str, list[tuple[str, bool]]] = {}
        for key, (_, binding, enabled, _) in self.screen.active_bindings.items():
            if binding.id is not None and binding.show:
                bound.setdefault(binding.id, []).append((key, enabled))
        asked = any(row.id in bound for row in keys.rows("prompt"))
        said = self.screen.key_words() if isinstance(self.screen, NamesKeys) else {}
        hints: list[_Hint] = []
        for row in keys.TABLE:
            if not row.hint or row.id not in bound or (asked and row.place != "prompt" and row.hint != _HELP):
                continue
            usual = row.keys.partition(",")[0]
            key, enabled = next((one for one in bound[row.id] if one[0] == usual), bound[row.id][0])
            shown, word = Safe(keys.shown(key)), said.get(row.id, row.hint)
            if not word:
                continue
            if hints and hints[-1].word == word:
                last = hints[-1]
                hints[-1] = last._replace(
                    shown=(*last.shown, shown), pressed=(*last.pressed, key), enabled=last.enabled or enabled
                )
            else:
                leads_out = row.id.partition(".")[2] in _OUT
                hints.append(_Hint(Safe(word), (shown,), (key,), enabled, leads_out))
        return tuple(hints)

    def _fitting(self, width: int) -> Sequence[_Hint]:
        """The first hints that fit, then the way out of here and help."""
        room = width + 1 - self._badge
        out = [hint for hint in self._hints if hint.leads_out][:1]
        last = [*out, *(hint for hint in self._hints if hint.word == _HELP)]
        while len(last) > 1 and sum(hint.cells + 2 for hint in last) > room:
            last.pop()
        room -= sum(hint.cells + 2 for hint in last)
        fitting: list[_Hint] = []
        for hint in self._hints:
            if hint in last:
                continue
            room -= hint.cells + 2
            if room < 0:
                break
            fitting.append(hint)
        return [*fitting, *last]


def _struck(hint: _Hint, x: int) -> int:
    """Which of the keys of a hint stands at this cell."""
    start = 0
    for number, key in enumerate(hint.shown):
        start += width(key) + 1
        if x < start and len(hint.shown) > 1 and hint.key_text.startswith(f"{hint.shown[0]} "):
            return number
    return len(hint.shown) - 1
