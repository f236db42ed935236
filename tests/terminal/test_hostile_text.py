"""Hostile text in every field of every run reaches no terminal, on any screen.

Every screen is walked over runs whose ids, models, prompts, tool names, call ids, inputs, results, messages,
reasons, protocols and file names are the payloads of `payloads`. The bytes that arrive at the pty are taken
apart: everything that Textual itself does not send fails the test, and so does every answer that a talkative
terminal gave. `REFOLD_HEAVY=1` walks each run of each style; the default walks a share of them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from tests.generate import STYLES, Style
from tests.terminal import hostile, wire
from tests.terminal.payloads import CLIPBOARD, PAYLOADS, TITLE
from tests.terminal.program import HANGS, environment, refold, run
from tests.terminal.terminal import Terminal

HEAVY = bool(os.environ.get("REFOLD_HEAVY"))
PROMPT = "enter accept"
PASTE = "\x1b[200~{}\x1b[201~"


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[Style, Path]:
    where = tmp_path_factory.mktemp("hostile")
    for style in STYLES:
        hostile.directory(where / style, style=style)
    return {style: where / style for style in STYLES}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    directory = tmp_path / "home"
    directory.mkdir()
    return directory


def leave(terminal: Terminal, *, typed: bool = False) -> None:
    """Quit from wherever the screen is.

    Nothing but Textual's own sequences and visible text may have arrived until then, nothing may have been
    asked of the terminal, and it must be as it was.
    """
    assert terminal.alive, terminal.text
    terminal.press("escape", "escape", "escape", settle=0.05)
    assert terminal.quit() == 0
    assert wire.offences(bytes(terminal.sent), typed=typed)[:10] == []
    assert wire.not_restored(bytes(terminal.sent)) == []
    assert terminal.replies == []
    assert terminal.title == ""


def type_into(terminal: Terminal, opener: str, *keys: str) -> None:
    """Open a prompt, type, accept, and cancel what is left open."""
    terminal.send(opener)
    terminal.wait(PROMPT)
    terminal.press(*keys, "enter", settle=0.02)
    end = time.monotonic() + 1.0
    while PROMPT in terminal.text and time.monotonic() < end:
        terminal.pump(0.05)
    if PROMPT in terminal.text:
        terminal.send("escape")
    terminal.wait(lambda screen: PROMPT not in screen)


def look_around(terminal: Terminal) -> None:
    """Show the cursor's record in every pane, and scroll each."""
    for pane in "2341":
        terminal.press(pane, "tab", "pagedown", "end", "home", "shift+tab", settle=0.02)


@pytest.mark.parametrize("style", STYLES)
def test_the_list_and_its_previews(stores: dict[Style, Path], home: Path, style: Style) -> None:
    size = (120, 40) if style == "native" else (60, 20)
    with Terminal(
        refold("--only", "--root", stores[style]), env=environment(home), columns=size[0], rows=size[1]
    ) as terminal:
        terminal.wait("242 runs")
        terminal.settle(0.3)
        terminal.press("home")
        for _ in range(len(PAYLOADS) * 2 + 4 if HEAVY or style == "native" else 12):
            terminal.press("down", settle=0.012)
        for _ in range(4):
            terminal.press("s", "S", "end", "home", settle=0.03)
        terminal.press("?", "end", "escape", "ctrl+p", *"sort", "escape", settle=0.05)
        leave(terminal)


def test_what_is_typed_and_pasted_is_text_too(stores: dict[Style, Path], home: Path) -> None:
    texts = list(PAYLOADS.values()) if HEAVY else list(PAYLOADS.values())[::12]
    with Terminal(refold("--only", "--root", stores["native"]), env=environment(home)) as terminal:
        terminal.wait("242 runs")
        for text in texts:
            type_into(
                terminal, "/", PASTE.format(text.replace("\x1b", "").encode("utf-8", "replace").decode())
            )
        for filter_ in ("status:[/nope]", "[@click=app.quit]x[/]", "after:[/]", '"[$y]', "id:h001 model:[b"):
            type_into(terminal, "/", *filter_)
        leave(terminal, typed=True)
    with Terminal(refold("open", stores["native"] / "all.json"), env=environment(home)) as terminal:
        terminal.wait("all")
        for text in ("[/nope]", "999999999999999999999999", "#7", "\u202e", "0x1"):
            type_into(terminal, ":", PASTE.format(text))
            type_into(terminal, "/", PASTE.format(text))
        leave(terminal, typed=True)


@pytest.mark.parametrize("style", STYLES)
def test_a_run_of_all_payloads_in_every_pane(stores: dict[Style, Path], home: Path, style: Style) -> None:
    with Terminal(refold("open", stores[style] / "all.json"), env=environment(home)) as terminal:
        terminal.wait("all")
        terminal.settle(0.2)
        terminal.press("home")
        look_around(terminal)
        panes = "2341" if HEAVY else "1"
        for pane in panes:
            terminal.press(pane, "home", settle=0.05)
            for _ in range(len(PAYLOADS) * 6 if HEAVY else len(PAYLOADS) if style == "native" else 12):
                terminal.press("down" if HEAVY else "]", settle=0.012)
        for key in ("home", "]", "}", "{", "t", "t", "F") if HEAVY else ("end",):
            terminal.press(key, settle=0.02)
            look_around(terminal)
        terminal.press("/", *"FAKE", "enter", "n", "n", "N", "escape", "?", "escape", settle=0.05)
        leave(terminal)


def test_each_run_opens_by_itself(stores: dict[Style, Path], home: Path) -> None:
    paths = sorted(stores["native"].glob("h[0-9]*.json"))
    share = paths if HEAVY else paths[:: len(paths) // 5]
    for path in share:
        with Terminal(refold("open", path), env=environment(home)) as terminal:
            terminal.wait(path.stem[:4])
            look_around(terminal)
            terminal.press("down", "3", "down", "2", "end", settle=0.02)
            leave(terminal)


def test_a_broken_run_and_hostile_file_names(stores: dict[Style, Path], home: Path) -> None:
    named = [path for path in sorted(stores["native"].iterdir()) if not path.name.startswith("h")]
    share = named if HEAVY else named[:: len(named) // 3]
    for path in [stores["native"] / "broken.json", *share]:
        with Terminal(refold("open", os.fsencode(path)), env=environment(home)) as terminal:
            terminal.settle(0.3)
            terminal.wait(lambda screen: len(screen) > 200)
            look_around(terminal)
            for _ in range(20 if path.name == "broken.json" else 2):
                terminal.press("down", "4", "down", "5", "1", settle=0.015)
            leave(terminal)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    "command", [("ls",), ("ls", "--json"), ("show", "all"), ("verify", "all", "broken")], ids=" ".join
)
def test_the_command_line_prints_no_control_character(
    stores: dict[Style, Path], home: Path, style: Style, command: tuple[str, ...]
) -> None:
    done = run(*command, "--only", "--root", stores[style], home=home)

    assert done.stdout
    assert wire.offences(done.stdout)[:5] == []
    assert wire.offences(done.stderr)[:5] == []
    assert b"\r" not in done.stdout


def test_records_states_and_errors_on_the_command_line(stores: dict[Style, Path], home: Path) -> None:
    store = stores["native"]
    every = [os.fsencode(path) for path in sorted(store.iterdir())]
    calls = [
        run("show", *[os.fsencode(store / "all.json") + b"@%d" % seq for seq in range(1, 720, 7)], home=home),
        run("state", "--salvage", *every, home=home),
        run("verify", *every, home=home),
        *(
            run(command, "--", text.encode("utf-8", "replace").replace(b"\0", b""), home=home)
            for text in list(PAYLOADS.values())[:: 1 if HEAVY else 12]
            for command in ("show", "open")
        ),
    ]
    for done in calls:
        assert wire.offences(done.stdout)[:5] == []
        assert wire.offences(done.stderr)[:5] == []
        assert b"Traceback" not in done.stderr


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_in_tmux_title_clipboard_and_keys_stay_ours(stores: dict[Style, Path], home: Path) -> None:
    socket = f"refold-test-{os.getpid()}"

    def tmux(*arguments: str | bytes, check: bool = True) -> str:
        done = subprocess.run(
            ["tmux", "-L", socket, "-f", "/dev/null", *arguments], check=check, capture_output=True,
            env=environment(home, TMUX_TMPDIR=str(home)),
        )  # fmt: skip
        return done.stdout.decode("utf-8", "replace")

    command = [*refold("open", stores["native"] / "all.json")]
    tmux("new-session", "-d", "-x", "120", "-y", "40", "sleep 60")
    try:
        tmux("set-option", "-g", "set-clipboard", "on")
        tmux("set-option", "-g", "remain-on-exit", "on")
        title = tmux("display-message", "-p", "#{pane_title}")
        tmux("respawn-pane", "-k", *command)
        _until(lambda: "all" in tmux("capture-pane", "-p"))
        for keys in (
            ["Home"],
            ["]"] * 40,
            ["3"],
            ["2"],
            ["]"] * 40,
            ["4"],
            ["Z"],
            ["]"] * 40,
            ["5"],
            ["]"] * 40,
            ["End"],
            ["1"],
        ):
            tmux("send-keys", *keys)
            time.sleep(0.25)

        assert tmux("display-message", "-p", "#{pane_dead}").strip() == "0"
        assert tmux("display-message", "-p", "#{pane_title}") == title
        assert TITLE not in tmux("display-message", "-p", "#{pane_title}#{window_name}")
        assert CLIPBOARD not in tmux("show-buffer", check=False)
        assert "FAKE PROMPT" not in tmux("capture-pane", "-p").split("\n")[0]
    finally:
        tmux("kill-server", check=False)


def _until(condition: object, limit: float = HANGS) -> None:
    assert callable(condition)
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)
