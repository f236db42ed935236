"""The application: wiring, theme, the last gate and the error door, and nothing else."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, TypeVar, runtime_checkable

from rich.color import Color as RichColor
from rich.style import Style
from textual import events
from textual.app import App
from textual.binding import BindingType
from textual.color import Color
from textual.command import Provider
from textual.dom import DOMNode
from textual.filter import LineFilter, Monochrome, NoColor
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.worker import WorkerFailed

from refold.app import hang_up, keys, safe, themes
from refold.app.cli_exit import FAULT
from refold.app.failure import fault, words
from refold.app.few_notices import FewNotices
from refold.app.gate import Colourless, LastGate, OnlyAscii
from refold.app.log import record_fault
from refold.app.looks import look_of

if TYPE_CHECKING:
    from textual.actions import ActionParseResult
    from textual.driver import Driver

    from refold.app.first_rows import FirstRows
    from refold.app.screens.standing import Stand
    from refold.app.settings import Settings
    from refold.core.store.export import Source

T = TypeVar("T")

DEAF_SECONDS: Final = 0.05
"""After the start, answers of the terminal to what stood on it before are not taken for keys."""
EARLY_SECONDS: Final = 0.005
"""How soon to try again with keys that came before their screen."""
KEY_SECONDS: Final = 0.25
"""How long a key may keep the next one back."""
STOPPING: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
"""Signals that end the program as if it had been quit, but for the exit code: 128 and the signal's number."""


@runtime_checkable
class Refuses(Protocol):
    """A screen that says why it does not do what a key asks for."""

    def why_not(self, action: str) -> str:
        """Say why an action is refused now, by its name; empty where it is not."""
        ...


def _that_can_be_left(first: Screen[None]) -> Screen[None]:
    """Let `switch_screen` replace the first screen.

    Textual (8.2.8, no public way) takes an entry off the list of a screen's callers when it is replaced, and
    gives the first screen none: IndexError.
    """
    first._push_result_callback(first, None)  # noqa: SLF001
    return first


def _commands() -> type[Provider]:
    """The palette's provider, imported when the palette opens."""
    from refold.app.commands import RefoldCommands

    return RefoldCommands


def _onto(rows: FirstRows | None) -> type[Driver] | None:
    """Give a driver that leaves painted rows where they are; None for the usual one."""
    if rows is None:
        return None
    from refold.app.takeover import driver_onto

    return driver_onto(rows)


class RefoldApp(App[None]):
    """Shows one first screen; the screens open each other."""

    TITLE = "Refold"
    CSS_PATH: ClassVar[str] = "../styles/base.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("app")]
    COMMANDS = {_commands}  # noqa: RUF012
    ENABLE_COMMAND_PALETTE = True
    HEEDS_SIGNALS: ClassVar[bool] = True
    """False where another program has the terminal, and the signals with it."""
    _has_themes = False
    _asked_to_leave = float("-inf")

    def __init__(
        self, settings: Settings, start: Callable[[], Screen[None]], rows: FirstRows | None = None
    ) -> None:
        """Show a screen.

        Args:
            settings: Where things lie and how the program looks.
            start: Makes the first screen.
            rows: What is painted already, and stays until the screen is drawn over it.
        """
        super().__init__(_onto(rows), ansi_color=True if settings.no_color else None)
        self.settings = settings
        self.no_color = settings.no_color
        self._first_screen = start
        self._notifications: FewNotices = FewNotices()
        self._gates: list[LineFilter] = [LastGate()]
        if settings.ascii:
            self._gates.append(OnlyAscii())
        if settings.no_color:
            self._gates.append(Colourless())
        self._roles: dict[str, Style] = {}
        self._deaf_until = 0.0
        self._early: list[events.InputEvent | events.Paste] = []
        self._key_until = 0.0
        self._answered = ""
        """What the last key was told that does nothing."""
        self.background_faults: list[BaseException] = []
        """What failed in the background since the start."""
        for theme in themes.THEMES:
            self.register_theme(theme)
        self._has_themes = True
        known = settings.theme in self.available_themes
        self._unknown_theme = "" if known else settings.theme
        self.theme = settings.theme if known else themes.DARK.name

    def get_default_screen(self) -> Screen[None]:
        """The screen that the program was started for; Textual (8.2.8) would not read its styles."""
        screen = self._first_screen()
        self._load_screen_css(screen)
        return _that_can_be_left(screen)

    def _load_screen_css(self, screen: Screen[T]) -> None:
        """Add the styles of a screen that opens.

        Textual (8.2.8, no public way) parses all others anew and styles every widget again, on the way to
        the first row of a run that was picked from the list.
        """
        missing = [path for path in screen.css_path if not self.stylesheet.has_source(str(path), "")]
        if missing:
            self.stylesheet.read_all(missing)
            self.stylesheet.parse()

    async def _replace_screen(self, screen: Screen[T]) -> Screen[T]:
        """End what a screen that goes still does in the background.

        Textual (8.2.8, no public way) takes its widgets away first, and what comes in between would fail for
        looking for them: told on the next screen as if something had not worked.
        """
        if screen not in self.screen_stack:
            for worker in [*self.workers]:
                if screen in worker.node.ancestors_with_self:
                    worker.cancel()
        return await super()._replace_screen(screen)

    def get_css_variables(self) -> dict[str, str]:
        """None before our themes are known: Textual (8.2.8) would work out those of one that is not shown."""
        return super().get_css_variables() if self._has_themes else {}

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own variables, for themes that are not ours."""
        return themes.own_variables(self.current_theme)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's filters, then the gates; the settings alone say whether there is colour."""
        kept = [one for one in super().get_line_filters() if not isinstance(one, (Monochrome, NoColor))]
        return [*kept, *self._gates]

    def refresh_css(self, animate: bool = True) -> None:  # noqa: FBT001, FBT002 - as Textual calls it
        """Read the styles anew for another theme; before the first screen is there, note its colours alone.

        Textual (8.2.8) would parse every style twice when a theme is chosen before the start.
        """
        self._roles.clear()
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            self.stylesheet.set_variables(self.get_css_variables())

    def role_style(self, role: str) -> Style:
        """What a role looks like in the theme, worked out when it is first drawn."""
        style = self._roles.get(role)
        if style is None:
            look = look_of(role, ansi=self.native_ansi_color, no_color=self.no_color)
            style = self._roles[role] = Style(
                color=self._colour(look.colour),
                bgcolor=self._colour(look.ground),
            ) + Style.parse(look.words)
        return style

    def _colour(self, variable: str) -> RichColor | None:
        return Color.parse(self.theme_variables[variable]).rich_color if variable else None

    def on_load(self) -> None:
        """Heed signals from before the terminal is taken until it is given back."""
        if not self.HEEDS_SIGNALS:
            return
        loop = asyncio.get_running_loop()
        for number in STOPPING:
            loop.add_signal_handler(number, self._stopped_by, number)
        end = partial(loop.call_soon_threadsafe, self._stopped_by, signal.SIGHUP)
        hang_up.watch(end, 128 + signal.SIGHUP)

    def _stopped_by(self, number: signal.Signals) -> None:
        if hang_up.terminal_is_gone():
            hang_up.let_go(self._driver)
        self.exit(return_code=128 + number)

    def on_mount(self) -> None:
        """Take the keys of the configuration, and begin to listen."""
        self.set_keymap(dict(self.settings.keymap))
        if not self.is_headless:
            self._deaf_until = time.monotonic() + DEAF_SECONDS
        if self._unknown_theme:
            self.notify(f"There is no theme {self._unknown_theme!r}: see refold config", severity="warning")

    def action_help_quit(self) -> None:
        """Leave, if `^c` is meant so."""
        from refold.app.quitting import leave_when_meant

        self._asked_to_leave = leave_when_meant(self, self._asked_to_leave)

    async def on_event(self, event: events.Event) -> None:
        """Pass the event on, but no key that nobody can have pressed, and none to a screen not yet there."""
        if isinstance(event, (events.Key, events.Paste)) and time.monotonic() < self._deaf_until:
            return
        if isinstance(event, (events.InputEvent, events.Paste)) and not event.is_forwarded:
            under_way = time.monotonic() < self._key_until and not isinstance(event, events.MouseEvent)
            if self._early or under_way or not self._can_take_keys():
                self._early.append(event)
                if len(self._early) == 1:
                    self.set_timer(EARLY_SECONDS, self._hand_on)
                return
            self._follow(event)
        await super().on_event(event)

    def on_key(self, event: events.Key) -> None:
        """Let no words act as keys that are typed where none are asked for; answer a key without effect."""
        from refold.app.screens.typed_blind import TypedBlindScreen, asks_elsewhere
        from refold.app.unbound import answer_to, silent

        if isinstance(self.screen, TypedBlindScreen):
            return
        if asks_elsewhere(event, self.screen):
            event.prevent_default()
            self.push_screen(TypedBlindScreen(event.key))
        elif silent(event, self.screen):
            self._notifications.take_back(self._answered)
            self._answered = answer_to(event, self.screen, self.settings.keymap)
            self.notify(self._answered)

    def _follow(self, event: events.InputEvent | events.Paste) -> None:
        """Keep the next key back until this one has done what it is bound to.

        Textual (8.2.8) sends keys to the widget with the focus as they come, and a key that no widget takes
        rises to the application before it acts. Of a word typed at once after the key that opens a prompt,
        every letter would be a command to the list below it.
        """
        if isinstance(event, events.Key):
            self._key_until = time.monotonic() + KEY_SECONDS
            way = [*(self.focused or self.screen).ancestors_with_self, self]
            # The way that the key goes, behind it; the last step is behind the focus that it may have moved.
            self.call_later(self._walk, way)

    def _walk(self, way: list[DOMNode]) -> None:
        while way:
            if way.pop(0).call_later(self._walk, way):
                return
        self._key_until = 0.0

    def _can_take_keys(self) -> bool:
        """A screen that was just opened has no widgets yet, and its actions would not find them."""
        return bool(self.screen_stack) and self.screen.is_mounted

    async def _hand_on(self) -> None:
        """Give the screen what was held back, in order, as soon as it can take it."""
        if self._early and self._can_take_keys() and time.monotonic() >= self._key_until:
            event = self._early.pop(0)
            self._follow(event)
            await super().on_event(event)
        if self._early:
            self.set_timer(EARLY_SECONDS, self._hand_on)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Show a message for some seconds: as text, whatever is in it, and never as markup."""
        del markup
        text = "\n".join(safe.block(message, limit=1000))
        super().notify(text, title=safe.line(title, 80), severity=severity, timeout=timeout, markup=False)

    @property
    def badge(self) -> str:
        """What stands at the end of the footer."""
        return "read-only" if self.settings.read_only else ""

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Carry an action out, whatever asked for it, or say why it is refused: here, or now."""
        name = (action if isinstance(action, str) else action[1]).partition("(")[0].rpartition(".")[2]
        refused = ""
        if self.settings.read_only:
            from refold.app.read_only import why_not

            refused = why_not(name, self.settings)
        if not refused and isinstance(default_namespace, Refuses):
            refused = default_namespace.why_not(name)
        if refused:
            self.notify(refused, severity="warning")
            return True
        return await super().run_action(action, default_namespace, namespaces)

    def draw(self, source: Source, stand: Stand, settings: Settings) -> str:
        """Give the picture (SVG) of the screen of a run. Blocks, and is for a thread."""
        from refold.app.picturing import picture

        return picture(source, stand, settings)

    def action_utc(self) -> None:
        """Show times in UTC or in local time, on every screen."""
        import msgspec

        from refold.app.present.times import ShowsTimes

        self.settings = msgspec.structs.replace(self.settings, utc=not self.settings.utc)
        for screen in self.screen_stack:
            if isinstance(screen, ShowsTimes):
                screen.show_times(utc=self.settings.utc)
        now, before = "Times are in UTC now.", "Times are local now."
        if not self.settings.utc:
            now, before = before, now
        self._notifications.take_back(before)
        self.notify(now)

    def action_command_palette(self) -> None:
        """Open the palette, once."""
        from refold.app.commands import Palette

        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(id="--command-palette"))

    def action_help(self) -> None:
        """Open the help page, once."""
        from refold.app.screens.help import HelpScreen

        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self.screen, self.settings.keymap))

    def _handle_exception(self, error: Exception) -> None:
        """Tell what failed in the background; leave with our own report and exit code for all else.

        Textual's own way (8.2.8, no public hook) prints local variables, which hold text of runs, lets their
        escape sequences through, and ends with success; for a failed worker too.
        """
        if self._exit:
            # A screen that just opened is taken away before it has its widgets; what was asked for goes on.
            record_fault(self.settings.log_file, error)
            return
        if isinstance(error, WorkerFailed):
            self.background_faults.append(error.error)
            record_fault(self.settings.log_file, error.error)
            said, remedy = words(error.error)
            told = f"{said}\n{remedy}" if remedy else said
            self.notify(told, title="This did not work", severity="error")
            return
        report = fault(error, self.settings.log_file)
        report.__cause__ = error
        super()._handle_exception(report)
        self._return_code = FAULT
