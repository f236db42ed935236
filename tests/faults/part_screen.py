"""The program in the full screen: killed, ended, watched by a tracer (design/safety.md 5: G1, G7, G19).

Each try starts the program in a pty, does what a person does, and ends it in one way. Whatever the way, the
runs are as they were, a fork is there whole or not at all, and the terminal is as it was found.
"""

from __future__ import annotations

import functools
import random
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.faults.goals import Goal, Share, Work, carry_out
from tests.faults.home import SECRET, forked, screen, store
from tests.faults.scene_directories import picture
from tests.faults.screen_errors import errors
from tests.faults.screen_kills import ACTS, kills
from tests.faults.screen_reads import reads
from tests.faults.victims import scratch, traces
from tests.terminal import wire
from tests.terminal.forks import Forks
from tests.terminal.program import environment
from tests.terminal.terminal import Terminal

ENDS: dict[Share, int] = {"ci": 1, "quick": 2, "long": 60}
"""Rounds of every way to end."""


def measure(share: Share, seed: int, seconds: float) -> Iterator[Goal]:
    """Kill the screen, end it in every way, and watch what it does to what it only reads."""
    whats = [
        (
            "G1",
            f"the full screen killed in {len(ACTS)} acts: fork, trash, notes, export, repair ...",
            kills,
            2_000,
        ),
        ("G19", "ends of the full screen: by signals, by keys, by a fault", _ends, 500),
    ]
    whats.append(("row 3", "sessions of the full screen of which one call fails", errors, 0))
    if traces():
        whats.append(("G7", "looking round, seen by strace: nothing changes a run", reads, 0))
    with scratch() as directory:
        work: list[Work] = [
            (
                Goal(name, what, 0, seed, asked),
                functools.partial(act, directory=directory, share=share),
            )
            for name, what, act, asked in whats
        ]
        yield from carry_out(work, seconds)


def _ends(goal: Goal, directory: Path, share: Share) -> None:
    """End it in every way, the first time each started as a person starts it."""
    place = directory / "end"
    store(place)
    rng = random.Random(goal.seed)
    with Forks() as forks:
        for number in range(ENDS[share]):
            for name in WAYS:
                if goal.over and number:
                    return
                with goal.attempt(f"{number}: {name}"):
                    if name == "a fault":
                        terminal = _faulty(place)
                    else:
                        terminal = forked(forks, place) if number else screen(place)
                    _end(place, name, terminal, inside=name != "a fault" and rng.random() < 0.5)


def _end(place: Path, name: str, terminal: Terminal, *, inside: bool) -> None:
    """End the program in one way, from the list or from within a run, and look at what is left."""
    act, codes = WAYS[name]
    before = picture(place / "runs")
    with terminal:
        terminal.wait("run-2")
        if inside:
            terminal.press("enter", "2", settle=0.1)
        act(terminal)
        code = terminal.ended()
        said = bytes(terminal.sent)
    assert code in codes, code
    assert wire.not_restored(said) == [] or name == "a closed window"
    assert b"Traceback" not in said
    left = said.rpartition(b"\x1b[?1049l")[2]
    assert SECRET.encode() not in left or name == "a closed window"
    assert len(left) < 2000 or name in {"a fault", "a closed window"}
    for log in (place / "home").rglob("*.log"):
        assert SECRET not in log.read_text()
    assert picture(place / "runs") == before


def _press(*keys: str) -> Callable[[Terminal], None]:
    return lambda terminal: terminal.press(*keys, settle=0.05)


def _send(number: signal.Signals) -> tuple[Callable[[Terminal], None], set[int]]:
    return lambda terminal: terminal.signal(number), {128 + number, -number}


def _stop_first(terminal: Terminal) -> None:
    """Stop it, see that the terminal was given back, go on, and leave."""
    terminal.signal(signal.SIGTSTP)
    state = Path(f"/proc/{terminal.pid}/stat")
    terminal.until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", "it stops")
    terminal.settle(0.1)
    assert wire.not_restored(bytes(terminal.sent)) == []
    terminal.signal(signal.SIGCONT)
    terminal.settle(0.5)
    terminal.press("ctrl+q", settle=0.1)


def _storm(terminal: Terminal) -> None:
    """Change the size two hundred times, to one cell too, and leave from there."""
    rng = random.Random(len(terminal.sent))
    for _ in range(200):
        terminal.resize(rng.choice((1, 2, 20, 60, 80, 120, 500)), rng.choice((1, 2, 5, 24, 40, 200)))
        terminal.pump(0.002)
    terminal.resize(1, 1)
    terminal.settle(0.2)
    terminal.press("ctrl+q", settle=0.1)


WAYS: dict[str, tuple[Callable[[Terminal], None], set[int]]] = {
    **{number.name: _send(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)},
    "q": (_press("escape", "q"), {0}),
    "ctrl+q": (_press("ctrl+q"), {0}),
    "ctrl+c twice": (_press("ctrl+c", "ctrl+c"), {0, 128 + signal.SIGINT}),
    "a stop, then ctrl+q": (_stop_first, {0}),
    "a storm of sizes, then ctrl+q": (_storm, {0}),
    "a closed window": (Terminal.hang_up, {128 + signal.SIGHUP, -signal.SIGHUP}),
    "a fault": (_press("S"), {70}),
}
"""What ends the screen, and the exit codes that it may have."""


def _faulty(place: Path) -> Terminal:
    """Start a program in which a key fails, with the text of a run in the error and in its variables."""
    code = f"""
import sys
from refold.app.cli import main
from refold.app.screens.runs import RunsScreen
def broken(self):
    text = {SECRET!r}
    raise RuntimeError("read " + text)
RunsScreen.action_reverse = broken
sys.exit(main(["--only", "--root", {str(place / "runs")!r}]))
"""
    return Terminal([sys.executable, "-c", code], env=environment(place / "home"))
