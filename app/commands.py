"""The palette: every action of the screen below it by name, from the same table as the keys."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from textual.actions import parse
from textual.binding import Binding
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.dom import DOMNode
from textual.types import IgnoreReturnCallbackType

from refold.app import keys, themes


class Command(NamedTuple):
    """One entry of the palette."""

    title: str
    key: str
    help: str | None
    """Read as markup by the palette, so only words of the table may stand here."""
    run: IgnoreReturnCallbackType


class Palette(CommandPalette):
    """Textual's own, in our colours."""

    CSS_PATH = "../styles/palette.tcss"


class RefoldCommands(Provider):
    """What can be done now, and the themes."""

    def commands(self) -> Iterator[Command]:
        """Every action of the table that is bound here and now, then the themes."""
        found: dict[str, tuple[DOMNode, set[str]]] = {}
        for node, name in self._within_reach():
            found.setdefault(name, (node, set()))
        for key, (node, binding, enabled, _) in self.screen.active_bindings.items():
            if binding.id is not None and enabled:
                found.setdefault(binding.id, (node, set()))[1].add(key)
        for row in keys.TABLE:
            if row.id in found:
                node, bound = found[row.id]
                usual = row.keys.partition(",")[0]
                key = usual if usual in bound else min(bound, default="")
                run = partial(self.app.run_action, row.action, node)
                yield Command(row.label, keys.shown(key) if key else "", row.tooltip or None, run)
        for name in themes.NAMES:
            if name != self.app.theme:
                title = f"Theme: {name.removeprefix('refold-')}"
                yield Command(title, "", None, partial(setattr, self.app, "theme", name))

    def _within_reach(self) -> Iterator[tuple[DOMNode, str]]:
        """Whoever may carry something out from here, and the row of it: also where its key means another now.

        A text that is scrolled takes the space bar from the screen around it, and a dialog takes `q`.
        """
        for node in (self.screen.focused or self.screen).ancestors_with_self:
            for binding in type(node).BINDINGS:
                row = keys.ROWS.get((isinstance(binding, Binding) and binding.id) or "")
                if row is None:
                    continue
                _, action, given = parse(row.action)
                if node.check_action(action, given):
                    yield node, row.id

    async def discover(self) -> Hits:
        """All of them, while nothing is typed."""
        for command in self.commands():
            shown = _beside(Content(command.title), command.key)
            yield DiscoveryHit(shown, command.run, command.title, command.help)

    async def search(self, query: str) -> Hits:
        """Those that match what is typed."""
        matcher = self.matcher(query)
        for command in self.commands():
            score = matcher.match(command.title)
            if score > 0:
                shown = _beside(matcher.highlight(command.title), command.key)
                yield Hit(score, shown, command.run, command.title, command.help)


def _beside(title: Content, key: str) -> Content:
    """The title with its key after it."""
    return Content.assemble(title, (f"  {key}", "dim")) if key else title
