"""Looking at runs of every kind on the screen and by commands, seen by strace (design/safety.md 5, G7)."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import generate
from tests.conversation_story import chat
from tests.damage import KINDS, damage
from tests.faults.goals import Goal, Share
from tests.faults.home import store
from tests.faults.victims import STRACE
from tests.rivumi_cases import CASES, make
from tests.terminal.program import HANGS, environment, refold
from tests.terminal.terminal import Terminal
from tests.test_readonly import TRACED, picture, writes

READS: dict[Share, int] = {"ci": 1, "quick": 3, "long": 100}
KEYS = (
    *("down", "up", "enter", "escape", "1", "2", "3", "4", "5", "end", "home", "s", "?", "d", "l", "]", "t"),
    *(" ", "c", "h", "D", "n", "v", "}", "b"),
)
COMMANDS_OF: dict[Share, int] = {"ci": 4, "quick": 1, "long": 1}
"""One command of so many is run."""
COMMANDS = (
    ["ls"], ["ls", "text:ledger"], ["show", "run-0"], ["verify", "run-1", "bad"], ["export", "run-2"],
    ["state", "run-0"], ["search", "ledger"], ["diff", "run-0", "run-1"],
    ["lineage", "run-0"],
    ["doctor"], ["history"], ["resume", "run-0", "--plan"], ["fork", "run-0", "--plan"], ["config"],
    ["export", "run-0", "--format", "html"], ["prune", "--older-than", "1d"], ["salvage", "bad", "--plan"],
)  # fmt: skip


def reads(goal: Goal, directory: Path, share: Share) -> None:
    """Press keys on the screen while a writer goes on beside it, and run every command that only looks."""
    rng = random.Random(goal.seed)
    for number in range(READS[share]):
        if goal.over and number:
            return
        place = directory / "read"
        places = _places(place, rng)
        log = place / "calls"
        pressed = [rng.choice(KEYS) for _ in range(14)]
        words = [word for each in places for word in ("--root", str(each))]
        with goal.attempt(f"{number}: {' '.join(pressed)}"), unchanged(places):
            with Terminal(
                [*_watching(log), *refold("--only", *words)], env=environment(place / "home")
            ) as terminal:
                terminal.wait("run-2")
                terminal.press("ctrl+f", *"ledger", "enter", settle=0.1)
                terminal.press("down", "escape", "escape", *pressed, settle=0.03)
                terminal.press(*("escape",) * 4, "ctrl+q", settle=0.1)
                terminal.ended()
            _check_calls(goal, log, places)
        with goal.attempt(f"{number}: watching a run that grows"):
            _watch(goal, place, places[0], log)
        for command in COMMANDS[goal.seed % COMMANDS_OF[share] :: COMMANDS_OF[share]]:
            if goal.over and goal.tries:
                return
            with goal.attempt(f"{number}: {' '.join(command)}"), unchanged(places):
                whole = [*_watching(log), *refold(*command, "--only", *words)]
                done = subprocess.run(
                    whole, env=environment(place / "home"), check=False, capture_output=True, timeout=HANGS
                )
                assert done.returncode in {0, 1}, done.stderr
                if command != ["config"]:
                    _check_calls(goal, log, places)


def _places(place: Path, rng: random.Random) -> list[Path]:
    """Make runs of every format, a damaged one, and conversations."""
    runs = store(place)
    good = b"".join(generate.journal(records=9, run_id="bad", style=rng.choice(generate.STYLES)))
    (runs / "bad.json").write_bytes(damage(rng.choice(list(KINDS)), rng.randrange(1000), good))
    (runs / "run-0.lock").touch(0o600)
    for case in rng.sample(CASES, 4):
        make(case, place / "rivumi")
    chat(place / "chats", ("One", "First.", "completed"), ("Two", "", "failed"))
    return [runs, place / "rivumi", place / "chats"]


@contextmanager
def unchanged(places: list[Path]) -> Iterator[None]:
    """Check that whatever is done meanwhile leaves every byte and every time as it was."""
    before = [picture(place) for place in places]
    yield
    assert [picture(place) for place in places] == before


def _watch(goal: Goal, place: Path, runs: Path, log: Path) -> None:
    """Follow a run to which somebody else appends; the calls of that one are not seen."""
    path = runs / "run-1.json"
    lines = path.read_bytes().split(b"\n")
    command = refold("open", path, "--only", "--root", runs)
    with Terminal([*_watching(log), *command], env=environment(place / "home")) as terminal:
        terminal.wait("run-1")
        terminal.press("F", "end", settle=0.1)
        for seq in range(len(lines), len(lines) + 5):
            text = b'{"message":{"role":"user","content":[{"type":"text","text":"more %d"}]}}' % seq
            with path.open("ab") as file:
                file.write(b'{"seq":%d,"protocol":"refold.v1.session.user","user":%b}\n' % (seq, text))
            terminal.wait(str(seq))
        terminal.press("escape", "ctrl+q", settle=0.1)
        terminal.ended()
    _check_calls(goal, log, [runs])
    path.write_bytes(b"\n".join(lines))
    os.utime(path, (1_700_000_000 - 1, 1_700_000_000 - 1))


def _watching(log: Path) -> list[str]:
    return [str(STRACE), "-f", "-y", "-qq", "-o", str(log), "-e", f"trace={TRACED}"]


def _check_calls(goal: Goal, log: Path, places: list[Path]) -> None:
    """Check that no traced call changes what lies below the directories, or locks it."""
    told = log.read_text("utf-8", "replace").split("\n")
    calls = [line for line in told if any(f"{place}/" in line or f'{place}"' in line for place in places)]
    assert calls, "strace saw nobody read the runs"
    goal.count("calls on the runs", len(calls))
    assert [call for call in calls if writes(call)] == []
