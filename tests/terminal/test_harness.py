"""The terminal of the tests sees what it should see, shown on programs that are known to leak."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from tests.terminal import wire
from tests.terminal.payloads import ESCAPES, PAYLOADS, TITLE
from tests.terminal.program import environment
from tests.terminal.terminal import Terminal

SHOWS = """
import sys
from textual.app import App
from textual.widgets import Footer, Static
class Shows(App):
    BINDINGS = [("q", "quit", "Quit"), ("c", "keyed", "Keyed")]
    keyed = 0
    def compose(self):
        yield Static(sys.argv[1], markup=False)
        yield Static("begin", id="keys")
        yield Footer()
    def action_keyed(self):
        self.keyed += 1
        self.query_one("#keys").update(f"keyed {self.keyed}")
sys.exit(Shows().run())
"""


def _shows(text: str) -> list[str | bytes]:
    return [sys.executable, "-c", SHOWS, text]


def test_a_program_that_shows_plain_text_has_no_offence(tmp_path: Path) -> None:
    with Terminal(_shows("plain 核对 👨‍👩‍👧‍👦 é"), env=environment(tmp_path)) as terminal:
        terminal.wait("plain")
        terminal.resize(60, 20)
        terminal.press("q")

        assert terminal.ended() == 0
        assert wire.offences(bytes(terminal.sent)) == []
        assert wire.not_restored(bytes(terminal.sent)) == []
        assert terminal.replies == []


def test_a_program_that_leaks_is_found_and_its_keys_with_it(tmp_path: Path) -> None:
    leaks = f"leak \x1b[c \x9b7371m \u202e \u200b \x7f \x1b]0;{TITLE}\x07"
    with Terminal(_shows(leaks), env=environment(tmp_path)) as terminal:
        terminal.wait(lambda _: len(terminal.replies) > 1)
        terminal.settle()
        found = "\n".join(wire.offences(bytes(terminal.sent)))

        assert "\\x1b[c" in found
        assert TITLE in found
        assert "\\x9b" in found
        assert "U+202E" in found
        assert "U+200B" in found
        assert "\\x7f" in found
        assert "keyed" in terminal.text


def test_a_program_that_is_killed_leaves_its_modes(tmp_path: Path) -> None:
    with Terminal(_shows("plain"), env=environment(tmp_path)) as terminal:
        terminal.wait("plain")
        terminal.signal(signal.SIGKILL)

        assert terminal.ended() == -signal.SIGKILL
        assert {"1049", "25", "1000"} <= set(wire.not_restored(bytes(terminal.sent)))


@pytest.mark.parametrize("name", ESCAPES)
def test_every_escape_is_an_offence_when_it_arrives(name: str) -> None:
    assert wire.offences(f"{ESCAPES[name]}.".encode())


@pytest.mark.parametrize(
    "text", ["\x1b[31mred\x1b[0m", "\x1b[12;40Hx", "核对 é \u0301 👨‍👩‍👧‍👦", "␛[2J ‹RLO›"]
)
def test_what_textual_draws_is_no_offence(text: str) -> None:
    assert wire.offences(text.encode()) == []


@pytest.mark.parametrize("name", PAYLOADS)
def test_tokens_lose_nothing(name: str) -> None:
    sent = PAYLOADS[name].encode("utf-8", "replace")

    assert "".join(token.value for token in wire.tokens(sent)) == sent.decode()
