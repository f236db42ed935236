"""The program in the full screen: killed, ended, watched by a tracer (design/safety.md 5: G1, G7, G19).

Each try starts the program in a pty, does what a person does, and ends it in one way. Whatever the way, the
runs are as they were, a fork is there whole or not at all, and the terminal is as it was found.
"""

from __future__ import annotations

import functools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests import generate
from tests.faults.goals import Goal, Share, Work, carry_out
from tests.faults.scene_directories import picture
from tests.faults.victims import STRACE, scratch, traces
from tests.terminal import wire
from tests.terminal.program import environment, refold, run
from tests.terminal.terminal import Terminal

from refold.core.journal_text import fold_bytes

SECRET = "zebra-quartz-7731"
"""What stands in every record, and may be in no traceback and no log."""
KILLS: dict[Share, int] = {"ci": 1, "quick": 8, "long": 120}
ENDS: dict[Share, int] = {"ci": 1, "quick": 2, "long": 60}
"""Rounds of every way to end."""
READS: dict[Share, int] = {"ci": 1, "quick": 3, "long": 30}
WRITES = (
    "open,openat,creat,flock,unlink,unlinkat,rename,renameat,renameat2,link,linkat,symlinkat,mkdir,mkdirat,"
    "truncate,ftruncate,chmod,fchmod,fchmodat,utimensat,write,pwrite64,writev"
)
_CHANGES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|O_TMPFILE")


def measure(share: Share, seed: int, seconds: float) -> Iterator[Goal]:
    """Kill the screen, end it in every way, and watch what it does to what it only reads."""
    whats = [
        ("G1", "the full screen killed while it forks", _kills),
        ("G19", "ends of the full screen: by signals, by keys, by a fault", _ends),
    ]
    if traces():
        whats.append(("G7", "looking round, seen by strace: nothing changes a run", _reads))
    with scratch() as directory:
        work: list[Work] = [
            (Goal(name, what, seed=seed), functools.partial(act, directory=directory, share=share))
            for name, what, act in whats
        ]
        yield from carry_out(work, seconds)


def _store(directory: Path) -> Path:
    """Make a home with runs in it."""
    shutil.rmtree(directory, ignore_errors=True)
    runs = directory / "runs"
    runs.mkdir(parents=True, mode=0o700)
    for number in range(3):
        how = {"records": 8, "ending": "suspended", "prompt": SECRET}
        lines = generate.journal(run_id=f"run-{number}", **how)  # type: ignore[arg-type]
        generate.write(runs / f"run-{number}.json", lines)
        os.utime(runs / f"run-{number}.json", (1_700_000_000 - number, 1_700_000_000 - number))
    (directory / "home").mkdir()
    return runs


def _screen(directory: Path, *wrapped: str) -> Terminal:
    command = refold("--only", "--root", directory / "runs")
    return Terminal([*wrapped, *command], env=environment(directory / "home"))


def _kills(goal: Goal, directory: Path, share: Share) -> None:
    rng = random.Random(goal.seed)
    for number in range(KILLS[share]):
        if goal.over:
            break
        place = directory / "kill"
        runs = _store(place)
        before = picture(runs)
        call, count = rng.choice((("link", 1), ("fsync", 4), ("rename", 2), ("copy_file_range", 1), ("", 1)))
        at = rng.randint(1, count)
        label = f"{number}: {call} {at}"
        with goal.attempt(label):
            assert STRACE is not None or not call
            inject = ["-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={at}"]
            traced = call and traces()
            wrapped = [str(STRACE), "-f", "-qq", "-o", "/dev/null", *inject] if traced else []
            with _screen(place, *wrapped) as terminal:
                _fork(terminal)
                if not traced and terminal.alive:
                    time.sleep(rng.random() * 0.1)
                    terminal.signal(signal.SIGKILL)
                end = time.monotonic() + 10
                while terminal.alive and time.monotonic() < end:
                    terminal.pump(0.05)
                goal.count("died", not terminal.alive)
            after = {path: kept for path, kept in picture(runs).items() if path in before}
            assert after == before
            for path in runs.glob("[!.]*.json"):
                fold_bytes(path.read_bytes(), hint="refold")
            listed = run("ls", "--json", "--only", "--root", runs, home=place / "home")
            bare = run("ls", "--json", "--only", "--no-cache", "--root", runs, home=place / "home")
            assert listed.returncode == 0, listed.stderr
            assert listed.stdout == bare.stdout
            assert listed.stdout.count(b"\n") in {3, 4}


def _fork(terminal: Terminal) -> None:
    """Fork the first run by keys; the program may die on the way."""
    for text, key in (("run-2", "f"), ("legal", "enter")):
        try:
            terminal.wait(text, limit=40)
        except AssertionError:
            if terminal.alive:
                raise
            return
        terminal.press(key, settle=0.2)


def _ends(goal: Goal, directory: Path, share: Share) -> None:
    rng = random.Random(goal.seed)
    place = directory / "end"
    runs = _store(place)
    before = picture(runs)
    for number in range(ENDS[share]):
        for name, (act, codes) in WAYS.items():
            if goal.over:
                return
            with goal.attempt(f"{number}: {name}"):
                with _faulty(place) if name == "a fault" else _screen(place) as terminal:
                    terminal.wait("run-2", limit=40)
                    if rng.random() < 0.5 and name != "a fault":
                        terminal.press("enter", "2", settle=0.1)
                    act(terminal)
                    code = terminal.ended(20)
                    said = bytes(terminal.sent)
                assert code in codes, code
                assert wire.not_restored(said) == []
                assert b"Traceback" not in said
                left = said.rpartition(b"\x1b[?1049l")[2]
                assert SECRET.encode() not in left
                assert not left or name == "a fault" or len(left) < 2000
                for log in (place / "home").rglob("*.log"):
                    assert SECRET not in log.read_text()
                assert picture(runs) == before


def _press(*keys: str) -> Callable[[Terminal], None]:
    return lambda terminal: terminal.press(*keys, settle=0.1)


WAYS: dict[str, tuple[Callable[[Terminal], None], set[int]]] = {
    **{
        number.name: (lambda terminal, number=number: terminal.signal(number), {128 + number, -number})  # type: ignore[misc]
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    },
    "q": (_press("escape", "q"), {0}),
    "ctrl+q": (_press("ctrl+q"), {0}),
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


def _reads(goal: Goal, directory: Path, share: Share) -> None:
    rng = random.Random(goal.seed)
    keys = ("down", "up", "enter", "escape", "2", "3", "4", "1", "end", "home", "s", "?", "d", "l", "]", "t")
    for number in range(READS[share]):
        if goal.over:
            break
        place = directory / "read"
        runs = _store(place)
        before = picture(runs)
        log = place / "calls"
        pressed = [rng.choice(keys) for _ in range(12)]
        with goal.attempt(f"{number}: {' '.join(pressed)}"):
            with _screen(place, *_watching(log)) as terminal:
                terminal.wait("run-2", limit=60)
                terminal.press(*pressed, settle=0.03)
                terminal.press("ctrl+q", settle=0.1)
                terminal.ended(20)
            _check_calls(goal, log, runs)
        for words in (
            ["ls"],
            ["show", "run-0"],
            ["verify", "run-1"],
            ["export", "run-2"],
            ["state", "run-0"],
        ):
            with goal.attempt(f"{number}: {words[0]}"):
                run_traced(place, log, [*words, "--only", "--root", str(runs)])
                _check_calls(goal, log, runs)
        assert picture(runs) == before


def run_traced(place: Path, log: Path, words: list[str]) -> None:
    """Run a command under strace."""
    command = [*_watching(log), *refold(*words)]
    subprocess.run(command, env=environment(place / "home"), check=True, capture_output=True, timeout=60)


def _watching(log: Path) -> list[str]:
    return [str(STRACE), "-f", "-y", "-qq", "-o", str(log), "-e", f"trace={WRITES}"]


def _check_calls(goal: Goal, log: Path, runs: Path) -> None:
    """Check that no traced call changes what lies below a directory, or locks it."""
    calls = [line for line in log.read_text("utf-8", "replace").split("\n") if str(runs) in line]
    assert calls, "strace saw nobody read the runs"
    goal.count("calls on the runs", len(calls))
    for call in calls:
        opens = re.search(r"\bopen(at)?\(", call) is not None
        assert " resumed>" in call or (opens and not _CHANGES.search(call)), call
