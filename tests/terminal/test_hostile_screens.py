"""Hostile text reaches no terminal from the screens that open from the two first ones, nor from an export.

Each screen is opened over runs, run directories and conversations whose every text is a payload; the bytes
that arrive at the pty are taken apart as in `test_hostile_text`. `REFOLD_HEAVY=1` opens each in both sizes.
"""

from __future__ import annotations

import json
import os
import unicodedata
import xml.dom.minidom
from pathlib import Path

import pytest
from tests.conversation_story import chat
from tests.search_story import session
from tests.terminal import hostile, wire
from tests.terminal.payloads import PAYLOADS
from tests.terminal.program import environment, refold, run
from tests.terminal.terminal import Terminal

TEXTS = list(PAYLOADS.values())
LARGE, SMALL = (120, 40), (60, 20)
HEAVY = bool(os.environ.get("REFOLD_HEAVY"))


def each(*names: str) -> pytest.MarkDecorator:
    """Give a test each name, in one size and the other by turns, or in both."""
    turns = [LARGE, SMALL]
    cases = [(name, size) for at, name in enumerate(names) for size in (turns if HEAVY else [turns[at % 2]])]
    return pytest.mark.parametrize(("name", "size"), cases, ids=[f"{name}-{size[0]}" for name, size in cases])


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The home of Refold and of Rivumi, with a payload wherever a run or a conversation says something."""
    state = tmp_path / "state"
    native = state / "refold" / "runs"
    native.mkdir(parents=True)
    (native / "all.json").write_bytes(hostile.journal(TEXTS, style="native", run_id="all", raw=True))
    (native / "other.json").write_bytes(hostile.journal(TEXTS[::-1], style="native", run_id="all", raw=True))
    (native / "broken.json").write_bytes(hostile.broken([b"\x1b]0;x\x07", b"\xff\x9b2J"]))
    (state / "rivumi" / "runs").mkdir(parents=True)
    session(state / "rivumi" / "runs" / "directory", TEXTS, [("user", text) for text in TEXTS[:20]])
    plain = [text.encode("utf-8", "replace").decode() for text in TEXTS]
    turns = [(text, text, "completed") for text in plain[::6]]
    chat(state / "rivumi" / "conversations", *turns, title=" ".join(plain)[:4000])
    return state


def opened(tmp_path: Path, size: tuple[int, int], *words: str) -> Terminal:
    return Terminal(refold(*words), env=environment(tmp_path), columns=size[0], rows=size[1])


def left(terminal: Terminal, *, copies: bool = False) -> None:
    """Quit from wherever the screen is; nothing but Textual's own may have arrived until then."""
    terminal.send("\x11")
    assert terminal.ended() == 0
    assert wire.offences(bytes(terminal.sent), copies=copies, typed=True)[:10] == []
    assert wire.not_restored(bytes(terminal.sent)) == []
    assert terminal.replies == []
    assert terminal.title == ""


@each("all", "broken", "directory")
def test_what_opens_from_a_run(state: Path, tmp_path: Path, name: str, size: tuple[int, int]) -> None:
    with opened(tmp_path, size, "open", name) as terminal:
        terminal.wait("step")
        terminal.settle(0.3)
        terminal.press("home", "2", "3", "4", "5", "1", "end", settle=0.1)
        terminal.send("d")
        terminal.wait("post-mortem")
        terminal.settle(0.6)
        terminal.press("pagedown", "pagedown", "end", "home", settle=0.05)
        for key in ("s", "m"):
            terminal.press(key, settle=0.4)
            terminal.press("end", "home", settle=0.05)
            terminal.press("escape", settle=0.1)
            if "← → step" in terminal.text:
                terminal.press("d", settle=0.3)
        terminal.press("escape", settle=0.1)
        for key in ("Y", "e", "l", "?", "m"):
            terminal.press(key, settle=0.3)
            terminal.press("end", "home", settle=0.05)
            terminal.press("escape", settle=0.1)
        terminal.press("v", "p", "w", settle=0.1)
        terminal.press("escape", "b", *"text:x", "enter", "space", settle=0.2)
        left(terminal)


@pytest.mark.parametrize("size", [LARGE, SMALL] if HEAVY else [LARGE], ids=str)
def test_what_opens_from_the_list(state: Path, tmp_path: Path, size: tuple[int, int]) -> None:
    with opened(tmp_path, size) as terminal:
        terminal.wait("4 runs")
        terminal.settle(0.3)
        terminal.press("end", "home", "space", "down", "space", settle=0.05)
        terminal.send("c")
        terminal.wait("difference")
        terminal.settle(0.3)
        terminal.press("}", "}", "tab", "{", "pagedown", "end", "home", settle=0.05)
        terminal.press("escape", settle=0.2)
        for key in ("D", "C", "Y", "e", "P"):
            terminal.press(key, settle=0.4)
            terminal.press("end", "home", settle=0.05)
            terminal.press("escape", settle=0.2)
        terminal.send("x")
        terminal.wait("esc back")
        terminal.settle(0.2)
        terminal.send("enter")
        terminal.settle(0.5)
        terminal.press("X", settle=0.4)
        terminal.press("end", "home", "escape", settle=0.1)
        left(terminal)


@pytest.mark.parametrize("size", [LARGE, SMALL] if HEAVY else [SMALL], ids=str)
def test_the_search_of_all_runs(state: Path, tmp_path: Path, size: tuple[int, int]) -> None:
    with opened(tmp_path, size) as terminal:
        terminal.wait("4 runs")
        terminal.send("\x06", *"a b")
        terminal.wait("hits")
        terminal.settle(0.4)
        terminal.press("enter", settle=0.2)
        terminal.press("down", "down", "end", "home", settle=0.1)
        terminal.press("enter", settle=0.5)
        terminal.press("escape", settle=0.1)
        left(terminal)


@each("history", "resume")
def test_the_lists_in_which_one_is_chosen(
    state: Path, tmp_path: Path, name: str, size: tuple[int, int]
) -> None:
    with opened(tmp_path, size, name) as terminal:
        terminal.wait("enter")
        terminal.settle(0.4)
        terminal.press("down", "up", "enter", settle=0.4)
        terminal.press("pagedown", "end", "home", "f", settle=0.3)
        terminal.press("escape", settle=0.1)
        left(terminal)


@pytest.mark.parametrize("name", ["all", "broken", "directory"])
@pytest.mark.parametrize("format_", ["md", "html", "json", "jsonl", "cast", "svg"])
def test_what_is_written_out_commands_no_terminal(
    state: Path, tmp_path: Path, name: str, format_: str
) -> None:
    file = tmp_path / f"out.{format_}"
    done = run("export", name, "--format", format_, "-o", file, "--no-redact", home=tmp_path)
    if name == "directory" and done.returncode == 1:
        assert b"refold: " in done.stderr
        assert wire.offences(done.stderr) == []
        return
    assert done.returncode == 0, done.stderr
    assert wire.offences(done.stdout + done.stderr) == []
    text = file.read_text("utf-8", "surrogateescape")
    if format_ == "jsonl":  # the records as the file spells them
        return
    # Joiners are needed to write Persian; characters of private use are drawn, or not, by the reader's fonts.
    odd = {c for c in text if wire.forbidden(c) and c not in "\n\t\u200c" and unicodedata.category(c) != "Co"}
    assert odd == set()
    if format_ == "svg":
        xml.dom.minidom.parseString(text.encode())
    elif format_ == "json":
        json.loads(text)
