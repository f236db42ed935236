"""Changes on disk until they are on the screen, and keys while much goes on (design/safety.md 5: G13-G15).

How long it takes is told, not judged: on a machine that does other things at the same time it says little.
What never comes is a failure.
"""

from __future__ import annotations

import functools
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests import generate
from tests.faults.goals import Goal, Share, Work, carry_out
from tests.faults.victims import scratch
from tests.terminal.program import HANGS, environment, refold
from tests.terminal.terminal import Terminal

CHANGES: dict[Share, int] = {"ci": 7, "quick": 60, "long": 1000}
"""Changes of each way to notice them."""
KINDS = ("new", "replace", "append", "cut", "damage", "delete", "again")
KEYS: dict[Share, int] = {"ci": 10, "quick": 100, "long": 2000}
FILES: dict[Share, int] = {"ci": 300, "quick": 3_000, "long": 10_000}
"""Runs that are written anew while keys are pressed."""
LINE: dict[Share, int] = {"ci": 3_000_000, "quick": 30_000_000, "long": 100_000_000}
"""Bytes of the one long line."""
NO_INOTIFY = (
    "unshare", "--user", "--map-root-user", "sh", "-c",
    'echo 0 > /proc/sys/user/max_inotify_watches; exec "$@"', "-",
)  # fmt: skip


def measure(share: Share, seed: int, seconds: float) -> Iterator[Goal]:
    """Change, press and wait."""
    shows = "until the screen shows it"
    whats: list[tuple[str, str, int, Callable[..., None]]] = [
        ("G13", f"a change on disk {shows}, watched", 0, functools.partial(_changes, asked=300)),
        (
            "G13",
            f"the directory deleted and made again {shows}, watched",
            1_000,
            functools.partial(_changes, asked=300, kinds=("again",)),
        ),
    ]
    if _has_namespaces():
        polled = functools.partial(_changes, asked=2_500, wrapped=NO_INOTIFY)
        whats.append(("G13", f"a change on disk {shows}, polled", 0, polled))
    whats += [
        ("row 27", "an open run cut, replaced, rotated, deleted, its directory made again", 0, _under_eyes),
        ("G14", "keys in a run of one line of many megabytes", 0, _long_line),
        ("G15", "keys while thousands of runs change, beside a pipe and a socket", 0, _busy),
    ]
    with scratch() as directory:
        work: list[Work] = [
            (Goal(name, what, 0, seed, asked), functools.partial(act, directory=directory, share=share))
            for name, what, asked, act in whats
        ]
        yield from carry_out(work, seconds)


def _has_namespaces() -> bool:
    try:
        done = subprocess.run([*NO_INOTIFY, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0 and not done.stderr


def _write(path: Path, prompt: str) -> None:
    """Put a run there in one step."""
    path.parent.mkdir(exist_ok=True)
    new = path.with_name("new")
    new.write_bytes(b"".join(generate.journal(records=4, run_id=path.stem, prompt=prompt)))
    new.replace(path)


def _changes(
    goal: Goal,
    directory: Path,
    share: Share,
    asked: int,
    wrapped: tuple[str, ...] = (),
    kinds: tuple[str, ...] = KINDS,
) -> None:
    rng = random.Random(goal.seed)
    place = directory / "watch"
    shutil.rmtree(place, ignore_errors=True)
    runs = place / "runs"
    (place / "home").mkdir(parents=True)
    _write(runs / "first.json", "the first")
    taken: list[float] = []
    with Terminal([*wrapped, *refold("--only", "--root", runs)], env=environment(place / "home")) as terminal:
        terminal.wait("polling" if wrapped else "watching")
        for number in range(CHANGES[share]):
            if goal.over:
                break
            kind = kinds[number % len(kinds)]
            word = f"w{goal.seed}x{number}x"
            terminal.settle(0.05)
            with goal.attempt(f"{number}: {kind}"):
                started = time.monotonic()
                _change(kind, runs, word, rng)
                terminal.wait(functools.partial(_is_shown, kind, word))
                taken.append(time.monotonic() - started)
            if len(kinds) > 1:
                goal.count(kind)
    _tell(goal, taken, asked)


def _change(kind: str, runs: Path, word: str, rng: random.Random) -> None:
    """Change something so that the word, or its going, is to be seen in the list."""
    path = runs / "changing.json"
    match kind:
        case "new":
            _write(path, f"{word}new")
        case "replace":
            _write(path, f"{word}replace")
        case "append":
            # Its model or its end shows; the name of the run says which one it is.
            _write(runs / f"{word}append.json", "appended to")
        case "cut":
            new = path.read_bytes().replace(b"replace", b"cutcut_")
            with path.open("r+b") as file:
                file.truncate(rng.randrange(len(new)))
                file.seek(0)
                _write(runs / f"{word}cut.json", "beside a cut")
        case "damage":
            _write(path, f"{word}damage")
            with path.open("ab") as file:
                file.write(b"no record\n")
        case "delete":
            (runs / "first.json").unlink(missing_ok=True)
            _write(runs / f"{word}delete.json", "beside one that went")
        case _:
            shutil.rmtree(runs)
            runs.mkdir()
            _write(runs / "first.json", f"{word}again")


def _is_shown(kind: str, word: str, screen: str) -> bool:
    return f"{word}{kind}"[:14] in screen and (kind != "delete" or "\n first" not in screen)


def _under_eyes(goal: Goal, directory: Path, share: Share) -> None:
    """Change the run that is shown, look at it in every pane, and put another in its place."""
    rng = random.Random(goal.seed)
    place = directory / "open"
    shutil.rmtree(place, ignore_errors=True)
    (place / "home").mkdir(parents=True)
    path = place / "runs" / "shown.json"
    _write(path, "the first")
    log = place / "home" / "state" / "refold" / "refold.log"
    command = refold("open", path, "--only", "--root", path.parent)
    with Terminal(command, env=environment(place / "home")) as terminal:
        terminal.wait("the first")
        for number in range(CHANGES[share]):
            if goal.over:
                break
            kind = ("cut", "grow", "rotate", "delete", "again", "empty")[number % 6]
            with goal.attempt(f"{number}: {kind}"):
                _change_shown(kind, path, rng)
                terminal.press(
                    *rng.sample(("1", "2", "3", "4", "5", "end", "home", "]", "F"), 4), settle=0.02
                )
                assert terminal.alive, terminal.text[-300:]
                word = f"w{goal.seed}x{number}x"
                _write(path, word)
                terminal.wait(functools.partial(_shows_again, terminal, word))
                assert not log.exists(), log.read_text()[-500:]
            goal.count(kind)
        with goal.attempt("leaving"):
            terminal.press("ctrl+q", settle=0.1)
            assert terminal.ended() == 0


def _shows_again(terminal: Terminal, word: str, screen: str) -> bool:
    """Say whether the run that was put there is shown; its first record says the word."""
    if word in screen:
        return True
    terminal.press("1", "home", settle=0.05)
    return False


def _change_shown(kind: str, path: Path, rng: random.Random) -> None:
    match kind:
        case "cut":
            os.truncate(path, rng.randrange(path.stat().st_size))
        case "grow":
            with path.open("ab") as file:
                file.write(b"no record\n" * rng.randint(1, 30))
        case "rotate":
            path.replace(path.with_name("shown.1.json"))
            path.write_bytes(b"".join(generate.journal(records=9, run_id="shown", prompt="rotated")))
        case "delete":
            path.unlink()
        case "again":
            shutil.rmtree(path.parent)
            path.parent.mkdir()
        case _:
            os.truncate(path, 0)


def _long_line(goal: Goal, directory: Path, share: Share) -> None:
    place = directory / "long"
    place.mkdir()
    (place / "home").mkdir()
    path = place / "long.json"
    path.write_bytes(b"".join(generate.huge_record(LINE[share], run_id="long")))
    taken = []
    with Terminal(refold("open", path), env=environment(place / "home")) as terminal:
        terminal.wait("long")
        terminal.settle(0.5)
        for number in range(KEYS[share]):
            if goal.over:
                break
            with goal.attempt(f"key {number}"):
                taken.append(_press(terminal, ("down", "5", "up", "1", "end", "2", "home", "3")[number % 8]))
        with goal.attempt("leaving"):
            terminal.press("escape", "ctrl+q", settle=0.1)
            assert terminal.ended() == 0
    _tell(goal, taken, 100)
    goal.count("MB in the line", LINE[share] // 1_000_000)
    path.unlink()


def _press(terminal: Terminal, key: str) -> float:
    """Press a key and give how long nothing came; what shows no change is asked for by the help after it."""
    started, drawn = time.monotonic(), len(terminal.sent)
    terminal.send(key)
    end = started + 0.5
    while len(terminal.sent) == drawn and time.monotonic() < end:
        terminal.pump(0.002)
    if len(terminal.sent) == drawn:
        started = time.monotonic()
        terminal.send("?")
        while len(terminal.sent) == drawn:
            assert time.monotonic() < started + HANGS, f"nothing comes of {key} and ?"
            terminal.pump(0.002)
        taken = time.monotonic() - started
        terminal.press("escape", settle=0.05)
        return taken
    taken = time.monotonic() - started
    terminal.settle(0.02)
    return taken


def _busy(goal: Goal, directory: Path, share: Share) -> None:
    place = directory / "busy"
    runs = place / "runs"
    shutil.rmtree(place, ignore_errors=True)
    (place / "home").mkdir(parents=True)
    generate.small_runs(runs, FILES[share])
    os.mkfifo(runs / "pipe.json")
    subprocess.run(
        [
            sys.executable,
            "-c",
            "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])",
            runs / "s.json",
        ],
        check=True,
    )
    stop = threading.Event()
    writer = threading.Thread(target=_write_anew, args=(runs, stop, goal), daemon=True)
    taken = []
    with Terminal(refold("--only", "--root", runs), env=environment(place / "home")) as terminal:
        terminal.wait(lambda screen: "watching" in screen or "polling" in screen)
        writer.start()
        for number in range(KEYS[share]):
            if goal.over:
                break
            with goal.attempt(f"key {number}"):
                taken.append(
                    _press(terminal, ("down", "pagedown", "up", "end", "s", "home", "S")[number % 7])
                )
        stop.set()
        writer.join()
        with goal.attempt("leaving"):
            terminal.press("escape", "ctrl+q", settle=0.1)
            assert terminal.ended() == 0
    _tell(goal, taken, 50)


def _write_anew(runs: Path, stop: threading.Event, goal: Goal) -> None:
    """Append to one run after the other, about two thousand a second."""
    paths = sorted(runs.glob("*[0-9].json"))
    for number in range(10**9):
        if stop.is_set() or not paths:
            break
        with paths[number % len(paths)].open("ab") as file:
            file.write(b"\n")
        goal.count("changes")
        if not number % 20:
            time.sleep(0.01)


def _tell(goal: Goal, taken: list[float], asked: int) -> None:
    """Note how long it took: half of all, and 99 of a hundred beside what is asked of those."""
    taken.sort()
    if taken:
        goal.notes["ms at p50"] = round(1000 * taken[len(taken) // 2])
        goal.notes[f"ms at p99 (asked: {asked:,})"] = round(
            1000 * taken[min(len(taken) - 1, len(taken) * 99 // 100)]
        )
