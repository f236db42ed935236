"""However the program ends and wherever it runs, the terminal is left as it was found."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from pathlib import Path

import pytest
from tests import generate
from tests.terminal import wire
from tests.terminal.program import HANGS, environment, refold
from tests.terminal.terminal import Terminal


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("ends") / "runs"
    generate.runs(directory, 30, size=20_000)
    generate.write(directory / "sample.json", generate.journal(size=300_000, run_id="sample"))
    return directory


@pytest.fixture
def home(tmp_path: Path) -> Path:
    directory = tmp_path / "home"
    directory.mkdir()
    return directory


def _screens(store: Path) -> dict[str, list[str | bytes]]:
    return {"runs": refold("--only", "--root", store), "run": refold("open", store / "sample.json")}


def _shown(terminal: Terminal) -> None:
    terminal.wait(lambda screen: "sample" in screen or "run-0" in screen)
    terminal.settle(0.1)


@pytest.mark.parametrize("screen", ["runs", "run"])
@pytest.mark.parametrize(
    "keys", [["q"], ["?", "escape", "/", "x", "escape", "ctrl+q"]], ids=["at once", "after a look round"]
)
def test_quitting_restores_and_succeeds(store: Path, home: Path, screen: str, keys: list[str]) -> None:
    with Terminal(_screens(store)[screen], env=environment(home)) as terminal:
        _shown(terminal)
        terminal.press(*keys, settle=0.03)

        assert terminal.ended() == 0
        assert wire.not_restored(bytes(terminal.sent)) == []
        assert wire.offences(bytes(terminal.sent)) == []


@pytest.mark.parametrize("screen", ["runs", "run"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda n: n.name)
def test_a_signal_ends_it_cleanly(store: Path, home: Path, screen: str, number: signal.Signals) -> None:
    with Terminal(_screens(store)[screen], env=environment(home)) as terminal:
        _shown(terminal)
        terminal.signal(number)

        assert terminal.ended() not in {0, 1}
        assert wire.not_restored(bytes(terminal.sent)) == []
        assert b"Traceback" not in terminal.sent


@pytest.mark.parametrize("screen", ["runs", "run"])
def test_a_stop_gives_the_terminal_back_until_it_goes_on(store: Path, home: Path, screen: str) -> None:
    with Terminal(_screens(store)[screen], env=environment(home)) as terminal:
        _shown(terminal)
        before = terminal.text
        for _ in range(3):
            terminal.signal(signal.SIGTSTP)
            _wait_for_state(terminal, "T")
            assert wire.not_restored(bytes(terminal.sent)) == []
            drawn = len(terminal.sent)
            terminal.signal(signal.SIGCONT)
            _wait_for_state(terminal, "SR")
            terminal.until(lambda drawn=drawn: len(terminal.sent) > drawn + 500, "it is drawn again")  # type: ignore[misc]
            terminal.settle(0.3)
            assert wire.not_restored(bytes(terminal.sent)) != []
            # Numbers and times may have come in the meantime.
            assert terminal.text.split("\n")[-1] == before.split("\n")[-1]
            _shown(terminal)
        terminal.press("?", settle=0.2)
        terminal.wait(lambda screen: screen != before)
        terminal.press("escape", settle=0.2)

        assert terminal.quit() == 0
        assert wire.not_restored(bytes(terminal.sent)) == []
        assert wire.offences(bytes(terminal.sent)) == []


def _wait_for_state(terminal: Terminal, states: str) -> None:
    """Wait until the process is stopped, or is not; what it sends until then is taken in."""
    status = Path(f"/proc/{terminal.pid}/stat")
    terminal.until(lambda: status.read_text().rpartition(")")[2].split()[0] in states, f"it is {states}")
    terminal.settle(0.1)


@pytest.mark.parametrize("screen", ["runs", "run"])
def test_a_closed_window_ends_it(store: Path, home: Path, screen: str) -> None:
    with Terminal(_screens(store)[screen], env=environment(home)) as terminal:
        _shown(terminal)
        terminal.hang_up()

        assert terminal.ended() == 128 + signal.SIGHUP


@pytest.mark.parametrize("screen", ["runs", "run"])
def test_quitting_while_it_still_starts(store: Path, home: Path, screen: str) -> None:
    for delay in (0.1, 0.25):
        with Terminal(_screens(store)[screen], env=environment(home)) as terminal:
            terminal.settle(delay, limit=delay)
            terminal.signal(signal.SIGTERM)

            assert terminal.ended() != 0
            assert wire.not_restored(bytes(terminal.sent)) == []


def test_a_signal_while_a_run_opens_is_no_fault(store: Path, home: Path) -> None:
    for seconds in (0.002, 0.01, 0.03, 0.1) * 3:
        with Terminal(_screens(store)["runs"], env=environment(home)) as terminal:
            _shown(terminal)
            terminal.press("enter", settle=seconds)
            terminal.signal(signal.SIGTERM)

            assert terminal.ended() == 128 + signal.SIGTERM
            assert wire.not_restored(bytes(terminal.sent)) == []
    assert not (home / "state" / "refold" / "refold.log").exists()


def test_escape_leads_from_a_run_to_the_list_and_back(store: Path, home: Path) -> None:
    with Terminal(refold("open", "sample", "--only", "--root", store), env=environment(home)) as terminal:
        _shown(terminal)
        terminal.press("escape")
        terminal.wait("31 runs")
        terminal.press("down", "enter", settle=0.3)
        terminal.press("escape")
        terminal.wait("31 runs")

        assert terminal.quit() == 0


@pytest.mark.parametrize("screen", ["runs", "run"])
def test_a_storm_of_sizes(store: Path, home: Path, screen: str) -> None:
    rng = random.Random(7)
    with Terminal(_screens(store)[screen], env=environment(home)) as terminal:
        _shown(terminal)
        for _ in range(120):
            terminal.resize(
                rng.choice((1, 2, 3, 20, 59, 60, 80, 300)), rng.choice((1, 2, 3, 5, 10, 20, 24, 100))
            )
            terminal.pump(0.002)
            if rng.random() < 0.2:
                terminal.send(rng.choice(("down", "2", "1", "pagedown", "end", "home")))
        for size in ((1, 1), (2, 1), (1, 40), (500, 2), (500, 200)):
            terminal.resize(*size)
            terminal.settle(0.1)
        terminal.resize(100, 30)
        terminal.press("home", settle=0.2)
        _shown(terminal)

        assert terminal.quit() == 0
        assert wire.not_restored(bytes(terminal.sent)) == []
        assert wire.offences(bytes(terminal.sent)) == []


@pytest.mark.parametrize("screen", ["runs", "run"])
def test_a_window_of_one_cell_from_the_start(store: Path, home: Path, screen: str) -> None:
    with Terminal(_screens(store)[screen], env=environment(home), columns=1, rows=1) as terminal:
        terminal.settle(0.5, limit=3)
        terminal.press("down", "2", "end", "enter", settle=0.05)
        terminal.resize(100, 30)
        terminal.press("escape", settle=0.2)
        _shown(terminal)

        assert terminal.quit() == 0


@pytest.mark.parametrize(
    "more",
    [{"LC_ALL": "de_DE.ISO-8859-1"}, {"LC_ALL": "POSIX"}, {"NO_COLOR": "1"}, {"COLORTERM": ""}],
    ids=str,
)
def test_other_surroundings(store: Path, home: Path, more: dict[str, str]) -> None:
    for command in _screens(store).values():
        with Terminal(command, env=environment(home, **more)) as terminal:
            _shown(terminal)
            terminal.press("down", "2", "4", "5", "1", "?", "escape", settle=0.03)

            assert terminal.quit() == 0
            assert wire.offences(bytes(terminal.sent)) == []
            assert wire.not_restored(bytes(terminal.sent)) == []
            if "NO_COLOR" in more:
                assert _colours(bytes(terminal.sent)) == set()
            elif "LC_ALL" in more:
                assert bytes(terminal.sent).isascii()


def _colours(sent: bytes) -> set[str]:
    """Give every colour that was set; the terminal's own foreground and background are none."""
    found = set()
    for token in wire.tokens(sent):
        if token.kind == "csi" and token.value.endswith("m"):
            codes = token.value[2:-1].split(";")
            found |= {
                code
                for code in codes
                if code.isdigit() and 30 <= int(code) <= 107 and code not in {"39", "49"}
            }
    return found


@pytest.mark.parametrize("screen", ["runs", "run"])
def test_a_terminal_that_cannot_place_a_cursor_gets_lines(store: Path, home: Path, screen: str) -> None:
    with Terminal(_screens(store)[screen], env=environment(home, TERM="dumb")) as terminal:
        assert terminal.ended() == 0
        assert b"\x1b" not in terminal.sent
        assert "completed" in terminal.text


def test_without_a_terminal_lines_are_printed(store: Path, home: Path) -> None:
    for command in _screens(store).values():
        done = subprocess.run(
            command,
            env=environment(home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=HANGS,
        )

        assert done.returncode == 0
        assert b"\x1b" not in done.stdout
        assert len(done.stdout.split(b"\n")) > 10


@pytest.mark.parametrize(
    "command", [("ls",), ("ls", "--json"), ("show", "sample"), ("verify", "sample")], ids=" ".join
)
def test_a_reader_that_goes_away_is_no_fault(store: Path, home: Path, command: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen(
        refold(*command, "--only", "--root", store),
        env=environment(home),
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    _, said = process.communicate(timeout=HANGS)

    assert b"Traceback" not in said
    assert b"Exception ignored" not in said
    assert process.returncode in {0, 1, 74, -signal.SIGPIPE, 128 + signal.SIGPIPE} or not said


def test_a_full_disk_under_the_output_is_said(store: Path, home: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            refold("ls", "--only", "--root", store), env=environment(home), stdout=full,
            stderr=subprocess.PIPE, check=False, timeout=HANGS,
        )  # fmt: skip

    assert done.returncode == 74
    assert b"could not be written" in done.stderr
    assert b"Traceback" not in done.stderr


def test_closed_streams_do_no_harm(store: Path, home: Path) -> None:
    def close_all() -> None:
        for number in (0, 1, 2):
            os.close(number)

    for command in (*_screens(store).values(), refold("ls", "--only", "--root", store)):
        process = subprocess.Popen(command, env=environment(home), preexec_fn=close_all)

        assert process.wait(timeout=HANGS) in {0, 3, 74}


def test_the_screen_with_its_output_elsewhere(store: Path, home: Path, tmp_path: Path) -> None:
    with (
        (tmp_path / "out").open("wb") as out,
        Terminal(_screens(store)["runs"], env=environment(home), stdout=out.fileno()) as terminal,
    ):
        assert terminal.ended() == 0
    assert (tmp_path / "out").stat().st_size > 100
