"""One line to type into at the foot of a screen: a filter, a search, a number."""

from __future__ import annotations

from typing import ClassVar, Final

from textual import on
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from refold.app import keys
from refold.app.lines import Cell, Line, Role, cells
from refold.app.safe import EMPTY, Safe, fit, line, width
from refold.app.widgets.bars import LineBar

_ROOM: Final = 6
"""Cells of the prompt beside its label, its text and the remark: blanks, and the cursor."""
_LEAST: Final = 12


class _Words(LineBar):
    """A few words beside the input, as wide as they are."""

    _line: Line = ()

    def show(self, line: Line) -> None:
        self._line = line
        self.styles.width = cells(line)
        self.refresh()

    def line(self, width: int) -> Line:
        return self._line


class PromptBar(Horizontal):
    """Hidden until it is opened; what had the focus gets it back."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("prompt")]

    class Changed(Message):
        """Another text stands in the open prompt."""

        def __init__(self, bar: PromptBar, text: str) -> None:
            super().__init__()
            self.bar = bar
            self.text = text

        @property
        def control(self) -> PromptBar:
            """The prompt, for `@on(PromptBar.Changed, "#filter")`."""
            return self.bar

    class Submitted(Message):
        """Enter was pressed; the prompt is closed."""

        def __init__(self, bar: PromptBar, text: str) -> None:
            super().__init__()
            self.bar = bar
            self.text = text

        @property
        def control(self) -> PromptBar:
            """The prompt, for `@on(PromptBar.Submitted, "#filter")`."""
            return self.bar

    class Cancelled(Message):
        """The prompt was left; it is closed, and nothing is to have changed."""

        def __init__(self, bar: PromptBar) -> None:
            super().__init__()
            self.bar = bar

        @property
        def control(self) -> PromptBar:
            """The prompt, for `@on(PromptBar.Cancelled, "#filter")`."""
            return self.bar

    class Stepped(Message):
        """While it is typed into, the cursor of the list above is to move."""

        def __init__(self, bar: PromptBar, delta: int, *, pages: bool) -> None:
            super().__init__()
            self.bar = bar
            self.delta = delta
            self.pages = pages
            """Whether `delta` counts pages, not rows."""

        @property
        def control(self) -> PromptBar:
            """The prompt, for `@on(PromptBar.Stepped, "#filter")`."""
            return self.bar

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._before: Widget | None = None
        self._label = EMPTY
        self.purpose = ""
        """What the prompt was opened for, where that is not the list above it."""

    def _furnish(self) -> Input:
        """Give the input; it is made when it is first needed, for most runs are looked at without it."""
        found = self.query(Input)
        if found:
            return found.first()
        field = Input(compact=True, select_on_focus=False)
        self.mount(_Words(id="prompt-label"), field, _Words(id="prompt-remark"))
        return field

    @property
    def is_open(self) -> bool:
        """Whether it can be typed into."""
        return self.has_class("-open")

    @property
    def text(self) -> str:
        """What stands in it."""
        return self._furnish().value

    def open(self, label: Safe, text: str = "", *, purpose: str = "") -> None:
        """Show the prompt with a text that is replaced by what is typed, or gone on with behind End.

        What was told before makes room for it.
        """
        self._show(label, text, purpose).select_all()

    def open_to_add(self, label: Safe, text: str = "", *, purpose: str = "") -> None:
        """Show the prompt with a text that is added to, or mended: the cursor stands behind it."""
        self._show(label, text, purpose).cursor_position = len(text)

    def _show(self, label: Safe, text: str, purpose: str) -> Input:
        self.app.clear_notifications()
        field = self._furnish()
        self.purpose, self._label = purpose, label
        self.query_one("#prompt-label", _Words).show((Cell(Safe(f" {label} "), "key"),))
        self.remark(EMPTY)
        with field.prevent(Input.Changed):
            field.value = text
        focused = self.screen.focused
        if focused is not field:  # it still is, where the prompt was closed an instant ago
            self._before = focused
        self.add_class("-open")
        field.focus()
        return field

    def remark(self, text: Safe, role: Role = "dim") -> None:
        """Say beside the text how many match, or what is wrong with it, as far as there is room."""
        for words in self.query("#prompt-remark").results(_Words):
            taken = width(line(self.text)) + width(self._label) + _ROOM
            whole = self.size.width or self.app.size.width
            most = max(_LEAST, whole // 2, whole - taken)
            words.show((Cell(Safe(f" {fit(text, min(most, width(text)))} "), role),) if text else ())

    def close(self) -> None:
        """Hide the prompt."""
        self.remove_class("-open")
        if self._before is not None and self._before.is_attached:
            self._before.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Move in the list above only where what is typed is about the list."""
        if action in ("step", "page"):
            return not self.purpose
        return super().check_action(action, parameters)

    def action_accept(self) -> None:
        """Hand the text over, once what was typed before has arrived in it."""
        self._furnish().call_later(self._accept)

    def _accept(self) -> None:
        if not self.is_open:
            return
        text = self.text
        self.close()
        self.post_message(self.Submitted(self, text))

    def action_step(self, delta: int) -> None:
        """Move in the list above, a row at a time."""
        self.post_message(self.Stepped(self, delta, pages=False))

    def action_page(self, delta: int) -> None:
        """Move in the list above, a page at a time."""
        self.post_message(self.Stepped(self, delta, pages=True))

    def action_cancel(self) -> None:
        """Leave things as they were."""
        self.close()
        self.post_message(self.Cancelled(self))

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.is_open:
            self.post_message(self.Changed(self, event.value))
